//===- Ptxas.h - NVIDIA's assembler as a process
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_CODEGEN_PTXAS_H
#define KIMI_LIB_CODEGEN_PTXAS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kimi {

/// What ptxas says about a kernel.
struct KernelUsage {
  std::string kernel;
  int64_t registers = 0;   ///< of a thread
  int64_t spillStores = 0; ///< bytes of a thread
  int64_t spillLoads = 0;  ///< bytes of a thread
  int64_t stack = 0;       ///< bytes of a thread, spills included
  int64_t barriers = 0;    ///< named barriers
  int64_t shared = 0;      ///< bytes of static shared memory
  int64_t constant = 0;    ///< bytes of constant memory, parameters included
};

/// A complaint that did not stop ptxas.
struct PtxasRemark {
  std::string kernel; ///< empty where it is not said
  std::string text;
};

struct PtxasResult {
  std::string cubin;
  std::vector<KernelUsage> usage;   ///< in the order of ptxas
  std::vector<PtxasRemark> remarks; ///< warnings, and notes with a number ("wgmma instructions are serialized")
};

/// Where ptxas is. `given`: a path, "none" for no ptxas, or empty: $KIMI_PTXAS, the search path, $CUDA_HOME/bin,
/// $CUDA_PATH/bin, /usr/local/cuda/bin; nullopt where there is none. Error: `given` or $KIMI_PTXAS is not executable.
llvm::Expected<std::optional<std::string>> findPtxas(llvm::StringRef given);

/// Assembles `ptx` for `arch` ("sm_90a"). The cubin depends on the PTX, the architecture and the version of ptxas only.
/// Errors carry ptxas's words, and the kernel they are about where a line is named.
llvm::Expected<PtxasResult> runPtxas(llvm::StringRef ptxas, llvm::StringRef ptx, llvm::StringRef arch);

/// Reads what `ptxas -v` printed.
void parsePtxasLog(llvm::StringRef log, PtxasResult &result);

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_PTXAS_H
