//===- Module.cpp - a compiled module, loaded and checked -------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Module.h"
#include "runtime/cpu/CpuProgram.h"
#include "runtime/cuda/Cuda.h"

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
