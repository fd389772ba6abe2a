//===- Cuda.h - what the rest of the runtime sees of CUDA -------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_CUDA_H
#define KIMI_RUNTIME_CUDA_CUDA_H

#include "runtime/Device.h"

namespace kimi::cuda {

/// Loads a module on GPU `ordinal`: opens the driver, loads the code that fits the GPU, uploads the weights beneath
/// `weightsFolder`, and runs `init` (the plan of the entry of that name, or null).
/// Error: KIMI_UNSUPPORTED with what to do where there is no driver, no such GPU, or no code for it;
/// KIMI_OUT_OF_MEMORY; KIMI_BAD_FILE where the code is not what the module says.
Status createProgram(const format::Contents &contents, const std::string &weightsFolder, const Plan *init,
                     int32_t ordinal, std::shared_ptr<const Program> &out);

/// The GPUs of this machine as the C API describes them, after the devices that `out` holds already.
/// Error: KIMI_UNSUPPORTED where there is no usable driver.
Status appendDevices(std::vector<kimi_device_info> &out);

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_CUDA_H
