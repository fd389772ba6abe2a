//===- KernelCode.h - the kernels of a module, loaded -----------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_KERNELCODE_H
#define KIMI_RUNTIME_CUDA_KERNELCODE_H

#include "runtime/cuda/Resources.h"
#include "runtime/format/Verify.h"

#include <vector>

namespace kimi::cuda {

/// A kernel that can be launched, and how.
struct LoadedKernel {
  Function function = nullptr;
  const fb::Kernel *record = nullptr;

  std::string place() const;
};

/// The image of a module that the GPU takes, with its kernels ready.
class KernelCode {
public:
  /// Loads the first image that fits the device and that the driver accepts, looks up every kernel, and prepares each
  /// for the block size, shared memory and parameters that the module gives it. The context must be current.
  /// Error: KIMI_UNSUPPORTED where no image fits, with what each one lacks; KIMI_BAD_FILE where a kernel is not there
  /// or takes other parameters.
  static Status load(const CudaDevice &device, const format::Contents &contents, KernelCode &out);

  const LoadedKernel &kernel(int32_t index) const { return kernels[index]; }

private:
  OwnedModule image;
  std::vector<LoadedKernel> kernels;
};

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_KERNELCODE_H
