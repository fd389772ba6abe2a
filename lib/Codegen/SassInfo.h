//===- SassInfo.h - what became of CUDA kernels
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_CODEGEN_SASSINFO_H
#define KIMI_LIB_CODEGEN_SASSINFO_H

#include "lib/Codegen/CompileCuda.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace kimi {

/// One line a kernel, `key=value` with blanks between: its block, registers, spills and memory as ptxas reports them,
/// and how often instructions of interest stand in its PTX (0 are left out):
///   kernel=linear threads=128 registers=168 spill_stores=0 spill_loads=0 stack=0 static_shared=0 dynamic_shared=98304
///   barriers=2 ptx: wgmma=16 tma_load=2 mbarrier=12
std::string describeSass(const CudaImage &image, const CudaOptions &options);

/// How often each instruction of interest stands in the kernels of `ptx`, by kernel.
llvm::MapVector<llvm::StringRef, llvm::MapVector<llvm::StringRef, int64_t>> countInstructions(llvm::StringRef ptx);

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_SASSINFO_H
