//===- Driver.cpp - from an .onnx file to what was asked for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-compile/Driver.h"
#include "dialects/Tile/TileDialect.h"
#include "lib/Import/ImportOnnx.h"
#include "lib/Support/OutputFile.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "tools/kimi-compile/Backend.h"
#include "tools/kimi-compile/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"
#include <mutex>

using namespace mlir;
using namespace kimi;

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
  hash.update(options.checkBounds ? "bounds" : "");
  hash.update(options.deriveDecode ? (options.nextToken ? "tokens" : "entries") : "main");
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

static void registerPasses() {
  static std::once_flag once; // the registry is one for all threads
  std::call_once(once, [] {
    registerKimiPasses();
    registerTransformsPasses();
  });
}

namespace {
/// Prints the phase being run where `log` is a terminal's stderr, and wipes it at the end.
class Progress {
public:
  explicit Progress(llvm::raw_ostream &log)
      : log(log), enabled(&log == &llvm::errs() && llvm::sys::Process::StandardErrIsDisplayed()) {}
  ~Progress() { show(""); }
  void show(StringRef phase) {
    if (enabled) {
      log << "\r\033[K" << phase;
      log.flush();
    }
  }

private:
  llvm::raw_ostream &log;
  bool enabled;
};

/// One model on its way, in a context of its own.
class Compilation {
public:
  Compilation(const CompileOptions &options, llvm::raw_ostream &log)
      : options(options), log(log), context(threading(options)),
        printer(&context, "kimi-compile", options.verbose, log), progress(log) {
    DialectRegistry registry;
    registerKimiDialects(registry);
    context.appendDialectRegistry(registry);
    // Printing an op numbers all values of its function: for the thousands of remarks of a large model that would take
    // minutes, and they name the node.
    context.printOpOnDiagnostic(false);
    times.setEnabled(options.timing);
    timing = times.getRootScope();
  }

  LogicalResult run();

private:
  static MLIRContext::Threading threading(const CompileOptions &options) {
    return options.parallel ? MLIRContext::Threading::ENABLED : MLIRContext::Threading::DISABLED;
  }
  LogicalResult fail(llvm::Error error) { return fail(llvm::toString(std::move(error))); }
  LogicalResult fail(const Twine &message) {
    log << "kimi-compile: error: " << message << "\n";
    return failure();
  }
  /// Writes through a temporary file that is renamed at the end.
  LogicalResult writeOutput(StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write) {
    llvm::Error error = writeOutputFile(path, write);
    return error ? fail(std::move(error)) : success();
  }
  LogicalResult writeText(llvm::function_ref<void(llvm::raw_ostream &)> write) {
    return writeOutput(options.output.empty() ? "-" : options.output, write);
  }

  LogicalResult import();
  PipelineOptions pipelineOptions(const Backend &backend) const;
  LogicalResult runPhases(ArrayRef<Phase> phases);
  /// Leaves only the kernel that was asked for; an error lists the names there are.
  LogicalResult selectKernel(StringRef name);
  LogicalResult printModule();
  LogicalResult writePlan();
  LogicalResult writeKernels(const Backend &backend);
  LogicalResult writeModule(const Backend &backend);

  const CompileOptions &options;
  llvm::raw_ostream &log;
  MLIRContext context;
  DiagnosticPrinter printer;
  DefaultTimingManager times;
  TimingScope timing;
  Progress progress;
  OwningOpRef<ModuleOp> module;
};
} // namespace

LogicalResult Compilation::import() {
  progress.show("import");
  TimingScope step = timing.nest("import");
  ImportOptions importOptions;
  importOptions.constants = options.constants;
  importOptions.limits = options.limits;
  FailureOr<OwningOpRef<ModuleOp>> imported = importOnnx(options.input, &context, importOptions);
  if (failed(imported)) {
    return failure();
  }
  module = std::move(*imported);
  return success();
}

PipelineOptions Compilation::pipelineOptions(const Backend &backend) const {
  PipelineOptions pipeline;
  backend.set(pipeline);
  pipeline.reference = options.reference;
  pipeline.deltaChunk = options.deltaChunk;
  pipeline.precision = options.precision;
  pipeline.mla = options.mla;
  if (!options.gpuSchedules.empty()) {
    pipeline.gpuSchedules = options.gpuSchedules;
  }
  pipeline.deriveDecode = options.deriveDecode;
  pipeline.nextToken = options.nextToken;
  return pipeline;
}

LogicalResult Compilation::runPhases(ArrayRef<Phase> phases) {
  for (const Phase &phase : phases) {
    progress.show(phase.name);
    TimingScope scope = timing.nest("phase " + phase.name);
    PassManager pm(&context);
    pm.enableTiming(scope);
    pm.enableVerifier(false);
    if (failed(addPhase(phase, pm, log)) || failed(pm.run(*module))) {
      return failure();
    }
    TimingScope check = scope.nest("verify");
    if (phase.verify && failed(verify(*module))) {
      return failure();
    }
  }
  return success();
}

LogicalResult Compilation::selectKernel(StringRef name) {
  std::string names;
  bool found = false;
  for (auto kernel : llvm::make_early_inc_range(module->getOps<tile::KernelOp>())) {
    names += (names.empty() ? "" : ", ") + kernel.getSymName().str();
    found |= kernel.getSymName() == name;
  }
  if (!found) {
    return fail("there is no kernel '" + name + "'; kernels: " + names);
  }
  for (Operation &op : llvm::make_early_inc_range(module->getBody()->getOperations())) {
    auto kernel = dyn_cast<tile::KernelOp>(op);
    if (!kernel || kernel.getSymName() != name) {
      op.dropAllUses();
      op.erase();
    }
  }
  return success();
}

LogicalResult Compilation::printModule() {
  return writeText([&](llvm::raw_ostream &os) {
    OpPrintingFlags flags;
    flags.printNameLocAsPrefix().enableDebugInfo(options.locations);
    module->print(os, flags);
    os << "\n";
  });
}

LogicalResult Compilation::writePlan() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  return failed(printPlan(*module, stream)) ? failure() : writeText([&](llvm::raw_ostream &os) { os << text; });
}

LogicalResult Compilation::writeKernels(const Backend &backend) {
  progress.show("codegen");
  TimingScope step = timing.nest("codegen");
  FailureOr<std::string> text = backend.text(*module, options.emit);
  return failed(text) ? failure() : writeText([&](llvm::raw_ostream &os) { os << *text; });
}

LogicalResult Compilation::writeModule(const Backend &backend) {
  progress.show("codegen");
  TimingScope step = timing.nest("codegen");
  ModuleOptions moduleOptions;
  if (failed(backend.addImages(*module, moduleOptions))) {
    return failure();
  }
  progress.show("plan");
  step = timing.nest("plan");
  moduleOptions.sourceHash = hashSource(options);
  moduleOptions.bake = options.bake;
  moduleOptions.modelDir = llvm::sys::path::parent_path(options.input).str();
  FailureOr<std::string> bytes = buildModule(*module, moduleOptions);
  if (failed(bytes)) {
    return failure();
  }
  return writeOutput(options.output.empty() ? defaultOutput(options.input) : options.output,
                     [&](llvm::raw_ostream &os) { os << *bytes; });
}

LogicalResult Compilation::run() {
  if (failed(import())) {
    return failure();
  }
  if (options.emit == Emit::Onnx) {
    return printModule();
  }
  llvm::Expected<Backend> backend = Backend::create(options);
  if (!backend) {
    return fail(backend.takeError());
  }
  PipelineOptions pipeline = pipelineOptions(*backend);
  if (failed(runPhases(graphPhases(pipeline)))) {
    return failure();
  }
  if (options.emit == Emit::Kimi) {
    return printModule();
  }
  if (failed(runPhases(kernelPhases(pipeline)))) {
    return failure();
  }
  if (options.emit == Emit::Plan) {
    return writePlan();
  }
  if (options.emit == Emit::Kmod) {
    return writeModule(*backend);
  }
  if (!options.kernel.empty() && failed(selectKernel(options.kernel))) {
    return failure();
  }
  return options.emit == Emit::Tile ? printModule() : writeKernels(*backend);
}

LogicalResult kimi::compile(const CompileOptions &options, llvm::raw_ostream &log) {
  registerPasses();
  return Compilation(options, log).run();
}
