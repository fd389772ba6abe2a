//===- BlockLowering.cpp - the memory of a kernel, and its ops in order
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/BlockLowering.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/SharedPlan.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;
using namespace kimi;

/// CUDA's memories, as LLVM numbers address spaces.
static constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;

static tile::SpaceKindAttr spaceOf(Value memref) {
  return dyn_cast_or_null<tile::SpaceKindAttr>(cast<MemRefType>(memref.getType()).getMemorySpace());
}

BlockLowering::BlockLowering(tile::KernelOp kernel, int64_t sm)
    : kernel(kernel), sm(sm), builder(kernel.getContext()),
      e(builder, kernel.getBody().front(), kernel.getThreads().value_or(32)) {}

LogicalResult BlockLowering::run() {
  if (failed(makeTiles())) {
    return failure();
  }
  SmallVector<tile::PipelineOp> pipelines;
  kernel.walk<WalkOrder::PreOrder>([&](tile::PipelineOp pipeline) { pipelines.push_back(pipeline); });
  for (tile::PipelineOp pipeline : pipelines) {
    builder.setInsertionPoint(pipeline);
    e.loc = pipeline.getLoc();
    if (failed(lowerPipeline(pipeline))) {
      return failure();
    }
  }
  SmallVector<Operation *> ops;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op != kernel && isa_and_nonnull<tile::TileDialect>(op->getDialect()) &&
        !isa<tile::AllocOp, tile::BlockIdOp, tile::ReturnOp, tile::YieldOp, tile::ElementIndexOp, tile::SharedAccessOp,
             tile::RoleEndOp, tile::TensorMapOp>(op)) {
      ops.push_back(op);
    }
  });
  for (ArrayRef<Operation *> left(ops); !left.empty();) {
    Operation *op = left.front();
    builder.setInsertionPoint(op);
    e.loc = op->getLoc();
    SmallVector<tile::ReduceOp> together = reductionsFrom(left);
    if (together.size() > 1 ? failed(lowerReduces(together)) : failed(lowerOp(op))) {
      return failure();
    }
    size_t done = std::max<size_t>(together.size(), 1);
    for (Operation *lowered : left.take_front(done)) {
      lowered->erase();
    }
    left = left.drop_front(done);
  }
  // What is left of tiles are views of them, without uses.
  SmallVector<Operation *> views;
  kernel.walk([&](Operation *op) {
    if (isa<tile::AllocOp, memref::SubViewOp>(op)) {
      views.push_back(op);
    }
  });
  for (Operation *op : llvm::reverse(copies)) {
    op->erase();
  }
  for (Operation *op : llvm::reverse(views)) {
    if (op->use_empty()) {
      op->erase();
    }
  }
  e.finish();
  if (tileBytes + scratchBytes > 0) {
    kernel->setAttr(kernel_attrs::kSharedBytes, builder.getI64IntegerAttr(tileBytes + scratchBytes));
  } else {
    sharedBase.getDefiningOp()->erase();
  }
  return success();
}

LogicalResult BlockLowering::lowerOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](tile::LoadOp load) { return lowerLoad(load); })
      .Case([&](tile::StoreOp store) { return lowerStore(store); })
      .Case([&](tile::FillOp fill) { return lowerFill(fill); })
      .Case([&](tile::MapOp map) { return lowerMap(map); })
      .Case([&](tile::ReduceOp reduce) { return lowerReduces(reduce); })
      .Case([&](tile::ScanOp scan) { return lowerScan(scan); })
      .Case([&](tile::PickRowsOp pick) { return lowerPickRows(pick); })
      .Case([&](tile::SolveOp solve) { return lowerSolve(solve); })
      .Case([&](tile::DequantizeOp dequantize) { return lowerDequantize(dequantize); })
      .Case([&](tile::MmaOp mma) { return lowerMma(mma); })
      .Default([&](Operation *other) -> LogicalResult {
        if (hopper::AsyncLowering::handles(other)) {
          return lowerAsync(other);
        }
        return other->emitOpError("has no lowering to a GPU");
      });
}

LogicalResult BlockLowering::makeTiles() {
  SharedPlan plan(kernel);
  tileBytes = plan.bytes();
  planStaging();
  e.loc = kernel.getLoc();
  e.atStart([&] {
    auto shared = LLVM::LLVMPointerType::get(builder.getContext(), kSharedSpace);
    sharedBase = LLVM::AddressOfOp::create(builder, e.loc, shared, (kernel.getSymName() + "_shared").str());
  });
  WalkResult walk = kernel.walk([&](tile::AllocOp alloc) -> WalkResult {
    auto type = cast<MemRefType>(alloc.getType());
    if (spaceOf(alloc).getValue() == tile::SpaceKind::shared) {
      auto tile = std::make_unique<SharedTile>();
      tile->type = type;
      tile->layout = SharedLayout::of(type);
      tile->offset = plan.offset(alloc);
      tile->bytes = plan.allBytes(alloc);
      tile->pointer = sharedPointer(tile->offset);
      tiles[alloc] = std::move(tile);
      return WalkResult::advance();
    }
    tile::LayoutAttr layout = alloc.getLayoutAttr();
    if (!layout) {
      return alloc.emitOpError("has no layout; run --tile-assign-layouts first");
    }
    auto fragment = std::make_unique<Fragment>();
    fragment->element = type.getElementType();
    fragment->shape.assign(type.getShape().begin(), type.getShape().end());
    fragment->layout = layout;
    fragment->registers = std::make_unique<tile::RegisterTable>(layout, type.getRank());
    e.loc = alloc.getLoc();
    e.atStart([&] {
      Type element = fragment->element.isIndex() ? builder.getI64Type() : fragment->element;
      auto array = LLVM::LLVMArrayType::get(element, layout.registerCount());
      fragment->array =
          LLVM::AllocaOp::create(builder, e.loc, LLVM::LLVMPointerType::get(builder.getContext()), array, e.i32(1));
    });
    fragments[alloc] = std::move(fragment);
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

Value BlockLowering::sharedPointer(int64_t offset) {
  Value pointer;
  e.atStart([&] { pointer = e.pointer(sharedBase, Coord(offset)); });
  return pointer;
}

const SharedTile &BlockLowering::scratch(MemRefType type) {
  auto tile = std::make_unique<SharedTile>();
  tile->type = type;
  tile->layout = SharedLayout::of(type);
  tile->offset = llvm::alignTo(tileBytes, 1024);
  tile->bytes = tile->layout.bytes();
  scratchBytes = std::max(scratchBytes, tile->offset - tileBytes + tile->bytes);
  tile->pointer = sharedPointer(tile->offset);
  scratchTiles.push_back(std::move(tile));
  return *scratchTiles.back();
}

/// What a view with steps of 1 keeps of the alignment `align` (bytes) of the address of its source.
static int64_t alignmentOfView(memref::SubViewOp view, int64_t align) {
  int64_t offset;
  SmallVector<int64_t> strides;
  bool unit = llvm::all_of(view.getMixedStrides(), [](OpFoldResult step) { return getConstantIntValue(step) == 1; });
  if (!unit || failed(view.getSourceType().getStridesAndOffset(strides, offset))) {
    return 1;
  }
  for (auto [start, stride] : llvm::zip(view.getMixedOffsets(), strides)) {
    if (!ShapedType::isDynamic(stride)) { // dynamic strides are multiples of the alignment
      int64_t step = stride * elementBytes(view.getSourceType().getElementType());
      align = std::gcd(align, step * getConstantIntValue(start).value_or(1));
    }
  }
  return align;
}

/// Words of a memref descriptor that are static in its type come from there.
FailureOr<GlobalBuffer *> BlockLowering::globalBuffer(Value memref) {
  auto view = memref.getDefiningOp<memref::SubViewOp>();
  FailureOr<GlobalBuffer *> source = failure();
  if (view && !spaceOf(view.getSource())) {
    source = globalBuffer(view.getSource());
  }
  std::unique_ptr<GlobalBuffer> &entry = buffers[memref];
  if (entry) {
    return entry.get();
  }
  auto type = cast<MemRefType>(memref.getType());
  LLVMTypeConverter converter(builder.getContext());
  int64_t offset;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset))) {
    return failure();
  }
  auto buffer = std::make_unique<GlobalBuffer>();
  buffer->element = type.getElementType();
  buffer->align = elementBytes(buffer->element);
  auto argument = dyn_cast<BlockArgument>(memref);
  bool isArgument = argument && argument.getOwner() == &kernel.getBody().front();
  if (isArgument) {
    unsigned index = argument.getArgNumber();
    if (auto align = kernel.getArgAttrOfType<IntegerAttr>(index, tile::KernelOp::kAlignAttrName)) {
      buffer->align = std::max(buffer->align, align.getInt());
    }
    buffer->readOnly = !kernel->hasAttr(kernel_attrs::kUntraced) && !kernel.getArgAttr(index, kernel_attrs::kWritten) &&
                       !kernel.getArgAttr(index, kernel_attrs::kDependent);
  }
  if (succeeded(source)) {
    buffer->align = std::max(buffer->align, alignmentOfView(view, (*source)->align));
    buffer->readOnly = (*source)->readOnly;
  }
  auto describe = [&] {
    auto cast = UnrealizedConversionCastOp::create(builder, e.loc, converter.convertType(type), memref);
    MemRefDescriptor descriptor(cast.getResult(0));
    auto global = LLVM::LLVMPointerType::get(builder.getContext(), kGlobalSpace);
    Value pointer = descriptor.alignedPtr(builder, e.loc);
    if (!isArgument) { // an argument's pointer already points at its first element
      Value at = descriptor.offset(builder, e.loc);
      Type unit = builder.getIntegerType(8 * elementBytes(buffer->element));
      pointer = LLVM::GEPOp::create(builder, e.loc, pointer.getType(), unit, pointer, ArrayRef<LLVM::GEPArg>{at});
    }
    buffer->pointer = LLVM::AddrSpaceCastOp::create(builder, e.loc, global, pointer);
    for (int64_t d = 0; d < type.getRank(); ++d) {
      buffer->sizes.push_back(type.isDynamicDim(d) ? OpFoldResult(descriptor.size(builder, e.loc, d))
                                                   : builder.getIndexAttr(type.getDimSize(d)));
      buffer->strides.push_back(ShapedType::isDynamic(strides[d]) ? OpFoldResult(descriptor.stride(builder, e.loc, d))
                                                                  : builder.getIndexAttr(strides[d]));
    }
  };
  if (isArgument) {
    e.atStart(describe);
  } else {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(memref);
    describe();
  }
  entry = std::move(buffer);
  return entry.get();
}

namespace {
/// A memref as the view of another: each dim of the view is dim `dims[i]` of `root`, from `offsets` on.
struct ViewOf {
  Value root;
  SmallVector<OpFoldResult> offsets;
  SmallVector<int64_t> dims;
};
} // namespace

/// Follows subviews of step 1 up to the buffer or tile that they are views of.
static ViewOf resolve(BlockEmitter &e, Value memref, ArrayRef<OpFoldResult> offsets, ArrayRef<int64_t> dims) {
  ViewOf view{memref, SmallVector<OpFoldResult>(offsets), SmallVector<int64_t>(dims)};
  while (auto op = view.root.getDefiningOp<memref::SubViewOp>()) {
    bool unit = llvm::all_of(op.getMixedStrides(), [](OpFoldResult step) { return getConstantIntValue(step) == 1; });
    if (!unit) {
      break;
    }
    llvm::SmallBitVector dropped = op.getDroppedDims();
    SmallVector<OpFoldResult> outer = op.getMixedOffsets();
    SmallVector<int64_t> kept; // dims of the source that the view keeps
    for (int64_t d = 0; d < op.getSourceType().getRank(); ++d) {
      if (!dropped.test(d)) {
        kept.push_back(d);
      }
    }
    for (auto [i, offset] : llvm::enumerate(view.offsets)) {
      OpFoldResult &sum = outer[kept[i]];
      std::optional<int64_t> x = getConstantIntValue(sum), y = getConstantIntValue(offset);
      if (x && y) {
        sum = e.b.getIndexAttr(*x + *y);
      } else if (y != 0) {
        auto asIndex = [&](OpFoldResult value) -> Value {
          std::optional<int64_t> constant = getConstantIntValue(value);
          return constant ? arith::ConstantIndexOp::create(e.b, e.loc, *constant).getResult() : cast<Value>(value);
        };
        sum = x == 0 ? offset : OpFoldResult(e.add(asIndex(sum), asIndex(offset)));
      }
    }
    for (int64_t &dim : view.dims) {
      dim = kept[dim];
    }
    view.root = op.getSource();
    view.offsets = outer;
  }
  return view;
}

FailureOr<MemoryBox> BlockLowering::box(Operation *op, Value memref, ArrayRef<OpFoldResult> offsets,
                                        ArrayRef<int64_t> dims, ArrayRef<int64_t> extents, bool checked) {
  ViewOf view{memref, SmallVector<OpFoldResult>(offsets), SmallVector<int64_t>(dims)};
  if (!checked) {
    view = resolve(e, memref, offsets, dims); // a checked box is checked against the extents of the view itself
  } else if (memref.getDefiningOp<memref::SubViewOp>()) {
    ViewOf root = resolve(e, memref, SmallVector<OpFoldResult>(offsets.size(), builder.getIndexAttr(0)), dims);
    if (spaceOf(root.root)) {
      return op->emitOpError("copies between a view of a tile and another buffer; copy whole tiles on a GPU");
    }
  }
  if (auto it = tiles.find(view.root); it != tiles.end()) {
    return MemoryBox(e, *it->second, view.offsets, view.dims, extents, checked);
  }
  if (spaceOf(view.root)) {
    return op->emitOpError("works on a view of a fragment, ")
           << view.root.getType() << "; on a GPU only shared tiles and global buffers have views";
  }
  FailureOr<GlobalBuffer *> buffer = globalBuffer(view.root);
  if (failed(buffer)) {
    return op->emitOpError("works on a buffer whose layout is not strided: ") << view.root.getType();
  }
  return MemoryBox(e, **buffer, view.offsets, view.dims, extents, checked);
}

FailureOr<TileOperand> BlockLowering::operand(Operation *op, Value memref) {
  if (auto it = fragments.find(memref); it != fragments.end()) {
    return TileOperand(it->second.get());
  }
  auto type = cast<MemRefType>(memref.getType());
  SmallVector<OpFoldResult> zeros(type.getRank(), builder.getIndexAttr(0));
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  FailureOr<MemoryBox> memory = box(op, memref, zeros, dims, type.getShape(), /*checked=*/false);
  if (failed(memory)) {
    return failure();
  }
  return TileOperand(std::move(*memory));
}

void BlockLowering::access(ArrayRef<const MemoryBox *> reads, ArrayRef<const MemoryBox *> writes) {
  SmallVector<int64_t> ranges[2];
  for (auto [list, boxes] : {std::pair(&ranges[0], reads), std::pair(&ranges[1], writes)}) {
    for (const MemoryBox *memory : boxes) {
      if (memory && memory->isShared()) {
        list->append({memory->tile().offset, memory->tile().bytes});
      }
    }
  }
  accessBytes(ranges[0], ranges[1]);
}

void BlockLowering::accessBytes(ArrayRef<int64_t> reads, ArrayRef<int64_t> writes) {
  if (!reads.empty() || !writes.empty()) {
    tile::SharedAccessOp::create(builder, e.loc, reads, writes);
  }
}
