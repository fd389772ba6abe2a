//===- ScheduleLinear.cpp - tile kernels of kimi.fused_linear
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/LinearProblem.h"
#include "passes/KimiToTile/LinearSchedule.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleEach.h"
#include "passes/KimiToTile/TileBuilder.h"
#include "llvm/Support/MathExtras.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULELINEAR
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// With the weight in panels: [ceil(N/P), K, P].
struct Problem : LinearProblem {
  Problem(HostContext &context, FusedLinearOp op, int64_t panel) : LinearProblem(context, op), panel(panel) {
    OpBuilder b(op);
    auto type = RankedTensorType::get({static_cast<int64_t>(llvm::divideCeil(n, panel)), k, panel},
                                      cast<RankedTensorType>(op.getW().getType()).getElementType());
    packed = PackWeightOp::create(b, op.getLoc(), type, op.getW(), b.getI64IntegerAttr(panel),
                                  op.getTranspose() ? b.getUnitAttr() : UnitAttr());
  }
  Value packed;
  int64_t panel;
};

/// Writes the kernel of one schedule. A block computes `rows` rows of up to `blockTiles` column tiles. It holds its
/// rows of x, normalised once, and walks the column tiles with them; rows too long for that are taken in slices of k,
/// with the sums of all column tiles held meanwhile.
class LinearKernel {
public:
  LinearKernel(HostContext &context, Problem &problem, LinearSchedule schedule)
      : p(problem), s(schedule), writer(context, problem.op), t(writer), b(writer.body()), loc(writer.loc()) {
    panels = llvm::divideCeil(p.n, p.panel);
    group = std::min(std::max<int64_t>(s.columns / p.panel, 1), panels);
    s.columns = group * p.panel;
    tiles = llvm::divideCeil(panels, group);
    s.blockTiles = std::min(s.blockTiles, tiles);
    depth = sliceOf(p.op, p.k, s.rows);
  }

  FailureOr<KernelWriter::Variant> build(const std::string &stem, const SymbolicDim &guard) {
    x = writer.input(p.x), w = writer.input(p.packed);
    gamma = p.gamma ? writer.input(p.gamma) : Value(), beta = p.beta ? writer.input(p.beta) : Value();
    for (LinearExtra &extra : p.extras) {
      extras.push_back(writer.input(extra.matrix));
    }
    if (!x || !w || (p.gamma && !gamma) || (p.beta && !beta) || llvm::is_contained(extras, Value())) {
      writer.abandon();
      return failure();
    }
    int64_t rows = p.m.getConstant().value_or(ShapedType::kDynamic);
    auto type = RankedTensorType::get({rows, p.n}, cast<RankedTensorType>(p.op.getType()).getElementType());
    y = writer.result(type, {p.m, SymbolicDim(p.n)});

    // Rows vary fastest: a block of columns of the weight is read from memory once and serves every row from the cache.
    firstRow = blockStart(0, s.rows);
    rowsLeft = arith::SubIOp::create(b, loc, writer.extent(y, 0), firstRow);
    // The rows of x that are used: those past the end count as long as they share a product with one that is not.
    Value edges = arith::CeilDivUIOp::create(b, loc, rowsLeft, writer.constant(kEdgeRows));
    rowsUsed = minimum(arith::MulIOp::create(b, loc, edges, writer.constant(kEdgeRows)), s.rows);
    // With few rows of blocks, a block takes one column tile only, so that there are blocks for many threads.
    SymbolicDim perBlock(s.blockTiles);
    Value step = writer.constant(s.blockTiles);
    if (s.blockTiles > 1) {
      perBlock = SymbolicDim::select(SymbolicDim::lt(SymbolicDim(kWideBlockRows), p.m), perBlock, SymbolicDim(1));
      Value wide = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, writer.extent(y, 0),
                                         writer.constant(kWideBlockRows));
      step = arith::SelectOp::create(b, loc, wide, step, writer.constant(1));
    }
    Value firstTile = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(1));
    firstTile = arith::MulIOp::create(b, loc, firstTile, step);
    Value endTile = arith::AddIOp::create(b, loc, firstTile, step);
    endTile = arith::MinUIOp::create(b, loc, endTile, writer.constant(tiles));
    (depth == p.k ? wholeRows(firstTile, endTile) : slicedRows(firstTile, endTile));
    return KernelWriter::Variant{writer.finish(stem), guard, SymbolicDim::ceilDiv(p.m, s.rows),
                                 SymbolicDim::ceilDiv(SymbolicDim(tiles), perBlock)};
  }

  KernelWriter &getWriter() { return writer; }

  /// Elements of a row of x that a block holds at a time.
  static int64_t sliceOf(FusedLinearOp op, int64_t k, int64_t rows) {
    int64_t most = std::max<int64_t>(kRowBytes / (4 * rows) / 64 * 64, 64);
    if (op.getNorm() != NormKind::none || k <= most) {
      return k;
    }
    return llvm::alignTo(llvm::divideCeil(k, llvm::divideCeil(k, most)), 16);
  }

private:
  Value blockStart(uint64_t dim, int64_t step) {
    Value block = tile::BlockIdOp::create(b, loc, b.getIndexType(), dim);
    return arith::MulIOp::create(b, loc, block, writer.constant(step));
  }

  Value minimum(Value value, int64_t most) { return arith::MinUIOp::create(b, loc, value, writer.constant(most)); }

  Value slice(Value tile, Value row, int64_t rows, OpFoldResult column, int64_t columns) {
    SmallVector<OpFoldResult> offsets{row, column}, sizes{b.getIndexAttr(rows), b.getIndexAttr(columns)},
        steps(2, b.getIndexAttr(1));
    return memref::SubViewOp::create(b, loc, tile, offsets, sizes, steps);
  }

  /// A tile for rows of x. Its rows lie an odd number of cache lines apart, so that the rows of a register block do not
  /// compete for the same places of the cache.
  Value rowTile(int64_t columns) {
    int64_t line = 16, stride = (llvm::divideCeil(columns, line) | 1) * line;
    Value tile = t.shared(s.rows, s.rows == 1 ? columns : stride);
    return s.rows == 1 ? tile : slice(tile, writer.constant(0), s.rows, b.getIndexAttr(0), columns);
  }

  Value firstPanel(Value tile) {
    Value panel = arith::MulIOp::create(b, loc, tile, writer.constant(group));
    return panels % group == 0 ? panel : minimum(panel, panels - group); // the last tile starts early
  }

  void wholeRows(Value firstTile, Value endTile) {
    Value a = rowTile(p.k);
    loadRows(a);
    Value acc = t.fragment(s.rows, s.columns);
    SmallVector<Value> extraTiles = allocateExtras();
    buildLoop(b, loc, firstTile, endTile, writer.constant(1), [&](Value tile) {
      Value panel = firstPanel(tile);
      t.fill(acc, 0.0f);
      multiply(acc, a, panel, writer.constant(0), p.k);
      finish(acc, extraTiles, panel);
    });
  }

  void slicedRows(Value firstTile, Value endTile) {
    Value acc = t.fragment(s.rows, s.columns * s.blockTiles);
    t.fill(acc, 0.0f);
    auto eachTile = [&](llvm::function_ref<void(Value, Value)> fn) {
      buildLoop(b, loc, firstTile, endTile, writer.constant(1), [&](Value tile) {
        Value within = arith::SubIOp::create(b, loc, tile, firstTile);
        Value column = arith::MulIOp::create(b, loc, within, writer.constant(s.columns));
        fn(slice(acc, writer.constant(0), s.rows, column, s.columns), firstPanel(tile));
      });
    };
    auto addSlice = [&](Value a, Value at, int64_t size) {
      t.load(a, x, {firstRow, at}, {0, 1});
      eachTile([&](Value sums, Value panel) { multiply(sums, a, panel, at, size); });
    };
    int64_t whole = p.k / depth * depth;
    Value a = rowTile(depth);
    buildLoop(b, loc, writer.constant(0), writer.constant(whole), writer.constant(depth),
              [&](Value at) { addSlice(a, at, depth); });
    if (whole < p.k) {
      addSlice(rowTile(p.k - whole), writer.constant(whole), p.k - whole);
    }
    SmallVector<Value> extraTiles = allocateExtras();
    eachTile([&](Value sums, Value panel) { finish(sums, extraTiles, panel); });
  }

  /// acc += a * w[panel.., from..], for the rows that there are.
  void multiply(Value acc, Value a, Value panel, Value from, int64_t size) {
    SmallVector<OpFoldResult> offsets{panel, from, b.getIndexAttr(0)},
        sizes{b.getIndexAttr(group), b.getIndexAttr(size), b.getIndexAttr(p.panel)}, steps(3, b.getIndexAttr(1));
    Value part = memref::SubViewOp::create(b, loc, w, offsets, sizes, steps);
    auto mma = [&](Value sums, Value rows) {
      tile::MmaOp::create(b, loc, sums, rows, part, /*transpose_b=*/false, /*panels=*/true);
    };
    if (s.rows <= kEdgeRows || s.rows % kEdgeRows != 0) {
      return mma(acc, a);
    }
    Value full = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, rowsLeft, writer.constant(s.rows));
    auto branch = scf::IfOp::create(b, loc, full, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    mma(acc, a);
    b.setInsertionPointToStart(branch.elseBlock());
    buildLoop(b, loc, writer.constant(0), rowsUsed, writer.constant(kEdgeRows), [&](Value row) {
      mma(slice(acc, row, kEdgeRows, b.getIndexAttr(0), s.columns), slice(a, row, kEdgeRows, b.getIndexAttr(0), size));
    });
  }

  /// a = rows of x, normalised a few at a time while they are in the nearest cache.
  void loadRows(Value a) {
    if (p.op.getNorm() == NormKind::none) {
      return t.load(a, x, {firstRow, writer.constant(0)}, {0, 1});
    }
    SmallVector<Value> affine;
    Value zero = writer.constant(0);
    for (Value source : {gamma, beta}) {
      if (source) {
        affine.push_back(t.shared(1, p.k));
        t.load(affine.back(), source, {zero, zero}, {0, 1});
      }
    }
    int64_t rows = kNormRows;
    while (s.rows % rows != 0) {
      --rows;
    }
    Value squares = t.fragment(rows, p.k), mean = t.fragment(rows, 1), scale = t.fragment(rows, 1);
    buildLoop(b, loc, zero, rowsUsed, writer.constant(rows), [&](Value row) {
      Value part = slice(a, row, rows, b.getIndexAttr(0), p.k);
      t.load(part, x, {arith::AddIOp::create(b, loc, firstRow, row).getResult(), zero}, {0, 1});
      normalize(part, squares, mean, scale, affine);
    });
  }

  /// a = norm(a) * gamma + beta, row by row.
  void normalize(Value a, Value squares, Value mean, Value scale, ArrayRef<Value> affine) {
    Value width = t.number(1.0f / static_cast<float>(p.k)), eps = t.number(p.op.getEps().convertToFloat());
    auto mul = [&](Value x, Value y) { return arith::MulFOp::create(b, loc, x, y).getResult(); };
    auto add = [&](Value x, Value y) { return arith::AddFOp::create(b, loc, x, y).getResult(); };
    if (p.op.getNorm() == NormKind::layer) {
      t.reduce(tile::ReduceKind::add, a, mean);
      t.map({a, mean}, a,
            [&](ValueRange v) { return arith::SubFOp::create(b, loc, v[0], mul(v[1], width)).getResult(); });
    }
    t.map({a}, squares, [&](ValueRange v) { return mul(v[0], v[0]); });
    t.reduce(tile::ReduceKind::add, squares, scale);
    t.map({scale}, scale,
          [&](ValueRange v) { return math::RsqrtOp::create(b, loc, add(mul(v[0], width), eps)).getResult(); });
    SmallVector<Value> factors{a, scale};
    llvm::append_range(factors, affine);
    t.map(factors, a, [&](ValueRange v) {
      Value value = mul(v[0], v[1]);
      if (gamma) {
        value = mul(value, v[2]);
      }
      return beta ? add(value, v.back()) : value;
    });
  }

  SmallVector<Value> allocateExtras() {
    SmallVector<Value> result;
    for (auto [source, extra] : llvm::zip_equal(extras, p.extras)) {
      result.push_back(t.shared(extra.perRow ? s.rows : 1, extra.perColumn ? s.columns : 1,
                                cast<MemRefType>(source.getType()).getElementType()));
    }
    return result;
  }

  /// The epilogue of the column tile that begins with `panel`, and its store.
  void finish(Value acc, ArrayRef<Value> extraTiles, Value panel) {
    Value zero = writer.constant(0), firstColumn = arith::MulIOp::create(b, loc, panel, writer.constant(p.panel));
    for (auto [tile, source, extra] : llvm::zip_equal(extraTiles, extras, p.extras)) {
      t.load(tile, source, {extra.perRow ? firstRow : zero, extra.perColumn ? firstColumn : zero}, {0, 1});
    }
    buildEpilogue(t, p.op, acc, {}, {}, extraTiles);
    t.store(acc, y, {firstRow, firstColumn}, {0, 1});
  }

  Problem &p;
  LinearSchedule s;
  KernelWriter writer;
  TileBuilder t;
  OpBuilder &b;
  Location loc;
  int64_t panels, group, tiles, depth; // panels of w, of a column tile; column tiles; columns of x at a time
  Value x, w, gamma, beta, y;
  SmallVector<Value> extras;
  Value firstRow, rowsLeft, rowsUsed;
};

/// Bytes of the tiles of a block, at most; see LinearKernel.
int64_t tileBytes(FusedLinearOp op, int64_t k, LinearSchedule s) {
  bool norm = op.getNorm() != NormKind::none;
  int64_t slice = LinearKernel::sliceOf(op, k, s.rows), line = 16;
  int64_t elements = s.rows * (slice + 2 * line); // of x
  elements += s.rows * s.columns * (slice == k ? 1 : s.blockTiles);
  elements += slice < k ? s.rows * (k % slice + 2 * line) : 0;
  elements += norm ? (std::min(kNormRows, s.rows) + 2) * k + 2 * s.rows * line : 0;
  elements += static_cast<int64_t>(op.getExtras().size()) * s.rows * s.columns;
  return 4 * elements;
}

/// The schedule of many rows: as many as its tiles have room for, a multiple of a register block; 0 rows where none
/// has.
LinearSchedule manyRows(FusedLinearOp op, int64_t k) {
  LinearSchedule schedule = kManyRows;
  auto fits = [&] {
    bool norm = op.getNorm() != NormKind::none;
    return tileBytes(op, k, schedule) <= kTileBytes && (!norm || 4 * schedule.rows * k <= kRowBytes);
  };
  while (schedule.rows > 0 && !fits()) {
    schedule.rows -= schedule.rows > kEdgeRows ? kEdgeRows : kEdgeRows / 2;
  }
  return schedule;
}

struct KimiScheduleLinear : kimi::impl::KimiScheduleLinearBase<KimiScheduleLinear> {
  using KimiScheduleLinearBase::KimiScheduleLinearBase;

  void runOnOperation() override {
    auto one = [&](HostContext &context, FusedLinearOp op) { return schedule(context, op); };
    if (failed(scheduleEach<FusedLinearOp>(
            getOperation(), [&](FusedLinearOp op) { return whyNot(op); }, one, numScheduled, aloneInGroup))) {
      signalPassFailure();
    }
  }

  std::string whyNot(FusedLinearOp op) {
    std::string obstacle = whyNotLinear(op);
    if (!obstacle.empty()) {
      return obstacle;
    }
    auto w = cast<RankedTensorType>(op.getW().getType());
    int64_t k = w.getDimSize(op.getTranspose() ? 1 : 0);
    if (manyRows(op, k).rows == 0) {
      return "rows of " + std::to_string(k) + " elements with " + std::to_string(op.getExtras().size()) +
             " more operands do not fit a block";
    }
    return {};
  }

  LogicalResult schedule(HostContext &context, FusedLinearOp op) {
    Problem p(context, op, panel);
    LinearSchedule many = manyRows(op, p.k);
    std::string stem = linearStem(op);
    struct Choice {
      LinearSchedule schedule;
      SymbolicDim guard;
      const char *suffix;
    };
    SmallVector<Choice> choices;
    std::optional<int64_t> fixed = p.m.getConstant();
    if (!fixed || *fixed == 1) {
      choices.push_back({kOneRow, SymbolicDim::eq(p.m, 1), "_m1"});
    }
    if (!fixed || (*fixed > 1 && *fixed <= kFewRows.rows)) {
      choices.push_back({kFewRows, SymbolicDim::le(p.m, kFewRows.rows), "_m4"});
    }
    if (!fixed || *fixed > kFewRows.rows || *fixed < 1) {
      choices.push_back({many, SymbolicDim(1), ""});
    }
    SmallVector<KernelWriter::Variant> variants;
    SmallVector<std::unique_ptr<LinearKernel>> kernels;
    for (const Choice &choice : choices) {
      kernels.push_back(std::make_unique<LinearKernel>(context, p, choice.schedule));
      FailureOr<KernelWriter::Variant> variant = kernels.back()->build(stem + choice.suffix, choice.guard);
      if (failed(variant)) {
        return failure();
      }
      variants.push_back(*variant);
    }
    Value y = kernels.back()->getWriter().dispatch(variants, 2 * p.k).getResult(0);
    OpBuilder b(p.op);
    auto type = cast<RankedTensorType>(p.op.getType());
    Value result = fromMatrix(context, b, p.op.getLoc(), y, type, context.scalars.shape(p.op.getResult()));
    context.replace(p.op, result);
    return success();
  }
};
} // namespace
