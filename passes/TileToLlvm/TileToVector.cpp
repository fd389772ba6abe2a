//===- TileToVector.cpp - tile ops as loops, vectors and stack buffers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "passes/TileToLlvm/Passes.h"
#include "passes/TileToLlvm/VectorEmitter.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

namespace kimi {
#define GEN_PASS_DEF_TILETOVECTOR
#include "passes/TileToLlvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

static int64_t byteSize(MemRefType type) {
  unsigned bits = type.getElementType().isIndex() ? 64 : type.getElementTypeBitWidth();
  return type.getNumElements() * llvm::divideCeil(bits, 8);
}

namespace {
struct TileToVector : kimi::impl::TileToVectorBase<TileToVector> {
  using TileToVectorBase::TileToVectorBase;

  void runOnOperation() override {
    for (tile::KernelOp kernel : getOperation().getOps<tile::KernelOp>()) {
      if (failed(lower(kernel))) {
        return signalPassFailure();
      }
    }
  }

  LogicalResult lower(tile::KernelOp kernel) {
    // On a CPU all tiles are stack buffers: the spaces have no meaning from here on.
    AttrTypeReplacer spaces;
    spaces.addReplacement([](MemRefType type) -> std::optional<Type> {
      if (!isa_and_nonnull<tile::SpaceKindAttr>(type.getMemorySpace())) {
        return std::nullopt;
      }
      return MemRefType::get(type.getShape(), type.getElementType(), type.getLayout());
    });
    spaces.recursivelyReplaceElementsIn(kernel, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);

    SmallVector<tile::PipelineOp> pipelines;
    kernel.walk([&](tile::PipelineOp pipeline) { pipelines.push_back(pipeline); });
    llvm::for_each(pipelines, lowerPipeline);

    OpBuilder entry(kernel.getContext());
    int64_t bytes = 0;
    auto allocate = [&](Location loc, MemRefType type) -> Value {
      constexpr int64_t alignment = 64; // a cache line, and the widest vector
      bytes += llvm::alignTo(byteSize(type), alignment);
      entry.setInsertionPointToStart(&kernel.getBody().front()); // ops at the start may be gone by now
      return memref::AllocaOp::create(entry, loc, type, entry.getI64IntegerAttr(alignment));
    };
    Value scratch; // packed operands of tile.mma, one at a time
    auto pack = [&](Location loc, int64_t count) -> Value {
      if (!scratch || cast<MemRefType>(scratch.getType()).getDimSize(0) < count) {
        scratch = allocate(loc, MemRefType::get({count}, entry.getF32Type()));
      }
      return scratch;
    };

    SmallVector<Operation *> ops;
    kernel.walk([&](Operation *op) {
      if (isa<tile::AllocOp, tile::LoadOp, tile::StoreOp, tile::FillOp, tile::MapOp, tile::ReduceOp, tile::ScanOp,
              tile::PickRowsOp, tile::SolveOp, tile::DequantizeOp, tile::MmaOp>(op)) {
        ops.push_back(op);
      }
    });
    OpBuilder b(kernel.getContext());
    for (Operation *op : ops) {
      b.setInsertionPoint(op);
      VectorEmitter e(b, op->getLoc(), lanes);
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](tile::AllocOp alloc) {
            // Out of any loop: a tile lives until the end of the kernel.
            alloc.replaceAllUsesWith(allocate(alloc.getLoc(), cast<MemRefType>(alloc.getType())));
          })
          .Case([&](tile::LoadOp load) { lowerLoad(e, load); })
          .Case([&](tile::StoreOp store) { lowerStore(e, store); })
          .Case([&](tile::FillOp fill) { lowerFill(e, fill); })
          .Case([&](tile::MapOp map) { lowerMap(e, map); })
          .Case([&](tile::ReduceOp reduce) { lowerReduce(e, reduce); })
          .Case([&](tile::ScanOp scan) { lowerScan(e, scan); })
          .Case([&](tile::PickRowsOp pick) { lowerPickRows(e, pick); })
          .Case([&](tile::SolveOp solve) { lowerSolve(e, solve); })
          .Case([&](tile::DequantizeOp dequantize) { lowerDequantize(e, dequantize); })
          .Case([&](tile::MmaOp mma) { lowerMma(e, mma, [&](int64_t count) { return pack(mma.getLoc(), count); }); });
      op->erase();
    }
    if (bytes > stackLimit) {
      return kernel.emitError() << "kernel '" << kernel.getSymName() << "' needs " << bytes
                                << " bytes of tiles; a CPU kernel may use " << stackLimit.getValue()
                                << " (they live on the stack of a worker thread): choose smaller tiles";
    }
    return success();
  }
};
} // namespace
