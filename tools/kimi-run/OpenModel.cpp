//===- OpenModel.cpp - a .kmod or .onnx file made ready
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/OpenModel.h"
#include "runtime/Device.h"
#include "tools/kimi-run/CompileCache.h"
#include <algorithm>
#include <filesystem>
#include <ostream>

namespace kimi::run {

std::string folderOf(const std::string &path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

/// The target of kimi-compile for a device of this machine.
static Status targetOf(const std::string &device, std::string &target) {
  DeviceId wanted;
  if (Status s = parseDevice(device.empty() ? "cpu" : device, wanted)) {
    return s;
  }
  target = "cpu";
  if (wanted.kind == DeviceId::Kind::Cpu) {
    return {};
  }
  kimi_device_info devices[64];
  int32_t count = 0;
  if (Status s = lastError(kimi_devices(devices, 64, &count))) {
    return s;
  }
  for (int32_t i = 0; i < std::min(count, 64); ++i) {
    if (devices[i].id == wanted.text()) {
      // Hopper's own instructions are named by a letter.
      target = "cuda:" + std::string(devices[i].arch) + (std::string(devices[i].arch) == "sm_90" ? "a" : "");
      return {};
    }
  }
  std::string why = kimi_last_error();
  return {KIMI_UNSUPPORTED, "there is no device " + wanted.text() + (why.empty() ? "" : ": " + why)};
}

Status openModel(const Options &options, std::ostream &log, std::unique_ptr<Model> &model) {
  std::string extension = std::filesystem::path(options.model).extension().string();
  std::string module = options.model, weights = options.weights;
  if (extension == ".onnx") {
    CompileOptions compile{options.cpu, options.reference, options.precision,
                           "cpu",       options.constants, options.quietCompiler};
    if (Status s = targetOf(options.device, compile.target)) {
      return s;
    }
    if (Status s = compileCached(options.model, options.cache, compile, log, module)) {
      return s;
    }
    weights = weights.empty() ? folderOf(options.model) : weights;
  } else if (options.reference) {
    return invalidArgument("--reference is a way to compile; " + options.model + " is compiled already");
  } else if (options.precision != "f32") {
    return invalidArgument("--precision is a way to compile; " + options.model + " is compiled already");
  }
  return Model::load(module, weights, model);
}

} // namespace kimi::run
