//===- KernelModules.h - what the code generators of all targets share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_CODEGEN_KERNELMODULES_H
#define KIMI_LIB_CODEGEN_KERNELMODULES_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace kimi {

/// A module of modules, each named after a `tile.kernel` of `module` and holding a copy of it, so that the pass manager
/// lowers them side by side. Each remembers which functions use its kernel, for messages.
mlir::OwningOpRef<mlir::ModuleOp> isolateKernels(mlir::ModuleOp module);

/// Makes the dialects that kernels end in known to the translation to LLVM IR.
void registerKernelTranslations(mlir::MLIRContext &context);

/// Runs `generate` on each inner module, `threads` at a time (0: one a core), and returns the results in order. A
/// failure, a fatal error of LLVM and a crash in it alike become a diagnostic at the file ("kernel 'k' of entry 'e' "
/// and the text), with a note at the node that the kernel comes from.
mlir::FailureOr<std::vector<std::string>>
generateKernels(mlir::ModuleOp kernels, unsigned threads,
                llvm::function_ref<llvm::Expected<std::string>(mlir::ModuleOp)> generate);

/// LLVM IR of one lowered kernel for `machine`. From now on `context` collects the errors of code generation, which
/// emitKernel returns.
llvm::Expected<std::unique_ptr<llvm::Module>> translateKernel(mlir::ModuleOp kernel, llvm::LLVMContext &context,
                                                              llvm::TargetMachine &machine);

/// An error where the module is not valid LLVM IR.
llvm::Error verifyKernel(llvm::Module &module);

/// LLVM's -O3.
void optimizeKernel(llvm::Module &module, llvm::TargetMachine &machine);

/// The module as text.
std::string printKernel(const llvm::Module &module);

/// Assembly (`object` false) or object code of a module that translateKernel made.
llvm::Expected<std::string> emitKernel(llvm::Module &module, llvm::TargetMachine &machine, bool object);

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_KERNELMODULES_H
