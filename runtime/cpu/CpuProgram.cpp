//===- CpuProgram.cpp - a module on the CPU ---------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cpu/CpuProgram.h"
#include "runtime/Text.h"
#include "runtime/cpu/CpuExecutor.h"
#include "runtime/cpu/CpuTarget.h"
#include "runtime/format/Header.h"

namespace kimi {

Status CpuProgram::loadKernels(const format::Contents &contents) {
  const fb::Module &module = *contents.module;
  if (module.images()) {
    for (const fb::Image *image : *module.images()) {
      if (Status s = checkCpuTarget(image->target()->str())) {
        return s;
      }
      images.emplace_back();
      std::string place = "image " + std::to_string(images.size() - 1);
      if (Status s =
              KernelImage::load(contents.data + image->blob()->offset(), image->blob()->length(), images.back())) {
        return {s.code(), place + ": " + s.message()};
      }
    }
  }
  if (module.kernels()) {
    for (const fb::Kernel *kernel : *module.kernels()) {
      KernelFunction function = images[kernel->image()]->find(kernel->symbol()->c_str());
      if (!function) {
        return badFile("kernel " + quoted(kernel->name()->str()) + ": image " + std::to_string(kernel->image()) +
                       " has no symbol " + quoted(kernel->symbol()->str()));
      }
      kernels.push_back(function);
    }
  }
  return {};
}

Status CpuProgram::create(const format::Contents &contents, const std::string &weightsFolder, const Plan *init,
                          int32_t threads, std::shared_ptr<const Program> &out) {
  const fb::Module &module = *contents.module;
  auto program = std::make_shared<CpuProgram>();
  if (Status s = checkCpuTarget(module.target()->str())) {
    return s;
  }
  if (Status s = program->loadKernels(contents)) {
    return s;
  }
  if (Status s = program->weights.map(contents, weightsFolder)) {
    return s;
  }
  // One mapping for all of them: a large model has more derived buffers than a process may have mappings.
  uint64_t total = 0;
  if (Status s = layOutDerived(module, format::blobAlignment, program->extents, total)) {
    return s;
  }
  if (Status s = Mapping::ofZeros(total, program->derived)) {
    return {s.code(), "derived buffers: " + s.message()};
  }
  if (init) {
    std::unique_ptr<Executor> executor;
    kimi_session_options options = {};
    options.threads = threads;
    if (Status s = program->makeExecutor(options, executor)) {
      return s;
    }
    if (Status s = runInit(*init, *program, *executor)) {
      return s;
    }
    // Weights that only `init` reads were copied into derived buffers; their pages are of no more use.
    std::vector<bool> isUsed = weightsInUse(module);
    for (size_t i = 0; i < isUsed.size(); ++i) {
      if (!isUsed[i]) {
        program->weights.release(*module.weights()->Get(i));
      }
    }
  }
  out = std::move(program);
  return {};
}

Status CpuProgram::makeExecutor(const kimi_session_options &options, std::unique_ptr<Executor> &out) const {
  return CpuExecutor::create(*this, options.threads, out);
}

} // namespace kimi
