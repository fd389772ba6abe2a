//===- Driver.cpp - from an .onnx file to what was asked for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-compile/Driver.h"
#include "dialects/Tile/TileDialect.h"
#include "lib/Codegen/CompileCuda.h"
#include "lib/Codegen/CompileKernels.h"
#include "lib/Codegen/SassInfo.h"
#include "lib/Import/ImportOnnx.h"
#include "lib/Module/BuildModule.h"
#include "lib/Support/OutputFile.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
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
  if (llvm::Error error = writeOutputFile(path, write)) {
    llvm::errs() << "kimi-compile: error: " << llvm::toString(std::move(error)) << "\n";
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

static LogicalResult runPhases(ModuleOp module, ArrayRef<Phase> phases, Progress &progress, TimingScope &timing) {
  for (const Phase &phase : phases) {
    progress.show(phase.name);
    TimingScope scope = timing.nest("phase " + phase.name);
    PassManager pm(module->getContext());
    pm.enableTiming(scope);
    pm.enableVerifier(phase.verifyEach);
    if (failed(addPhase(phase, pm)) || failed(pm.run(module))) {
      return failure();
    }
    TimingScope check = scope.nest("verify");
    if (!phase.verifyEach && failed(verify(module))) {
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
  hash.update("delta-chunk " + std::to_string(options.deltaChunk));
  hash.update(options.precision);
  hash.update("mla " + options.mla);
  for (const auto &[name, file] : options.constants) {
    hash.update(name);
    if (auto buffer = llvm::MemoryBuffer::getFile(file, /*IsText=*/false, /*RequiresNullTerminator=*/false)) {
      hash.update((*buffer)->getBuffer());
    }
  }
  hash.update(options.target);
  hash.update(options.gpuSchedules);
  hash.update(options.deriveDecode ? (options.nextToken ? "tokens" : "entries") : "main");
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

namespace {
/// The code generator that was asked for.
class Backend {
public:
  /// An error, already printed, where the target is unknown here.
  static FailureOr<Backend> create(const CompileOptions &options) {
    Backend backend;
    if (options.target == "cpu") {
      backend.cpu.cpu = options.cpu;
      llvm::Expected<CpuTarget> target = resolveCpuTarget(backend.cpu);
      if (!target) {
        return fail(target.takeError());
      }
      backend.name = target->name();
      backend.panel = 2 * target->lanes;
      return backend;
    }
    llvm::Expected<CudaTarget> target = resolveCudaTarget(options.target);
    if (!target) {
      return fail(target.takeError());
    }
    backend.name = target->name();
    backend.cuda.emplace();
    backend.cuda->target = *target;
    backend.cuda->ptxas = options.ptxas;
    backend.cuda->warn = options.verbose;
    return backend;
  }

  void set(PipelineOptions &pipeline) const {
    pipeline.panel = panel;
    pipeline.cuda = cuda.has_value();
    if (cuda) { // those of 90a are for kernels that are split by role
      pipeline.gpuSchedules = std::to_string(cuda->target.sm) + (cuda->target.hopper ? "a" : "");
    }
  }

  /// The kernels as text: llvm, asm, ptx, sass-info.
  FailureOr<std::string> text(ModuleOp module, Emit emit) const {
    if (!cuda) {
      return compileKernels(module, cpu, emit == Emit::Llvm ? KernelOutput::LlvmIr : KernelOutput::Assembly);
    }
    if (emit == Emit::Llvm) {
      return compileCudaToLlvm(module, *cuda);
    }
    CudaOptions options = *cuda;
    if (emit == Emit::Ptx) {
      options.ptxas = "none";
      options.warn = false;
    }
    FailureOr<CudaImage> image = compileCuda(module, options);
    if (failed(image)) {
      return failure();
    }
    if (emit == Emit::Ptx) {
      return image->ptx;
    }
    if (image->cubin.empty()) {
      return module.emitError() << "--emit=sass-info needs ptxas (--ptxas=FILE names one)";
    }
    return describeSass(*image, options);
  }

  /// The kernels of a module file.
  LogicalResult addImages(ModuleOp module, ModuleOptions &options) const {
    options.target = name;
    if (!cuda) {
      FailureOr<std::string> image = compileKernels(module, cpu);
      if (failed(image)) {
        return failure();
      }
      options.images.push_back({name, std::move(*image)});
      return success();
    }
    FailureOr<CudaImage> image = compileCuda(module, *cuda);
    if (failed(image)) {
      return failure();
    }
    if (!image->cubin.empty()) {
      options.images.push_back({name, std::move(image->cubin)});
    }
    // The driver takes PTX as a string that ends in a zero.
    options.images.push_back({cuda->target.ptxName(), image->ptx + '\0'});
    options.kernels = std::move(image->kernels);
    return success();
  }

private:
  static LogicalResult fail(llvm::Error error) {
    llvm::errs() << "kimi-compile: error: " << llvm::toString(std::move(error)) << "\n";
    return failure();
  }

  std::string name;
  CpuTargetOptions cpu;
  int64_t panel = 0;
  std::optional<CudaOptions> cuda;
};
} // namespace

LogicalResult kimi::compile(const CompileOptions &options) {
  DialectRegistry registry;
  registerKimiDialects(registry);
  MLIRContext context(registry);
  // Printing an op numbers all values of its function: for the remarks of a large model, also those nobody reads, that
  // would take longer than the passes.
  context.printOpOnDiagnostic(options.verbose);
  DiagnosticPrinter printer(&context, "kimi-compile", options.verbose);
  registerKimiPasses();
  registerTransformsPasses();

  DefaultTimingManager times;
  times.setEnabled(options.timing);
  TimingScope timing = times.getRootScope(), step = timing.nest("import");
  Progress progress;
  progress.show("import");
  ImportOptions importOptions;
  importOptions.constants = options.constants;
  importOptions.limits = options.limits;
  FailureOr<OwningOpRef<ModuleOp>> imported = importOnnx(options.input, &context, importOptions);
  if (failed(imported)) {
    return failure();
  }
  step.stop();
  ModuleOp module = **imported;
  if (options.emit == Emit::Onnx) {
    return printModule(module, options);
  }

  FailureOr<Backend> backend = Backend::create(options);
  if (failed(backend)) {
    return failure();
  }
  PipelineOptions pipeline;
  backend->set(pipeline);
  pipeline.reference = options.reference;
  pipeline.deltaChunk = options.deltaChunk;
  pipeline.precision = options.precision;
  pipeline.mla = options.mla;
  if (!options.gpuSchedules.empty()) {
    pipeline.gpuSchedules = options.gpuSchedules;
  }
  pipeline.deriveDecode = options.deriveDecode;
  pipeline.nextToken = options.nextToken;
  if (failed(runPhases(module, graphPhases(pipeline), progress, timing))) {
    return failure();
  }
  if (options.emit == Emit::Kimi) {
    return printModule(module, options);
  }
  if (failed(runPhases(module, kernelPhases(pipeline), progress, timing))) {
    return failure();
  }
  bool kernels = options.emit != Emit::Plan && options.emit != Emit::Kmod;
  if (kernels && !options.kernel.empty() && failed(selectKernel(module, options.kernel))) {
    return failure();
  }
  if (options.emit == Emit::Tile) {
    return printModule(module, options);
  }
  if (options.emit == Emit::Plan) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    return failed(printPlan(module, stream))
               ? failure()
               : writeOutput(options.output.empty() ? "-" : options.output, [&](llvm::raw_ostream &os) { os << text; });
  }
  progress.show("codegen");
  step = timing.nest("codegen");
  if (kernels) {
    FailureOr<std::string> text = backend->text(module, options.emit);
    return failed(text) ? failure()
                        : writeOutput(options.output.empty() ? "-" : options.output,
                                      [&](llvm::raw_ostream &os) { os << *text; });
  }
  ModuleOptions moduleOptions;
  if (failed(backend->addImages(module, moduleOptions))) {
    return failure();
  }
  progress.show("plan");
  step = timing.nest("plan");
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
