//===- Bindings.cpp - weights, derived buffers and code of a module in memory //
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Bindings.h"
#include "runtime/Checked.h"
#include "runtime/Dtype.h"
#include "runtime/Frame.h"
#include "runtime/Text.h"
#include "runtime/cpu/CpuTarget.h"
#include "runtime/format/Header.h"

namespace kimi {
namespace {

Status loadKernels(const format::Contents &contents, Bindings &bindings) {
  const fb::Module &module = *contents.module;
  if (module.images()) {
    for (const fb::Image *image : *module.images()) {
      if (Status s = checkCpuTarget(image->target()->str())) {
        return s;
      }
      bindings.images.emplace_back();
      std::string place = "image " + std::to_string(bindings.images.size() - 1);
      if (Status s = KernelImage::load(contents.data + image->blob()->offset(), image->blob()->length(),
                                       bindings.images.back())) {
        return {s.code(), place + ": " + s.message()};
      }
    }
  }
  if (module.kernels()) {
    for (const fb::Kernel *kernel : *module.kernels()) {
      KernelFunction function = bindings.images[kernel->image()]->find(kernel->symbol()->c_str());
      if (!function) {
        return badFile("kernel " + quoted(kernel->name()->str()) + ": image " + std::to_string(kernel->image()) +
                       " has no symbol " + quoted(kernel->symbol()->str()));
      }
      bindings.kernels.push_back(function);
    }
  }
  return {};
}

/// One mapping for all of them: a large model has more derived buffers than a process may have mappings.
Status allocateDerived(const fb::Module &module, Bindings &bindings) {
  uint64_t total = 0;
  if (module.derived()) {
    for (const fb::Derived *derived : *module.derived()) {
      uint64_t bytes = *denseBytes(derived->dims()->data(), derived->dims()->size(), dtypeSize(derived->dtype()));
      bindings.derivedExtents.push_back({total, bytes});
      total = format::alignTo(total + bytes, format::blobAlignment);
      if (total > INT64_MAX) {
        return {KIMI_OUT_OF_MEMORY, "the derived buffers pass 63 bits"};
      }
    }
  }
  if (Status s = Mapping::ofZeros(total, bindings.derived)) {
    return {s.code(), "derived buffers: " + s.message()};
  }
  return {};
}

/// Weights that only `init` reads were copied into derived buffers; their pages are of no more use.
void releasePackedWeights(const fb::Module &module, const Bindings &bindings) {
  std::vector<bool> isUsed(module.weights() ? module.weights()->size() : 0);
  for (const fb::Entry *entry : *module.entries()) {
    if (entry->name()->string_view() == format::initEntryName || !entry->buffers()) {
      continue;
    }
    for (const fb::Buffer *buffer : *entry->buffers()) {
      if (buffer->kind() == fb::BufferKind::Weight) {
        isUsed[buffer->index()] = true;
      }
    }
  }
  for (size_t i = 0; i < isUsed.size(); ++i) {
    if (!isUsed[i]) {
      bindings.weights.release(*module.weights()->Get(i));
    }
  }
}

Status runInit(const Plan &init, ThreadPool &pool, const Bindings &bindings) {
  Environment environment;
  environment.bindings = &bindings;
  environment.pool = &pool;
  Frame frame(init);
  if (Status s = frame.prepare(environment, nullptr, 0)) {
    return s;
  }
  return frame.run(environment, nullptr, nullptr);
}

} // namespace

Status Bindings::create(const format::Contents &contents, const std::string &weightsFolder, const Plan *init,
                        ThreadPool &pool, std::shared_ptr<const Bindings> &out) {
  auto bindings = std::make_shared<Bindings>();
  if (Status s = checkCpuTarget(contents.module->target()->str())) {
    return s;
  }
  if (Status s = loadKernels(contents, *bindings)) {
    return s;
  }
  if (Status s = bindings->weights.map(contents, weightsFolder)) {
    return s;
  }
  if (Status s = allocateDerived(*contents.module, *bindings)) {
    return s;
  }
  if (init) {
    if (Status s = runInit(*init, pool, *bindings)) {
      return s;
    }
    releasePackedWeights(*contents.module, *bindings);
  }
  out = std::move(bindings);
  return {};
}

} // namespace kimi
