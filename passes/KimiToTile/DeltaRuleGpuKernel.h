//===- DeltaRuleGpuKernel.h - tile kernels of a delta rule for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_DELTARULEGPUKERNEL_H
#define KIMI_PASSES_KIMITOTILE_DELTARULEGPUKERNEL_H

#include "passes/KimiToTile/DeltaRuleInputs.h"
#include "passes/KimiToTile/DeltaRuleProblem.h"
#include "passes/KimiToTile/GpuSchedule.h"
#include "passes/KimiToTile/TileBuilder.h"

namespace kimi {

/// What a launch does: `prepare`, everything of a chunk that does not depend on the state; `chunks`, the state from one
/// chunk to the next; `tokens`, all of it, token by token.
enum class DeltaRulePart { prepare, chunks, tokens };

/// What `prepare` leaves for `chunks`, on the host; T' is T rounded up to whole chunks of C.
struct DeltaRuleChunks {
  mlir::Value writes;  // [B, H, T', Dv]: U
  mlir::Value reads;   // [B, H, T', Dk]: W; null where the rule reads nothing back
  mlir::Value queries; // [B, H, T', Dk]: scale q e^G
  mlir::Value keys;    // [B, H, T'/C Dk, C]: k e^(G_C - G), each chunk transposed and in one piece
  mlir::Value pairs;   // [B, H, T', C]: P
  mlir::Value ends;    // [B, H, T'/C, Dk], f32: e^(G_C); null without decay
};

/// Writes one launch of a delta rule in the chunkwise WY form (k3_spec 6.2; Kimi Linear, arXiv 2510.26692, eq. 6-9), or
/// token by token. With G the running sum of log-decays within a chunk, b the erase and w the write gates:
///
///   A_ij = sum_d b_i k_i k_j e^(G_i - G_j)  (j < i)        P_ij = scale sum_d q_i k_j e^(G_i - G_j)  (j <= i)
///   U = (I + A)^-1 (w v)                                   W = (I + A)^-1 (b k e^G)
///   V' = U - W S;   O = scale q e^G S + P V';   S <- e^(G_C) S + (k e^(G_C - G))^T V'
///
/// Exponents: the pairs (i, j) are split by the largest power of two s for which i and j lie in different halves of a
/// block of 2 s rows. With the first row of the later half as anchor a, e^(G_i - G_a) and e^(G_a - G_j) are at most 1
/// each, for any gates, so each s is one product of factors that cannot overflow. Where gates are known to be bounded,
/// pairs within blocks of up to 16 rows are one product, with the middle row as anchor.
class DeltaRuleGpuKernel {
public:
  static constexpr float kLog2e = 1.44269504088896340736f;

  /// `inputs` is what `tokens` reads; the other parts read the operands themselves. `chunks` is null for `prepare`, and
  /// where there is no such launch.
  DeltaRuleGpuKernel(HostContext &context, DeltaRuleProblem &problem, const DeltaRuleInputs &inputs,
                     const DeltaRuleTile &tile, DeltaRulePart part, const DeltaRuleChunks *chunks);
  /// `used`: 1 where the launch has work to do, 0 where another variant does it all (its workspace is empty then).
  mlir::FailureOr<KernelWriter::Variant> build(const std::string &stem, const SymbolicDim &guard,
                                               const SymbolicDim &used);
  KernelWriter &getWriter() { return writer; }

private:
  /// An operand in `tokens`: what it is computed from. A formula has one part for each of its inputs.
  struct Source {
    struct Part {
      mlir::Value buffer;              // null: none, or one value for all
      llvm::SmallVector<int64_t> axes; // the operand's axis of each dim of `buffer`; -1: an extent of 1
    };
    const DeltaRuleInput *input = nullptr;
    mlir::Value operand;
    llvm::SmallVector<Part> parts;
    mlir::IRMapping values; // of the formula: what is the same for all elements, and what its body captures
  };

  bool importArguments(const SymbolicDim &used);
  bool importOperands();
  void place();
  void prepare();
  void runChunks();
  void runTokens();

  // Of tokens
  bool importSource(Source &source, const DeltaRuleInput &input, mlir::Value operand);
  llvm::SmallVector<mlir::Value> startOf(const Source &source, const Source::Part &part, mlir::Value token,
                                         mlir::Value first);
  void loadChannels(mlir::Value tile, const Source &source, const Source::Part &part, mlir::Value token,
                    mlir::Value first);
  mlir::Value channelsOf(const Source &source, mlir::Value token);
  mlir::Value gatesOf(const Source &source, mlir::Value token, bool ofKeys);

  // Of prepare
  void loadGates();
  mlir::Value held(mlir::Value rows);
  void scaleRows();
  void erased(mlir::Value rows);
  mlir::Value isLater(int64_t half);
  mlir::Value together(int64_t block);
  void addProduct(mlir::Value sum, mlir::Value rows, mlir::Value columns, llvm::function_ref<mlir::Value()> counts);
  void addLevel(int64_t half);
  void addBlocks(int64_t block);
  void sinceStart(mlir::Value rows, mlir::Value out, float factor);
  void untilEnd(mlir::Value rows, mlir::Value out);
  void storeKeys();
  void storeQueries();
  void solveRows();
  mlir::Value inverseTimes(mlir::Value inverse, mlir::Value gates);
  void storeProduct(mlir::Value left, mlir::Value right, mlir::Value target);

  /// The row of `keys` where the chunk of `token` begins.
  mlir::Value keyRow(mlir::Value token);
  /// The head of `buffer` (axis 1) that this block's head reads.
  mlir::Value headOf(mlir::Value buffer);
  /// Loads `tile` from rows `row`, .. and columns `column`, .. of an operand [B, H', T, D]; of [B, H', T] where the
  /// tile has one column.
  void loadRows(mlir::Value tile, mlir::Value buffer, mlir::Value row, mlir::Value column);
  /// Stores `tile` to rows `row`, .. of the result.
  void storeResult(mlir::Value tile, mlir::Value row);
  mlir::Value exponential(mlir::Value x);
  /// e^x of what `sums` holds: where results are rounded to 16 bits, it holds powers of two.
  mlir::Value power(mlir::Value x);
  bool isNarrow() const { return !operand.isF32(); }
  /// out = fn(elements of ins), as the type of `out`.
  void assign(mlir::Value out, mlir::ValueRange ins, llvm::function_ref<mlir::Value(mlir::ValueRange)> fn);
  mlir::Value narrowed(mlir::Value x) { return castTo(x, operand); }
  mlir::Value castTo(mlir::Value x, mlir::Type type);
  mlir::Value widened(mlir::Value x) { return castTo(x, b.getF32Type()); }

  mlir::Value sub(mlir::Value a, mlir::Value c) { return mlir::arith::SubFOp::create(b, loc, a, c); }
  mlir::Value mul(mlir::Value a, mlir::Value c) { return mlir::arith::MulFOp::create(b, loc, a, c); }
  mlir::Value add(mlir::Value a, mlir::Value c) { return mlir::arith::AddFOp::create(b, loc, a, c); }
  mlir::Value addIndex(mlir::Value a, mlir::Value c) { return b.createOrFold<mlir::arith::AddIOp>(loc, a, c); }
  mlir::Value mulIndex(mlir::Value a, mlir::Value c) { return b.createOrFold<mlir::arith::MulIOp>(loc, a, c); }
  mlir::Value divide(mlir::Value a, mlir::Value c) { return b.createOrFold<mlir::arith::DivUIOp>(loc, a, c); }
  mlir::Value remainder(mlir::Value a, mlir::Value c) { return b.createOrFold<mlir::arith::RemUIOp>(loc, a, c); }
  /// The position of a map's element along `dim`.
  mlir::Value position(uint64_t dim) { return tile::ElementIndexOp::create(b, loc, b.getIndexType(), dim); }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value c) {
    return mlir::arith::CmpIOp::create(b, loc, predicate, a, c);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value c) {
    return mlir::arith::SelectOp::create(b, loc, condition, a, c);
  }
  mlir::Value maximum(mlir::Value a, mlir::Value c) { return mlir::arith::MaximumFOp::create(b, loc, a, c); }

  HostContext &context;
  DeltaRuleProblem &p;
  const DeltaRuleInputs &inputs;
  DeltaRuleOp op;
  DeltaRuleTile s;
  DeltaRulePart part;
  const DeltaRuleChunks *chunks;
  KernelWriter writer;
  TileBuilder t;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type operand;   // the element type that is multiplied
  int64_t depth, width; // channels of keys, of values
  int64_t heads;        // of the state
  float scale;
  bool erases;
  int64_t blockRows = 1; // of blocks whose pairs are one product, as the gates' range allows; 1: there are none
  mlir::Value zero;      // index
  struct {
    Source q, k, decay, beta, erase, write;
  } sources;
  mlir::Value q, k, v, decay, beta, erase, write, initial, out, state; // buffers
  mlir::Value writes, reads, queries, keys, pairs, ends;               // of the workspace
  mlir::Value batchIndex, head, first, firstColumn;
  // Tiles of prepare: rows of the chunk as they are, the erased keys, what W is made of; factors of a level; sums of
  // gates and their anchors, powers of the differences within blocks; products
  mlir::Value keyRows, queryRows, valueRows, eraseRows, eraseFactor, readRows, rowFactors, columnFactors, sums, anchor,
      up, down, matrix, pairTile, product;
};

/// "delta_rule_d128x128_h96_channel_beta": what kernels of `op` are called.
std::string deltaRuleStem(DeltaRuleOp op);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_DELTARULEGPUKERNEL_H
