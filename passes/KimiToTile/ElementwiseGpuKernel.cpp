//===- ElementwiseGpuKernel.cpp - an elementwise op as a block program for a GPU
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/ElementwiseGpuKernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "passes/KimiToTile/GpuSchedule.h"
#include "passes/KimiToTile/LoopKernels.h"
#include "passes/KimiToTile/TileBuilder.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace kimi;

/// Threads of a block: small ones, of which an SM holds many, so that one loads while others compute.
static constexpr int64_t kThreads = 128, kLanes = 32;
/// Bytes of the widest access.
static constexpr int64_t kVectorBytes = 16;

ElementwiseTile ElementwiseTile::choose(const ElementwiseSpace &space, int64_t resultBytes, int64_t results) {
  // A load that a thread has under way is to be this large at least: many threads of these hide the latency of memory.
  constexpr int64_t inFlight = 32, mostVectors = 4, mostBlocks = 8, otherRegisters = 32;
  ElementwiseTile tile;
  tile.threads = kThreads;
  size_t last = space.dims().size() - 1;
  const SymbolicDim &innermost = space.dims()[last];
  // Stores are to leave no gaps between neighbours, so that the widest result says how many elements a vector has.
  int64_t widest = std::max<int64_t>(kVectorBytes / resultBytes, 1);
  tile.vector = divisorOf(innermost, widest);
  int64_t loaded = 0, registers = 0;
  for (const ElementwiseSpace::Operand &operand : space.operands()) {
    bool whole = llvm::all_of(operand.moves, [](bool moves) { return moves; });
    loaded += whole ? operand.elementBytes * tile.vector : 0;
    registers += operand.elementBytes;
  }
  int64_t vectors =
      std::clamp<int64_t>(llvm::PowerOf2Ceil(llvm::divideCeil(inFlight, std::max<int64_t>(loaded, 1))), 1, mostVectors);
  int64_t left = tile.threads * tile.vector * vectors;
  tile.shape.assign(last + 1, 1);
  // Along the last dim what divides it, or as much as covers it.
  auto take = [&](size_t dim, bool exactly) {
    std::optional<int64_t> size = space.dims()[dim].getConstant();
    int64_t room = exactly ? divisorOf(space.dims()[dim], left * tile.shape[dim])
                           : (size ? static_cast<int64_t>(llvm::PowerOf2Ceil(*size)) : left * tile.shape[dim]);
    int64_t extent = std::clamp<int64_t>(room / tile.shape[dim], 1, left);
    tile.shape[dim] *= extent;
    left /= extent;
  };
  int64_t few = kLanes * tile.vector; // lanes of a warp along the last dim
  take(last, /*exactly=*/true);
  if (tile.shape[last] < few) {
    take(last, /*exactly=*/false);
  }
  // Then along dims where an operand is the same, which is then read once for all of them, then along the others.
  SmallVector<size_t> order;
  for (bool shared : {true, false}) {
    for (size_t i = 0; i < last; ++i) {
      size_t dim = shared ? i : last - 1 - i;
      bool same = llvm::any_of(space.operands(),
                               [&](const ElementwiseSpace::Operand &o) { return o.movesAtAll() && !o.moves[dim]; });
      if (same == shared) {
        order.push_back(dim);
      }
    }
  }
  for (size_t dim : order) {
    take(dim, /*exactly=*/space.dims()[dim].isConstant());
  }
  for (size_t dim : llvm::reverse(order)) {
    take(dim, /*exactly=*/false);
  }
  int64_t elements = tile.vector * vectors;
  registers = llvm::divideCeil((registers + results * resultBytes) * elements, 4) + 4 * tile.vector + otherRegisters;
  tile.blocksPerSm =
      std::clamp<int64_t>(GpuArch::registersPerSm / (llvm::alignTo(registers, 8) * tile.threads), 1, mostBlocks);
  return tile;
}

tile::LayoutAttr ElementwiseTile::layout(MLIRContext *context) const {
  SmallVector<int64_t> left(shape), stride(shape.size(), 1);
  auto take = [&](SmallVectorImpl<tile::LayoutMode> &modes, int64_t &wanted, size_t dim) {
    int64_t extent = std::gcd(wanted, left[dim]);
    modes.push_back({extent, stride[dim], static_cast<int64_t>(dim)});
    stride[dim] *= extent;
    left[dim] /= extent;
    wanted /= extent;
  };
  SmallVector<tile::LayoutMode> registers, lanes, warps;
  int64_t ofVector = vector, ofLanes = kLanes, ofWarps = threads / kLanes;
  take(registers, ofVector, shape.size() - 1);
  for (size_t dim = shape.size(); dim-- > 0;) {
    take(lanes, ofLanes, dim);
  }
  lanes.push_back({ofLanes, 0, 0});
  for (size_t dim = shape.size(); dim-- > 0;) {
    take(warps, ofWarps, dim);
  }
  warps.push_back({ofWarps, 0, 0});
  for (size_t dim = shape.size(); dim-- > 0;) {
    int64_t rest = left[dim];
    take(registers, rest, dim);
  }
  return tile::makeLayout(context, registers, lanes, warps);
}

namespace {
class ElementwiseKernel {
public:
  ElementwiseKernel(HostContext &context, linalg::GenericOp op, const ElementwiseSpace &space,
                    const ElementwiseTile &tile)
      : context(context), op(op), space(space), tile(tile), writer(context, op), t(writer), b(writer.body()),
        loc(writer.loc()), layout(tile.layout(op.getContext())) {}

  LogicalResult run() {
    writer.setThreads(tile.threads, tile.blocksPerSm);
    if (failed(importValues())) {
      writer.abandon();
      return failure();
    }
    SmallVector<Value> results;
    for (Value result : op->getResults()) {
      Type element = cast<RankedTensorType>(result.getType()).getElementType();
      results.push_back(writer.result(space.resultType(element), space.dims()));
    }
    SymbolicDim blocks = placeBlock();
    SmallVector<Value> fragments;
    for (auto &[number, buffer] : buffers) {
      fragments.push_back(load(number, buffer));
    }
    for (auto [number, buffer] : llvm::enumerate(results)) {
      t.store(compute(number, fragments, buffer), buffer, offsets, dims());
    }
    KernelWriter::Variant variant{writer.finish(kernelStem(op)), SymbolicDim(1), blocks};
    DispatchOp dispatch = writer.dispatch(variant);
    SmallVector<Value> restored;
    for (auto [number, flat] : llvm::enumerate(dispatch.getResults())) {
      restored.push_back(space.restore(context, flat, number));
    }
    context.replace(op, restored);
    return success();
  }

private:
  SmallVector<int64_t> dims() const { return llvm::to_vector(llvm::seq<int64_t>(0, tile.shape.size())); }

  /// Buffers of the operands, and values of what is one for all points.
  LogicalResult importValues() {
    Block &body = op.getRegion().front();
    for (const ElementwiseSpace::Operand &operand : space.operands()) {
      Value buffer = writer.input(space.view(context, operand));
      if (!buffer) {
        return failure();
      }
      if (operand.movesAtAll()) {
        buffers.emplace_back(&operand, buffer);
        continue;
      }
      SmallVector<Value> first(cast<MemRefType>(buffer.getType()).getRank(), writer.constant(0));
      uniform.map(body.getArgument(operand.number), memref::LoadOp::create(b, loc, buffer, first).getResult());
    }
    for (OpOperand *operand : op.getDpsInputOperands()) {
      bool inMemory = llvm::any_of(space.operands(), [&](const ElementwiseSpace::Operand &other) {
        return other.number == operand->getOperandNumber();
      });
      if (inMemory || !op.payloadUsesValueFromOperand(operand)) {
        continue;
      }
      FailureOr<Value> value = isa<RankedTensorType>(operand->get().getType())
                                   ? FailureOr<Value>(uniformValue(writer, operand->get()))
                                   : writer.import(operand->get());
      if (failed(value) || !*value) {
        return op.emitError() << "operand " << operand->getOperandNumber()
                              << " is a value that neither the host nor a kernel can compute";
      }
      uniform.map(body.getArgument(operand->getOperandNumber()), *value);
    }
    return importCaptured(writer, op, uniform);
  }

  /// Where this block's tile starts, the innermost dim first; the number of blocks.
  SymbolicDim placeBlock() {
    Value rest = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0));
    SymbolicDim blocks(1);
    offsets.assign(tile.shape.size(), Value());
    int64_t outermost = 0; // with more than one tile
    SmallVector<SymbolicDim> counts;
    for (auto [size, extent] : llvm::zip_equal(space.dims(), tile.shape)) {
      counts.push_back(SymbolicDim::ceilDiv(size, extent));
    }
    while (outermost + 1 < static_cast<int64_t>(counts.size()) && counts[outermost].is(1)) {
      ++outermost;
    }
    for (int64_t dim = tile.shape.size() - 1; dim >= 0; --dim) {
      blocks = blocks * counts[dim];
      if (counts[dim].is(1)) {
        offsets[dim] = writer.constant(0);
        continue;
      }
      Value index = rest;
      if (dim != outermost) {
        Value count = writer.scalar(counts[dim]);
        index = arith::RemUIOp::create(b, loc, rest, count);
        rest = arith::DivUIOp::create(b, loc, rest, count);
      }
      offsets[dim] = arith::MulIOp::create(b, loc, index, writer.constant(tile.shape[dim]));
    }
    return blocks;
  }

  Value fragment(ArrayRef<int64_t> shape, tile::LayoutAttr own, Type element) {
    auto space = tile::SpaceKindAttr::get(b.getContext(), tile::SpaceKind::fragment);
    auto type = MemRefType::get(shape, element, MemRefLayoutAttrInterface(), space);
    auto alloc = tile::AllocOp::create(b, loc, type);
    alloc.setLayoutAttr(own);
    return alloc;
  }

  Value load(const ElementwiseSpace::Operand *operand, Value buffer) {
    SmallVector<int64_t> shape(tile.shape);
    SmallVector<Value> from(offsets);
    tile::LayoutAttr own = layout;
    for (auto [dim, moves] : llvm::enumerate(operand->moves)) {
      if (!moves) {
        own = shape[dim] == 1 ? own : own.slice(dim);
        shape[dim] = 1;
        from[dim] = writer.constant(0);
      }
    }
    Value values = fragment(shape, own, cast<MemRefType>(buffer.getType()).getElementType());
    t.load(values, buffer, from, dims());
    return values;
  }

  /// A tile of result `number`.
  Value compute(unsigned number, ArrayRef<Value> fragments, Value buffer) {
    Block &body = op.getRegion().front();
    Value yielded = body.getTerminator()->getOperand(number);
    for (auto [operand, values] : llvm::zip_equal(llvm::make_first_range(buffers), fragments)) {
      bool whole = ArrayRef<int64_t>(cast<MemRefType>(values.getType()).getShape()) == ArrayRef<int64_t>(tile.shape);
      if (whole && yielded == body.getArgument(operand->number)) { // a copy
        return values;
      }
    }
    auto rounds = [](Type type) { return type.isBF16() || type.isF16(); };
    bool fewDigits = llvm::all_of(op->getResultTypes(),
                                  [&](Type type) { return rounds(cast<RankedTensorType>(type).getElementType()); });
    Value out = fragment(tile.shape, layout, cast<MemRefType>(buffer.getType()).getElementType());
    t.map(fragments, out, [&](ValueRange elements) {
      IRMapping mapping = uniform;
      for (auto [operand, value] : llvm::zip_equal(llvm::make_first_range(buffers), elements)) {
        mapping.map(body.getArgument(operand->number), value);
      }
      return t.inlined(body, yielded, mapping, fewDigits);
    });
    return out;
  }

  HostContext &context;
  linalg::GenericOp op;
  const ElementwiseSpace &space;
  const ElementwiseTile &tile;
  KernelWriter writer;
  TileBuilder t;
  OpBuilder &b;
  Location loc;
  tile::LayoutAttr layout;
  SmallVector<std::pair<const ElementwiseSpace::Operand *, Value>> buffers;
  IRMapping uniform;
  SmallVector<Value> offsets;
};
} // namespace

LogicalResult kimi::scheduleElementwise(HostContext &context, linalg::GenericOp op, ElementwiseSpace &space) {
  constexpr int64_t rowElements = 1024; // of a dim that only its divisors are known of
  int64_t bytes = 1;
  for (Type type : op->getResultTypes()) {
    bytes = std::max<int64_t>(bytes, cast<RankedTensorType>(type).getElementTypeBitWidth() / 8);
  }
  // Rows of a number that is known: whether a vector lies within its row is then known as well.
  int64_t width = divisorOf(space.dims().back(), rowElements);
  if (!space.dims().back().isConstant() && width >= kVectorBytes / bytes) {
    space.splitLast(width);
  }
  ElementwiseTile tile = ElementwiseTile::choose(space, bytes, op->getNumResults());
  return ElementwiseKernel(context, op, space, tile).run();
}
