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

/// How often instructions stand in a kernel, by kernel and name; names that do not occur are absent.
using InstructionCounts = llvm::MapVector<llvm::StringRef, llvm::MapVector<llvm::StringRef, int64_t>>;

/// Three lines a kernel. The first is `key=value` with blanks between: its block, registers, spills and memory as ptxas
/// reports them. The others count instructions of interest, in the PTX and, where nvdisasm is found beside ptxas or on
/// the search path, in the machine code:
///   kernel=linear threads=128 registers=168 spill_stores=0 spill_loads=0 stack=0 barriers=2 static_shared=0
///   dynamic_shared=98304
///     ptx: wgmma=16 tma=2 mbarrier=12
///     sass: total=1204 HGMMA=16 UTMALDG=2 SYNCS=12
std::string describeSass(const CudaImage &image, const CudaOptions &options);

/// Instructions of interest in PTX, under names of our own ("wgmma", "tma", "cp_async", "ld_global_nc").
InstructionCounts countPtx(llvm::StringRef ptx);

/// Instructions in what `nvdisasm -c` prints, under their first word ("FFMA", "LDG"), and "total".
InstructionCounts countSass(llvm::StringRef text);

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_SASSINFO_H
