//===- RowNormKernel.cpp - norms and softmax of rows as a block program for a GPU
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/RowNormKernel.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"
#include "passes/Kimi/Reference.h"
#include "passes/KimiToTile/ElementwiseGpuKernel.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/RowMix.h"
#include "passes/KimiToTile/TileBuilder.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kimi;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static bool isFloat(Type element) { return element.isF32() || element.isBF16() || element.isF16(); }

/// An elementwise op of floats whose operands and result have one order of axes, and of constants.
static bool isPlain(linalg::GenericOp op) {
  if (!op || op.getNumParallelLoops() != op.getNumLoops() || op->getNumResults() != 1 || op.getNumDpsInputs() == 0 ||
      op.payloadUsesValueFromOperand(op.getDpsInitOperand(0))) {
    return false;
  }
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type || !isFloat(type.getElementType()) || !op.getMatchingIndexingMap(&operand).isIdentity()) {
      return false;
    }
  }
  SetVector<Value> captured;
  getUsedValuesDefinedAbove(op.getRegion(), captured);
  bool constants = llvm::all_of(captured, [](Value value) {
    Operation *source = value.getDefiningOp();
    return source && source->hasTrait<OpTrait::ConstantLike>() && !isa<ShapedType>(value.getType());
  });
  return constants && llvm::all_of(op.getBody()->without_terminator(), [](Operation &inner) {
           return OpTrait::hasElementwiseMappableTraits(&inner) || inner.hasTrait<OpTrait::ConstantLike>();
         });
}

/// The users of `value` but those that ask for its extents.
static SmallVector<Operation *> readersOf(Value value) {
  SmallVector<Operation *> readers;
  for (Operation *user : value.getUsers()) {
    auto dim = dyn_cast<tensor::DimOp>(user);
    if (!dim || !dim.getConstantIndex()) {
      readers.push_back(user);
    }
  }
  return readers;
}

bool RowNorm::handles(Operation *op) {
  auto softmax = dyn_cast<SoftmaxOp>(op);
  return isa<L2NormOp, RmsNormOp, GatedRmsNormOp, LayerNormOp>(op) ||
         (softmax && static_cast<int64_t>(softmax.getAxis()) + 1 == typeOf(softmax.getX()).getRank());
}

RowNorm::RowNorm(Operation *op) : op(op), x(op->getOperand(0)) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](RmsNormOp norm) { gamma = norm.getGamma(); })
      .Case([&](GatedRmsNormOp norm) {
        gate = norm.getGate();
        gamma = norm.getGamma();
      })
      .Case([&](LayerNormOp norm) {
        gamma = norm.getGamma();
        beta = norm.getBeta();
      });
  auto producer = x.getDefiningOp<linalg::GenericOp>();
  if (isPlain(producer) && readersOf(x).size() == 1 && x != gate) {
    before = producer;
  }
  SmallVector<Operation *> readers = readersOf(op->getResult(0));
  auto consumer = readers.size() == 1 ? dyn_cast<linalg::GenericOp>(readers[0]) : linalg::GenericOp();
  if (isPlain(consumer) && consumer.getNumDpsInputs() == 1) {
    after = consumer;
  }
}

int64_t RowNorm::channels() const { return typeOf(x).getShape().back(); }

SmallVector<Value> RowNorm::rows() const {
  linalg::GenericOp producer = before;
  SmallVector<Value> list{x};
  if (producer) {
    list.assign(producer.getInputs().begin(), producer.getInputs().end());
  }
  if (gate) {
    list.push_back(gate);
  }
  return list;
}

Value RowNorm::result() const {
  linalg::GenericOp consumer = after;
  return consumer ? consumer->getResult(0) : op->getResult(0);
}

ScheduleGroup RowNorm::group() const {
  ScheduleGroup group;
  linalg::GenericOp producer = before, consumer = after;
  for (Operation *part : {producer.getOperation(), op, consumer.getOperation()}) {
    if (part) {
      group.ops.push_back(part);
    }
  }
  return group;
}

std::optional<RowNormTile> RowNormTile::choose(const GpuArch &arch, int64_t channels, int64_t bytes, int64_t tensors) {
  constexpr int64_t lanes = 32, warps = 4, elements = 16, otherRegisters = 40, mostBlocks = 8;
  int64_t vector = 1;
  while (vector * bytes < 16 && channels % (2 * vector) == 0) {
    vector *= 2;
  }
  auto blocks = [&](int64_t threads, int64_t each) { // `each`: elements of a tensor in a thread
    int64_t registers = llvm::alignTo(each * (tensors + 1) + otherRegisters, 8);
    return std::clamp<int64_t>(GpuArch::registersPerSm / (registers * threads), 1, mostBlocks);
  };
  int64_t pieces = llvm::divideCeil(channels, vector);
  if (pieces <= lanes) { // whole rows within a warp
    int64_t along = llvm::PowerOf2Ceil(pieces), each = std::max<int64_t>(elements / vector, 1);
    int64_t threads = warps * lanes;
    return RowNormTile{warps * (lanes / along) * each, along * vector, threads, vector, blocks(threads, each * vector)};
  }
  std::optional<RowTile> wide = chooseRowTile(arch, {channels, bytes, tensors, bytes, 2});
  if (!wide || wide->heldInShared) {
    return std::nullopt;
  }
  return RowNormTile{wide->rows, wide->columns, wide->threads, wide->vector, wide->blocksPerSm};
}

namespace {
class RowNormKernel {
public:
  RowNormKernel(HostContext &context, const RowNorm &norm, const RowNormTile &tile)
      : context(context), norm(norm), tile(tile), host(norm.result().getDefiningOp()), writer(context, host), t(writer),
        b(writer.body()), loc(writer.loc()), f32(b.getF32Type()) {}

  LogicalResult run() {
    writer.setThreads(tile.threads, tile.blocksPerSm);
    SmallVector<Value> buffers;
    bool heads = false;
    for (Value tensor : norm.rows()) {
      heads |= !isEvenlySpaced(tensor);
    }
    for (Value tensor : norm.rows()) {
      Value view = heads ? byHeads(tensor) : asMatrix(context, host, tensor);
      buffers.push_back(writer.input(view));
      if (!buffers.back()) {
        writer.abandon();
        return failure();
      }
      sizes = context.scalars.shape(view);
    }
    Value gamma = vectorBuffer(norm.gamma), beta = vectorBuffer(norm.beta);
    RankedTensorType type = typeOf(norm.result());
    SmallVector<int64_t> shape;
    for (const SymbolicDim &size : sizes) {
      shape.push_back(size.getConstant().value_or(ShapedType::kDynamic));
    }
    Value target = writer.result(RankedTensorType::get(shape, type.getElementType()), sizes);
    fewDigits = !type.getElementType().isF32();
    SymbolicDim blocks = place();
    SmallVector<Value> tiles;
    for (Value buffer : buffers) {
      tiles.push_back(load(buffer));
    }
    Value gate = norm.gate ? tiles.pop_back_val() : Value();
    gammaTile = gamma ? loadVector(gamma) : Value();
    betaTile = beta ? loadVector(beta) : Value();
    Value out = build(tiles, gate, type.getElementType());
    t.store(out, target, offsets, dims());
    std::string stem = norm.op->getName().stripDialect().str() + "_" + std::to_string(norm.channels());
    KernelWriter::Variant variant{writer.finish(stem), SymbolicDim(1), blocks};
    Value rows = writer.dispatch(variant).getResult(0);
    if (heads) { // as a matrix of rows
      SmallVector<ReassociationIndices> joined{{0, 1}, {2}};
      OpBuilder at(host);
      rows = tensor::CollapseShapeOp::create(at, host->getLoc(), rows, joined);
    }
    OpBuilder at(host);
    Value result = fromMatrix(context, at, host->getLoc(), rows, type, context.scalars.shape(norm.result()));
    context.replace(host, result); // `before` and the norm have no use then
    return success();
  }

private:
  /// Whether all rows of `tensor` are one stride apart.
  bool isEvenlySpaced(Value tensor) {
    int64_t rank = typeOf(tensor).getRank();
    FailureOr<ViewLayout> layout = context.layouts.of(tensor);
    if (rank < 3 || failed(layout)) {
      return true; // asMatrix copies where it must
    }
    for (int64_t axis = 0; axis + 2 < rank; ++axis) {
      bool goesOn = layout->strides[axis] == layout->strides[axis + 1] * layout->sizes[axis + 1];
      if (!goesOn && !layout->sizes[axis].is(1)) {
        return false;
      }
    }
    return true;
  }

  /// [.., H, D] as [M, H, D]; copied where the groups of H rows are not evenly spaced.
  Value byHeads(Value tensor) {
    int64_t rank = typeOf(tensor).getRank();
    if (rank == 3) {
      return succeeded(context.layouts.of(tensor)) ? tensor : copyBefore(context, host, tensor);
    }
    OpBuilder at(host);
    SmallVector<ReassociationIndices> groups(3);
    for (int64_t axis = 0; axis < rank; ++axis) {
      groups[std::max<int64_t>(axis - (rank - 3), 0)].push_back(axis);
    }
    auto flat = tensor::CollapseShapeOp::create(at, host->getLoc(), tensor, groups);
    if (failed(context.layouts.of(flat.getResult()))) {
      flat->setOperand(0, copyBefore(context, flat, tensor));
    }
    return flat.getResult();
  }

  /// A vector with the dims of a tile.
  Value vectorBuffer(Value vector) {
    if (!vector) {
      return {};
    }
    OpBuilder at(host);
    SmallVector<int64_t> extents(sizes.size(), 1);
    extents.back() = norm.channels();
    ReassociationIndices all(dims());
    SmallVector<OpFoldResult> known;
    for (int64_t extent : extents) {
      known.push_back(at.getIndexAttr(extent));
    }
    RankedTensorType flat = RankedTensorType::get({norm.channels()}, typeOf(vector).getElementType());
    if (vector.getType() != flat) {
      vector = tensor::CastOp::create(at, host->getLoc(), flat, vector);
    }
    return writer.input(tensor::ExpandShapeOp::create(at, host->getLoc(), flat.clone(extents), vector,
                                                      SmallVector<ReassociationIndices>{all}, known));
  }

  SmallVector<int64_t> dims() const { return llvm::to_vector(llvm::seq<int64_t>(0, sizes.size())); }

  /// Where this block's rows start; the number of blocks.
  SymbolicDim place() {
    Value block = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0)), zero = writer.constant(0);
    shape = {tile.rows, tile.columns};
    if (sizes.size() == 3) {
      int64_t heads = divisorOf(sizes[1], tile.rows);
      shape = {tile.rows / heads, heads, tile.columns};
      SymbolicDim count = SymbolicDim::ceilDiv(sizes[1], heads);
      Value perRow = writer.scalar(count);
      Value head = arith::RemUIOp::create(b, loc, block, perRow), row = arith::DivUIOp::create(b, loc, block, perRow);
      offsets = {scaled(row, shape[0]), scaled(head, heads), zero};
      layoutOfRows();
      return count * SymbolicDim::ceilDiv(sizes[0], shape[0]);
    }
    offsets = {scaled(block, tile.rows), zero};
    layoutOfRows();
    return SymbolicDim::ceilDiv(sizes[0], tile.rows);
  }

  Value scaled(Value index, int64_t factor) {
    return arith::MulIOp::create(b, loc, index, writer.constant(factor)).getResult();
  }

  void layoutOfRows() {
    ElementwiseTile lying;
    lying.shape = shape;
    lying.threads = tile.threads;
    lying.vector = tile.vector;
    layout = lying.layout(b.getContext());
  }

  Value fragment(ArrayRef<int64_t> extents, tile::LayoutAttr own, Type element) {
    auto space = tile::SpaceKindAttr::get(b.getContext(), tile::SpaceKind::fragment);
    auto alloc = tile::AllocOp::create(b, loc, MemRefType::get(extents, element, MemRefLayoutAttrInterface(), space));
    alloc.setLayoutAttr(own);
    return alloc;
  }
  Value rowTile(Type element) { return fragment(shape, layout, element); }
  /// A number a row.
  Value column() {
    SmallVector<int64_t> extents(shape);
    extents.back() = 1;
    return fragment(extents, layout.slice(shape.size() - 1), f32);
  }

  Value load(Value buffer) {
    Value rows = rowTile(cast<MemRefType>(buffer.getType()).getElementType());
    t.load(rows, buffer, offsets, dims());
    return rows;
  }

  /// `buffer` [1, D] or [1, 1, D], for all rows.
  Value loadVector(Value buffer) {
    SmallVector<int64_t> extents(shape.size(), 1);
    extents.back() = shape.back();
    tile::LayoutAttr own = layout;
    for (size_t dim = 0; dim + 1 < shape.size(); ++dim) {
      own = own.slice(dim);
    }
    Value vector = fragment(extents, own, cast<MemRefType>(buffer.getType()).getElementType());
    t.load(vector, buffer, SmallVector<Value>(shape.size(), writer.constant(0)), dims());
    return vector;
  }

  /// `inner`'s body on scalars.
  Value inlined(linalg::GenericOp inner, ValueRange elements) {
    IRMapping mapping;
    Block &body = *inner.getBody();
    mapping.map(body.getArguments().take_front(elements.size()), elements);
    SetVector<Value> captured;
    getUsedValuesDefinedAbove(inner.getRegion(), captured);
    for (Value value : captured) {
      Operation *constant = b.clone(*value.getDefiningOp());
      constant->setLoc(loc);
      mapping.map(value, constant->getResult(0));
    }
    return t.inlined(body, body.getTerminator()->getOperand(0), mapping, fewDigits);
  }

  Value wide(Value x) { return castFloat(b, loc, x, f32); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value exp(Value x) {
    Operation *op = math::ExpOp::create(b, loc, x);
    if (fewDigits) {
      roundedLater(op);
    }
    return op->getResult(0);
  }
  Value quotient(Value x, Value y) {
    Operation *op = arith::DivFOp::create(b, loc, x, y);
    if (fewDigits) {
      roundedLater(op);
    }
    return op->getResult(0);
  }

  /// `value` in columns of the rows, `outside` in those that only fill the tile.
  Value masked(Value value, float outside) {
    if (tile.columns == norm.channels()) {
      return value;
    }
    Value at = tile::ElementIndexOp::create(b, loc, b.getIndexType(), uint64_t(shape.size() - 1));
    Value end = arith::ConstantIndexOp::create(b, loc, norm.channels());
    Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, at, end);
    return arith::SelectOp::create(b, loc, inside, value, t.number(outside));
  }

  Value reduced(tile::ReduceKind kind, Value rows) {
    Value result = column();
    t.reduce(kind, rows, result, /*accumulate=*/false, shape.size() - 1);
    return result;
  }
  Value sumOfSquares(Value rows) {
    Value squares = rowTile(f32);
    t.map({rows}, squares, [&](ValueRange e) { return mul(e[0], e[0]); });
    return reduced(tile::ReduceKind::add, squares);
  }
  Value mapColumn(Value in, llvm::function_ref<Value(Value)> fn) {
    Value out = column();
    t.map({in}, out, [&](ValueRange e) { return fn(e[0]); });
    return out;
  }
  Value mean(Value sum) {
    float share = 1.0f / static_cast<float>(norm.channels());
    Value factor = t.number(share);
    return mapColumn(sum, [&](Value e) { return mul(e, factor); });
  }
  /// rsqrt(value * factor + eps).
  Value deviation(Value squares, float factor, float eps) {
    Value share = t.number(factor), epsilon = t.number(eps), zero = t.number(0.0f);
    return mapColumn(squares, [&](Value e) -> Value {
      Value root = math::RsqrtOp::create(b, loc, add(mul(e, share), epsilon));
      if (eps != 0.0f) {
        return root;
      }
      // A row of zeros gives zeros; that of a norm with a mean is not finite, as its formula says.
      Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, e, zero);
      return isa<L2NormOp>(norm.op) ? arith::SelectOp::create(b, loc, none, zero, root).getResult() : root;
    });
  }

  /// Stores what `fn` gives for the elements of `ins` in a tile of the result, behind what follows the norm.
  Value finish(ValueRange ins, Type element, llvm::function_ref<Value(ValueRange)> fn) {
    Value out = rowTile(element);
    Type own = typeOf(norm.op->getResult(0)).getElementType();
    t.map(ins, out, [&](ValueRange e) {
      Value value = castFloat(b, loc, fn(e), own);
      return norm.after ? inlined(norm.after, {value}) : value;
    });
    return out;
  }

  Value build(ArrayRef<Value> tiles, Value gate, Type element) {
    bool isSoftmax = isa<SoftmaxOp>(norm.op);
    Value x = rowTile(f32);
    t.map(tiles, x, [&](ValueRange e) {
      Value value = norm.before ? inlined(norm.before, e) : e[0];
      return masked(wide(value), isSoftmax ? -std::numeric_limits<float>::infinity() : 0.0f);
    });
    float share = 1.0f / static_cast<float>(norm.channels());
    return llvm::TypeSwitch<Operation *, Value>(norm.op)
        .Case([&](L2NormOp op) {
          Value factor = deviation(sumOfSquares(x), 1.0f, op.getEps().convertToFloat());
          return finish({x, factor}, element, [&](ValueRange e) { return mul(e[0], e[1]); });
        })
        .Case([&](RmsNormOp op) {
          Value factor = deviation(sumOfSquares(x), share, op.getEps().convertToFloat());
          Type rounded = typeOf(op.getX()).getElementType();
          return finish({x, factor, gammaTile}, element, [&](ValueRange e) {
            Value normal = wide(castFloat(b, loc, mul(e[0], e[1]), rounded));
            return mul(normal, wide(e[2]));
          });
        })
        .Case([&](GatedRmsNormOp op) {
          Value factor = deviation(sumOfSquares(x), share, op.getEps().convertToFloat()), one = t.number(1.0f);
          bool isSilu = op.getActivation() == GateKind::silu;
          return finish({x, factor, gammaTile, gate}, element, [&](ValueRange e) {
            Value open = wide(e[3]);
            Value negated = arith::NegFOp::create(b, loc, open);
            Value sigmoid = quotient(isSilu ? open : one, add(one, exp(negated)));
            return mul(mul(mul(e[0], e[1]), wide(e[2])), sigmoid);
          });
        })
        .Case([&](LayerNormOp op) {
          Value middle = mean(reduced(tile::ReduceKind::add, x));
          Value centred = rowTile(f32);
          t.map({x, middle}, centred, [&](ValueRange e) { return masked(sub(e[0], e[1]), 0.0f); });
          Value factor = deviation(sumOfSquares(centred), share, op.getEps().convertToFloat());
          SmallVector<Value> ins{centred, factor, gammaTile};
          if (betaTile) {
            ins.push_back(betaTile);
          }
          return finish(ins, element, [&](ValueRange e) {
            Value scaled = mul(mul(e[0], e[1]), wide(e[2]));
            return betaTile ? add(scaled, wide(e[3])) : scaled;
          });
        })
        .Case([&](SoftmaxOp op) {
          Value maximum = reduced(tile::ReduceKind::max, x), power = rowTile(f32);
          t.map({x, maximum}, power, [&](ValueRange e) { return exp(sub(e[0], e[1])); });
          Value total = reduced(tile::ReduceKind::add, power);
          if (op.getLog()) {
            Value log = mapColumn(total, [&](Value e) { return math::LogOp::create(b, loc, e).getResult(); });
            return finish({x, maximum, log}, element, [&](ValueRange e) { return sub(sub(e[0], e[1]), e[2]); });
          }
          Value one = t.number(1.0f);
          Value part = mapColumn(total, [&](Value e) { return arith::DivFOp::create(b, loc, one, e).getResult(); });
          return finish({power, part}, element, [&](ValueRange e) { return mul(e[0], e[1]); });
        });
  }

  HostContext &context;
  const RowNorm &norm;
  const RowNormTile &tile;
  Operation *host; // that the launch takes the place of
  KernelWriter writer;
  TileBuilder t;
  OpBuilder &b;
  Location loc;
  Type f32;
  SmallVector<SymbolicDim> sizes; // of the views
  SmallVector<int64_t> shape;     // of a tile
  tile::LayoutAttr layout;
  SmallVector<Value> offsets;
  Value gammaTile, betaTile;
  bool fewDigits = false; // the result is rounded to 16 bits
};
} // namespace

void kimi::retireExtents(HostContext &context, const RowNorm &norm) {
  linalg::GenericOp before = norm.before;
  for (Operation *op : {before.getOperation(), norm.op}) {
    if (!op) {
      continue;
    }
    Value tensor = op->getResult(0);
    SmallVector<SymbolicDim> extents = context.scalars.shape(tensor);
    for (Operation *user : llvm::make_early_inc_range(tensor.getUsers())) {
      if (auto dim = dyn_cast<tensor::DimOp>(user)) {
        OpBuilder at(dim);
        context.replace(dim, context.scalars.materialize(at, dim.getLoc(), extents[*dim.getConstantIndex()]));
      }
    }
  }
}

LogicalResult kimi::scheduleRowNorm(HostContext &context, const RowNorm &norm, const RowNormTile &tile) {
  return RowNormKernel(context, norm, tile).run();
}
