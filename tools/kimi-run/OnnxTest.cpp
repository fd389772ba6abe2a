//===- OnnxTest.cpp - folders in the test layout of ONNX
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/OnnxTest.h"
#include "tools/kimi-run/Compare.h"
#include "tools/kimi-run/Report.h"
#include "tools/kimi-run/RunArrays.h"
#include "tools/kimi-run/TensorProto.h"
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <ostream>

namespace kimi::run {

namespace fs = std::filesystem;

/// Paths in `folder` named <prefix><number><suffix>, by number.
static std::map<int64_t, std::string> numbered(const std::string &folder, const std::string &prefix,
                                               const std::string &suffix) {
  std::map<int64_t, std::string> out;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    std::string name = it->path().filename().string();
    if (name.size() <= prefix.size() + suffix.size() || name.compare(0, prefix.size(), prefix) != 0 ||
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0) {
      continue;
    }
    std::string digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    if (digits.size() <= 9 && std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return isdigit(c); })) {
      out.emplace(std::stoll(digits), it->path().string());
    }
  }
  return out;
}

using Constants = std::vector<std::pair<std::string, std::string>>;

/// Reads the files of one side into the order of its ports; `given` says which ports a file was there for. Files of
/// `constants` belong to no port: they are in the module.
static Status readSide(const std::string &folder, const std::string &prefix, const std::vector<kimi_port> &ports,
                       const Constants &constants, std::vector<HostTensor> &tensors, std::vector<bool> &given) {
  tensors.clear();
  tensors.resize(ports.size());
  given.assign(ports.size(), false);
  for (const auto &[number, path] : numbered(folder, prefix, ".pb")) {
    std::string name;
    HostTensor tensor;
    auto isThis = [&path = path](const auto &constant) { return constant.second == path; };
    if (std::any_of(constants.begin(), constants.end(), isThis)) {
      continue;
    }
    if (Status s = readTensorProto(path, name, tensor)) {
      return s;
    }
    size_t i = name.empty() ? static_cast<size_t>(number) : 0;
    while (!name.empty() && i < ports.size() && name != ports[i].name) {
      ++i;
    }
    if (i >= ports.size() || given[i]) {
      return {KIMI_BAD_FILE, path + ": " +
                                 (i >= ports.size() ? "the model has no such port" : "a second value for port") + " '" +
                                 (name.empty() ? std::to_string(number) : name) + "'"};
    }
    tensors[i] = std::move(tensor);
    given[i] = true;
  }
  return {};
}

/// The inputs of a set that may be what a graph's shapes follow from: named, of one axis at most, few; floats are
/// scales and bounds, of which there are fewer.
static Constants shapeInputs(const std::string &folder) {
  constexpr int64_t most = 1024, mostFloats = 32;
  Constants found;
  for (const auto &[number, path] : numbered(folder, "input_", ".pb")) {
    std::string name;
    HostTensor tensor;
    if (!readTensorProto(path, name, tensor) && !name.empty() && name.find('=') == std::string::npos &&
        tensor.dims.size() <= 1 && tensor.count() <= (isFloat(tensor.dtype) ? mostFloats : most)) {
      found.emplace_back(name, path);
    }
  }
  return found;
}

namespace {
struct SetResult {
  bool equal = true;
  double maxAbsolute = 0, maxRelative = 0, relativeNorm = 0;
  std::string why;
};
} // namespace

static Status runSet(Model &model, const Entry &entry, const std::string &folder, const Options &options,
                     SetResult &result) {
  std::vector<HostTensor> inputs, wanted, outputs;
  std::vector<bool> given;
  if (Status s = readSide(folder, "input_", entry.inputs, options.constants, inputs, given)) {
    return s;
  }
  if (auto missing = std::find(given.begin(), given.end(), false); missing != given.end()) {
    return {KIMI_NOT_FOUND, folder + ": no value for input '" + entry.inputs[missing - given.begin()].name + "'"};
  }
  if (Status s = readSide(folder, "output_", entry.outputs, {}, wanted, given)) {
    return s;
  }
  if (std::find(given.begin(), given.end(), true) == given.end() && !entry.outputs.empty()) {
    return {KIMI_NOT_FOUND, folder + ": holds no output_*.pb to compare with"};
  }
  if (model.stateCount()) {
    if (Status s = model.reset()) {
      return s;
    }
  }
  if (Status s = model.run(entry, inputs, outputs, {/*poison=*/true})) {
    return s;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!given[i]) {
      continue;
    }
    Difference d = compare(outputs[i], wanted[i], options.rtol, options.atol, options.rnorm);
    result.maxAbsolute = std::max(result.maxAbsolute, d.maxAbsolute);
    result.maxRelative = std::max(result.maxRelative, d.maxRelative);
    result.relativeNorm = std::max(result.relativeNorm, d.relativeNorm);
    if (!d.equal && result.equal) {
      result.equal = false;
      result.why = std::string("output '") + entry.outputs[i].name + "': " + d.why;
    }
  }
  return {};
}

namespace {
class Runner {
public:
  /// Lines make way for the JSON where that goes to stdout.
  Runner(const Options &options, const OpenFunction &open, std::ostream &data, std::ostream &log)
      : options(options), open(open), data(data), out(options.json == "-" ? log : data), log(log) {}

  void runFolder(const std::string &folder) {
    std::map<int64_t, std::string> sets = numbered(folder, "test_data_set_", "");
    if (sets.empty()) {
      return broken(folder, "holds no test_data_set_*");
    }
    Options one = options;
    one.model = options.testModule.empty() ? (fs::path(folder) / "model.onnx").string() : options.testModule;
    one.quietCompiler = true;
    Opened opened;
    Status general = openModule(one, opened);
    for (const auto &set : sets) {
      if (!general) {
        runOneSet(opened, one, set.second);
        continue;
      }
      // Shapes that follow from the values of inputs are known where the values are.
      Options known = one;
      known.constants = options.testModule.empty() ? shapeInputs(set.second) : Constants();
      if (known.constants.empty()) {
        broken(set.second, general.message());
        continue;
      }
      Opened special;
      if (Status s = openModule(known, special)) {
        broken(set.second, s.message());
        continue;
      }
      runOneSet(special, known, set.second);
    }
  }

  Exit finish() {
    out << passed << " passed, " << failed << " failed" << std::endl;
    if (Status s = writeJson(options.json, {{"passed", passed}, {"failed", failed}, {"sets", json}}, data)) {
      log << "kimi-run: error: " << s.message() << std::endl;
      return Exit::Failure;
    }
    return mismatch ? Exit::Mismatch : failed ? Exit::Failure : Exit::Ok;
  }

private:
  struct Opened {
    std::unique_ptr<Model> model;
    const Entry *entry = nullptr;
  };

  Status openModule(const Options &one, Opened &opened) {
    if (Status s = open(one, log, opened.model)) {
      return s;
    }
    if (Status s = selectEntry(*opened.model, "", opened.entry)) {
      return s;
    }
    return opened.model->open(sessionOptions(one));
  }

  void runOneSet(Opened &opened, const Options &one, const std::string &set) {
    SetResult result;
    if (Status s = runSet(*opened.model, *opened.entry, set, one, result)) {
      return broken(set, s.message());
    }
    char line[96];
    std::snprintf(line, sizeof(line), "max abs %.3g, max rel %.3g, norm %.3g", result.maxAbsolute, result.maxRelative,
                  result.relativeNorm);
    Json names = Json::array();
    std::string text;
    for (const auto &[name, file] : one.constants) {
      names.push_back(name);
      text += (text.empty() ? "; compiled for this value of '" : "', '") + name;
    }
    out << set << ": " << (result.equal ? "passed, " : "FAILED, ") << line << text << (text.empty() ? "" : "'")
        << (result.equal ? "" : "; " + result.why) << std::endl;
    ++(result.equal ? passed : failed);
    mismatch |= !result.equal;
    json.push_back({{"set", set},
                    {"passed", result.equal},
                    {"max_abs", result.maxAbsolute},
                    {"max_rel", result.maxRelative},
                    {"rnorm", result.relativeNorm},
                    {"constants", names},
                    {"why", result.why}});
  }

  void broken(const std::string &where, const std::string &why) {
    out << where << ": FAILED, " << why << std::endl;
    json.push_back({{"set", where}, {"passed", false}, {"why", why}});
    ++failed;
  }

  const Options &options;
  const OpenFunction &open;
  std::ostream &data, &out, &log;
  int passed = 0, failed = 0;
  bool mismatch = false;
  Json json = Json::array();
};
} // namespace

Exit runOnnxTests(const Options &options, std::ostream &out, std::ostream &log, const OpenFunction &open) {
  Runner runner(options, open, out, log);
  for (const std::string &folder : options.onnxTests) {
    runner.runFolder(folder);
  }
  return runner.finish();
}

} // namespace kimi::run
