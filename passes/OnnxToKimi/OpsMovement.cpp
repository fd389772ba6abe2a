//===- OpsMovement.cpp - operators that only move elements
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/OnnxToKimi/BuildContext.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

//===----------------------------------------------------------------------===//
// Reshape and its relatives
//===----------------------------------------------------------------------===//

/// Same elements in the same order under a new shape.
static LogicalResult giveReshaped(InferContext &c, Shape shape) {
  const ValueInfo &x = c.in(0);
  ValueInfo info(x.elementType, std::move(shape));
  info.content = x.content;
  info.splat = x.splat;
  c.setOut(std::move(info));
  return success();
}

static LogicalResult inferReshape(InferContext &c) {
  FailureOr<Shape> target = c.content(1, "the target shape");
  if (failed(target)) {
    return failure();
  }
  bool allowZero = c.node.getInt("allowzero", 0) != 0;
  const Shape &from = c.shape(0);
  Shape shape;
  SymbolicDim known(1);
  for (auto [axis, entry] : llvm::enumerate(*target)) {
    SymbolicDim dim = entry;
    if (!allowZero && axis < from.size()) {
      if (entry.is(0)) {
        dim = from[axis];
      } else if (entry.hasRuntime()) {
        dim = SymbolicDim::select(SymbolicDim::eq(entry, 0), from[axis], entry);
      }
    }
    known = known * SymbolicDim::select(SymbolicDim::lt(dim, 0), 1, dim);
    shape.push_back(dim);
  }
  SymbolicDim rest = SymbolicDim::floorDiv(elementCount(from), known);
  for (SymbolicDim &dim : shape) {
    dim = SymbolicDim::select(SymbolicDim::lt(dim, 0), rest, dim);
  }
  SymbolicDim before = elementCount(from), after = elementCount(shape);
  bool differ = before.isConstant() && after.isConstant() && before != after;
  if (differ || !mayReshape(from, shape)) {
    return c.fail("it reshapes " + before.str() + " elements into " + after.str());
  }
  if (failed(c.same(before, after, "the numbers of elements"))) {
    return failure();
  }
  return giveReshaped(c, std::move(shape));
}

static LogicalResult inferFlatten(InferContext &c) {
  int64_t rank = c.in(0).rank(), axis = c.node.getInt("axis", 1);
  axis = axis < 0 ? axis + rank : axis;
  if (axis < 0 || axis > rank) {
    return c.fail("axis is outside the rank");
  }
  ArrayRef<SymbolicDim> shape = c.shape(0);
  return giveReshaped(c, {elementCount(shape.take_front(axis)), elementCount(shape.drop_front(axis))});
}

static LogicalResult inferSqueeze(InferContext &c) {
  const Shape &from = c.shape(0);
  auto axes = c.axes(1, c.in(0).rank());
  if (failed(axes)) {
    return failure();
  }
  Shape shape;
  for (auto [axis, dim] : llvm::enumerate(from)) {
    bool drop = *axes ? llvm::is_contained(**axes, static_cast<int64_t>(axis)) : dim.is(1);
    if (drop && dim.isConstant() && !dim.is(1)) {
      return c.fail("axis " + Twine(axis) + " has extent " + dim.str() + ", not 1");
    }
    if (!drop) {
      shape.push_back(dim);
    }
  }
  return giveReshaped(c, std::move(shape));
}

static LogicalResult inferUnsqueeze(InferContext &c) {
  std::optional<SmallVector<int64_t>> given = c.node.getInts("axes");
  if (!given) {
    FailureOr<SmallVector<int64_t>> input = c.constants(1, "axes");
    if (failed(input)) {
      return failure();
    }
    given = *input;
  }
  int64_t rank = c.in(0).rank() + static_cast<int64_t>(given->size());
  SmallVector<bool> isNew(rank, false);
  for (int64_t axis : *given) {
    FailureOr<int64_t> counted = c.axis(axis, rank);
    if (failed(counted)) {
      return failure();
    }
    if (isNew[*counted]) {
      return c.fail("axis " + Twine(axis) + " is given twice");
    }
    isNew[*counted] = true;
  }
  Shape shape;
  auto next = c.shape(0).begin();
  for (bool fresh : isNew) {
    shape.push_back(fresh ? SymbolicDim(1) : *next++);
  }
  return giveReshaped(c, std::move(shape));
}

//===----------------------------------------------------------------------===//
// Transpose, Expand, Tile
//===----------------------------------------------------------------------===//

/// The permutation of a Transpose, checked.
static FailureOr<SmallVector<int64_t>> permutationOf(InferContext &c) {
  int64_t rank = c.in(0).rank();
  SmallVector<int64_t> perm;
  if (std::optional<SmallVector<int64_t>> given = c.node.getInts("perm"); given && !given->empty()) {
    perm = *given;
  } else {
    for (int64_t axis = rank; axis-- > 0;) {
      perm.push_back(axis);
    }
  }
  SmallVector<bool> seen(rank, false);
  for (int64_t &axis : perm) {
    FailureOr<int64_t> counted = c.axis(axis, rank);
    if (failed(counted) || seen[*counted]) {
      return c.fail("perm is not a permutation of the axes");
    }
    axis = *counted;
    seen[axis] = true;
  }
  if (static_cast<int64_t>(perm.size()) != rank) {
    return c.fail("perm is not a permutation of the axes");
  }
  return perm;
}

static LogicalResult inferTranspose(InferContext &c) {
  FailureOr<SmallVector<int64_t>> perm = permutationOf(c);
  if (failed(perm)) {
    return failure();
  }
  Shape shape;
  for (int64_t axis : *perm) {
    shape.push_back(c.shape(0)[axis]);
  }
  ValueInfo info(c.in(0).elementType, std::move(shape));
  std::optional<SmallVector<int64_t>> extents = staticShape(c.shape(0));
  if (extents) {
    moveContent(c.in(0), info, [&](ArrayRef<int64_t> coordinates) {
      SmallVector<int64_t> from(perm->size());
      for (auto [to, axis] : llvm::enumerate(*perm)) {
        from[axis] = coordinates[to];
      }
      return flatIndex(from, *extents);
    });
  }
  info.splat = c.in(0).splat;
  c.setOut(std::move(info));
  return success();
}

static LogicalResult inferExpand(InferContext &c) {
  FailureOr<Shape> target = c.content(1, "the target shape");
  if (failed(target)) {
    return failure();
  }
  c.broadcasts(c.shape(0), *target);
  ValueInfo info(c.in(0).elementType, broadcastShapes(c.shape(0), *target));
  std::optional<SmallVector<int64_t>> in = staticShape(c.shape(0)), out = staticShape(*info.shape);
  if (in && out) {
    moveContent(c.in(0), info,
                [&](ArrayRef<int64_t> coordinates) { return broadcastIndex(flatIndex(coordinates, *out), *out, *in); });
  }
  info.splat = c.in(0).splat;
  c.setOut(std::move(info));
  return success();
}

static LogicalResult inferTile(InferContext &c) {
  FailureOr<Shape> repeats = c.content(1, "repeats");
  if (failed(repeats)) {
    return failure();
  }
  if (repeats->size() != c.shape(0).size()) {
    return c.fail("repeats has " + Twine(repeats->size()) + " elements for rank " + Twine(c.shape(0).size()));
  }
  Shape shape;
  for (auto [dim, repeat] : llvm::zip(c.shape(0), *repeats)) {
    shape.push_back(dim * repeat);
  }
  ValueInfo info(c.in(0).elementType, std::move(shape));
  if (std::optional<SmallVector<int64_t>> in = staticShape(c.shape(0))) {
    moveContent(c.in(0), info, [&](ArrayRef<int64_t> coordinates) {
      SmallVector<int64_t> from;
      for (auto [coordinate, extent] : llvm::zip(coordinates, *in)) {
        from.push_back(coordinate % extent);
      }
      return flatIndex(from, *in);
    });
  }
  info.splat = c.in(0).splat;
  c.setOut(std::move(info));
  return success();
}

//===----------------------------------------------------------------------===//
// Slice, Split, Concat
//===----------------------------------------------------------------------===//

/// What a Slice takes of every axis of its input.
static FailureOr<SmallVector<SliceAxis>> sliceOf(InferContext &c) {
  const Shape &from = c.shape(0);
  SmallVector<SliceAxis> slices;
  for (const SymbolicDim &dim : from) {
    slices.push_back({0, dim, 1});
  }
  // Attributes until opset 9, inputs since.
  auto bounds = [&](unsigned index, StringRef what) -> FailureOr<Shape> {
    std::optional<SmallVector<int64_t>> given = c.node.getInts(what);
    return given && !c.has(index) ? FailureOr<Shape>(Shape(given->begin(), given->end())) : c.content(index, what);
  };
  FailureOr<Shape> starts = bounds(1, "starts"), ends = bounds(2, "ends");
  if (failed(starts) || failed(ends)) {
    return failure();
  }
  SmallVector<int64_t> axes, steps(starts->size(), 1);
  if (std::optional<SmallVector<int64_t>> given = c.node.getInts("axes")) {
    axes = *given;
  } else if (c.has(3)) {
    FailureOr<SmallVector<int64_t>> given = c.constants(3, "axes");
    if (failed(given)) {
      return failure();
    }
    axes = *given;
  } else {
    for (size_t i = 0; i < starts->size(); ++i) {
      axes.push_back(i);
    }
  }
  if (c.has(4)) {
    FailureOr<SmallVector<int64_t>> given = c.constants(4, "steps");
    if (failed(given)) {
      return failure();
    }
    steps = *given;
  }
  if (axes.size() != starts->size() || ends->size() != starts->size() || steps.size() != starts->size()) {
    return c.fail("starts, ends, axes and steps differ in length");
  }
  for (auto [i, axis] : llvm::enumerate(axes)) {
    FailureOr<int64_t> counted = c.axis(axis, c.in(0).rank());
    if (failed(counted)) {
      return failure();
    }
    if (steps[i] == 0) {
      return c.fail("a step is 0");
    }
    slices[*counted] = clampSlice(from[*counted], (*starts)[i], (*ends)[i], steps[i]);
  }
  return slices;
}

/// The part of input 0 that `slices` takes, as output `index`.
static void giveSlice(InferContext &c, unsigned index, ArrayRef<SliceAxis> slices) {
  ValueInfo info(c.in(0).elementType, Shape());
  std::optional<SmallVector<int64_t>> in = staticShape(c.shape(0));
  SmallVector<int64_t> starts;
  for (const SliceAxis &slice : slices) {
    info.shape->push_back(slice.size);
    if (std::optional<int64_t> start = slice.start.getConstant()) {
      starts.push_back(*start);
    } else {
      in.reset();
    }
  }
  if (in) {
    moveContent(c.in(0), info, [&](ArrayRef<int64_t> coordinates) {
      SmallVector<int64_t> from;
      for (auto [axis, slice] : llvm::enumerate(slices)) {
        from.push_back(starts[axis] + coordinates[axis] * slice.step);
      }
      return flatIndex(from, *in);
    });
  }
  info.splat = c.in(0).splat;
  c.setOut(index, std::move(info));
}

static LogicalResult inferSlice(InferContext &c) {
  FailureOr<SmallVector<SliceAxis>> slices = sliceOf(c);
  if (failed(slices)) {
    return failure();
  }
  giveSlice(c, 0, *slices);
  return success();
}

/// The part that each output of a Split takes of every axis.
static FailureOr<SmallVector<SmallVector<SliceAxis>>> splitOf(InferContext &c, int64_t &axis) {
  FailureOr<int64_t> counted = c.axis(c.node.getInt("axis", 0), c.in(0).rank());
  if (failed(counted)) {
    return failure();
  }
  axis = *counted;
  const Shape &from = c.shape(0);
  Shape sizes;
  size_t outputs = c.outs.size();
  if (c.has(1)) {
    FailureOr<Shape> given = c.content(1, "split");
    if (failed(given)) {
      return failure();
    }
    sizes = *given;
  } else if (std::optional<SmallVector<int64_t>> given = c.node.getInts("split")) {
    sizes.assign(given->begin(), given->end());
  } else {
    // Equal parts; the last one is shorter where the extent does not divide.
    SymbolicDim part = SymbolicDim::ceilDiv(from[axis], SymbolicDim(static_cast<int64_t>(outputs)));
    sizes.assign(outputs - 1, part);
    sizes.push_back(from[axis] - part * SymbolicDim(static_cast<int64_t>(outputs) - 1));
  }
  if (sizes.size() != outputs) {
    return c.fail("it has " + Twine(outputs) + " outputs but " + Twine(sizes.size()) + " sizes");
  }
  SmallVector<SmallVector<SliceAxis>> parts;
  SymbolicDim start(0);
  for (const SymbolicDim &size : sizes) {
    SmallVector<SliceAxis> part;
    for (const SymbolicDim &dim : from) {
      part.push_back({0, dim, 1});
    }
    part[axis] = {start, size, 1};
    parts.push_back(std::move(part));
    start = start + size;
  }
  if (start.isConstant() && from[axis].isConstant() && start != from[axis]) {
    return c.fail("its sizes add up to " + start.str() + ", not to the extent " + from[axis].str());
  }
  return parts;
}

static LogicalResult inferSplit(InferContext &c) {
  int64_t axis = 0;
  FailureOr<SmallVector<SmallVector<SliceAxis>>> parts = splitOf(c, axis);
  if (failed(parts)) {
    return failure();
  }
  for (auto [index, part] : llvm::enumerate(*parts)) {
    giveSlice(c, index, part);
  }
  return success();
}

static LogicalResult inferConcat(InferContext &c) {
  FailureOr<int64_t> axis = c.axis(c.node.getInt("axis", 0), c.in(0).rank());
  if (failed(axis)) {
    return failure();
  }
  Shape shape = c.shape(0);
  bool known = true;
  for (unsigned i = 1; i < c.numInputs(); ++i) {
    for (auto [at, pair] : llvm::enumerate(llvm::zip(c.shape(0), c.has(i) ? c.shape(i) : Shape()))) {
      auto [first, dim] = pair;
      if (static_cast<int64_t>(at) != *axis && failed(c.same(first, dim, "along axis " + Twine(at) + " its extents"))) {
        return failure();
      }
    }
  }
  for (unsigned i = 0; i < c.numInputs(); ++i) {
    if (!c.has(i) || c.in(i).rank() != c.in(0).rank()) {
      return c.fail("its inputs differ in rank");
    }
    known = known && c.in(i).content && staticShape(c.shape(i));
    for (auto [at, dim] : llvm::enumerate(c.shape(i))) {
      if (static_cast<int64_t>(at) != *axis && dim.isConstant()) {
        // A constant extent says more than a named one that must equal it.
        if (shape[at].isConstant() && shape[at] != dim) {
          return c.fail("its inputs differ along axis " + Twine(at));
        }
        shape[at] = dim;
      }
    }
    if (i > 0) {
      shape[*axis] = shape[*axis] + c.shape(i)[*axis];
    }
  }
  ValueInfo info(c.in(0).elementType, std::move(shape));
  if (known) {
    std::optional<SmallVector<int64_t>> extents = staticShape(*info.shape);
    Shape content;
    if (extents) {
      forEachCoordinate(*extents, [&](ArrayRef<int64_t> coordinates) {
        SmallVector<int64_t> from(coordinates);
        for (unsigned i = 0; i < c.numInputs(); ++i) {
          SmallVector<int64_t> in = *staticShape(c.shape(i));
          if (from[*axis] < in[*axis]) {
            content.push_back((*c.in(i).content)[flatIndex(from, in)]);
            return;
          }
          from[*axis] -= in[*axis];
        }
      });
      if (content.size() <= kMaxHostElements) {
        info.content = std::move(content);
      }
    }
  }
  c.setOut(std::move(info));
  return success();
}

//===----------------------------------------------------------------------===//
// Builders
//===----------------------------------------------------------------------===//

static LogicalResult buildReshape(BuildContext &c) {
  c.give(c.reshape(c.input(0), *c.result().shape));
  return success();
}

static LogicalResult buildTranspose(BuildContext &c) {
  c.give(c.transpose(c.input(0), *permutationOf(c)));
  return success();
}

static LogicalResult buildExpand(BuildContext &c) {
  c.give(c.expand(c.input(0), *c.result().shape));
  return success();
}

/// Element i of the result is element i mod extent of the input, on every axis.
static LogicalResult buildTile(BuildContext &c) {
  Tensor x = c.input(0);
  Value source = c.value(x);
  SmallVector<Value> extents;
  for (const SymbolicDim &dim : x.shape) {
    extents.push_back(c.index(dim));
  }
  c.give(c.mapIndexed({}, *c.result().shape, x.type, [&](OpBuilder &b, Location loc, ArrayRef<Value> at, ValueRange) {
    SmallVector<Value> from;
    for (auto [position, extent] : llvm::zip(at, extents)) {
      from.push_back(arith::RemUIOp::create(b, loc, position, extent));
    }
    return c.read(b, loc, source, from);
  }));
  return success();
}

static LogicalResult buildSlice(BuildContext &c) {
  SmallVector<SliceAxis> slices = *sliceOf(c);
  for (auto [slice, dim] : llvm::zip(slices, *c.result().shape)) {
    slice.size = dim; // The file may declare more than the bounds say.
  }
  c.give(c.slice(c.input(0), slices));
  return success();
}

static LogicalResult buildSplit(BuildContext &c) {
  int64_t axis = 0;
  SmallVector<SmallVector<SliceAxis>> parts = *splitOf(c, axis);
  for (auto [index, part] : llvm::enumerate(parts)) {
    if (c.wants(index)) {
      c.give(index, c.slice(c.input(0), part));
    }
  }
  return success();
}

static LogicalResult buildConcat(BuildContext &c) {
  SmallVector<Tensor> inputs;
  for (unsigned i = 0; i < c.numInputs(); ++i) {
    inputs.push_back(c.input(i));
  }
  c.give(c.concat(inputs, *c.axis(c.node.getInt("axis", 0), inputs.front().rank())));
  return success();
}

void kimi::onnx::registerMovementOps(OpTable &table) {
  table.add("Reshape", 5, inferReshape, buildReshape);
  table.add("Flatten", 1, inferFlatten, buildReshape);
  table.add("Squeeze", 1, inferSqueeze, buildReshape, "axes must be constant");
  table.add("Unsqueeze", 1, inferUnsqueeze, buildReshape, "axes must be constant");
  table.add("Transpose", 1, inferTranspose, buildTranspose);
  table.add("Expand", 8, inferExpand, buildExpand);
  table.add("Tile", 6, inferTile, buildTile);
  table.add("Slice", 1, inferSlice, buildSlice, "axes and steps must be constant");
  table.add("Split", 2, inferSplit, buildSplit);
  table.add("Concat", 4, inferConcat, buildConcat);
}
