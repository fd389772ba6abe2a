//===- KernelAttrs.h - what the passes of this folder note on kernels
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attributes of a tile.kernel on its way to a CUDA kernel. Those marked (*) stay on the llvm.func that it becomes: from
// there the module writer learns how the kernel is launched.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_KERNELATTRS_H
#define KIMI_PASSES_TILETONVVM_KERNELATTRS_H

#include "llvm/ADT/StringRef.h"

namespace kimi::kernel_attrs {

/// unit (*): each thread computes a point of the grid; a block computes `threads` points along x.
constexpr llvm::StringLiteral kTasks = "tile.tasks";
/// unit, on arguments: the kernel writes this buffer.
constexpr llvm::StringLiteral kWritten = "tile.written";
/// unit: kWritten could not be told.
constexpr llvm::StringLiteral kUntraced = "tile.untraced";
/// i64 (*): bytes of dynamic shared memory of a block.
constexpr llvm::StringLiteral kSharedBytes = "tile.shared_bytes";
/// unit, on arguments, set by schedules: no launch of a step writes this buffer; it holds weights, or what was computed
/// of them when they were loaded.
constexpr llvm::StringLiteral kConstant = "tile.constant";
/// unit, on arguments: accesses keep their place about the wait for earlier launches, which may still write the buffer.
constexpr llvm::StringLiteral kDependent = "tile.dependent";
/// unit (*): the kernel waits for earlier launches itself (griddepcontrol.wait).
constexpr llvm::StringLiteral kPdl = "tile.pdl";
/// i64, set by schedules: blocks that are to share a multiprocessor; registers are allotted for as many.
constexpr llvm::StringLiteral kBlocksPerSm = "blocks_per_sm";
/// array (*) of {arg, box, dims, swizzle, element_size}: the tensor maps that the kernel takes after its other
/// parameters, in order.
constexpr llvm::StringLiteral kTensorMaps = "tile.tensor_maps";
/// unit: a schedule asks for a producer beside the kernel's threads (see tile-warp-specialize).
constexpr llvm::StringLiteral kWarpSpecialized = "warp_specialized";
/// i64: the threads that share the tile ops of a kernel with a producer; they meet at a barrier of their own.
constexpr llvm::StringLiteral kConsumers = "tile.consumers";
/// i64 (*, as nvvm.cluster_dim): so many blocks, neighbours along x, form a cluster.
constexpr llvm::StringLiteral kCluster = "cluster";

} // namespace kimi::kernel_attrs

#endif // KIMI_PASSES_TILETONVVM_KERNELATTRS_H
