//===- Driver.cpp - from an .onnx file to what was asked for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-compile/Driver.h"
#include "dialects/Tile/TileDialect.h"
#include "lib/Codegen/CompileKernels.h"
#include "lib/Import/ImportOnnx.h"
#include "lib/Module/BuildModule.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines/Pipelines.h"
#include "tools/kimi-compile/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace kimi;

/// Writes through a temporary file that is renamed at the end.
static LogicalResult writeOutput(StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write) {
  llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
    write(os);
    return llvm::Error::success();
  });
  if (error) {
    llvm::errs() << "kimi-compile: error: cannot write '" << path << "': " << llvm::toString(std::move(error)) << "\n";
    return failure();
  }
  return success();
}

/// Prints the phase being run on a terminal, and wipes it at the end.
namespace {
class Progress {
public:
  Progress() : enabled(llvm::sys::Process::StandardErrIsDisplayed()) {}
  ~Progress() { show(""); }
  void show(StringRef phase) {
    if (enabled) {
      llvm::errs() << "\r\033[K" << phase;
      llvm::errs().flush();
    }
  }

private:
  bool enabled;
};
} // namespace

static LogicalResult runPhases(ModuleOp module, ArrayRef<Phase> phases, Progress &progress) {
  for (const Phase &phase : phases) {
    progress.show(phase.name);
    PassManager pm(module->getContext());
    if (failed(addPhase(phase, pm)) || failed(pm.run(module))) {
      return failure();
    }
  }
  return success();
}

static LogicalResult printModule(ModuleOp module, const CompileOptions &options) {
  return writeOutput(options.output.empty() ? "-" : options.output, [&](llvm::raw_ostream &os) {
    OpPrintingFlags flags;
    flags.printNameLocAsPrefix().enableDebugInfo(options.locations);
    module->print(os, flags);
    os << "\n";
  });
}

/// Leaves only the kernel that was asked for; an error lists the names there are.
static LogicalResult selectKernel(ModuleOp module, StringRef name) {
  std::string names;
  bool found = false;
  for (auto kernel : llvm::make_early_inc_range(module.getOps<tile::KernelOp>())) {
    names += (names.empty() ? "" : ", ") + kernel.getSymName().str();
    found |= kernel.getSymName() == name;
  }
  if (!found) {
    llvm::errs() << "kimi-compile: error: there is no kernel '" << name << "'; kernels: " << names << "\n";
    return failure();
  }
  for (Operation &op : llvm::make_early_inc_range(module.getBody()->getOperations())) {
    auto kernel = dyn_cast<tile::KernelOp>(op);
    if (!kernel || kernel.getSymName() != name) {
      op.dropAllUses();
      op.erase();
    }
  }
  return success();
}

static std::string defaultOutput(StringRef input) {
  SmallString<256> path(input);
  llvm::sys::path::replace_extension(path, ".kmod");
  return path.str().str();
}

/// Identifies the source: the model file's bytes and the options that shape the module.
static std::string hashSource(const CompileOptions &options) {
  llvm::SHA256 hash;
  if (auto buffer = llvm::MemoryBuffer::getFile(options.input, /*IsText=*/false, /*RequiresNullTerminator=*/false)) {
    hash.update((*buffer)->getBuffer());
  }
  hash.update(options.reference ? "reference" : "kernels");
  hash.update(options.precision);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

LogicalResult kimi::compile(const CompileOptions &options) {
  DialectRegistry registry;
  registerKimiDialects(registry);
  MLIRContext context(registry);
  DiagnosticPrinter printer(&context, "kimi-compile", options.verbose);
  registerKimiPasses();
  registerTransformsPasses();

  Progress progress;
  progress.show("import");
  FailureOr<OwningOpRef<ModuleOp>> imported = importOnnx(options.input, &context);
  if (failed(imported)) {
    return failure();
  }
  ModuleOp module = **imported;
  if (options.emit == Emit::Onnx) {
    return printModule(module, options);
  }

  CpuTargetOptions cpu;
  cpu.cpu = options.cpu;
  llvm::Expected<CpuTarget> target = resolveCpuTarget(cpu);
  if (!target) {
    llvm::errs() << "kimi-compile: error: " << llvm::toString(target.takeError()) << "\n";
    return failure();
  }
  PipelineOptions pipeline;
  pipeline.reference = options.reference;
  pipeline.precision = options.precision;
  pipeline.deriveDecode = options.deriveDecode;
  pipeline.panel = 2 * target->lanes;
  if (failed(runPhases(module, graphPhases(pipeline), progress))) {
    return failure();
  }
  if (options.emit == Emit::Kimi) {
    return printModule(module, options);
  }
  if (failed(runPhases(module, kernelPhases(pipeline), progress))) {
    return failure();
  }
  bool kernelText = options.emit == Emit::Tile || options.emit == Emit::Llvm || options.emit == Emit::Asm;
  if (kernelText && !options.kernel.empty() && failed(selectKernel(module, options.kernel))) {
    return failure();
  }
  if (options.emit == Emit::Tile) {
    return printModule(module, options);
  }
  if (options.emit == Emit::Plan) {
    LogicalResult result = success();
    LogicalResult written = writeOutput(options.output.empty() ? "-" : options.output,
                                        [&](llvm::raw_ostream &os) { result = printPlan(module, os); });
    return success(succeeded(result) && succeeded(written));
  }
  progress.show("codegen");
  KernelOutput kind = options.emit == Emit::Llvm  ? KernelOutput::LlvmIr
                      : options.emit == Emit::Asm ? KernelOutput::Assembly
                                                  : KernelOutput::SharedObject;
  FailureOr<std::string> image = compileKernels(module, cpu, kind);
  if (failed(image)) {
    return failure();
  }
  if (kind != KernelOutput::SharedObject) {
    return writeOutput(options.output.empty() ? "-" : options.output, [&](llvm::raw_ostream &os) { os << *image; });
  }
  progress.show("plan");
  ModuleOptions moduleOptions;
  moduleOptions.target = target->name();
  moduleOptions.images = {{moduleOptions.target, std::move(*image)}};
  moduleOptions.sourceHash = hashSource(options);
  moduleOptions.bake = options.bake;
  moduleOptions.modelDir = llvm::sys::path::parent_path(options.input).str();
  FailureOr<std::string> bytes = buildModule(module, moduleOptions);
  if (failed(bytes)) {
    return failure();
  }
  return writeOutput(options.output.empty() ? defaultOutput(options.input) : options.output,
                     [&](llvm::raw_ostream &os) { os << *bytes; });
}
