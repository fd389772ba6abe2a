//===- Session.cpp - states of a sequence, and the runs that use them -------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Session.h"
#include "runtime/Checked.h"
#include "runtime/Dtype.h"
#include "runtime/Text.h"
#include "runtime/format/Header.h"

#include <algorithm>

namespace kimi {
namespace {

constexpr int64_t defaultCapacity = 1024;

/// Bytes of a state made for `batch` sequences of `capacity` tokens; nothing on overflow.
std::optional<int64_t> stateBytes(const fb::State &state, int64_t batch, int64_t capacity) {
  int64_t dims[KIMI_MAX_RANK];
  for (uint32_t axis = 0; axis < state.dims()->size(); ++axis) {
    int64_t dim = state.dims()->Get(axis);
    dims[axis] = static_cast<int32_t>(axis) == state.grows() ? capacity : dim < 0 ? batch : dim;
  }
  return denseBytes(dims, state.dims()->size(), dtypeSize(state.dtype()));
}

Status chooseCapacity(const fb::Module &module, int64_t asked, int64_t &out) {
  int64_t context = module.max_context();
  if (asked < 0 || (asked > 0 && context >= 0 && asked > context)) {
    return invalidArgument("a session for sequences of " + std::to_string(asked) + " tokens is not possible" +
                           (context >= 0 ? "; the model's weights allow " + std::to_string(context) : ""));
  }
  out = asked > 0 ? asked : context >= 0 ? std::min(context, defaultCapacity) : defaultCapacity;
  return {};
}

std::string portText(const char *kind, const fb::Port &port) { return kind + quoted(port.name()->str()); }

Status checkPointer(const char *kind, const fb::Port &port, const void *data, int64_t bytes) {
  if (bytes != 0 && !data) {
    return invalidArgument(portText(kind, port) + " has no data");
  }
  if (reinterpret_cast<uintptr_t>(data) % dtypeSize(port.dtype()) != 0) {
    return invalidArgument(portText(kind, port) + " is not aligned to its elements of " +
                           std::to_string(dtypeSize(port.dtype())) + " bytes");
  }
  return {};
}

} // namespace

Status Session::create(const Module &module, const kimi_session_options &options, std::unique_ptr<Session> &out) {
  std::unique_ptr<Session> session(new Session(module));
  Environment &environment = session->environment;
  if (options.batch < 0) {
    return invalidArgument("a session for " + std::to_string(options.batch) + " sequences is not possible");
  }
  if (Status s = chooseCapacity(module.table(), options.max_seq, environment.capacity)) {
    return s;
  }
  DeviceId device;
  if (Status s = chooseDevice(options.device, module.table().target()->string_view(), device)) {
    return s;
  }
  session->device = device.text();
  if (Status s = module.bind(device, options.threads, session->program)) {
    return s;
  }
  if (Status s = session->program->makeExecutor(options, session->executor)) {
    return s;
  }
  if (Status s = session->allocateStates(options.batch == 0 ? 1 : options.batch)) {
    return s;
  }
  environment.derivedExtents = &session->program->derivedExtents();
  session->frames.resize(module.entryCount());
  out = std::move(session);
  return {};
}

Status Session::allocateStates(int64_t batch) {
  uint64_t total = 0;
  for (int32_t i = 0; i < module.stateCount(); ++i) {
    const fb::State &state = *module.table().states()->Get(i);
    auto bytes = stateBytes(state, batch, environment.capacity);
    if (!bytes || total + static_cast<uint64_t>(*bytes) > INT64_MAX) {
      return {KIMI_OUT_OF_MEMORY, "state " + quoted(state.name()->str()) + " for " + std::to_string(batch) +
                                      " sequences of " + std::to_string(environment.capacity) +
                                      " tokens passes 63 bits"};
    }
    environment.stateExtents.push_back({total, static_cast<uint64_t>(*bytes)});
    environment.hasGrowingStates |= state.grows() >= 0;
    total = format::alignTo(total + static_cast<uint64_t>(*bytes), format::blobAlignment);
  }
  if (Status s = executor->allocateStates(total)) {
    return {s.code(), "states for " + std::to_string(batch) + " sequences of " + std::to_string(environment.capacity) +
                          " tokens: " + s.message() + "; lower --max-seq"};
  }
  return {};
}

Status Session::prepare(int32_t entry, const kimi_tensor *inputs, int32_t inputCount) {
  if (entry < 0 || entry >= module.entryCount()) {
    return invalidArgument("there is no entry " + std::to_string(entry) + "; the module has " +
                           std::to_string(module.entryCount()));
  }
  const Plan &plan = module.plan(entry);
  if (plan.entry.name()->string_view() == format::initEntryName) {
    return invalidArgument("entry 'init' has run already, when the session was made");
  }
  if (!frames[entry]) {
    frames[entry] = std::make_unique<Frame>(plan);
  }
  return frames[entry]->prepare(environment, inputs, inputCount);
}

Status Session::checkOutputCount(int32_t entry, const kimi_tensor *outputs, int32_t outputCount) const {
  if (entry < 0 || entry >= module.entryCount()) {
    return {}; // prepare says so
  }
  uint32_t wanted = module.plan(entry).outputCount();
  if (outputCount >= 0 && static_cast<uint32_t>(outputCount) == wanted && (wanted == 0 || outputs)) {
    return {};
  }
  return invalidArgument(module.plan(entry).place() + ": gives " + std::to_string(wanted) + " outputs, not " +
                         std::to_string(outputCount));
}

Status Session::outputShapes(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, kimi_tensor *outputs,
                             int32_t outputCount) {
  if (Status s = checkOutputCount(entry, outputs, outputCount)) {
    return s;
  }
  if (Status s = prepare(entry, inputs, inputCount)) {
    return s;
  }
  for (int32_t i = 0; i < outputCount; ++i) {
    const fb::Port &port = *module.plan(entry).entry.outputs()->Get(i);
    outputs[i].dtype = static_cast<kimi_dtype>(port.dtype());
    outputs[i].rank = static_cast<int32_t>(port.dims()->size());
    std::copy_n(frames[entry]->outputDims(i), port.dims()->size(), outputs[i].dims);
  }
  return {};
}

Status Session::checkData(const Plan &plan, const Frame &frame, const kimi_tensor *inputs,
                          const kimi_tensor *outputs) const {
  for (uint32_t i = 0; i < plan.inputCount(); ++i) {
    const kimi_tensor &tensor = inputs[i];
    int64_t bytes = *denseBytes(tensor.dims, tensor.rank, dtypeSize(tensor.dtype));
    if (Status s = checkPointer("input ", *plan.entry.inputs()->Get(i), tensor.data, bytes)) {
      return s;
    }
  }
  for (uint32_t i = 0; outputs && i < plan.outputCount(); ++i) {
    const fb::Port &port = *plan.entry.outputs()->Get(i);
    const kimi_tensor &tensor = outputs[i];
    size_t rank = port.dims()->size();
    const int64_t *dims = frame.outputDims(i);
    if (tensor.dtype != static_cast<kimi_dtype>(port.dtype())) {
      return invalidArgument(portText("output ", port) + " is to hold " + dtypeName(tensor.dtype) +
                             ", the signature gives " + dtypeName(port.dtype()));
    }
    if (tensor.rank < 0 || static_cast<size_t>(tensor.rank) != rank || !std::equal(dims, dims + rank, tensor.dims)) {
      size_t shown = static_cast<size_t>(std::clamp(tensor.rank, 0, KIMI_MAX_RANK));
      return invalidArgument(portText("output ", port) + " is to have the shape " + shapeText(tensor.dims, shown) +
                             ", these inputs give " + shapeText(dims, rank));
    }
    if (!tensor.data) {
      continue; // computed and dropped
    }
    if (Status s = checkPointer("output ", port, tensor.data, *denseBytes(dims, rank, dtypeSize(port.dtype())))) {
      return s;
    }
  }
  return {};
}

Status Session::run(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, kimi_tensor *outputs,
                    int32_t outputCount) {
  if (Status s = checkOutputCount(entry, outputs, outputCount)) {
    return s;
  }
  if (Status s = prepare(entry, inputs, inputCount)) {
    return s;
  }
  Frame &frame = *frames[entry];
  const Plan &plan = module.plan(entry);
  if (Status s = checkData(plan, frame, inputs, outputs)) {
    return {s.code(), plan.place() + ": " + s.message()};
  }
  if (Status s = executor->run(frame, inputs, outputs)) {
    return s;
  }
  environment.length += frame.stepTokens();
  return {};
}

Status Session::reset() {
  environment.length = 0;
  for (int32_t i = 0; i < module.stateCount(); ++i) {
    if (module.table().states()->Get(i)->grows() < 0) {
      if (Status s = executor->clearStates(environment.stateExtents[i])) {
        return s;
      }
    }
  }
  return {};
}

Status Session::truncate(int64_t length) {
  if (length < 0 || length > environment.length) {
    return invalidArgument("cannot cut the sequence to " + std::to_string(length) + " tokens, it has " +
                           std::to_string(environment.length));
  }
  for (int32_t i = 0; i < module.stateCount() && length != environment.length; ++i) {
    const fb::State &state = *module.table().states()->Get(i);
    if (state.grows() < 0) {
      return invalidArgument("cannot cut the sequence: state " + quoted(state.name()->str()) +
                             " keeps no tokens apart; reset the session instead");
    }
  }
  environment.length = length;
  return {};
}

kimi_memory Session::memory() const {
  kimi_memory memory = {};
  for (int32_t i = 0; i < module.stateCount(); ++i) {
    const fb::State &state = *module.table().states()->Get(i);
    uint64_t bytes = static_cast<uint64_t>(stateBytes(state, 1, 1).value_or(0));
    (state.grows() < 0 ? memory.state_fixed_bytes : memory.state_bytes_per_token) += bytes;
  }
  if (const auto *weights = module.table().weights()) {
    for (const fb::Weight *weight : *weights) {
      memory.weight_bytes += static_cast<uint64_t>(
          *denseBytes(weight->dims()->data(), weight->dims()->size(), dtypeSize(weight->dtype())));
    }
  }
  memory.derived_bytes = program->derivedBytes();
  memory.arena_bytes = executor->arenaBytes();
  return memory;
}

} // namespace kimi
