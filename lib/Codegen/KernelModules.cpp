//===- KernelModules.cpp - what the code generators of all targets share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/KernelModules.h"
#include "dialects/Tile/TileDialect.h"
#include "lib/Codegen/LlvmGlobals.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace mlir;
using namespace kimi;

static llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// On the module of a kernel: the names of the functions that use it.
constexpr llvm::StringLiteral kUsers = "kimi.users";

OwningOpRef<ModuleOp> kimi::isolateKernels(ModuleOp module) {
  OpBuilder b(module.getContext());
  llvm::StringMap<llvm::SmallSetVector<Attribute, 2>> users;
  for (auto function : module.getOps<func::FuncOp>()) {
    for (const SymbolTable::SymbolUse &use : SymbolTable::getSymbolUses(function).value_or(SymbolTable::UseRange({}))) {
      users[use.getSymbolRef().getRootReference()].insert(function.getSymNameAttr());
    }
  }
  OwningOpRef<ModuleOp> result = ModuleOp::create(module.getLoc());
  for (tile::KernelOp kernel : module.getOps<tile::KernelOp>()) {
    b.setInsertionPointToEnd(result->getBody());
    auto inner = ModuleOp::create(b, kernel.getLoc(), kernel.getSymName());
    if (auto it = users.find(kernel.getSymName()); it != users.end()) {
      inner->setAttr(kUsers, b.getArrayAttr(it->second.getArrayRef()));
    }
    b.setInsertionPointToEnd(inner.getBody());
    b.clone(*kernel);
  }
  return result;
}

void kimi::registerKernelTranslations(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
}

namespace {
/// While alive, fatal errors of LLVM and crashes end the work that runs in `guard` instead of the process. LLVM keeps
/// the handlers in globals: the first instance installs them for all that are alive at a time, the last takes them
/// away.
class FatalErrors {
public:
  FatalErrors() {
    std::lock_guard<std::mutex> lock(mutex());
    if (instances()++ == 0) {
      llvm::install_fatal_error_handler(onFatalError);
      llvm::CrashRecoveryContext::Enable();
    }
  }
  ~FatalErrors() {
    std::lock_guard<std::mutex> lock(mutex());
    if (--instances() == 0) {
      llvm::CrashRecoveryContext::Disable();
      llvm::remove_fatal_error_handler();
    }
  }
  FatalErrors(const FatalErrors &) = delete;
  FatalErrors &operator=(const FatalErrors &) = delete;

  /// Runs `work` on this thread; the message of what ended it early, or an empty string.
  static std::string guard(llvm::function_ref<void()> work) {
    std::string text;
    fatalText() = &text;
    llvm::scope_exit reset([] { fatalText() = nullptr; });
    llvm::CrashRecoveryContext recovery;
    if (recovery.RunSafely(work)) {
      return "";
    }
    // What follows the first line are nodes of LLVM.
    return text.empty() ? "the code generator crashed" : llvm::StringRef(text).split('\n').first.str();
  }

private:
  static std::mutex &mutex() {
    static std::mutex instance;
    return instance;
  }
  static int &instances() { // under the mutex
    static int count = 0;
    return count;
  }
  static std::string *&fatalText() {
    thread_local std::string *text = nullptr;
    return text;
  }
  static void onFatalError(void *, const char *reason, bool) {
    if (fatalText()) {
      *fatalText() = reason;
    } else { // of a thread that is not guarded, while others are: it ends the process, as without the handler
      llvm::errs() << "LLVM ERROR: " << reason << "\n";
    }
    if (auto *recovery = llvm::CrashRecoveryContext::GetCurrent()) {
      recovery->HandleExit(1);
    }
  }
};
} // namespace

/// An error at the file, which names the kernel and its entries, and a note at the node.
static LogicalResult fail(ModuleOp kernels, ModuleOp kernel, StringRef problem) {
  InFlightDiagnostic diagnostic = emitError(kernels.getLoc(), "kernel '") << kernel.getName().value_or("") << "' ";
  if (auto users = kernel->getAttrOfType<ArrayAttr>(kUsers)) {
    diagnostic << "of " << (users.size() == 1 ? "entry " : "entries ");
    llvm::interleaveComma(users.getAsRange<StringAttr>(), diagnostic,
                          [&](StringAttr name) { diagnostic << "'" << name.getValue() << "'"; });
    diagnostic << " ";
  }
  diagnostic << problem;
  if (!isa<UnknownLoc>(kernel.getLoc())) {
    diagnostic.attachNote(kernel.getLoc()) << "the kernel was made from this";
  }
  return diagnostic;
}

FailureOr<std::vector<std::string>>
kimi::generateKernels(ModuleOp kernels, unsigned threads,
                      llvm::function_ref<llvm::Expected<std::string>(ModuleOp)> generate) {
  SmallVector<ModuleOp> parts(kernels.getOps<ModuleOp>());
  std::vector<std::string> results(parts.size());
  std::vector<std::string> errors(parts.size());
  {
    std::shared_lock<std::shared_mutex> lock(llvmGlobals());
    FatalErrors fatal;
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency(threads));
    for (size_t i = 0; i < parts.size(); ++i) {
      pool.async([&, i] {
        std::string problem = FatalErrors::guard([&] {
          llvm::Expected<std::string> result = generate(parts[i]);
          if (result) {
            results[i] = std::move(*result);
          } else {
            errors[i] = llvm::toString(result.takeError());
          }
        });
        if (!problem.empty()) {
          errors[i] = "cannot be compiled: " + problem;
        }
      });
    }
    pool.wait();
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!errors[i].empty()) {
      return fail(kernels, parts[i], errors[i]);
    }
  }
  return results;
}

namespace {
/// Collects errors, which LLVM would otherwise print before it ends the process.
struct ErrorCollector : llvm::DiagnosticHandler {
  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream stream(text);
      llvm::DiagnosticPrinterRawOStream printer(stream);
      stream << (text.empty() ? "" : "; ");
      info.print(printer);
    }
    return true;
  }
  std::string text;
};
} // namespace

llvm::Expected<std::unique_ptr<llvm::Module>> kimi::translateKernel(ModuleOp kernel, llvm::LLVMContext &context,
                                                                    llvm::TargetMachine &machine) {
  context.setDiagnosticHandler(std::make_unique<ErrorCollector>());
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(kernel, context, kernel.getName().value_or("kernel"));
  if (!module) {
    return error("cannot be translated to LLVM IR");
  }
  module->setTargetTriple(machine.getTargetTriple());
  module->setDataLayout(machine.createDataLayout());
  return module;
}

llvm::Error kimi::verifyKernel(llvm::Module &module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  return llvm::verifyModule(module, &stream) ? error("is invalid LLVM IR: " + text) : llvm::Error::success();
}

void kimi::optimizeKernel(llvm::Module &module, llvm::TargetMachine &machine) {
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

std::string kimi::printKernel(const llvm::Module &module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

llvm::Expected<std::string> kimi::emitKernel(llvm::Module &module, llvm::TargetMachine &machine, bool object) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  auto type = object ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) {
    return error("the code generator for '" + machine.getTargetTriple().str() + "' cannot emit this kind of file");
  }
  passes.run(module);
  auto *collector = static_cast<const ErrorCollector *>(module.getContext().getDiagHandlerPtr());
  if (collector && !collector->text.empty()) {
    return error("cannot be compiled: " + collector->text);
  }
  return std::string(bytes.begin(), bytes.end());
}
