//===- CompileKernels.cpp - passes, LLVM's pipeline and the linker, kernel by kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/CompileKernels.h"
#include "lib/Codegen/KernelModules.h"
#include "lib/Codegen/LinkSharedObject.h"
#include "mlir/Pass/PassManager.h"
#include "passes/TileToLlvm/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace kimi;

/// One lowered kernel (a module in the LLVM dialect) to object code, assembly or LLVM IR.
static llvm::Expected<std::string> generate(ModuleOp kernel, const CpuTarget &target, KernelOutput output) {
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> machine = createTargetMachine(target);
  if (!machine) {
    return machine.takeError();
  }
  llvm::LLVMContext context;
  llvm::Expected<std::unique_ptr<llvm::Module>> module = translateKernel(kernel, context, **machine);
  if (!module) {
    return module.takeError();
  }
  for (llvm::Function &function : **module) {
    if (!function.isDeclaration()) {
      function.addFnAttr(llvm::Attribute::NoUnwind);
      function.addFnAttr("target-cpu", target.cpu);
      function.addFnAttr("tune-cpu", target.tune);
      // Copies and fills of tiles are loops of whole vectors: better than a call of memcpy for each row.
      function.addFnAttr("no-builtins");
      function.addFnAttr("prefer-vector-width", std::to_string(32 * target.lanes));
    }
  }
  if (llvm::Error problem = verifyKernel(**module)) {
    return problem;
  }
  optimizeKernel(**module, **machine);
  if (output == KernelOutput::LlvmIr) {
    return printKernel(**module);
  }
  return emitKernel(**module, **machine, output == KernelOutput::SharedObject);
}

FailureOr<std::string> kimi::compileKernels(ModuleOp module, const CpuTargetOptions &options, KernelOutput output) {
  llvm::Expected<CpuTarget> target = resolveCpuTarget(options);
  if (!target) {
    return module.emitError(llvm::toString(target.takeError()));
  }
  MLIRContext *context = module.getContext();
  registerKernelTranslations(*context);
  OwningOpRef<ModuleOp> kernels = isolateKernels(module);
  PassManager pm(context);
  TileToLlvmOptions lowering;
  lowering.lanes = target->lanes;
  lowering.checkBounds = options.checkBounds;
  buildTileToLlvmPipeline(pm.nest<ModuleOp>(), lowering);
  if (failed(pm.run(*kernels))) {
    return failure();
  }

  FailureOr<std::vector<std::string>> results =
      generateKernels(*kernels, options.threads, [&](ModuleOp kernel) { return generate(kernel, *target, output); });
  if (failed(results)) {
    return failure();
  }
  if (output != KernelOutput::SharedObject) {
    return llvm::join(*results, "\n");
  }
  llvm::Expected<std::string> image = linkSharedObject(*results);
  if (!image) {
    return module.emitError(llvm::toString(image.takeError()));
  }
  return *image;
}

FailureOr<std::string> kimi::compileKernels(ModuleOp module, const CpuTargetOptions &options) {
  return compileKernels(module, options, KernelOutput::SharedObject);
}
