//===- TensorMaps.h - views as the tensor memory accelerator sees them ------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_TENSORMAPS_H
#define KIMI_RUNTIME_CUDA_TENSORMAPS_H

#include "runtime/cuda/Driver.h"
#include "runtime/format/kmod_generated.h"

namespace kimi::cuda {

/// Describes the dims that `record` names of a view, `view` being its words: pointer, `rank` sizes, `rank` strides in
/// elements. Error: KIMI_UNSUPPORTED for a view that the hardware cannot walk: rows that do not start at multiples of
/// 16 bytes, gaps between the elements of a row.
Status encodeTensorMap(const Driver &driver, const fb::TensorMap &record, const int64_t *view, uint32_t rank,
                       TensorMap &out);

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_TENSORMAPS_H
