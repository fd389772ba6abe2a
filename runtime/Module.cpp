//===- Module.cpp - a compiled module, loaded and checked -------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Module.h"
#include "runtime/Checked.h"
#include "runtime/Dtype.h"
#include "runtime/cpu/CpuProgram.h"
#include "runtime/cuda/Cuda.h"
#include "runtime/format/Header.h"

namespace kimi {

static std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

Status Module::load(const std::string &path, const std::string &weightsFolder, std::unique_ptr<Module> &out) {
  auto module = std::make_unique<Module>();
  if (Status s = Mapping::ofPath(path, module->file)) {
    return {s.code(), path + ": " + s.message()};
  }
  if (Status s = format::verifyFile(module->file.data(), module->file.size(), module->contents)) {
    return {s.code(), path + ": " + s.message()};
  }
  module->weightsFolder = weightsFolder.empty() ? folderOf(path) : weightsFolder;
  if (module->table().entries()) {
    for (const fb::Entry *entry : *module->table().entries()) {
      module->plans.push_back(std::make_unique<Plan>(module->table(), *entry));
    }
  }
  out = std::move(module);
  return {};
}

int32_t Module::findEntry(std::string_view name) const {
  for (int32_t i = 0; i < entryCount(); ++i) {
    if (plans[i]->entry.name()->string_view() == name) {
      return i;
    }
  }
  return -1;
}

kimi_memory Module::memory() const {
  kimi_memory memory = {};
  for (int32_t i = 0; i < stateCount(); ++i) {
    const fb::State &state = *table().states()->Get(i);
    auto bytes = static_cast<uint64_t>(stateBytes(state, {1, 1}).value_or(0));
    (state.grows() < 0 ? memory.state_fixed_bytes : memory.state_bytes_per_token) += bytes;
  }
  if (const auto *weights = table().weights()) {
    for (const fb::Weight *weight : *weights) {
      memory.weight_bytes += static_cast<uint64_t>(
          *denseBytes(weight->dims()->data(), weight->dims()->size(), dtypeSize(weight->dtype())));
    }
  }
  if (const auto *derived = table().derived()) {
    for (const fb::Derived *buffer : *derived) {
      memory.derived_bytes += static_cast<uint64_t>(
          denseBytes(buffer->dims()->data(), buffer->dims()->size(), dtypeSize(buffer->dtype())).value_or(0));
    }
  }
  return memory;
}

Status Module::arenaBytes(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, const StateSizes &sizes,
                          int64_t length, uint64_t &out) const {
  if (entry < 0 || entry >= entryCount()) {
    return invalidArgument("there is no entry " + std::to_string(entry));
  }
  Environment environment;
  environment.capacity = sizes.capacity;
  environment.length = length;
  uint64_t total = 0;
  if (Status s = layOutStates(table(), sizes, environment.stateExtents, total)) {
    return s;
  }
  for (int32_t i = 0; i < stateCount(); ++i) {
    environment.hasGrowingStates |= table().states()->Get(i)->grows() >= 0;
  }
  std::vector<Extent> derived;
  if (Status s = layOutDerived(table(), format::blobAlignment, derived, total)) {
    return s;
  }
  environment.derivedExtents = &derived;
  Frame frame(*plans[entry]);
  if (Status s = frame.prepare(environment, inputs, inputCount)) {
    return s;
  }
  out = frame.arenaSize();
  return {};
}

Status Module::bind(const DeviceId &device, int32_t threads, std::shared_ptr<const Program> &out) const {
  std::lock_guard<std::mutex> lock(programMutex);
  std::shared_ptr<const Program> &program = programs[device];
  if (!program) {
    int32_t entry = findEntry(format::initEntryName);
    const Plan *init = entry < 0 ? nullptr : plans[entry].get();
    Status status = device.kind == DeviceId::Kind::Cpu
                        ? CpuProgram::create(contents, weightsFolder, init, threads, program)
                        : cuda::createProgram(contents, weightsFolder, init, device.ordinal, program);
    if (status) {
      return status;
    }
  }
  out = program;
  return {};
}

} // namespace kimi
