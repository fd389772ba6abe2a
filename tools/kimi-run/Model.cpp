//===- Model.cpp - a loaded module with its session
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Model.h"
#include <cstring>

namespace kimi::run {

Status lastError(kimi_status code) {
  if (code == KIMI_OK) {
    return {};
  }
  std::string message = kimi_last_error();
  if (code == KIMI_NOT_FOUND && message.find("--weights") == std::string::npos) {
    message += "; name the folder of the weight files with --weights";
  }
  return {code, message};
}

kimi_session_options sessionOptions(const Options &options) {
  kimi_session_options out = {};
  out.threads = options.threads;
  out.max_seq = options.maxSeq;
  out.batch = options.batch;
  out.device = options.device.c_str();
  out.no_graphs = options.noGraphs;
  out.check_launches = options.checkLaunches;
  return out;
}

Status Model::load(const std::string &path, const std::string &weights, std::unique_ptr<Model> &out) {
  auto model = std::make_unique<Model>();
  kimi_module_options options{weights.empty() ? nullptr : weights.c_str()};
  kimi_module *module = nullptr;
  if (Status s = lastError(kimi_module_load(path.c_str(), &options, &module))) {
    return s;
  }
  model->module.reset(module);
  for (int32_t e = 0, n = kimi_module_entry_count(module); e < n; ++e) {
    Entry entry{e, kimi_module_entry_name(module, e), {}, {}};
    if (entry.name == "init") { // Runs when the session is made, and never again.
      continue;
    }
    entry.inputs.resize(std::max(0, kimi_module_input_count(module, e)));
    entry.outputs.resize(std::max(0, kimi_module_output_count(module, e)));
    for (size_t i = 0; i < entry.inputs.size(); ++i) {
      if (Status s = lastError(kimi_module_input(module, e, static_cast<int32_t>(i), &entry.inputs[i]))) {
        return s;
      }
    }
    for (size_t i = 0; i < entry.outputs.size(); ++i) {
      if (Status s = lastError(kimi_module_output(module, e, static_cast<int32_t>(i), &entry.outputs[i]))) {
        return s;
      }
    }
    model->all.push_back(std::move(entry));
  }
  out = std::move(model);
  return {};
}

const Entry *Model::find(const std::string &name) const {
  for (const Entry &entry : all) {
    if (entry.name == name) {
      return &entry;
    }
  }
  return nullptr;
}

bool Model::hasGrowingStates() const {
  for (int32_t i = 0; i < stateCount(); ++i) {
    kimi_state_info info{};
    if (kimi_module_state(module.get(), i, &info) == KIMI_OK && info.grows >= 0) {
      return true;
    }
  }
  return false;
}

Status Model::describe(std::string &out) const {
  char *text = nullptr;
  if (Status s = lastError(kimi_module_describe(module.get(), &text))) {
    return s;
  }
  out = text ? text : "";
  kimi_free(text);
  return {};
}

Status Model::state(int32_t index, kimi_state_info &out) const {
  return lastError(kimi_module_state(module.get(), index, &out));
}

Status Model::memory(kimi_memory &out) const { return lastError(kimi_module_memory(module.get(), &out)); }

Status Model::open(const kimi_session_options &options) {
  kimi_session *session = nullptr;
  live.reset();
  if (Status s = lastError(kimi_session_create(module.get(), &options, &session))) {
    return s;
  }
  live.reset(session);
  return {};
}

bool Model::onGpu() const { return live && std::string(kimi_session_device(session())).compare(0, 5, "cuda:") == 0; }

static std::vector<kimi_tensor> views(const std::vector<HostTensor> &tensors) {
  std::vector<kimi_tensor> out;
  for (const HostTensor &tensor : tensors) {
    out.push_back(tensor.view());
  }
  return out;
}

Status Model::arena(const Entry &entry, const kimi_session_options &options, int64_t length,
                    const std::vector<HostTensor> &inputs, uint64_t &bytes) const {
  std::vector<kimi_tensor> in = views(inputs);
  return lastError(kimi_module_arena(module.get(), entry.index, &options, length, in.data(),
                                     static_cast<int32_t>(in.size()), &bytes));
}

Status Model::run(const Entry &entry, const std::vector<HostTensor> &inputs, std::vector<HostTensor> &outputs,
                  const Outputs &how) {
  std::vector<kimi_tensor> in = views(inputs), out(entry.outputs.size());
  auto inCount = static_cast<int32_t>(in.size()), outCount = static_cast<int32_t>(out.size());
  if (Status s =
          lastError(kimi_session_output_shapes(session(), entry.index, in.data(), inCount, out.data(), outCount))) {
    return s;
  }
  outputs.resize(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (how.wanted && !(*how.wanted)[i]) {
      outputs[i] = HostTensor();
      out[i].data = nullptr;
      continue;
    }
    std::vector<int64_t> dims(out[i].dims, out[i].dims + out[i].rank);
    // The memory of the step before serves again where the shape is the same.
    if (!outputs[i].data() || outputs[i].dims != dims || outputs[i].dtype != out[i].dtype) {
      if (Status s = HostTensor::create(out[i].dtype, std::move(dims), outputs[i])) {
        return s;
      }
    }
    if (how.poison) {
      std::memset(outputs[i].data(), 0xFF, outputs[i].bytes());
    }
    out[i] = outputs[i].view();
  }
  return lastError(kimi_session_run(session(), entry.index, in.data(), inCount, out.data(), outCount));
}

Status Model::time(const Entry &entry, const std::vector<HostTensor> &inputs, int64_t runs,
                   std::vector<double> &seconds) {
  std::vector<kimi_tensor> in = views(inputs);
  seconds.assign(static_cast<size_t>(runs), 0);
  return lastError(
      kimi_session_time(session(), entry.index, in.data(), static_cast<int32_t>(in.size()), runs, seconds.data()));
}

Status Model::profile(const Entry &entry, const std::vector<HostTensor> &inputs, std::vector<kimi_launch_time> &times) {
  std::vector<kimi_tensor> in = views(inputs);
  int32_t count = 4096;
  do {
    times.resize(static_cast<size_t>(count));
    if (Status s = lastError(kimi_session_profile(session(), entry.index, in.data(), static_cast<int32_t>(in.size()),
                                                  times.data(), static_cast<int32_t>(times.size()), &count))) {
      return s;
    }
  } while (static_cast<size_t>(count) > times.size());
  times.resize(static_cast<size_t>(count));
  return {};
}

Status Model::reset() { return lastError(kimi_session_reset(session())); }

} // namespace kimi::run
