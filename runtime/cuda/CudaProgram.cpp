//===- CudaProgram.cpp - a module on a GPU ----------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/CudaProgram.h"
#include "runtime/Checked.h"
#include "runtime/Dtype.h"
#include "runtime/cuda/Cuda.h"
#include "runtime/cuda/CudaExecutor.h"
#include "runtime/cuda/Upload.h"
#include "runtime/format/Header.h"

#include <algorithm>

namespace kimi::cuda {
namespace {

/// Weights and derived buffers start at multiples of this: what cuMemAlloc gives, and more than any copy asks for.
constexpr uint64_t weightAlignment = 256;

uint64_t bytesOf(const fb::Weight &weight) {
  return static_cast<uint64_t>(*denseBytes(weight.dims()->data(), weight.dims()->size(), dtypeSize(weight.dtype())));
}

/// The weights that the entry `init` reads.
std::vector<bool> weightsOfInit(const fb::Module &module) {
  std::vector<bool> out(module.weights()->size());
  for (const fb::Entry *entry : *module.entries()) {
    if (entry->name()->string_view() == format::initEntryName && entry->buffers()) {
      for (const fb::Buffer *buffer : *entry->buffers()) {
        if (buffer->kind() == fb::BufferKind::Weight) {
          out[buffer->index()] = true;
        }
      }
    }
  }
  return out;
}

/// A block of device memory for the chosen weights. Sets their addresses.
Status placeWeights(const CudaDevice &device, const fb::Module &module, const std::vector<bool> &chosen,
                    const std::string &what, DeviceMemory &memory, std::vector<uint64_t> &addresses) {
  uint64_t total = 0;
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i]) {
      addresses[i] = total;
      total = format::alignTo(total + bytesOf(*module.weights()->Get(i)), weightAlignment);
      if (total > INT64_MAX) {
        return {KIMI_OUT_OF_MEMORY, what + " pass 63 bits"};
      }
    }
  }
  if (Status s = DeviceMemory::allocate(device, total, what, memory)) {
    return s;
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    addresses[i] += chosen[i] ? memory.address() : 0;
  }
  return {};
}

} // namespace

Status CudaProgram::uploadWeights(const format::Contents &contents, const std::string &weightsFolder, bool hasInit,
                                  DeviceMemory &transient) {
  const fb::Module &module = *contents.module;
  WeightFiles files;
  if (Status s = files.map(contents, weightsFolder)) {
    return s;
  }
  size_t count = module.weights() ? module.weights()->size() : 0;
  addresses.assign(count, 0);
  if (count == 0) {
    return {};
  }
  std::vector<bool> kept = weightsInUse(module), packed(count);
  if (hasInit) {
    packed = weightsOfInit(module);
  }
  for (size_t i = 0; i < count; ++i) {
    packed[i] = packed[i] && !kept[i];
  }
  if (Status s = placeWeights(*gpu, module, kept, "the weights", weights, addresses)) {
    return s;
  }
  if (Status s = placeWeights(*gpu, module, packed, "weights to be packed", transient, addresses)) {
    return s;
  }
  OwnedStream stream;
  if (Status s = createStream(*gpu, stream)) {
    return s;
  }
  Upload upload;
  if (Status s = Upload::create(*gpu, stream.get(), weights.size() + transient.size(), upload)) {
    return s;
  }
  for (const std::vector<bool> *chosen : {&kept, &packed}) {
    for (size_t i = 0; i < count; ++i) {
      if ((*chosen)[i]) {
        const fb::Weight &weight = *module.weights()->Get(i);
        if (Status s = upload.add(addresses[i], files.data(i), bytesOf(weight))) {
          return s;
        }
        files.release(weight); // the pages of the file are of no more use
      }
    }
    if (Status s = upload.flush()) {
      return s;
    }
  }
  return upload.finish();
}

Status CudaProgram::create(const format::Contents &contents, const std::string &weightsFolder, const Plan *init,
                           int32_t ordinal, std::shared_ptr<const Program> &out) {
  auto program = std::make_shared<CudaProgram>();
  if (Status s = CudaDevice::open(ordinal, program->gpu)) {
    return s;
  }
  CudaDevice::Scope scope(*program->gpu);
  if (Status s = KernelCode::load(*program->gpu, contents, program->code)) {
    return s;
  }
  DeviceMemory transient; // weights that only `init` reads
  if (Status s = program->uploadWeights(contents, weightsFolder, init != nullptr, transient)) {
    return s;
  }
  uint64_t total = 0;
  if (Status s = layOutDerived(*contents.module, weightAlignment, program->extents, total)) {
    return s;
  }
  if (Status s = DeviceMemory::allocate(*program->gpu, total, "packed weights", program->derived)) {
    return s;
  }
  if (init) {
    std::unique_ptr<Executor> executor;
    if (Status s = program->makeExecutor({}, executor)) {
      return s;
    }
    if (Status s = runInit(*init, *program, *executor)) {
      return s;
    }
  }
  out = std::move(program);
  return {};
}

Status CudaProgram::makeExecutor(const kimi_session_options &options, std::unique_ptr<Executor> &out) const {
  return CudaExecutor::create(*this, options, out);
}

Status createProgram(const format::Contents &contents, const std::string &weightsFolder, const Plan *init,
                     int32_t ordinal, std::shared_ptr<const Program> &out) {
  return CudaProgram::create(contents, weightsFolder, init, ordinal, out);
}

Status appendDevices(std::vector<kimi_device_info> &out) {
  const Driver *driver = nullptr;
  std::vector<DeviceProperties> devices;
  if (Status s = Driver::get(driver)) {
    return s;
  }
  if (Status s = listDevices(*driver, devices)) {
    return s;
  }
  for (const DeviceProperties &device : devices) {
    kimi_device_info info = {};
    std::snprintf(info.id, sizeof(info.id), "cuda:%d", device.ordinal);
    std::snprintf(info.name, sizeof(info.name), "%s", device.name.c_str());
    std::snprintf(info.arch, sizeof(info.arch), "%s", device.arch().c_str());
    std::snprintf(info.driver, sizeof(info.driver), "CUDA %s", versionText(driver->version).c_str());
    info.memory_bytes = device.memoryBytes;
    info.memory_bandwidth = device.memoryBandwidth;
    info.cores = device.multiprocessors;
    out.push_back(info);
  }
  return {};
}

} // namespace kimi::cuda
