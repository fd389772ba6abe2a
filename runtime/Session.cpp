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

#include <algorithm>

namespace kimi {
namespace {

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
  if (Status s = chooseSizes(module.table(), options.max_seq, options.batch, session->sizes)) {
    return s;
  }
  environment.capacity = session->sizes.capacity;
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
  if (Status s = session->allocateStates()) {
    return s;
  }
  environment.derivedExtents = &session->program->derivedExtents();
  session->frames.resize(module.entryCount());
  out = std::move(session);
  return {};
}

Status Session::allocateStates() {
  uint64_t total = 0;
  if (Status s = layOutStates(module.table(), sizes, environment.stateExtents, total)) {
    return s;
  }
  for (int32_t i = 0; i < module.stateCount(); ++i) {
    environment.hasGrowingStates |= module.table().states()->Get(i)->grows() >= 0;
  }
  if (Status s = executor->allocateStates(total)) {
    return {s.code(), "states for " + std::to_string(sizes.batch) + " sequences of " + std::to_string(sizes.capacity) +
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

kimi_memory Session::memory() const {
  kimi_memory memory = module.memory();
  memory.derived_bytes = program->derivedBytes();
  memory.arena_bytes = executor->arenaBytes();
  return memory;
}

} // namespace kimi
