//===- CompileKernels.cpp - passes, LLVM's pipeline and the linker, kernel by kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/CompileKernels.h"
#include "dialects/Tile/TileDialect.h"
#include "lib/Codegen/LinkSharedObject.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "passes/TileToLlvm/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace kimi;

/// LLVM's -O3 on one module.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.LoopInterleaving = true;
  tuning.SLPVectorization = true;
  tuning.LoopUnrolling = true;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

/// One lowered kernel (a module in the LLVM dialect) to object code, assembly or LLVM IR.
static llvm::Expected<std::string> generate(ModuleOp kernel, const CpuTarget &target, KernelOutput output) {
  auto error = [](const llvm::Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
  };
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> machine = createTargetMachine(target);
  if (!machine) {
    return machine.takeError();
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(kernel, context, kernel.getName().value_or("kernel"));
  if (!module) {
    return error("cannot be translated to LLVM IR");
  }
  module->setTargetTriple(llvm::Triple(target.triple));
  module->setDataLayout((*machine)->createDataLayout());
  for (llvm::Function &function : *module) {
    if (!function.isDeclaration()) {
      function.addFnAttr(llvm::Attribute::NoUnwind);
      function.addFnAttr("target-cpu", target.cpu);
      function.addFnAttr("tune-cpu", target.tune);
      function.addFnAttr("prefer-vector-width", std::to_string(32 * target.lanes));
    }
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (llvm::verifyModule(*module, &stream)) {
    return error("is invalid LLVM IR: " + text);
  }
  optimize(*module, **machine);
  if (output == KernelOutput::LlvmIr) {
    module->print(stream, nullptr);
    return text;
  }
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream object(bytes);
  llvm::legacy::PassManager passes;
  auto type =
      output == KernelOutput::Assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if ((*machine)->addPassesToEmitFile(passes, object, nullptr, type)) {
    return error("the code generator for '" + target.triple + "' cannot emit this kind of file");
  }
  passes.run(*module);
  return std::string(bytes.begin(), bytes.end());
}

/// A module of modules, each holding a copy of one kernel, so that the pass manager lowers them side by side.
static OwningOpRef<ModuleOp> isolateKernels(ModuleOp module) {
  OpBuilder b(module.getContext());
  OwningOpRef<ModuleOp> result = ModuleOp::create(module.getLoc());
  for (tile::KernelOp kernel : module.getOps<tile::KernelOp>()) {
    b.setInsertionPointToEnd(result->getBody());
    auto inner = ModuleOp::create(b, kernel.getLoc(), kernel.getSymName());
    b.setInsertionPointToEnd(inner.getBody());
    b.clone(*kernel);
  }
  return result;
}

FailureOr<std::string> kimi::compileKernels(ModuleOp module, const CpuTargetOptions &options, KernelOutput output) {
  llvm::Expected<CpuTarget> target = resolveCpuTarget(options);
  if (!target) {
    return module.emitError(llvm::toString(target.takeError()));
  }
  MLIRContext *context = module.getContext();
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context->appendDialectRegistry(registry);

  OwningOpRef<ModuleOp> kernels = isolateKernels(module);
  PassManager pm(context);
  TileToLlvmOptions lowering;
  lowering.lanes = target->lanes;
  buildTileToLlvmPipeline(pm.nest<ModuleOp>(), lowering);
  if (failed(pm.run(*kernels))) {
    return failure();
  }

  SmallVector<ModuleOp> parts(kernels->getOps<ModuleOp>());
  std::vector<std::string> results(parts.size());
  std::vector<std::string> errors(parts.size());
  {
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency(options.threads));
    for (size_t i = 0; i < parts.size(); ++i) {
      pool.async([&, i] {
        llvm::Expected<std::string> result = generate(parts[i], *target, output);
        if (result) {
          results[i] = std::move(*result);
        } else {
          errors[i] = llvm::toString(result.takeError());
        }
      });
    }
    pool.wait();
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!errors[i].empty()) {
      return parts[i].emitError() << "kernel '" << parts[i].getName().value_or("") << "' " << errors[i];
    }
  }
  if (output != KernelOutput::SharedObject) {
    return llvm::join(results, "\n");
  }
  llvm::Expected<std::string> image = linkSharedObject(results);
  if (!image) {
    return module.emitError(llvm::toString(image.takeError()));
  }
  return *image;
}

FailureOr<std::string> kimi::compileKernels(ModuleOp module, const CpuTargetOptions &options) {
  return compileKernels(module, options, KernelOutput::SharedObject);
}
