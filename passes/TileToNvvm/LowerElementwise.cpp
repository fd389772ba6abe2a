//===- LowerElementwise.cpp - tile.map
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "passes/TileToNvvm/BlockLowering.h"

using namespace mlir;
using namespace kimi;

namespace {
/// The body of a map, emitted element by element.
class MapBody {
public:
  MapBody(BlockEmitter &e, tile::MapOp op) : e(e), body(op.getBody().front()) {
    // Constants stand in front of all elements.
    for (Operation &inner : body.without_terminator()) {
      if (inner.hasTrait<OpTrait::ConstantLike>()) {
        shared.map(inner.getResult(0), e.b.clone(inner)->getResult(0));
      }
    }
    // A narrowing at the end is done for all elements together, in pairs.
    yielded = cast<tile::YieldOp>(body.getTerminator()).getValue();
    auto narrow = yielded.getDefiningOp<arith::TruncFOp>();
    if (narrow && narrow.getOperand().getType().isF32() && narrow->getBlock() == &body && narrow->hasOneUse()) {
      yielded = narrow.getOperand();
      skipped = narrow;
    }
  }

  Value emit(ValueRange inputs, ArrayRef<Coord> coords) {
    IRMapping mapping = shared;
    mapping.map(body.getArguments(), inputs);
    for (Operation &inner : body.without_terminator()) {
      if (inner.hasTrait<OpTrait::ConstantLike>() || &inner == skipped) {
        continue;
      }
      if (auto index = dyn_cast<tile::ElementIndexOp>(inner)) {
        mapping.map(index.getResult(), position(coords[index.getDim()]));
      } else if (isa<arith::MaximumFOp>(inner) && inner.getResult(0).getType().isF32()) {
        mapping.map(inner.getResult(0),
                    LLVM::MaximumOp::create(e.b, e.loc, mapping.lookupOrDefault(inner.getOperand(0)),
                                            mapping.lookupOrDefault(inner.getOperand(1))));
      } else if (isa<arith::MinimumFOp>(inner) && inner.getResult(0).getType().isF32()) {
        mapping.map(inner.getResult(0),
                    LLVM::MinimumOp::create(e.b, e.loc, mapping.lookupOrDefault(inner.getOperand(0)),
                                            mapping.lookupOrDefault(inner.getOperand(1))));
      } else {
        e.b.clone(inner, mapping);
      }
    }
    return mapping.lookupOrDefault(yielded);
  }

private:
  /// The run-time part first: all registers share it.
  Value position(const Coord &coord) {
    Value base = coord.dynamic ? e.toIndex(coord.dynamic) : Value();
    if (base && coord.fixed == 0) {
      return base;
    }
    Value fixed = arith::ConstantIndexOp::create(e.b, e.loc, coord.fixed);
    return base ? arith::AddIOp::create(e.b, e.loc, base, fixed).getResult() : fixed;
  }

  BlockEmitter &e;
  Block &body;
  IRMapping shared;
  Value yielded;
  Operation *skipped = nullptr;
};
} // namespace

LogicalResult BlockLowering::lowerMap(tile::MapOp op) {
  auto type = cast<MemRefType>(op.getOut().getType());
  ArrayRef<int64_t> shape = type.getShape();
  unsigned rank = shape.size();
  FailureOr<TileOperand> out = operand(op, op.getOut());
  if (failed(out)) {
    return failure();
  }
  SmallVector<TileOperand, 0> inputs;
  tile::LayoutAttr layout; // of the output, else of an input of its shape
  if (auto *fragment = std::get_if<Fragment *>(&*out)) {
    layout = (*fragment)->layout;
  }
  bool anyFragment = static_cast<bool>(layout);
  SmallVector<const MemoryBox *> reads, writes;
  for (Value input : op.getInputs()) {
    FailureOr<TileOperand> in = operand(op, input);
    if (failed(in)) {
      return failure();
    }
    inputs.push_back(std::move(*in));
  }
  for (TileOperand &input : inputs) {
    if (auto *fragment = std::get_if<Fragment *>(&input)) {
      anyFragment = true;
      if (!layout && ArrayRef<int64_t>((*fragment)->shape) == shape) {
        layout = (*fragment)->layout;
      }
    } else {
      reads.push_back(&std::get<MemoryBox>(input));
    }
  }
  auto *target = std::get_if<MemoryBox>(&*out);
  if (target) {
    writes.push_back(target);
  }
  MapBody body(e, op);
  auto compute = [&](Values &results, int64_t count, tile::LayoutAttr spread, ArrayRef<Values> elements,
                     ArrayRef<Coord> origin) {
    for (int64_t i = 0; i < count; ++i) {
      Values at;
      for (const Values &list : elements) {
        at.push_back(list[i]);
      }
      results.push_back(body.emit(at, coordsOf(spread, results.size(), rank, origin)));
    }
  };

  if (anyFragment) {
    int64_t vector = target ? target->vectorElements() : 1;
    if (!layout) {
      layout = tile::bestBlockedLayout(builder.getContext(), shape, e.warps(), vector,
                                       target ? target->contiguousDim() : -1);
    }
    SmallVector<Values> elements(inputs.size());
    // Fragments first: those that change their layout use barriers of their own.
    for (auto [input, values] : llvm::zip(inputs, elements)) {
      if (auto *fragment = std::get_if<Fragment *>(&input)) {
        values = readFragment(op, **fragment, layout, shape);
      }
    }
    access(reads, writes);
    // A few registers at a time: what is read from memory is not to take as many registers as the results.
    Values results;
    int64_t count = layout.registerCount();
    for (int64_t first = 0; first < count; first += kVectorRegisters) {
      int64_t some = std::min(kVectorRegisters, count - first);
      SmallVector<Values> part;
      for (auto [input, values] : llvm::zip(inputs, elements)) {
        auto *memory = std::get_if<MemoryBox>(&input);
        part.push_back(memory ? read(*memory, layout, shape, {}, {}, first, some)
                              : Values(ArrayRef<Value>(values).slice(first, some)));
      }
      compute(results, some, layout, part, SmallVector<Coord>(rank));
    }
    writeOperand(op, *out, layout, e.convert(results, type.getElementType()));
    return success();
  }
  access(reads, writes);
  pieces(shape, target->contiguousDim(), target->vectorElements(),
         [&](tile::LayoutAttr spread, ArrayRef<int64_t> piece, ArrayRef<Coord> origin) {
           SmallVector<Values> elements;
           for (TileOperand &input : inputs) {
             elements.push_back(read(std::get<MemoryBox>(input), spread, piece, {}, origin));
           }
           Values results;
           compute(results, spread.registerCount(), spread, elements, origin);
           write(*target, spread, e.convert(results, type.getElementType()), origin);
         });
  return success();
}
