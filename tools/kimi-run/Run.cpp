//===- Run.cpp - what kimi-run does
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Run.h"
#include "tools/kimi-run/Benchmark.h"
#include "tools/kimi-run/Generate.h"
#include "tools/kimi-run/MemoryReport.h"
#include "tools/kimi-run/OnnxTest.h"
#include "tools/kimi-run/OpenModel.h"
#include "tools/kimi-run/Report.h"
#include "tools/kimi-run/RunArrays.h"
#include <algorithm>
#include <ostream>

namespace kimi::run {

static Status describe(const Model &model, std::ostream &out) {
  std::string text;
  if (Status s = model.describe(text)) {
    return s;
  }
  out << text << (text.empty() || text.back() == '\n' ? "" : "\n") << std::flush;
  return {};
}

static Status perform(const Options &options, std::ostream &out, std::ostream &err) {
  std::unique_ptr<Model> model;
  if (Status s = openModel(options, err, model)) {
    return s;
  }
  std::ostream &listing = options.json == "-" ? err : out;
  if (options.describe) {
    if (Status s = describe(*model, listing)) {
      return s;
    }
  }
  Status status;
  bool action = true;
  if (options.wantsText()) {
    status = generate(*model, options, folderOf(options.model), out, err);
  } else if (options.benchmark) {
    status = benchmark(*model, options, out, err);
  } else if (options.wantsArrays()) {
    status = runArrays(*model, options, out, err);
  } else {
    action = false;
  }
  if (status || !options.memory) {
    return status;
  }
  return reportMemory(*model, options, !action, action ? listing : out);
}

static Status listDevices(const Options &options, std::ostream &out, std::ostream &log) {
  int32_t count = 0;
  if (Status s = lastError(kimi_devices(nullptr, 0, &count))) {
    return s;
  }
  std::vector<kimi_device_info> devices(static_cast<size_t>(count));
  if (Status s = lastError(kimi_devices(devices.data(), count, &count))) {
    return s;
  }
  std::string why = kimi_last_error();
  Json json = Json::array();
  std::ostream &table = options.json == "-" ? log : out;
  for (const kimi_device_info &device : devices) {
    char line[320];
    std::snprintf(line, sizeof(line), "%-8s %-10s %8.1f GiB  %4d %s  %s%s%s", device.id, device.arch,
                  static_cast<double>(device.memory_bytes) / (1 << 30), device.cores,
                  std::string(device.id) == "cpu" ? "threads" : "SMs    ", device.name, *device.driver ? ", " : "",
                  device.driver);
    table << line << "\n";
    json.push_back({{"id", device.id},
                    {"name", device.name},
                    {"arch", device.arch},
                    {"driver", device.driver},
                    {"memory_bytes", device.memory_bytes},
                    {"memory_bandwidth", device.memory_bandwidth},
                    {"cores", device.cores}});
  }
  if (!why.empty()) {
    log << "kimi-run: " << why << std::endl;
  }
  table << std::flush;
  return writeJson(options.json, json, out);
}

int runMain(int argc, const char *const *argv, std::ostream &out, std::ostream &err) {
  Exit code = Exit::Ok;
  std::optional<Options> options = parseOptions(argc, argv, out, err, code);
  if (options && !options->onnxTests.empty()) {
    code = runOnnxTests(*options, out, err);
  } else if (options) {
    if (Status s = options->listDevices ? listDevices(*options, out, err) : perform(*options, out, err)) {
      err << "kimi-run: error: " << s.message() << std::endl;
      code = Exit::Failure;
    }
  }
  if (!out.flush() && code == Exit::Ok) {
    err << "kimi-run: error: stdout cannot be written" << std::endl;
    code = Exit::Failure;
  }
  return static_cast<int>(code);
}

} // namespace kimi::run
