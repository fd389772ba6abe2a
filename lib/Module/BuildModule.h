//===- BuildModule.h - host functions and a kernel image to a .kmod
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_MODULE_BUILDMODULE_H
#define KIMI_LIB_MODULE_BUILDMODULE_H

#include "lib/Module/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"
#include <string>

namespace kimi {

struct ModuleOptions {
  /// The code, each image with every kernel under its symbol; the runtime takes the first one that loads. For a CPU one
  /// ELF shared object.
  std::vector<plan::Image> images;
  /// What the module runs on: "cpu:x86-64-v3", "cuda:sm_90a".
  std::string target;
  /// How the kernels are launched, by symbol; one for each kernel of a CUDA module. Records of other kernels are
  /// ignored.
  std::vector<plan::Kernel> kernels;
  /// Identifies the model and the options it was compiled with.
  std::string sourceHash;
  /// Copy external weights into the module.
  bool bake = false;
  /// The folder that the files of external weights are beneath.
  std::string modelDir;
};

/// Host functions of dispatches and views (see --kimi-outline-generic) → launches over buffers. Every function with a
/// body is an entry named by `kimi.entry`, or by its symbol. Dispatches that read nothing but weights become launches
/// of the entry `init`, which fills buffers once; equal ones are done once. Errors are diagnostics at the op concerned.
mlir::FailureOr<plan::Plan> buildPlan(mlir::ModuleOp module);

/// Completes the kernels of `plan` with the records of the same symbol. Error (at `module`): `target` is a GPU and a
/// kernel has no record.
mlir::LogicalResult applyKernelRecords(mlir::ModuleOp module, plan::Plan &plan, llvm::StringRef target,
                                       llvm::ArrayRef<plan::Kernel> records);

/// The bytes of the .kmod file. The same module and options give the same bytes.
mlir::FailureOr<std::string> buildModule(mlir::ModuleOp module, const ModuleOptions &options);

/// A readable listing of the plan: signatures, scalars, buffers, launches.
mlir::LogicalResult printPlan(mlir::ModuleOp module, llvm::raw_ostream &os);
void printPlan(const plan::Plan &plan, llvm::raw_ostream &os);

/// The .kmod bytes of `plan` with the images and names of `options`.
std::string writePlan(const plan::Plan &plan, const ModuleOptions &options);

} // namespace kimi

#endif // KIMI_LIB_MODULE_BUILDMODULE_H
