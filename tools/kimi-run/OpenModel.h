//===- OpenModel.h - a .kmod or .onnx file made ready
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_OPENMODEL_H
#define KIMI_TOOLS_KIMIRUN_OPENMODEL_H

#include "tools/kimi-run/Model.h"
#include "tools/kimi-run/Options.h"
#include <iosfwd>

namespace kimi::run {

/// The folder a file is in ("." for a bare name).
std::string folderOf(const std::string &path);

/// Loads the module that `options.model` names, compiling an .onnx file first. Weights are sought in --weights, else
/// beside the model.
Status openModel(const Options &options, std::ostream &log, std::unique_ptr<Model> &model);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_OPENMODEL_H
