//===- MoeProblem.cpp - a mixture of experts, and the order its launches work in
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/MoeProblem.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/KimiToTile/HostViews.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kimi;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

MoeProblem::MoeProblem(HostContext &context, MoeOp op) : op(op) {
  x = asMatrix(context, op, op.getX());
  indices = asMatrix(context, op, op.getIndices());
  weights = asMatrix(context, op, op.getWeights());
  SmallVector<SymbolicDim> sizes = context.scalars.shape(indices);
  tokens = sizes[0];
  slots = sizes[1];
  pairs = tokens * slots;
  RankedTensorType w1 = typeOf(op.getW1()), w2 = typeOf(op.getW2());
  experts = w1.getDimSize(0);
  inner = w1.getDimSize(1);
  channels = w1.getDimSize(2);
  outputs = w2.getDimSize(1);
  element = typeOf(x).getElementType();
  packed = op.getS1() != nullptr;
  stem = "moe_" + std::to_string(channels) + "x" + std::to_string(inner) + (packed ? "_mxfp4" : "") +
         (element.isF32()    ? ""
          : element.isBF16() ? "_bf16"
                             : "_f16");
}

std::string kimi::whyNotMoe(MoeOp op) {
  SmallVector<Value> floats{op.getX(), op.getWeights(), op.getResult()}, matrices{op.getW1(), op.getW3(), op.getW2()};
  if (!op.getS1()) {
    floats.append(matrices);
  } else {
    matrices.append({op.getS1(), op.getS3(), op.getS2()});
    if (!llvm::all_of(matrices, [](Value stored) { return stored.getDefiningOp<WeightRefOp>(); })) {
      return "its packed experts are no weights of the module";
    }
  }
  for (Value value : floats) {
    Type element = typeOf(value).getElementType();
    if (!element.isF32() && !element.isBF16() && !element.isF16()) {
      return "there is no kernel for tensors that are not f32, bf16 or f16";
    }
  }
  if (typeOf(op.getW1()).getNumElements() == 0 || typeOf(op.getW2()).getNumElements() == 0) {
    return "its matrices are empty";
  }
  return {};
}

namespace {
/// Tokens whose pairs a task looks at, one after another.
constexpr int64_t kChunkTokens = 16;

/// Tasks of (chunk of tokens, expert), numbered so that neighbours are experts of one chunk.
class SortKernel {
public:
  SortKernel(HostContext &context, const MoeProblem &problem)
      : p(problem), chunks(SymbolicDim::ceilDiv(p.tokens, kChunkTokens)), writer(context, problem.op), b(writer.body()),
        loc(writer.loc()), i32(b.getI32Type()), zero(writer.constant(0)), one(writer.constant(1)) {}

  /// How many pairs of a chunk an expert has: [chunks, E].
  FailureOr<Value> count() {
    if (!addIndices()) {
      return failure();
    }
    Value counts = table(chunks * p.experts), task = taskId();
    store(forEachPair(task, zero, {}), counts, task);
    return launch("moe_count", chunks * p.experts).getResult(0);
  }

  /// The same summed over the chunks before, and over all of them: [chunks, E], [E].
  std::pair<Value, Value> sum(Value countsOf) {
    Value counts = writer.input(countsOf);
    Value before = table(chunks * p.experts), totals = table(SymbolicDim(p.experts)), expert = taskId();
    Value end = writer.scalar(chunks * p.experts), experts = writer.constant(p.experts);
    auto loop = scf::ForOp::create(b, loc, expert, end, experts, zero);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value sum = loop.getRegionIterArg(0);
      store(sum, before, loop.getInductionVar());
      scf::YieldOp::create(b, loc, add(sum, load(counts, loop.getInductionVar())));
    }
    store(loop.getResult(0), totals, expert);
    DispatchOp dispatch = launch("moe_sum", SymbolicDim(p.experts));
    return {dispatch.getResult(0), dispatch.getResult(1)};
  }

  LogicalResult place(std::pair<Value, Value> sums, ExpertRows &rows) {
    if (!addIndices()) {
      return failure();
    }
    Value before = writer.input(sums.first), totals = writer.input(sums.second);
    Value pairOf = table(rows.rows), expertOf = table(rows.tiles), rowOf = table(p.pairs), task = taskId();
    Value tiles = writer.scalar(rows.tiles), experts = writer.constant(p.experts);
    shift = writer.scalar(SymbolicDim::select(rows.isFew, log2(ExpertRows::kFew), log2(ExpertRows::kMany)));
    Value expert = arith::RemUIOp::create(b, loc, task, experts);
    // Where the expert's first tile is, and where the last one of all ends.
    auto loop = scf::ForOp::create(b, loc, zero, experts, one, ValueRange{zero, zero});
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value own = tilesOf(load(totals, loop.getInductionVar()));
      Value isBefore = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, loop.getInductionVar(), expert);
      Value first = add(loop.getRegionIterArg(0), select(isBefore, own, zero));
      scf::YieldOp::create(b, loc, ValueRange{first, add(loop.getRegionIterArg(1), own)});
    }
    Value first = loop.getResult(0), firstRow = rowsOf(first), total = load(totals, expert);
    forEachPair(task, add(firstRow, load(before, task)), [&](Value pair, Value row) {
      store(pair, pairOf, row);
      store(row, rowOf, pair);
    });
    // What does not depend on the chunk is for the tasks of the first.
    Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, task, experts);
    auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
    Value end = add(first, tilesOf(total));
    auto fill = [&](Value from, Value to) {
      buildLoop(b, loc, from, to, one, [&](Value row) { store(zero, pairOf, row); });
    };
    fill(add(firstRow, total), rowsOf(end));
    buildLoop(b, loc, first, end, one, [&](Value tile) { store(expert, expertOf, tile); });
    Value none = arith::ConstantIndexOp::create(b, loc, -1);
    buildLoop(b, loc, add(loop.getResult(1), expert), tiles, experts, [&](Value tile) { // shared out among the experts
      store(none, expertOf, tile);
      fill(rowsOf(tile), rowsOf(add(tile, one)));
    });
    b.setInsertionPointAfter(branch);
    DispatchOp dispatch = launch("moe_place", chunks * p.experts);
    rows.pairOf = dispatch.getResult(0);
    rows.expertOf = dispatch.getResult(1);
    rows.rowOf = dispatch.getResult(2);
    return success();
  }

private:
  static SymbolicDim log2(int64_t power) { return SymbolicDim(llvm::Log2_64(power)); }
  bool addIndices() {
    indices = writer.input(p.indices);
    if (!indices) {
      writer.abandon();
    }
    return indices != nullptr;
  }
  /// A result of i32.
  Value table(const SymbolicDim &size) {
    auto type = RankedTensorType::get({size.getConstant().value_or(ShapedType::kDynamic)}, i32);
    return writer.result(type, {size});
  }
  Value taskId() { return tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0)); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value select(Value condition, Value x, Value y) { return arith::SelectOp::create(b, loc, condition, x, y); }
  /// The rows of `tiles`, and the tiles that `pairs` take. Divisions by a number that a launch brings are slow.
  Value rowsOf(Value tiles) { return arith::ShLIOp::create(b, loc, tiles, shift); }
  Value tilesOf(Value pairs) {
    Value most = arith::SubIOp::create(b, loc, rowsOf(one), one);
    return arith::ShRUIOp::create(b, loc, add(pairs, most), shift);
  }
  Value load(Value table, Value at) {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), memref::LoadOp::create(b, loc, table, at).getResult());
  }
  void store(Value index, Value table, Value at) {
    memref::StoreOp::create(b, loc, arith::IndexCastOp::create(b, loc, i32, index), table, at);
  }

  /// Calls `fn` for each pair of `task`, in ascending order, with `start`, `start` + 1, ..; returns the next number.
  Value forEachPair(Value task, Value start, llvm::function_ref<void(Value, Value)> fn) {
    Value experts = writer.constant(p.experts), last = writer.constant(p.experts - 1),
          size = writer.constant(kChunkTokens);
    Value expert = arith::RemUIOp::create(b, loc, task, experts);
    Value first = mul(arith::DivUIOp::create(b, loc, task, experts), size), slots = writer.extent(indices, 1);
    Value end = arith::MinUIOp::create(b, loc, add(first, size), writer.extent(indices, 0));
    auto tokens = scf::ForOp::create(b, loc, first, end, one, start);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(tokens.getBody());
    auto inner = scf::ForOp::create(b, loc, zero, slots, one, tokens.getRegionIterArg(0));
    scf::YieldOp::create(b, loc, inner.getResult(0));
    b.setInsertionPointToStart(inner.getBody());
    Value token = tokens.getInductionVar(), slot = inner.getInductionVar(), number = inner.getRegionIterArg(0);
    Value id = arith::IndexCastOp::create(b, loc, b.getIndexType(),
                                          memref::LoadOp::create(b, loc, indices, ValueRange{token, slot}).getResult());
    id = arith::MinSIOp::create(b, loc, arith::MaxSIOp::create(b, loc, id, zero), last);
    Value matches = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, id, expert);
    if (fn) {
      auto branch = scf::IfOp::create(b, loc, matches, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard inBranch(b);
      b.setInsertionPointToStart(branch.thenBlock());
      fn(add(mul(token, slots), slot), number);
    }
    scf::YieldOp::create(b, loc, add(number, select(matches, one, zero)));
    return tokens.getResult(0);
  }

  DispatchOp launch(StringRef name, const SymbolicDim &tasks) {
    return writer.dispatch(KernelWriter::Variant{writer.finish(name), SymbolicDim(1), tasks});
  }

  const MoeProblem &p;
  SymbolicDim chunks;
  KernelWriter writer;
  OpBuilder &b;
  Location loc;
  Type i32;
  Value zero, one, indices, shift;
};
} // namespace

FailureOr<ExpertRows> kimi::sortByExpert(HostContext &context, const MoeProblem &problem) {
  // With more pairs an expert than this, tiles of many rows read its matrices fewer times.
  constexpr int64_t fewPairs = 8;
  FailureOr<Value> counts = SortKernel(context, problem).count();
  if (failed(counts)) {
    return failure();
  }
  ExpertRows rows;
  rows.isFew = SymbolicDim::le(problem.pairs, fewPairs * problem.experts);
  rows.tileRows = SymbolicDim::select(rows.isFew, ExpertRows::kFew, ExpertRows::kMany);
  // Each expert that has pairs leaves at most one tile unfinished.
  SymbolicDim most = problem.pairs + SymbolicDim::min(problem.pairs, problem.experts) * (rows.tileRows - 1);
  rows.tiles = SymbolicDim::floorDiv(most, rows.tileRows);
  rows.rows = rows.tiles * rows.tileRows;
  std::pair<Value, Value> sums = SortKernel(context, problem).sum(*counts);
  if (failed(SortKernel(context, problem).place(sums, rows))) {
    return failure();
  }
  return rows;
}
