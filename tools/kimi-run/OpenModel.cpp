//===- OpenModel.cpp - a .kmod or .onnx file made ready
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/OpenModel.h"
#include "tools/kimi-run/CompileCache.h"
#include <filesystem>
#include <ostream>

namespace kimi::run {

std::string folderOf(const std::string &path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

Status openModel(const Options &options, std::ostream &log, std::unique_ptr<Model> &model) {
  std::string extension = std::filesystem::path(options.model).extension().string();
  std::string module = options.model, weights = options.weights;
  if (extension == ".onnx") {
    CompileOptions compile{options.cpu, options.reference, options.maxSeq, options.precision};
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
