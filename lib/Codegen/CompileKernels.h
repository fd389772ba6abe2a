//===- CompileKernels.h - tile.kernel ops to machine code
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_CODEGEN_COMPILEKERNELS_H
#define KIMI_LIB_CODEGEN_COMPILEKERNELS_H

#include "lib/Codegen/CpuTarget.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace kimi {

/// What a compilation of kernels stops at.
enum class KernelOutput { SharedObject, LlvmIr, Assembly };

/// Compiles every `tile.kernel` of `module` (which stays as it is; other ops are not looked at) and links them to one
/// ELF shared object; returns its bytes. Each kernel is exported under its symbol as
/// `void sym(const int64_t *args, int64_t x, int64_t y, int64_t z)`. The bytes depend on the kernels, their order and
/// the target only. Products and sums are fused where the processor can; nothing else about floating point is relaxed
/// beyond what the ops allow. Errors are emitted as diagnostics at the kernel concerned.
mlir::FailureOr<std::string> compileKernels(mlir::ModuleOp module, const CpuTargetOptions &options);

/// As above, stopping earlier: optimised LLVM IR or assembly, kernel after kernel, for people to read.
mlir::FailureOr<std::string> compileKernels(mlir::ModuleOp module, const CpuTargetOptions &options,
                                            KernelOutput output);

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_COMPILEKERNELS_H
