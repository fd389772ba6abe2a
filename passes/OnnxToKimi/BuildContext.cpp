//===- BuildContext.cpp - what an operator is built with
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/BuildContext.h"
#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

OpFoldResult BuildContext::size(const SymbolicDim &dim) {
  std::optional<int64_t> constant = dim.getConstant();
  return constant ? OpFoldResult(b.getIndexAttr(*constant)) : OpFoldResult(index(dim));
}

SmallVector<OpFoldResult> BuildContext::sizes(ArrayRef<SymbolicDim> dims) {
  SmallVector<OpFoldResult> result;
  for (const SymbolicDim &dim : dims) {
    result.push_back(size(dim));
  }
  return result;
}

Value BuildContext::constant(Type type, double value) { return scalarConstant(b, loc, type, value); }

Tensor BuildContext::full(Shape shape, Type type, double value) {
  Tensor tensor{{}, std::move(shape), type, {}, {}};
  if (isa<FloatType>(type)) {
    tensor.splat = value;
  } else {
    tensor.scalar = SymbolicDim(static_cast<int64_t>(value));
  }
  return tensor;
}

Value BuildContext::empty(ArrayRef<SymbolicDim> shape, Type type) {
  return tensor::EmptyOp::create(b, loc, sizes(shape), storageType(type));
}

void BuildContext::give(unsigned index, Tensor tensor) {
  if (index >= node->getNumResults()) {
    return;
  }
  Value made = value(tensor);
  const ValueInfo &info = result(index);
  if (info.isRanked()) {
    auto wanted = tensorType(*info.shape, storageType(info.elementType));
    if (made.getType() != wanted) {
      made = tensor::CastOp::create(b, loc, wanted, made);
    }
  }
  function.set(node->getResult(index), made);
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// The scalar that a constant tensor is full of, as a value outside of any body.
static Value inlineScalar(BuildContext &c, const Tensor &tensor) {
  Type element = storageType(tensor.type);
  if (tensor.splat) {
    return scalarConstant(c.b, c.loc, element, *tensor.splat);
  }
  if (std::optional<int64_t> constant = tensor.scalar->getConstant()) {
    return integerConstant(c.b, c.loc, element, *constant);
  }
  Value index = c.index(*tensor.scalar);
  if (element.isInteger(1)) {
    return arith::CmpIOp::create(c.b, c.loc, arith::CmpIPredicate::ne, index, c.index(0));
  }
  return arith::IndexCastOp::create(c.b, c.loc, element, index);
}

namespace {
/// How a body gets at one element of one input.
struct Access {
  /// A scalar, an operand of the op (its position), or a tensor read at computed positions.
  enum { Scalar, Operand, Read } kind = Scalar;
  Value value;
  unsigned operand = 0;
  /// For Read: what each axis of the tensor is read at: 0, the element's position, or that clamped to the extent.
  struct Axis {
    int64_t loop = -1;
    Value last;
  };
  SmallVector<Axis> axes;
};
} // namespace

/// Whether `tensor` can be broadcast to `shape`, as far as is known.
static bool fits(const Tensor &tensor, ArrayRef<SymbolicDim> shape) {
  if (tensor.shape.size() > shape.size()) {
    return false;
  }
  return llvm::all_of(llvm::zip(tensor.shape, shape.take_back(tensor.shape.size())), [](auto pair) {
    auto [dim, extent] = pair;
    return mayBroadcast(dim, extent);
  });
}

/// How `tensor`, broadcast to `shape`, is read by a body over `shape`; adds operands and maps where it can be one.
static Access accessOf(BuildContext &c, const Tensor &tensor, ArrayRef<SymbolicDim> shape,
                       SmallVectorImpl<Value> &operands, SmallVectorImpl<AffineMap> &maps) {
  Access access;
  if (!tensor.value && (tensor.splat || tensor.scalar)) {
    access.value = inlineScalar(c, tensor);
    return access;
  }
  if (!fits(tensor, shape)) {
    c.misfits = true;
    (void)c.fail("an operand cannot be broadcast to the extents it is needed in");
    access.value = c.constant(storageType(tensor.type), 0);
    return access;
  }
  access.value = c.value(tensor);
  SmallVector<AffineExpr> exprs;
  size_t offset = shape.size() - tensor.shape.size();
  bool undecided = false;
  for (auto [axis, dim] : llvm::enumerate(tensor.shape)) {
    Access::Axis at;
    const SymbolicDim &extent = shape[axis + offset];
    if (dim == extent) {
      at.loop = axis + offset;
      exprs.push_back(c.b.getAffineDimExpr(axis + offset));
    } else if (dim.is(1)) {
      exprs.push_back(c.b.getAffineConstantExpr(0));
    } else if (dim.isConstant()) {
      // Another extent than 1 decides the result's, so the two are equal at run time.
      c.function.require({c.node, dim, RequireKind::equal, extent});
      at.loop = axis + offset;
      exprs.push_back(c.b.getAffineDimExpr(axis + offset));
    } else {
      // 1 or the result's extent, known only at run time.
      c.function.require({c.node, dim, RequireKind::broadcast, extent});
      at.loop = axis + offset;
      at.last = c.index(dim - SymbolicDim(1));
      undecided = true;
    }
    access.axes.push_back(at);
  }
  if (undecided) {
    access.kind = Access::Read;
    return access;
  }
  access.kind = Access::Operand;
  access.operand = operands.size();
  operands.push_back(access.value);
  maps.push_back(AffineMap::get(shape.size(), 0, exprs, c.b.getContext()));
  return access;
}

/// The element of each input, within a body whose block arguments are `arguments`.
static SmallVector<Value> elementsOf(OpBuilder &b, Location loc, ArrayRef<Access> accesses, ValueRange arguments) {
  SmallVector<Value> elements;
  for (const Access &access : accesses) {
    if (access.kind == Access::Scalar) {
      elements.push_back(access.value);
      continue;
    }
    if (access.kind == Access::Operand) {
      elements.push_back(arguments[access.operand]);
      continue;
    }
    SmallVector<Value> at;
    for (const Access::Axis &axis : access.axes) {
      if (axis.loop < 0) {
        at.push_back(arith::ConstantIndexOp::create(b, loc, 0));
        continue;
      }
      Value position = linalg::IndexOp::create(b, loc, axis.loop);
      at.push_back(axis.last ? arith::MinSIOp::create(b, loc, position, axis.last).getResult() : position);
    }
    elements.push_back(tensor::ExtractOp::create(b, loc, access.value, at));
  }
  return elements;
}

/// The body's result, with the positions that it asks for.
static Value runIndexed(OpBuilder &b, Location loc, size_t rank, IndexedBody body, ValueRange elements) {
  SmallVector<Value> positions;
  for (size_t axis = 0; axis < rank; ++axis) {
    positions.push_back(linalg::IndexOp::create(b, loc, axis));
  }
  Value result = body(b, loc, positions, elements);
  for (Value position : llvm::reverse(positions)) {
    if (position.use_empty()) {
      position.getDefiningOp()->erase();
    }
  }
  return result;
}

Tensor BuildContext::mapIndexed(ArrayRef<Tensor> inputs, Shape shape, Type type, IndexedBody body) {
  SmallVector<Value> operands;
  SmallVector<AffineMap> maps;
  SmallVector<Access> accesses;
  for (const Tensor &input : inputs) {
    accesses.push_back(accessOf(*this, input, shape, operands, maps));
  }
  Value init = empty(shape, type);
  maps.push_back(b.getMultiDimIdentityMap(shape.size()));
  SmallVector<utils::IteratorType> iterators(shape.size(), utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(b, loc, TypeRange(init.getType()), operands, ValueRange(init), maps,
                                           iterators, [&](OpBuilder &inner, Location at, ValueRange arguments) {
                                             SmallVector<Value> elements = elementsOf(inner, at, accesses, arguments);
                                             linalg::YieldOp::create(
                                                 inner, at, runIndexed(inner, at, shape.size(), body, elements));
                                           });
  return wrap(generic.getResult(0), std::move(shape), type);
}

Tensor BuildContext::map(ArrayRef<Tensor> inputs, Shape shape, Type type, Body body) {
  return mapIndexed(
      inputs, std::move(shape), type,
      [&](OpBuilder &inner, Location at, ArrayRef<Value>, ValueRange elements) { return body(inner, at, elements); });
}

Value BuildContext::read(OpBuilder &inner, Location at, Value tensor, ArrayRef<Value> indices, Value some) {
  SmallVector<Value> from(indices);
  for (Value &index : from) {
    index = some ? arith::MulIOp::create(inner, at, index, some).getResult() : index;
  }
  return tensor::ExtractOp::create(inner, at, tensor, from);
}

Value BuildContext::unlessEmpty(ArrayRef<SymbolicDim> extents) {
  SymbolicDim some(1);
  for (const SymbolicDim &dim : extents) {
    some = dim.isKnownPositive() ? some : some * SymbolicDim::min(1, dim);
  }
  return some.is(1) ? Value() : index(some);
}

Tensor BuildContext::reduce(ArrayRef<Tensor> inputs, ArrayRef<SymbolicDim> shape, ArrayRef<int64_t> axes, Type type,
                            Value init, Body body, Combine combine) {
  return reduceIndexed(
      inputs, shape, axes, type, init,
      [&](OpBuilder &inner, Location at, ArrayRef<Value>, ValueRange elements) { return body(inner, at, elements); },
      combine);
}

Tensor BuildContext::reduceIndexed(ArrayRef<Tensor> inputs, ArrayRef<SymbolicDim> shape, ArrayRef<int64_t> axes,
                                   Type type, Value init, IndexedBody body, Combine combine) {
  SmallVector<Value> operands;
  SmallVector<AffineMap> maps;
  SmallVector<Access> accesses;
  for (const Tensor &input : inputs) {
    accesses.push_back(accessOf(*this, input, shape, operands, maps));
  }
  Shape kept;
  SmallVector<AffineExpr> outputs;
  SmallVector<utils::IteratorType> iterators;
  for (auto [axis, dim] : llvm::enumerate(shape)) {
    bool reduced = llvm::is_contained(axes, static_cast<int64_t>(axis));
    iterators.push_back(reduced ? utils::IteratorType::reduction : utils::IteratorType::parallel);
    if (!reduced) {
      kept.push_back(dim);
      outputs.push_back(b.getAffineDimExpr(axis));
    }
  }
  // The op's loops come from its operands: one without an operand of every loop's extent gets the extents from a
  // tensor that holds nothing.
  Value start = linalg::FillOp::create(b, loc, init, empty(kept, type)).getResult(0);
  bool covered = llvm::any_of(maps, [&](AffineMap map) { return map.isIdentity(); });
  if (!covered && !axes.empty()) {
    operands.push_back(empty(shape, storageType(type)));
    maps.push_back(b.getMultiDimIdentityMap(shape.size()));
  }
  maps.push_back(AffineMap::get(shape.size(), 0, outputs, b.getContext()));
  auto generic =
      linalg::GenericOp::create(b, loc, TypeRange(start.getType()), operands, ValueRange(start), maps, iterators,
                                [&](OpBuilder &inner, Location at, ValueRange arguments) {
                                  SmallVector<Value> elements = elementsOf(inner, at, accesses, arguments);
                                  Value element = runIndexed(inner, at, shape.size(), body, elements);
                                  linalg::YieldOp::create(inner, at, combine(inner, at, arguments.back(), element));
                                });
  return wrap(generic.getResult(0), std::move(kept), type);
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

namespace {
/// Consecutive axes before and after a reshape that hold the same number of elements.
struct Group {
  ReassociationIndices from, to;
};
} // namespace

static SmallVector<Group> groupAxes(ArrayRef<SymbolicDim> from, ArrayRef<SymbolicDim> to) {
  SmallVector<Group> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    if (i == from.size() || j == to.size()) {
      // What is left has extent 1.
      if (groups.empty()) {
        groups.emplace_back();
      }
      while (i < from.size()) {
        groups.back().from.push_back(i++);
      }
      while (j < to.size()) {
        groups.back().to.push_back(j++);
      }
      break;
    }
    Group group;
    SymbolicDim before = from[i], after = to[j];
    group.from.push_back(i++);
    group.to.push_back(j++);
    while (before != after && (i < from.size() || j < to.size())) {
      bool growBefore = j == to.size() || (i < from.size() && SymbolicDim::divideExactly(after, before).has_value());
      if (!growBefore && i < from.size() && !SymbolicDim::divideExactly(before, after)) {
        // Neither divides the other: take from whichever has more axes left.
        growBefore = from.size() - i > to.size() - j;
      }
      if (growBefore) {
        before = before * from[i];
        group.from.push_back(i++);
      } else {
        after = after * to[j];
        group.to.push_back(j++);
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

/// Elements of these axes, where all their extents are constants.
static std::optional<int64_t> constantCount(ArrayRef<SymbolicDim> shape, ArrayRef<int64_t> axes) {
  SymbolicDim count(1);
  for (int64_t axis : axes) {
    if (!shape[axis].isConstant()) {
      return std::nullopt;
    }
    count = count * shape[axis];
  }
  return count.getConstant();
}

bool kimi::onnx::mayReshape(ArrayRef<SymbolicDim> from, ArrayRef<SymbolicDim> to) {
  return llvm::all_of(groupAxes(from, to), [&](const Group &group) {
    std::optional<int64_t> before = constantCount(from, group.from), after = constantCount(to, group.to);
    return !before || !after || *before == *after;
  });
}

static Value castTo(BuildContext &c, Value value, ArrayRef<int64_t> extents) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getShape() == extents ? value
                                    : tensor::CastOp::create(c.b, c.loc, type.clone(extents), value).getResult();
}

Tensor BuildContext::reshape(const Tensor &tensor, Shape shape) {
  Tensor result = tensor;
  result.shape = shape;
  if (!tensor.value && (tensor.splat || tensor.scalar)) {
    return result;
  }
  if (tensor.shape == shape) {
    return tensor;
  }
  Type element = storageType(tensor.type);
  Value current = value(tensor);
  SmallVector<Group> groups = groupAxes(tensor.shape, shape);
  if (tensor.shape.empty() || shape.empty()) {
    // Between one element and a scalar there are no groups.
    SmallVector<int64_t> ones(std::max(tensor.shape.size(), shape.size()), 1);
    if (shape.empty()) {
      current = castTo(*this, current, ones);
      result.value = tensor::CollapseShapeOp::create(b, loc, RankedTensorType::get({}, element), current,
                                                     ArrayRef<ReassociationIndices>());
      return result;
    }
    current = tensor::ExpandShapeOp::create(b, loc, RankedTensorType::get(ones, element), current,
                                            ArrayRef<ReassociationIndices>(),
                                            SmallVector<OpFoldResult>(ones.size(), b.getIndexAttr(1)));
    result.value = castTo(*this, current, tensorType(shape, element).getShape());
    return result;
  }
  auto fromType = mlir::cast<RankedTensorType>(current.getType());
  RankedTensorType toType = tensorType(shape, element);
  SmallVector<ReassociationIndices> collapse, expand;
  SmallVector<int64_t> middle, wanted;
  bool collapses = false, expands = false;
  for (const Group &group : groups) {
    collapse.push_back(group.from);
    expand.push_back(group.to);
    collapses |= group.from.size() != 1;
    expands |= group.to.size() != 1;
    auto extent = [](RankedTensorType type, ArrayRef<int64_t> axes) {
      int64_t product = 1;
      for (int64_t axis : axes) {
        if (type.isDynamicDim(axis)) {
          return ShapedType::kDynamic;
        }
        product *= type.getDimSize(axis);
      }
      return product;
    };
    middle.push_back(extent(fromType, group.from));
    wanted.push_back(extent(toType, group.to));
  }
  if (collapses) {
    current = tensor::CollapseShapeOp::create(b, loc, RankedTensorType::get(middle, element), current, collapse);
  }
  current = castTo(*this, current, wanted);
  if (expands) {
    current = tensor::ExpandShapeOp::create(b, loc, toType, current, expand, sizes(shape));
  }
  result.value = current;
  return result;
}

Tensor BuildContext::transpose(const Tensor &tensor, ArrayRef<int64_t> permutation) {
  Tensor result = tensor;
  bool moves = false;
  for (auto [to, from] : llvm::enumerate(permutation)) {
    result.shape[to] = tensor.shape[from];
    moves |= static_cast<int64_t>(to) != from;
  }
  if (!moves || (!tensor.value && (tensor.splat || tensor.scalar))) {
    return result;
  }
  Value init = empty(result.shape, tensor.type);
  result.value = linalg::TransposeOp::create(b, loc, value(tensor), init, permutation)->getResult(0);
  return result;
}

Tensor BuildContext::expand(const Tensor &tensor, Shape shape) {
  if (tensor.shape == shape) {
    return tensor;
  }
  if (!tensor.value && (tensor.splat || tensor.scalar)) {
    Tensor result = tensor;
    result.shape = std::move(shape);
    return result;
  }
  return map({tensor}, std::move(shape), tensor.type, [](OpBuilder &, Location, ValueRange x) { return x.front(); });
}

Tensor BuildContext::slice(const Tensor &tensor, ArrayRef<SliceAxis> slices) {
  Tensor result = tensor;
  bool whole = true, backwards = false;
  for (auto [axis, slice] : llvm::enumerate(slices)) {
    whole = whole && slice.start.is(0) && slice.size == tensor.shape[axis] && slice.step == 1;
    backwards |= slice.step < 0;
    result.shape[axis] = slice.size;
  }
  if (whole || (!tensor.value && (tensor.splat || tensor.scalar))) {
    return result;
  }
  if (elementCount(result.shape).is(0)) {
    result.value = empty(result.shape, tensor.type); // A slice past the end is not in bounds, even of no elements.
    return result;
  }
  Value source = value(tensor);
  if (backwards) {
    SmallVector<Value> starts;
    for (const SliceAxis &slice : slices) {
      starts.push_back(index(slice.start));
    }
    return mapIndexed({}, result.shape, tensor.type,
                      [&](OpBuilder &inner, Location at, ArrayRef<Value> positions, ValueRange) {
                        SmallVector<Value> from;
                        for (auto [axis, slice] : llvm::enumerate(slices)) {
                          Value step = arith::ConstantIndexOp::create(inner, at, slice.step);
                          Value moved = arith::MulIOp::create(inner, at, positions[axis], step);
                          from.push_back(arith::AddIOp::create(inner, at, starts[axis], moved));
                        }
                        return read(inner, at, source, from);
                      });
  }
  SmallVector<OpFoldResult> offsets, extents, strides;
  for (const SliceAxis &slice : slices) {
    offsets.push_back(size(slice.start));
    extents.push_back(size(slice.size));
    strides.push_back(b.getIndexAttr(slice.step));
  }
  result.value = tensor::ExtractSliceOp::create(b, loc, source, offsets, extents, strides);
  return result;
}

Tensor BuildContext::concat(ArrayRef<Tensor> tensors, int64_t axis) {
  Tensor result = tensors.front();
  SmallVector<Value> values;
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    values.push_back(value(tensor));
    for (auto [at, dim] : llvm::enumerate(tensor.shape)) {
      if (static_cast<int64_t>(at) != axis && dim.isConstant()) {
        result.shape[at] = dim;
      }
    }
    if (i > 0) {
      result.shape[axis] = result.shape[axis] + tensor.shape[axis];
    }
  }
  if (values.size() == 1) {
    return tensors.front();
  }
  auto type = tensorType(result.shape, storageType(result.type));
  result.value = tensor::ConcatOp::create(b, loc, type, static_cast<uint64_t>(axis), values);
  result.splat.reset();
  result.scalar.reset();
  return result;
}

Tensor BuildContext::cast(const Tensor &tensor, Type type, const CastRules &rules) {
  if (tensor.type == type) {
    return tensor;
  }
  return map({tensor}, tensor.shape, type, [&](OpBuilder &inner, Location at, ValueRange x) {
    return castElement(inner, at, x.front(), tensor.type, type, rules);
  });
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Tensor> BuildContext::loops(ArrayRef<Tensor> inputs, ArrayRef<ValueInfo> results, ArrayRef<Value> scalars,
                                        std::optional<SymbolicDim> rows,
                                        function_ref<void(OpBuilder &, Location, ValueRange)> body) {
  SmallVector<Value> operands, dims;
  SmallVector<Type> types, arguments;
  auto buffer = [](RankedTensorType type) {
    auto layout = StridedLayoutAttr::get(type.getContext(), ShapedType::kDynamic,
                                         SmallVector<int64_t>(type.getRank(), ShapedType::kDynamic));
    return MemRefType::get(type.getShape(), type.getElementType(), layout);
  };
  for (const Tensor &input : inputs) {
    operands.push_back(value(input));
    arguments.push_back(buffer(mlir::cast<RankedTensorType>(operands.back().getType())));
  }
  for (const ValueInfo &info : results) {
    auto type = tensorType(*info.shape, storageType(info.elementType));
    types.push_back(type);
    arguments.push_back(buffer(type));
    for (auto [axis, dim] : llvm::enumerate(*info.shape)) {
      if (type.isDynamicDim(axis)) {
        dims.push_back(index(dim));
      }
    }
  }
  arguments.append(scalars.size() + (rows ? 1 : 0), b.getIndexType());
  auto op = LoopsOp::create(b, loc, types, operands, scalars, dims, rows ? index(*rows) : Value());
  Block &block = op.getBody().emplaceBlock();
  for (Type argument : arguments) {
    block.addArgument(argument, loc);
  }
  OpBuilder inner = OpBuilder::atBlockEnd(&block);
  body(inner, loc, block.getArguments());
  kimi::YieldOp::create(inner, loc, ValueRange());
  SmallVector<Tensor> made;
  for (auto [value, info] : llvm::zip(op.getResults(), results)) {
    made.push_back(wrap(value, *info.shape, info.elementType));
  }
  return made;
}
