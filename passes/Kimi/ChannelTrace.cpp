//===- ChannelTrace.cpp - channels of heads, followed back to where they are computed
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Kimi/ChannelTrace.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kimi;

static RankedTensorType tensorOf(Value value) { return cast<RankedTensorType>(value.getType()); }

bool ChannelTracer::step(HeadChannels &rows) {
  Operation *op = rows.tensor.getDefiningOp();
  if (!op) {
    return false;
  }
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](tensor::CastOp cast) {
        rows.tensor = cast.getSource();
        return isa<RankedTensorType>(rows.tensor.getType());
      })
      .Case<linalg::TransposeOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp,
            tensor::ConcatOp, linalg::GenericOp>([&](auto mover) { return through(rows, mover); })
      .Default(false);
}

void ChannelTracer::trace(HeadChannels &rows, bool toShared) {
  HeadChannels next = rows;
  while (!(toShared && rows.shared) && step(next)) {
    rows = next;
  }
}

SmallVector<HeadChannels> ChannelTracer::parts(HeadChannels rows) {
  trace(rows);
  auto concat = rows.tensor.getDefiningOp<tensor::ConcatOp>();
  if (!concat || static_cast<int64_t>(concat.getDim()) != rows.channels || rows.stride != 0) {
    return {rows};
  }
  SmallVector<HeadChannels> found;
  int64_t begin = 0;
  for (Value input : concat.getInputs()) {
    int64_t extent = tensorOf(input).getDimSize(rows.channels);
    if (ShapedType::isDynamic(extent)) {
      return {rows};
    }
    int64_t from = std::max(rows.first, begin), to = std::min(rows.first + rows.count, begin + extent);
    if (from < to) {
      HeadChannels part = rows;
      part.tensor = input;
      part.first = from - begin;
      part.count = to - from;
      found.push_back(part);
    }
    begin += extent;
  }
  return found;
}

bool ChannelTracer::through(HeadChannels &rows, linalg::TransposeOp op) {
  ArrayRef<int64_t> permutation = op.getPermutation();
  for (int64_t *axis : {&rows.batch, &rows.tokens, &rows.channels}) {
    *axis = permutation[*axis];
  }
  rows.heads = rows.heads < 0 ? -1 : permutation[rows.heads];
  rows.tensor = op.getInput();
  return true;
}

bool ChannelTracer::through(HeadChannels &rows, tensor::ExpandShapeOp op) {
  RankedTensorType type = op.getResultType();
  HeadChannels source = rows;
  source.heads = -1;
  for (auto [axis, group] : llvm::enumerate(op.getReassociationIndices())) {
    SmallVector<int64_t> own; // axes of the group that count: ours, and others of more than one entry
    for (int64_t inner : group) {
      bool ours = inner == rows.batch || inner == rows.tokens || inner == rows.channels || inner == rows.heads;
      if (ours || type.getDimSize(inner) != 1) {
        own.push_back(inner);
      }
    }
    if (own.size() == 2 && own[0] == rows.heads && own[1] == rows.channels && rows.heads >= 0) {
      source.stride = type.getDimSize(rows.channels);
      if (ShapedType::isDynamic(source.stride)) {
        return false;
      }
      source.channels = axis;
      continue;
    }
    llvm::erase_if(own, [&](int64_t inner) { return inner == rows.heads && type.getDimSize(inner) == 1; });
    if (own.size() > 1) { // two axes in one cannot be told apart below
      return false;
    }
    for (int64_t inner : own) {
      if (int64_t *target = rows.sameAxis(source, inner)) {
        *target = axis;
      }
    }
  }
  source.tensor = op.getSrc();
  rows = source;
  return true;
}

bool ChannelTracer::through(HeadChannels &rows, tensor::CollapseShapeOp op) {
  RankedTensorType type = op.getSrcType();
  SmallVector<ReassociationIndices> groups = op.getReassociationIndices();
  HeadChannels source = rows;
  auto onlyOf = [&](int64_t axis) -> int64_t { // the axis of more than one entry; the last where there is none
    int64_t only = -1;
    for (int64_t inner : groups[axis]) {
      if (type.getDimSize(inner) != 1) {
        if (only >= 0) {
          return -1;
        }
        only = inner;
      }
    }
    return only < 0 ? groups[axis].back() : only;
  };
  for (auto [from, to] : {std::pair(rows.batch, &source.batch), {rows.tokens, &source.tokens}}) {
    *to = onlyOf(from);
    if (*to < 0) {
      return false;
    }
  }
  if (rows.heads >= 0) {
    source.heads = onlyOf(rows.heads);
    if (source.heads < 0) {
      return false;
    }
  }
  ArrayRef<int64_t> group = groups[rows.channels];
  source.channels = onlyOf(rows.channels);
  if (source.channels < 0) { // heads and channels side by side
    source.channels = group.back();
    int64_t extent = type.getDimSize(source.channels);
    bool apart = rows.stride > 0 && group.size() == 2 && extent == rows.stride && rows.first + rows.count <= extent;
    if (!apart) {
      return false;
    }
    source.heads = group.front();
    source.stride = 0;
  }
  source.tensor = op.getSrc();
  rows = source;
  return true;
}

bool ChannelTracer::through(HeadChannels &rows, tensor::ExtractSliceOp op) {
  RankedTensorType type = op.getSourceType();
  if (op.getType().getRank() != type.getRank()) {
    return false;
  }
  SmallVector<OpFoldResult> offsets = op.getMixedOffsets(), sizes = op.getMixedSizes(), strides = op.getMixedStrides();
  SmallVector<SymbolicDim> extents = scalars.shape(op.getSource());
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    if (!isConstantIntValue(strides[axis], 1)) {
      return false;
    }
    if (axis == rows.channels) {
      continue;
    }
    if (!isConstantIntValue(offsets[axis], 0) || scalars.of(sizes[axis]) != extents[axis]) {
      return false;
    }
  }
  std::optional<int64_t> offset = getConstantIntValue(offsets[rows.channels]);
  if (!offset) {
    return false;
  }
  rows.first += *offset;
  rows.tensor = op.getSource();
  return true;
}

/// A concat of channels, where one of its inputs holds all of them.
bool ChannelTracer::through(HeadChannels &rows, tensor::ConcatOp op) {
  if (op.getInputs().size() == 1) {
    rows.tensor = op.getInputs().front();
    return true;
  }
  if (static_cast<int64_t>(op.getDim()) != rows.channels || rows.stride != 0) {
    return false;
  }
  int64_t begin = 0;
  for (Value input : op.getInputs()) {
    int64_t extent = tensorOf(input).getDimSize(rows.channels);
    if (ShapedType::isDynamic(extent)) {
      return false;
    }
    if (rows.first >= begin && rows.first + rows.count <= begin + extent) {
      rows.first -= begin;
      rows.tensor = input;
      return true;
    }
    begin += extent;
  }
  return false;
}

/// A copy that repeats one head.
bool ChannelTracer::through(HeadChannels &rows, linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 1 || op.getNumResults() != 1 || op.getNumParallelLoops() != op.getNumLoops() ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity() || op.getBody()->getOperations().size() != 1 ||
      op.getBody()->getTerminator()->getOperand(0) != op.getBody()->getArgument(0) ||
      !isa<RankedTensorType>(op.getDpsInputs()[0].getType())) {
    return false;
  }
  AffineMap map = op.getMatchingIndexingMap(op.getDpsInputOperand(0));
  HeadChannels source = rows;
  source.batch = source.tokens = source.channels = source.heads = -1;
  for (auto [axis, expr] : llvm::enumerate(map.getResults())) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim) {
      if (!isa<AffineConstantExpr>(expr)) {
        return false;
      }
      continue;
    }
    int64_t loop = dim.getPosition();
    if (int64_t *target = rows.sameAxis(source, loop)) {
      *target = axis;
    }
  }
  if (source.batch < 0 || source.tokens < 0 || source.channels < 0) {
    return false;
  }
  source.shared |= rows.heads >= 0 && source.heads < 0;
  source.tensor = op.getDpsInputs()[0];
  rows = source;
  return true;
}
