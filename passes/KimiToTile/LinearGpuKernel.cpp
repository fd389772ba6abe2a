//===- LinearGpuKernel.cpp - tile kernels of a fused_linear for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/LinearGpuKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/Reference.h"
#include "passes/KimiToTile/HostViews.h"
#include <limits>
#include <numeric>

using namespace mlir;
using namespace kimi;

namespace {
/// Rows of a packed weight start at multiples of so many bytes.
constexpr int64_t kRowAlignment = 16;
/// Bytes of x that a direct kernel holds at a time.
constexpr int64_t kDirectBytes = 48 * 1024;
/// Registers of a thread that a direct kernel may fill with weights.
constexpr int64_t kWeightRegisters = 48;
/// Elements of y that a thread may hold so that there are registers for what the epilogue reads from the start on.
constexpr int64_t kFewElements = 16;
/// Rows that go through the columns together, so that both stay in the second-level cache.
constexpr int64_t kRowGroup = 1024;

Type elementOf(Value value) { return cast<ShapedType>(value.getType()).getElementType(); }

/// The weight as rows [N, length], element (n, k) times gamma_k, rounded once; zeros past K.
Value packRows(FusedLinearOp op, int64_t n, int64_t k, int64_t length) {
  OpBuilder b(op);
  TensorCode code(b, op.getLoc());
  SmallVector<TensorCode::Operand> operands{{op.getW(), op.getTranspose() ? code.identity(2) : code.loops(2, {1, 0})}};
  if (op.getGamma()) {
    operands.push_back({op.getGamma(), code.loops(2, {1})});
  }
  Value rows = code.map({b.getIndexAttr(n), b.getIndexAttr(k)}, elementOf(op.getW()), operands,
                        [&](OpBuilder &nested, Location at, ValueRange args) -> Value {
                          return args.size() > 1 ? arith::MulFOp::create(nested, at, args[0], args[1]) : args[0];
                        });
  if (length == k) {
    return rows;
  }
  auto type = RankedTensorType::get({n, length}, elementOf(rows));
  Value zero = arith::ConstantOp::create(b, op.getLoc(), b.getZeroAttr(type.getElementType()));
  SmallVector<OpFoldResult> low(2, b.getIndexAttr(0)), high{b.getIndexAttr(0), b.getIndexAttr(length - k)};
  return tensor::PadOp::create(b, op.getLoc(), type, rows, low, high, zero);
}

/// sum_k w[k, n] * factor[k] as [1, N] in fp32; w is [N, K] where `nFirst`.
Value sumOfColumns(HostContext &context, FusedLinearOp op, Value w, int64_t n, int64_t k, bool nFirst, Value factor) {
  OpBuilder b(op);
  TensorCode code(b, op.getLoc());
  SmallVector<TensorCode::Operand> operands{{w, nFirst ? code.identity(2) : code.loops(2, {1, 0})}};
  if (factor) {
    operands.push_back({factor, code.loops(2, {1})});
  }
  Value sum = code.reduce({b.getIndexAttr(n)}, 1, 0.0, operands, [&](OpBuilder &nested, Location at, ValueRange args) {
    Value value = args[0];
    if (factor) {
      value = arith::MulFOp::create(nested, at, value, args[1]);
    }
    return arith::AddFOp::create(nested, at, args.back(), value).getResult();
  });
  return asMatrix(context, op, sum);
}
} // namespace

FoldedLinear::FoldedLinear(HostContext &context, FusedLinearOp op) : LinearProblem(context, op) {
  OpBuilder b(op);
  Type xType = elementOf(x), wType = elementOf(op.getW());
  operand = xType == wType ? xType : Type(b.getF32Type());
  auto precision = op->getParentOfType<ModuleOp>()->getAttrOfType<StringAttr>("kimi.precision");
  tf32 = precision && precision.getValue() == "tf32";

  FailureOr<ViewLayout> layout = context.layouts.of(x);
  copyable = succeeded(layout) && alignmentOf(*layout, xType) >= kRowAlignment;
  for (const SymbolicDim &stride : ArrayRef<SymbolicDim>(layout->strides).drop_back()) {
    std::optional<int64_t> elements = stride.getConstant();
    copyable &= !elements || *elements * xType.getIntOrFloatBitWidth() / 8 % kRowAlignment == 0;
  }
  copyable &= xType == wType;
  int64_t step = kRowAlignment * 8 / wType.getIntOrFloatBitWidth();
  int64_t length = (k + step - 1) / step * step;
  bool isAsStored = op.getTranspose() && length == k && !op.getGamma() && succeeded(context.layouts.of(op.getW()));
  rows = op.getW();
  if (!isAsStored) {
    rows = packRows(op, n, k, length);
  }
  if (op.getNorm() == NormKind::layer) {
    sums = sumOfColumns(context, op, rows, n, length, /*nFirst=*/true, Value());
  }
  if (op.getBeta()) {
    shifts = sumOfColumns(context, op, op.getW(), n, k, op.getTranspose(), op.getBeta());
  }
}

LinearGpuKernel::LinearGpuKernel(HostContext &context, const GpuArch &arch, FoldedLinear &problem,
                                 const LinearTile &tile, LinearPart part, ArrayRef<Value> workspaces, unsigned own)
    : arch(arch), p(problem), s(tile), part(part), workspaces(workspaces), own(own), writer(context, problem.op),
      t(writer), b(writer.body()), loc(writer.loc()) {}

bool LinearGpuKernel::importArguments() {
  x = writer.input(p.x);
  w = writer.input(p.rows);
  sums = p.sums ? writer.input(p.sums) : Value();
  shifts = p.shifts ? writer.input(p.shifts) : Value();
  for (LinearExtra &extra : p.extras) {
    extras.push_back(writer.input(extra.matrix));
  }
  scale = p.scale ? writer.input(p.scale) : Value();
  mean = p.mean ? writer.input(p.mean) : Value();
  for (Value workspace : workspaces) {
    partials.push_back(writer.input(workspace));
  }
  return x && w && (sums || !p.sums) && (shifts || !p.shifts) && (scale || !p.scale) && (mean || !p.mean) &&
         !llvm::is_contained(extras, Value()) && !llvm::is_contained(partials, Value());
}

FailureOr<KernelWriter::Variant> LinearGpuKernel::build(const std::string &stem, const SymbolicDim &guard) {
  writer.setThreads(s.threads, s.blocksPerSm(arch, p.operand.getIntOrFloatBitWidth() / 8), s.specialized, s.cluster);
  if (!importArguments()) {
    writer.abandon();
    return failure();
  }
  SymbolicDim columns(p.n), splits(part == LinearPart::partial ? s.splits : 1);
  int64_t known = p.m.getConstant().value_or(ShapedType::kDynamic);
  if (part == LinearPart::partial) {
    auto type = RankedTensorType::get({s.splits, known, p.n}, b.getF32Type());
    y = writer.result(type, {splits, p.m.isConstant() ? p.m : p.m * guard, columns});
  } else {
    y = writer.result(RankedTensorType::get({known, p.n}, elementOf(p.op.getResult())), {p.m, columns});
    if (p.greedy) {
      int64_t parts = p.parts.getConstant().value_or(ShapedType::kDynamic);
      auto type = RankedTensorType::get({known, parts}, b.getF32Type());
      maxima = writer.result(type, {p.m, p.parts});
      places = writer.result(type, {p.m, p.parts});
    }
  }
  SymbolicDim units = SymbolicDim::ceilDiv(p.m, s.rows * s.cluster) * SymbolicDim::ceilDiv(columns, s.columns);
  Value unit = blockId(0);
  if (s.cluster > 1) {
    unit = arith::DivUIOp::create(b, loc, unit, writer.constant(s.cluster));
  }
  if (s.walkers > 0) {
    int64_t columnTiles = (p.n + s.columns - 1) / s.columns;
    buildLoop(b, loc, unit, times(rowUnits(), columnTiles), writer.constant(s.walkers / s.cluster),
              [&](Value index) { buildTile(index); });
    units = SymbolicDim::min(units, s.walkers / s.cluster);
  } else {
    buildTile(unit);
  }
  SymbolicDim blocks = units * s.cluster;
  if (part == LinearPart::partial) {
    blocks = blocks * guard;
  }
  return KernelWriter::Variant{writer.finish(stem), guard, blocks, splits};
}

void LinearGpuKernel::buildTile(Value index) {
  place(index);
  acc = t.fragment(s.rows, s.columns);
  t.fill(acc, 0.0f);
  if (part == LinearPart::sum) {
    buildSum();
  } else {
    if (p.hasNorm() && !s.launchedStatistics) {
      statistics.emplace(writer, p.op.getNorm(), p.op.getEps().convertToFloat(), p.k, s.rows);
    }
    if (loadsEarly()) {
      loadColumns();
    }
    s.direct ? buildDirect() : buildPipelined();
  }
  finish();
}

/// Whether registers are free for what the epilogue reads, so that nothing waits for memory after the product. Fused
/// multiply-adds of fp32 need theirs for operands; kernels for wgmma keep columns in shared memory.
bool LinearGpuKernel::loadsEarly() const {
  return part == LinearPart::whole &&
         (s.direct || s.specialized || (isNarrow() && s.rows * s.columns <= kFewElements * s.threads));
}

/// Tiles along the rows, as many as a cluster computes beside each other together.
Value LinearGpuKernel::rowUnits() {
  Value rows = memref::DimOp::create(b, loc, x, 0);
  return arith::CeilDivUIOp::create(b, loc, rows, writer.constant(s.rows * s.cluster));
}

/// Which rows and columns tile `index` has (of the whole cluster): groups of kRowGroup rows, each through all columns.
void LinearGpuKernel::place(Value index) {
  int64_t columnTiles = (p.n + s.columns - 1) / s.columns;
  splitIndex = part == LinearPart::partial ? blockId(1) : Value();
  std::optional<int64_t> known = p.m.getConstant();
  Value row, column;
  if (s.direct || (known && *known <= s.rows * s.cluster)) {
    row = writer.constant(0);
    column = index;
  } else {
    // Where all tiles are computed at once it is enough that neighbours share rows.
    bool atOnce = s.specialized && s.walkers == 0;
    int64_t most = atOnce ? 1 : std::max<int64_t>(kRowGroup / (s.rows * s.cluster), 1);
    Value perGroup = writer.constant(most * columnTiles);
    Value group = arith::DivUIOp::create(b, loc, index, perGroup);
    Value rest = arith::RemUIOp::create(b, loc, index, perGroup);
    Value first = times(group, most);
    Value left = arith::SubIOp::create(b, loc, rowUnits(), first);
    Value height = arith::MinUIOp::create(b, loc, left, writer.constant(most));
    row = arith::AddIOp::create(b, loc, first, arith::RemUIOp::create(b, loc, rest, height));
    column = arith::DivUIOp::create(b, loc, rest, height);
  }
  if (s.cluster > 1) {
    Value rank = arith::RemUIOp::create(b, loc, blockId(0), writer.constant(s.cluster));
    row = arith::AddIOp::create(b, loc, times(row, s.cluster), rank);
  }
  firstRow = times(row, s.rows);
  firstColumn = times(column, s.columns);
  columnTile = column;
  if (s.direct && p.n % s.columns != 0) { // weights are read in whole tiles: the last one starts early
    firstColumn = arith::MinUIOp::create(b, loc, firstColumn, writer.constant(p.n - s.columns));
  }
}

void LinearGpuKernel::buildPipelined() {
  Value a = t.shared(s.rows, s.depth, p.operand), c = t.shared(s.columns, s.depth, p.operand);
  if (statistics) {
    statistics->begin(x, firstRow);
  }
  Value scratch = statistics ? statistics->scratch(s.depth, isNarrow() ? s.threads : 0) : Value();
  if (loadsEarly()) {
    loadRows();
  }
  Value from = writer.constant(0), to = writer.constant(p.k);
  if (part == LinearPart::partial) {
    int64_t steps = (p.k + s.depth - 1) / s.depth, perSplit = (steps + s.splits - 1) / s.splits;
    from = times(splitIndex, perSplit * s.depth);
    Value end = arith::AddIOp::create(b, loc, from, writer.constant(perSplit * s.depth));
    to = arith::MinUIOp::create(b, loc, end, to);
  }
  t.pipeline(
      from, to, writer.constant(s.depth), {a, c}, s.stages,
      [&](Value k) {
        t.load(a, x, {firstRow, k}, {0, 1});
        t.load(c, w, {firstColumn, k}, {0, 1});
      },
      [&](Value k) {
        t.multiplyTransposed(acc, a, c, p.tf32);
        if (statistics) {
          statistics->add(a, scratch, k, s.depth);
        }
      });
}

/// Where the block's weights fit its registers, they are asked for before x is: they come from farther away.
bool LinearGpuKernel::buildDirectInRegisters() {
  constexpr int64_t kVectorBytes = 16;
  int64_t bytes = elementOf(w).getIntOrFloatBitWidth() / 8;
  int64_t depthThreads = s.threads / std::gcd(s.threads / 32, s.columns); // that share a column
  if (p.k % (depthThreads * kVectorBytes / bytes) != 0 || s.columns * p.k * bytes > kWeightRegisters * 4 * s.threads) {
    return false;
  }
  Value weights = t.fragment(s.columns, p.k, elementOf(w)), a = t.shared(s.rows, p.k, p.operand);
  Value zero = writer.constant(0);
  SmallVector<OpFoldResult> offsets{firstColumn, b.getIndexAttr(0)}, steps(2, b.getIndexAttr(1)),
      sizes{b.getIndexAttr(s.columns), b.getIndexAttr(p.k)};
  Value own = memref::SubViewOp::create(b, loc, w, offsets, sizes, steps);
  t.load(weights, own, {zero, zero}, {0, 1});
  t.load(a, x, {firstRow, zero}, {0, 1});
  loadRows();
  Value scratch;
  if (statistics) {
    statistics->begin(x, firstRow);
    scratch = statistics->scratch(p.k, s.threads);
  }
  t.multiplyTransposed(acc, a, weights, p.tf32);
  if (statistics) {
    statistics->add(a, scratch, Value(), p.k);
  }
  return true;
}

void LinearGpuKernel::buildDirect() {
  if (buildDirectInRegisters()) {
    return;
  }
  if (statistics) {
    statistics->begin(x, firstRow);
  }
  int64_t bytes = p.operand.getIntOrFloatBitWidth() / 8;
  int64_t depth = std::min(p.k, std::max<int64_t>(kDirectBytes / (bytes * s.rows) / 512 * 512, 512));
  auto scratchOf = [&](int64_t length) { return statistics ? statistics->scratch(length, s.threads) : Value(); };
  auto step = [&](Value a, Value scratch, Value k, int64_t length) {
    t.load(a, x, {firstRow, k}, {0, 1});
    SmallVector<OpFoldResult> offsets{firstColumn, k}, sizes{b.getIndexAttr(s.columns), b.getIndexAttr(length)},
        steps(2, b.getIndexAttr(1));
    Value part = memref::SubViewOp::create(b, loc, w, offsets, sizes, steps);
    t.multiplyTransposed(acc, a, part, p.tf32);
    if (statistics) {
      statistics->add(a, scratch, Value(), length);
    }
  };
  int64_t whole = p.k / depth * depth;
  Value zero = writer.constant(0);
  Value a = t.shared(s.rows, depth, p.operand), scratch = scratchOf(depth);
  if (whole == depth) {
    step(a, scratch, zero, depth);
  } else {
    buildLoop(b, loc, zero, writer.constant(whole), writer.constant(depth),
              [&](Value k) { step(a, scratch, k, depth); });
  }
  if (whole < p.k) {
    int64_t rest = p.k - whole;
    step(t.shared(s.rows, rest, p.operand), scratchOf(rest), writer.constant(whole), rest);
  }
}

void LinearGpuKernel::buildSum() {
  Value part = t.fragment(s.rows, s.columns);
  int64_t splits = cast<MemRefType>(partials[own].getType()).getDimSize(0);
  for (int64_t i = 0; i < splits; ++i) { // in a fixed order: two runs give the same bits
    t.load(part, partials[own], {writer.constant(i), firstRow, firstColumn}, {1, 2});
    t.map({acc, part}, acc, [&](ValueRange v) { return arith::AddFOp::create(b, loc, v[0], v[1]).getResult(); });
  }
}

void LinearGpuKernel::loadColumns() {
  hasColumns = true;
  Value zero = writer.constant(0);
  auto load = [&](Value source, bool perColumn) {
    Type element = elementOf(source); // accumulators of wgmma fill the registers
    int64_t columns = perColumn ? s.columns : 1;
    Value tile = s.specialized ? t.shared(1, columns, element) : t.fragment(1, columns, element);
    t.load(tile, source, {zero, perColumn ? firstColumn : zero}, {0, 1});
    return tile;
  };
  sumsTile = sums ? load(sums, true) : Value();
  shiftsTile = shifts ? load(shifts, true) : Value();
  extraTiles.resize(extras.size());
  for (auto [source, extra, tile] : llvm::zip(extras, p.extras, extraTiles)) {
    tile = extra.perRow ? Value() : load(source, extra.perColumn);
  }
}

void LinearGpuKernel::loadRows() {
  hasRows = true;
  Value zero = writer.constant(0);
  auto load = [&](Value source, bool perColumn) {
    Value tile = t.fragment(s.rows, perColumn ? s.columns : 1, elementOf(source));
    t.load(tile, source, {firstRow, perColumn ? firstColumn : zero}, {0, 1});
    return tile;
  };
  scaleTile = scale && !statistics ? load(scale, false) : Value();
  meanTile = mean && !statistics ? load(mean, false) : Value();
  for (auto [source, extra, tile] : llvm::zip(extras, p.extras, extraTiles)) {
    bool later = s.specialized && extra.perColumn;
    tile = extra.perRow && !later ? load(source, extra.perColumn) : tile;
  }
}

/// Norm, epilogue and store.
void LinearGpuKernel::finish() {
  if (part == LinearPart::partial) {
    t.store(acc, y, {splitIndex, firstRow, firstColumn}, {1, 2});
    return;
  }
  if (!hasColumns) {
    loadColumns();
  }
  if (!hasRows) {
    loadRows();
  }
  SmallVector<Value> tiles;
  bool layer = p.op.getNorm() == NormKind::layer;
  if (statistics) {
    // They come in the layout of x's tile and are read in that of the accumulators: those of several rows pass through
    // shared memory.
    auto perRow = [&] { return s.rows == 1 ? t.fragment(1, 1) : t.shared(s.rows, 1); };
    scaleTile = perRow();
    meanTile = layer ? perRow() : Value();
    statistics->finish(scaleTile, meanTile);
  }
  if (p.hasNorm()) {
    for (Value tile : {scaleTile, layer ? meanTile : Value(), layer ? sumsTile : Value(), shiftsTile}) {
      if (tile) {
        tiles.push_back(tile);
      }
    }
  }
  auto normalise = [&](ValueRange v) -> Value {
    Value value = v[0];
    if (layer) {
      value = arith::SubFOp::create(b, loc, value, arith::MulFOp::create(b, loc, v[2], v[3]));
    }
    value = arith::MulFOp::create(b, loc, value, v[1]);
    return shifts ? arith::AddFOp::create(b, loc, value, v.back()).getResult() : value;
  };
  for (auto [source, tile] : llvm::zip(extras, extraTiles)) {
    if (!tile) {
      tile = t.fragment(s.rows, s.columns, elementOf(source));
      t.load(tile, source, {firstRow, firstColumn}, {0, 1});
    }
  }
  if (p.hasNorm()) {
    buildEpilogue(t, p.op, acc, tiles, normalise, extraTiles);
  } else {
    buildEpilogue(t, p.op, acc, {}, {}, extraTiles);
  }
  t.store(acc, y, {firstRow, firstColumn}, {0, 1});
  if (p.greedy) {
    buildGreedyPart();
  }
}

/// The maximum of each row of the tile and minus its place. Of what is stored: values that are equal after rounding
/// are.
void LinearGpuKernel::buildGreedyPart() {
  Type stored = elementOf(y);
  if (p.n % s.columns != 0 || !stored.isF32()) {
    t.map({acc}, acc, [&](ValueRange v) -> Value {
      Value value = castFloat(b, loc, castFloat(b, loc, v[0], stored), b.getF32Type());
      if (p.n % s.columns == 0 || s.direct) { // those of a direct kernel are all inside
        return value;
      }
      Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, column(), writer.constant(p.n));
      return arith::SelectOp::create(b, loc, inside, value, t.number(-std::numeric_limits<float>::infinity()));
    });
  }
  auto [maximum, best] = buildArgmax(
      t, acc, Value(), acc, [&](ValueRange v) { return emitMinusIndexOfMaximum(b, loc, v[0], v[1], column()); });
  t.store(maximum, maxima, {firstRow, columnTile}, {0, 1});
  t.store(best, places, {firstRow, columnTile}, {0, 1});
}

/// Within a map over a tile of y: the column of the element.
Value LinearGpuKernel::column() {
  Value inTile = tile::ElementIndexOp::create(b, loc, b.getIndexType(), uint64_t(1));
  return arith::AddIOp::create(b, loc, firstColumn, inTile);
}

LogicalResult kimi::buildStatistics(HostContext &context, FoldedLinear &p, const SymbolicDim &taken) {
  // A warp a row and 16 bytes a thread, as they lie.
  constexpr int64_t kRows = 8, kThreads = 256, kColumns = 1024;
  KernelWriter writer(context, p.op);
  writer.setThreads(kThreads, /*blocksPerSm=*/4);
  TileBuilder t(writer);
  OpBuilder &b = writer.body();
  bool layer = p.op.getNorm() == NormKind::layer;
  Value x = writer.input(p.x);
  if (!x) {
    writer.abandon();
    return failure();
  }
  int64_t known = p.m.getConstant().value_or(ShapedType::kDynamic);
  auto type = RankedTensorType::get({known, 1}, b.getF32Type());
  SmallVector<SymbolicDim> sizes{p.m.isConstant() ? p.m : p.m * taken, SymbolicDim(1)};
  Value scale = writer.result(type, sizes), mean = layer ? writer.result(type, sizes) : Value();
  Value block = tile::BlockIdOp::create(b, writer.loc(), b.getIndexType(), uint64_t(0));
  Value firstRow = arith::MulIOp::create(b, writer.loc(), block, writer.constant(kRows)), zero = writer.constant(0);
  RowStatistics statistics(writer, p.op.getNorm(), p.op.getEps().convertToFloat(), p.k, kRows);
  statistics.begin(x, firstRow);
  int64_t depth = std::min(p.k, kColumns), whole = p.k / depth * depth;
  auto take = [&](int64_t length, Value from, Value to) {
    Value a = t.fragment(kRows, length, elementOf(x)), scratch = statistics.scratch(length);
    buildLoop(b, writer.loc(), from, to, writer.constant(length), [&](Value at) {
      t.load(a, x, {firstRow, at}, {0, 1});
      statistics.add(a, scratch, Value(), length);
    });
  };
  take(depth, zero, writer.constant(whole));
  if (whole < p.k) {
    take(p.k - whole, writer.constant(whole), writer.constant(p.k));
  }
  Value scaleTile = t.fragment(kRows, 1), meanTile = layer ? t.fragment(kRows, 1) : Value();
  statistics.finish(scaleTile, meanTile);
  t.store(scaleTile, scale, {firstRow, zero}, {0, 1});
  if (layer) {
    t.store(meanTile, mean, {firstRow, zero}, {0, 1});
  }
  std::string stem = "statistics_" + std::to_string(p.k) + "_" + stringifyNormKind(p.op.getNorm()).str();
  KernelWriter::Variant variant{writer.finish(stem), SymbolicDim(1), SymbolicDim::ceilDiv(p.m, kRows) * taken};
  DispatchOp dispatch = writer.dispatch(variant);
  p.scale = dispatch.getResult(0);
  p.mean = layer ? dispatch.getResult(1) : Value();
  return success();
}
