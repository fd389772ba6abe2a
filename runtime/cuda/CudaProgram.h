//===- CudaProgram.h - a module on a GPU ------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_CUDAPROGRAM_H
#define KIMI_RUNTIME_CUDA_CUDAPROGRAM_H

#include "runtime/Device.h"
#include "runtime/WeightFiles.h"
#include "runtime/cuda/KernelCode.h"

namespace kimi::cuda {

/// Code, weights and derived buffers in the memory of a GPU.
class CudaProgram : public Program {
public:
  static Status create(const format::Contents &contents, const std::string &weightsFolder, const Plan *init,
                       int32_t ordinal, std::shared_ptr<const Program> &out);

  Status makeExecutor(const kimi_session_options &options, std::unique_ptr<Executor> &out) const override;
  uint64_t derivedBytes() const override { return derived.size(); }

  const CudaDevice &device() const { return *gpu; }
  const LoadedKernel &kernel(int32_t index) const { return code.kernel(index); }
  /// Device addresses of the weights, by index; 0 for one that nobody reads.
  const std::vector<uint64_t> &weightAddresses() const { return addresses; }
  DevicePointer derivedAddress() const { return derived.address(); }

private:
  Status uploadWeights(const format::Contents &contents, const std::string &weightsFolder, bool hasInit,
                       DeviceMemory &transient);

  std::shared_ptr<const CudaDevice> gpu; // first: the rest is on it
  KernelCode code;
  DeviceMemory weights, derived;
  std::vector<uint64_t> addresses;
};

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_CUDAPROGRAM_H
