//===- RunArrays.cpp - one entry with arrays from files
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/RunArrays.h"
#include "tools/kimi-run/Arrays.h"
#include "tools/kimi-run/Report.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <ostream>

namespace kimi::run {

Status selectEntry(const Model &model, const std::string &name, const Entry *&entry) {
  entry = model.find(name.empty() ? "main" : name);
  if (!entry && name.empty() && model.entries().size() == 1) {
    entry = &model.entries().front();
  }
  if (entry) {
    return {};
  }
  std::string names;
  for (const Entry &other : model.entries()) {
    names += (names.empty() ? "" : ", ") + other.name;
  }
  return {KIMI_NOT_FOUND, "the module has no entry '" + (name.empty() ? "main" : name) + "'; it has: " + names};
}

static bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// Reads one argument of --input; arrays without a name are for the port `onlyPort`.
static Status readArgument(const std::string &argument, const std::string &onlyPort, NamedTensors &out) {
  std::error_code code;
  bool isFile = std::filesystem::is_regular_file(argument, code);
  size_t equals = isFile ? std::string::npos : argument.find('=');
  std::string path = equals == std::string::npos ? argument : argument.substr(equals + 1);
  NamedTensors read;
  if (Status s = readArrays(path, read)) {
    return s;
  }
  if (equals != std::string::npos) {
    if (read.size() != 1) {
      return invalidArgument("--input " + argument + ": " + path + " holds " + std::to_string(read.size()) +
                             " arrays; NAME= goes with a file of one");
    }
    read[0].first = argument.substr(0, equals);
  } else if (!endsWith(path, ".npz") && !read.empty()) {
    if (onlyPort.empty()) {
      return invalidArgument("--input " + argument + ": which input is it? write NAME=" + argument);
    }
    read[0].first = onlyPort;
  }
  std::move(read.begin(), read.end(), std::back_inserter(out));
  return {};
}

Status readInputs(const Entry &entry, const std::vector<std::string> &arguments, std::vector<HostTensor> &inputs) {
  NamedTensors given;
  for (const std::string &argument : arguments) {
    if (Status s = readArgument(argument, entry.inputs.size() == 1 ? entry.inputs[0].name : "", given)) {
      return s;
    }
  }
  inputs.clear();
  inputs.resize(entry.inputs.size());
  std::vector<bool> filled(entry.inputs.size());
  std::string ports;
  for (const kimi_port &port : entry.inputs) {
    ports += (ports.empty() ? "" : ", ") + std::string(port.name);
  }
  for (auto &[name, tensor] : given) {
    size_t i = 0;
    while (i < inputs.size() && name != entry.inputs[i].name) {
      ++i;
    }
    if (i == inputs.size()) {
      return invalidArgument("entry '" + entry.name + "' has no input '" + name + "'; it has: " + ports);
    }
    if (filled[i]) {
      return invalidArgument("input '" + name + "' is given twice");
    }
    const kimi_port &port = entry.inputs[i];
    if (tensor.dtype != port.dtype || static_cast<int32_t>(tensor.dims.size()) != port.rank) {
      return invalidArgument("input '" + name + "' is " + kimi_dtype_name(tensor.dtype) + " of rank " +
                             std::to_string(tensor.dims.size()) + "; entry '" + entry.name + "' takes " +
                             describePort(port));
    }
    inputs[i] = std::move(tensor);
    filled[i] = true;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!filled[i]) {
      return invalidArgument(std::string("input '") + entry.inputs[i].name + "' (" + describePort(entry.inputs[i]) +
                             ") is missing; give it with --input " + entry.inputs[i].name + "=file.npy");
    }
  }
  return {};
}

/// "logits: f32 [1, 20, 1024], -14.07 to 9.31".
static std::string summary(const std::string &name, const HostTensor &tensor) {
  std::string text = name + ": " + kimi_dtype_name(tensor.dtype) + " " + shapeText(tensor.dims);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  int64_t nans = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    double value = tensor.at(i);
    nans += std::isnan(value) ? 1 : 0;
    low = std::min(low, std::isnan(value) ? low : value);
    high = std::max(high, std::isnan(value) ? high : value);
  }
  char range[96];
  std::snprintf(range, sizeof(range), ", %.6g to %.6g", low, high);
  return text + (low <= high ? range : "") + (nans ? ", " + std::to_string(nans) + " NaN" : "");
}

Status runArrays(Model &model, const Options &options, std::ostream &out, std::ostream &log) {
  const Entry *entry = nullptr;
  std::vector<HostTensor> inputs, outputs;
  if (Status s = selectEntry(model, options.entry, entry)) {
    return s;
  }
  if (Status s = readInputs(*entry, options.inputs, inputs)) {
    return s;
  }
  if (Status s = model.open(sessionOptions(options))) {
    return s;
  }
  auto start = std::chrono::steady_clock::now();
  if (Status s = model.run(*entry, inputs, outputs)) {
    return s;
  }
  double time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  NamedTensors named;
  Json json = {{"entry", entry->name}, {"seconds", time}, {"outputs", Json::array()}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    log << "kimi-run: " << summary(entry->outputs[i].name, outputs[i]) << "\n";
    json["outputs"].push_back(
        {{"name", entry->outputs[i].name}, {"dtype", kimi_dtype_name(outputs[i].dtype)}, {"dims", outputs[i].dims}});
    named.emplace_back(entry->outputs[i].name, std::move(outputs[i]));
  }
  log << "kimi-run: entry '" << entry->name << "' in " << seconds(time) << std::endl;
  if (!options.output.empty()) {
    if (Status s = writeArrays(options.output, named)) {
      return s;
    }
  }
  return writeJson(options.json, json, out);
}

} // namespace kimi::run
