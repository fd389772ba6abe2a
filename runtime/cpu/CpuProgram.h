//===- CpuProgram.h - a module on the CPU -----------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CPU_CPUPROGRAM_H
#define KIMI_RUNTIME_CPU_CPUPROGRAM_H

#include "runtime/Device.h"
#include "runtime/WeightFiles.h"
#include "runtime/cpu/KernelImage.h"

namespace kimi {

/// Mapped weights, derived buffers and loaded code.
class CpuProgram : public Program {
public:
  /// Checks the target against this CPU, loads the code, maps the weights beneath `weightsFolder`, and runs `init` (the
  /// plan of the entry of that name, or null) on `threads` threads. Errors: those of its parts.
  static Status create(const format::Contents &contents, const std::string &weightsFolder, const Plan *init,
                       int32_t threads, std::shared_ptr<const Program> &out);

  Status makeExecutor(const kimi_session_options &options, std::unique_ptr<Executor> &out) const override;
  uint64_t derivedBytes() const override { return derived.size(); }

  KernelFunction kernel(int32_t index) const { return kernels[index]; }
  const std::vector<const uint8_t *> &weightPointers() const { return weights.all(); }
  uint8_t *derivedData() const { return derived.data(); }

private:
  Status loadKernels(const format::Contents &contents);

  WeightFiles weights;
  Mapping derived;
  std::vector<std::unique_ptr<KernelImage>> images;
  std::vector<KernelFunction> kernels;
};

} // namespace kimi

#endif // KIMI_RUNTIME_CPU_CPUPROGRAM_H
