//===- LoopKernels.h - kernels of plain loops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_LOOPKERNELS_H
#define KIMI_PASSES_KIMITOTILE_LOOPKERNELS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"
#include "passes/KimiToTile/KernelWriter.h"

namespace kimi {

/// A name for the kernel of `op`: "map_addf_tanh", "reduce_maximumf", "copy", "fill".
std::string kernelStem(mlir::linalg::GenericOp op);

/// In the kernel of `writer`, the one value that all elements of a splat constant or a fill have; null for any other
/// tensor.
mlir::Value uniformValue(KernelWriter &writer, mlir::Value tensor);

/// Maps what the body of `op` uses of its surroundings to the same in the kernel of `writer`, or reports that neither
/// the host nor a kernel can compute it.
mlir::LogicalResult importCaptured(KernelWriter &writer, mlir::linalg::GenericOp op, mlir::IRMapping &mapping);

/// Each of these replaces its op by a dispatch of a loop kernel, or reports why it cannot. `taskWork`: element
/// operations that make a task worth its start.
mlir::LogicalResult outlineGeneric(HostContext &context, mlir::linalg::GenericOp op, int64_t taskWork);
mlir::LogicalResult outlineLoops(HostContext &context, LoopsOp op);
/// One launch for all of `appends`, which write rows of the same shape at the same place of different states.
mlir::LogicalResult outlineAppends(HostContext &context, llvm::ArrayRef<CacheAppendOp> appends, int64_t taskWork);
/// The contents of a fixed state: where they lie if nothing replaces them while they are read, else a copy.
mlir::LogicalResult outlineStateRead(HostContext &context, StateReadOp op, int64_t taskWork);
mlir::LogicalResult outlineStateWrite(HostContext &context, StateWriteOp op, int64_t taskWork);
/// The packed layout of a weight (see kimi.pack_weight); its operand may be any view.
mlir::LogicalResult outlinePack(HostContext &context, PackWeightOp op);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_LOOPKERNELS_H
