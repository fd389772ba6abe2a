//===- CompileCuda.h - tile.kernel ops to PTX and cubins
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_CODEGEN_COMPILECUDA_H
#define KIMI_LIB_CODEGEN_COMPILECUDA_H

#include "lib/Codegen/CudaTarget.h"
#include "lib/Codegen/Ptxas.h"
#include "lib/Module/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

namespace kimi {

struct CudaOptions {
  CudaTarget target;
  /// See findPtxas.
  std::string ptxas;
  /// Kernels compiled at a time; 0 takes one thread a core.
  unsigned threads = 0;
  /// What ptxas complains about, spills and the lack of a ptxas are warnings instead of remarks.
  bool warn = false;
};

struct CudaImage {
  /// One module with every kernel, as text.
  std::string ptx;
  /// The same, assembled; empty without ptxas.
  std::string cubin;
  /// How each kernel is launched, in the order of the module.
  std::vector<plan::Kernel> kernels;
  /// What ptxas said; empty without ptxas.
  std::vector<KernelUsage> usage;
};

/// Compiles every `tile.kernel` of `module` (which stays as it is; other ops are not looked at) to one module of PTX,
/// and that to a cubin where there is a ptxas. The ABI is that of `tile-kernel-to-nvvm`. The PTX depends on the
/// kernels, their order and the target only, the cubin on the version of ptxas too. Errors are diagnostics at the
/// kernel concerned.
mlir::FailureOr<CudaImage> compileCuda(mlir::ModuleOp module, const CudaOptions &options);

/// As above, stopping at optimised LLVM IR, kernel after kernel, for people to read.
mlir::FailureOr<std::string> compileCudaToLlvm(mlir::ModuleOp module, const CudaOptions &options);

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_COMPILECUDA_H
