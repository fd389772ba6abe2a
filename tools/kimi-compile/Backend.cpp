//===- Backend.cpp - the code generator that was asked for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-compile/Backend.h"
#include "lib/Codegen/CompileKernels.h"
#include "lib/Codegen/SassInfo.h"

using namespace mlir;
using namespace kimi;

llvm::Expected<Backend> Backend::create(const CompileOptions &options) {
  Backend backend;
  unsigned threads = options.parallel ? 0 : 1;
  if (options.target == "cpu") {
    backend.cpu.cpu = options.cpu;
    backend.cpu.threads = threads;
    backend.cpu.checkBounds = options.checkBounds;
    llvm::Expected<CpuTarget> target = resolveCpuTarget(backend.cpu);
    if (!target) {
      return target.takeError();
    }
    backend.name = target->name();
    backend.panel = 2 * target->lanes;
    return backend;
  }
  llvm::Expected<CudaTarget> target = resolveCudaTarget(options.target);
  if (!target) {
    return target.takeError();
  }
  backend.name = target->name();
  backend.cuda.emplace();
  backend.cuda->target = *target;
  backend.cuda->ptxas = options.ptxas;
  backend.cuda->threads = threads;
  backend.cuda->warn = options.verbose;
  return backend;
}

void Backend::set(PipelineOptions &pipeline) const {
  pipeline.panel = panel;
  pipeline.cuda = cuda.has_value();
  if (cuda) { // those of 90a are for kernels that are split by role
    pipeline.gpuSchedules = std::to_string(cuda->target.sm) + (cuda->target.hopper ? "a" : "");
  }
}

FailureOr<std::string> Backend::text(ModuleOp module, Emit emit) const {
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

LogicalResult Backend::addImages(ModuleOp module, ModuleOptions &options) const {
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
