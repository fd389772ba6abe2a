//===- CompileCuda.cpp - passes, LLVM's pipeline and ptxas
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/CompileCuda.h"
#include "lib/Codegen/KernelModules.h"
#include "lib/Codegen/MergePtx.h"
#include "mlir/Pass/PassManager.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace kimi;

static llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// Kernels become one module of PTX: names other than the kernel's own get its name in front.
static void qualifyNames(llvm::Module &module, llvm::StringRef kernel) {
  for (llvm::GlobalVariable &global : module.globals()) {
    if (!global.isDeclaration()) {
      global.setName(kernel + "$" + global.getName());
    }
  }
  for (llvm::Function &function : module) {
    if (!function.isDeclaration() && function.getName() != kernel) {
      function.setName(kernel + "$" + function.getName());
    }
  }
}

/// Functions that a library would have to provide: there is none on the device.
static llvm::Error checkClosed(const llvm::Module &module) {
  for (const llvm::Function &function : module) {
    if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty()) {
      return error("calls '" + function.getName() + "', which no library of the device provides");
    }
  }
  return llvm::Error::success();
}

/// One lowered kernel (a module in the LLVM dialect) to PTX or optimised LLVM IR.
static llvm::Expected<std::string> generate(ModuleOp kernel, const CudaTarget &target, bool toLlvm) {
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
    }
  }
  qualifyNames(**module, kernel.getName().value_or("kernel"));
  if (llvm::Error problem = verifyKernel(**module)) {
    return problem;
  }
  optimizeKernel(**module, **machine);
  if (llvm::Error problem = checkClosed(**module)) {
    return problem;
  }
  return toLlvm ? llvm::Expected<std::string>(printKernel(**module))
                : emitKernel(**module, **machine, /*object=*/false);
}

static std::vector<int32_t> integers(Attribute list) {
  std::vector<int32_t> values;
  if (auto dense = dyn_cast_or_null<DenseI64ArrayAttr>(list)) {
    values.assign(dense.asArrayRef().begin(), dense.asArrayRef().end());
  } else if (auto array = dyn_cast_or_null<ArrayAttr>(list)) {
    for (IntegerAttr value : array.getAsRange<IntegerAttr>()) {
      values.push_back(static_cast<int32_t>(value.getInt()));
    }
  }
  return values;
}

/// How the kernel is launched: what the lowering noted on its function (see KernelAttrs.h).
static plan::Kernel describe(LLVM::LLVMFuncOp function) {
  auto integer = [](Attribute value) {
    auto number = dyn_cast_or_null<IntegerAttr>(value);
    return number ? static_cast<int32_t>(number.getInt()) : 0;
  };
  plan::Kernel kernel;
  kernel.name = kernel.symbol = function.getSymName().str();
  auto size = function->getAttrOfType<DenseI32ArrayAttr>(NVVM::NVVMDialect::getReqntidAttrName());
  kernel.threads = size ? size[0] : 0;
  kernel.tasksPerBlock = function->hasAttr(kernel_attrs::kTasks) ? kernel.threads : 1;
  kernel.walks = function->hasAttr(kernel_attrs::kTasks);
  kernel.sharedBytes = integer(function->getAttr(kernel_attrs::kSharedBytes));
  kernel.pdl = function->hasAttr(kernel_attrs::kPdl);
  if (auto maps = function->getAttrOfType<ArrayAttr>(kernel_attrs::kTensorMaps)) {
    for (DictionaryAttr map : maps.getAsRange<DictionaryAttr>()) {
      plan::TensorMap record;
      record.arg = integer(map.get("arg"));
      record.dims = integers(map.get("dims"));
      record.box = integers(map.get("box"));
      record.swizzle = static_cast<uint8_t>(integer(map.get("swizzle")));
      record.elementSize = static_cast<uint8_t>(integer(map.get("element_size")));
      kernel.tensorMaps.push_back(record);
    }
  }
  return kernel;
}

/// The kernels as modules in the LLVM dialect.
static FailureOr<OwningOpRef<ModuleOp>> lower(ModuleOp module, const CudaTarget &target) {
  MLIRContext *context = module.getContext();
  registerKernelTranslations(*context);
  OwningOpRef<ModuleOp> kernels = isolateKernels(module);
  PassManager pm(context);
  TileToCudaOptions lowering;
  lowering.sm = target.sm;
  lowering.hopper = target.hopper;
  buildTileToCudaPipeline(pm.nest<ModuleOp>(), lowering);
  if (failed(pm.run(*kernels))) {
    return failure();
  }
  return kernels;
}

/// Assembles image.ptx where there is a ptxas, and says what ptxas says.
static LogicalResult assemble(ModuleOp module, const CudaOptions &options, CudaImage &image) {
  auto report = [&](Location loc) { return options.warn ? emitWarning(loc) : emitRemark(loc); };
  llvm::Expected<std::optional<std::string>> ptxas = findPtxas(options.ptxas);
  if (!ptxas) {
    return module.emitError(llvm::toString(ptxas.takeError()));
  }
  if (!*ptxas) {
    report(module.getLoc()) << "no ptxas was found: the module holds PTX only, which the driver compiles when it is "
                               "loaded (--ptxas=FILE names one)";
    return success();
  }
  llvm::Expected<PtxasResult> result = runPtxas(**ptxas, image.ptx, options.target.arch);
  if (!result) {
    return module.emitError(llvm::toString(result.takeError()));
  }
  image.cubin = std::move(result->cubin);
  image.usage = std::move(result->usage);
  for (const PtxasRemark &remark : result->remarks) {
    InFlightDiagnostic diagnostic = report(module.getLoc());
    diagnostic << (remark.kernel.empty() ? "" : "kernel '" + remark.kernel + "': ") << remark.text;
  }
  for (const KernelUsage &usage : image.usage) {
    if (usage.spillStores + usage.spillLoads > 0) {
      report(module.getLoc()) << "kernel '" << usage.kernel << "': spills " << usage.spillStores << " bytes (loads "
                              << usage.spillLoads << ") of " << usage.registers << " registers a thread";
    }
  }
  return success();
}

FailureOr<CudaImage> kimi::compileCuda(ModuleOp module, const CudaOptions &options) {
  FailureOr<OwningOpRef<ModuleOp>> kernels = lower(module, options.target);
  if (failed(kernels)) {
    return failure();
  }
  CudaImage image;
  for (ModuleOp part : (*kernels)->getOps<ModuleOp>()) {
    for (auto function : part.getOps<LLVM::LLVMFuncOp>()) {
      if (function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName())) {
        image.kernels.push_back(describe(function));
      }
    }
  }
  FailureOr<std::vector<std::string>> texts = generateKernels(
      **kernels, options.threads, [&](ModuleOp kernel) { return generate(kernel, options.target, false); });
  if (failed(texts)) {
    return failure();
  }
  llvm::Expected<std::string> merged = mergePtx(*texts);
  if (!merged) {
    return module.emitError(llvm::toString(merged.takeError()));
  }
  image.ptx = std::move(*merged);
  if (!image.kernels.empty() && failed(assemble(module, options, image))) {
    return failure();
  }
  return image;
}

FailureOr<std::string> kimi::compileCudaToLlvm(ModuleOp module, const CudaOptions &options) {
  FailureOr<OwningOpRef<ModuleOp>> kernels = lower(module, options.target);
  if (failed(kernels)) {
    return failure();
  }
  FailureOr<std::vector<std::string>> texts = generateKernels(
      **kernels, options.threads, [&](ModuleOp kernel) { return generate(kernel, options.target, true); });
  if (failed(texts)) {
    return failure();
  }
  return llvm::join(*texts, "\n");
}
