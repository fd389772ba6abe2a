//===- MoeGpuKernels.h - the launches of a mixture of experts on a GPU
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_MOEGPUKERNELS_H
#define KIMI_PASSES_KIMITOTILE_MOEGPUKERNELS_H

#include "passes/KimiToTile/GpuSchedule.h"
#include "passes/KimiToTile/MoeProblem.h"

namespace kimi {

/// Makes the launches of `problem`: the pairs are sorted by expert, the rows of x gathered, both products of each tile
/// of rows taken with the activation between them, and a token's outputs summed in the order of its slots.
mlir::LogicalResult scheduleMoe(HostContext &context, const GpuArch &arch, const MoeProblem &problem);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_MOEGPUKERNELS_H
