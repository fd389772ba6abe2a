//===- CudaExecutor.cpp - runs of a module on a GPU -------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/CudaExecutor.h"
#include "runtime/Text.h"
#include "runtime/cuda/Gate.h"
#include "runtime/format/Header.h"

#include <algorithm>
#include <cstring>

namespace kimi::cuda {

Status CudaExecutor::create(const CudaProgram &program, const kimi_session_options &options,
                            std::unique_ptr<Executor> &out) {
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(program));
  executor->checksLaunches = options.check_launches != 0;
  executor->usesGraphs = options.no_graphs == 0 && !executor->checksLaunches;
  if (Status s = createStream(program.device(), executor->stream)) {
    return s;
  }
  if (Status s = createStream(program.device(), executor->copies)) {
    return s;
  }
  out = std::move(executor);
  return {};
}

CudaExecutor::~CudaExecutor() {
  CudaDevice::Scope scope(device());
  for (const OwnedStream *it : {&stream, &copies}) {
    if (*it) { // nothing may run on memory that goes
      driver().streamSynchronize(it->get());
    }
  }
}

Status CudaExecutor::wait(const std::string &place) {
  Status status = driver().check(driver().streamSynchronize(stream.get()), place + ": one of its kernels failed");
  if (!status || checksLaunches) {
    return status;
  }
  return {status.code(), status.message() + "; run with check_launches (kimi-run --check-launches) to see which one"};
}

Status CudaExecutor::grow(DeviceMemory &memory, uint64_t bytes, const std::string &what) {
  if (bytes <= memory.size()) {
    return {};
  }
  uint64_t size = format::alignTo(grownSize(bytes, memory.size()), 256);
  if (memory.size() != 0) {
    if (Status s = wait(what)) {
      return s;
    }
    memory = DeviceMemory();
  }
  return DeviceMemory::allocate(device(), size, what, memory);
}

Status CudaExecutor::allocateStates(uint64_t bytes) {
  if (Status s = DeviceMemory::allocate(device(), bytes, "the states", states)) {
    return s;
  }
  return clearStates({0, bytes});
}

Status CudaExecutor::clearStates(const Extent &extent) {
  if (extent.size == 0) {
    return {};
  }
  CudaDevice::Scope scope(device());
  return driver().check(driver().memsetD8Async(states.address() + extent.offset, 0, extent.size, stream.get()),
                        "states");
}

Status CudaExecutor::readStates(const std::vector<StateBytes> &parts, uint8_t *to) {
  CudaDevice::Scope scope(device());
  for (const StateBytes &part : parts) {
    Result result = driver().memcpyDtoHAsync(to + part.host, states.address() + part.state, part.size, stream.get());
    if (Status s = driver().check(result, "states")) {
      driver().streamSynchronize(stream.get()); // the copies before it write to memory of the caller's
      return s;
    }
  }
  return wait("states");
}

Status CudaExecutor::writeStates(const std::vector<StateBytes> &parts, const uint8_t *from) {
  CudaDevice::Scope scope(device());
  for (const StateBytes &part : parts) {
    Result result = driver().memcpyHtoDAsync(states.address() + part.state, from + part.host, part.size, stream.get());
    if (Status s = driver().check(result, "states")) {
      driver().streamSynchronize(stream.get());
      return s;
    }
  }
  return wait("states");
}

Status CudaExecutor::place(Frame &frame, const TokenPorts *ports, EntryMemory *&out) {
  EntryMemory &memory = entries[&frame.layout()];
  const fb::Entry &entry = frame.layout().entry;
  memory.inputs.resize(frame.inputCount());
  memory.outputs.resize(frame.outputCount());
  memory.inputAddresses.resize(frame.inputCount());
  memory.outputAddresses.resize(frame.outputCount());
  for (uint32_t i = 0; i < frame.outputCount(); ++i) {
    if (ports && i == ports->output) {
      memory.outputAddresses[i] = nextStep().tokens.address();
      continue;
    }
    std::string what = frame.place() + ": output " + quoted(entry.outputs()->Get(i)->name()->string_view());
    if (Status s = grow(memory.outputs[i], frame.outputBytes(i), what)) {
      return s;
    }
    memory.outputAddresses[i] = memory.outputs[i].address();
  }
  for (uint32_t i = 0; i < frame.inputCount(); ++i) {
    if (ports && i == ports->input) {
      memory.inputAddresses[i] = stepBefore().tokens.address();
      continue;
    }
    std::string what = frame.place() + ": input " + quoted(entry.inputs()->Get(i)->name()->string_view());
    if (Status s = grow(memory.inputs[i], frame.inputBytes(i), what)) {
      return s;
    }
    memory.inputAddresses[i] = memory.inputs[i].address();
  }
  if (Status s = grow(arena, frame.arenaSize(), frame.place() + ": the arena")) {
    return s;
  }
  frame.bind({arena.address(), states.address(), program.derivedAddress(), program.weightAddresses().data(),
              memory.inputAddresses.data(), memory.outputAddresses.data()});
  if (!memory.launches) {
    memory.launches = std::make_unique<LaunchList>(program, frame);
  }
  if (Status s = memory.launches->update()) {
    return s;
  }
  out = &memory;
  return {};
}

Status CudaExecutor::copyInputs(Frame &frame, const kimi_tensor *inputs, const EntryMemory &memory) {
  for (uint32_t i = 0; i < frame.inputCount(); ++i) {
    uint64_t bytes = frame.inputBytes(i);
    if (bytes == 0) {
      continue;
    }
    // The driver takes pageable memory into buffers of its own before it returns.
    Result result = driver().memcpyHtoDAsync(memory.inputAddresses[i], inputs[i].data, bytes, stream.get());
    if (Status s = driver().check(result, frame.place() + ": input " + std::to_string(i))) {
      return s;
    }
  }
  return {};
}

Status CudaExecutor::copyOutputs(Frame &frame, const kimi_tensor *outputs, const EntryMemory &memory) {
  for (uint32_t i = 0; outputs && i < frame.outputCount(); ++i) {
    uint64_t bytes = frame.outputBytes(i);
    if (bytes == 0 || !outputs[i].data) {
      continue;
    }
    Result result = driver().memcpyDtoHAsync(outputs[i].data, memory.outputAddresses[i], bytes, stream.get());
    if (Status s = driver().check(result, frame.place() + ": output " + std::to_string(i))) {
      return s;
    }
  }
  return {};
}

Status CudaExecutor::launch(Frame &frame, EntryMemory &memory, int turn) {
  return usesGraphs ? graphs.run(device(), frame, *memory.launches, stream.get(), turn) : launchEach(memory);
}

Status CudaExecutor::launchEach(const EntryMemory &memory) {
  for (const LaunchList::Item &item : memory.launches->items()) {
    if (!item.kernel) {
      continue;
    }
    if (Status s = memory.launches->launch(item, stream.get())) {
      return s;
    }
    if (checksLaunches) {
      if (Status s = driver().check(driver().streamSynchronize(stream.get()), memory.launches->place(item))) {
        return s;
      }
    }
  }
  return {};
}

Status CudaExecutor::run(Frame &frame, const kimi_tensor *inputs, const kimi_tensor *outputs,
                         std::vector<LaunchTime> *times) {
  CudaDevice::Scope scope(device());
  EntryMemory *memory = nullptr;
  if (Status s = place(frame, nullptr, memory)) {
    return s;
  }
  if (Status s = copyInputs(frame, inputs, *memory)) {
    return s;
  }
  if (Status s = times ? launchTimed(frame, *memory, *times) : launch(frame, *memory)) {
    return s;
  }
  if (Status s = copyOutputs(frame, outputs, *memory)) {
    return s;
  }
  return wait(frame.place());
}

Status CudaExecutor::launchTimed(Frame &frame, EntryMemory &memory, std::vector<LaunchTime> &times) {
  // Once without the clock: a kernel that is launched for the first time may have to be loaded, which waits for what
  // runs.
  if (Status s = launchEach(memory)) {
    return s;
  }
  if (Status s = wait(frame.place())) {
    return s;
  }
  std::vector<OwnedEvent> events(1);
  std::vector<size_t> launches;
  // The device waits until the host has put everything in the queue: between two events there is then nothing but the
  // kernel. Queues have an end, so that a long list opens the gate before it is through.
  constexpr size_t longestQueue = 256;
  Gate gate;
  if (Status s = gate.close(driver(), stream.get())) {
    return s;
  }
  auto record = [&]() -> Status {
    if (Status s = createEvent(device(), /*timed=*/true, events.back())) {
      return s;
    }
    return driver().check(driver().eventRecord(events.back().get(), stream.get()), frame.place());
  };
  if (Status s = record()) {
    return s;
  }
  for (const LaunchList::Item &item : memory.launches->items()) {
    if (!item.kernel) {
      continue;
    }
    if (Status s = memory.launches->launch(item, stream.get())) {
      return s;
    }
    launches.push_back(item.launch);
    events.emplace_back();
    if (Status s = record()) {
      return s;
    }
    if (launches.size() == longestQueue) {
      gate.open();
    }
  }
  gate.open();
  if (Status s = wait(frame.place())) {
    return s;
  }
  double start = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    float milliseconds = 0;
    Result result = driver().eventElapsedTime(&milliseconds, events[i].get(), events[i + 1].get());
    if (Status s = driver().check(result, frame.place() + ": timing")) {
      return s;
    }
    times.push_back({launches[i], start, milliseconds * 1e-3});
    start += milliseconds * 1e-3;
  }
  return {};
}

Status CudaExecutor::time(Frame &frame, const kimi_tensor *inputs, int64_t count, double *seconds) {
  CudaDevice::Scope scope(device());
  EntryMemory *memory = nullptr;
  if (Status s = place(frame, nullptr, memory)) {
    return s;
  }
  if (Status s = copyInputs(frame, inputs, *memory)) {
    return s;
  }
  // Runs follow each other without a pause, as steps of decoding do; the first two make the graph.
  for (int i = 0; i < 2; ++i) {
    if (Status s = launch(frame, *memory)) {
      return s;
    }
  }
  std::vector<OwnedEvent> events(static_cast<size_t>(count) + 1);
  for (size_t i = 0; i < events.size(); ++i) {
    if (Status s = createEvent(device(), /*timed=*/true, events[i])) {
      return s;
    }
    if (Status s = driver().check(driver().eventRecord(events[i].get(), stream.get()), frame.place())) {
      return s;
    }
    if (i + 1 < events.size()) {
      if (Status s = launch(frame, *memory)) {
        return s;
      }
    }
  }
  if (Status s = wait(frame.place())) {
    return s;
  }
  for (int64_t i = 0; i < count; ++i) {
    float milliseconds = 0;
    Result result = driver().eventElapsedTime(&milliseconds, events[i].get(), events[i + 1].get());
    if (Status s = driver().check(result, frame.place() + ": timing")) {
      return s;
    }
    seconds[i] = milliseconds * 1e-3;
  }
  return {};
}

Status CudaExecutor::stageInputs(Frame &frame, const kimi_tensor *inputs, TokenPorts ports, const EntryMemory &memory,
                                 Step &step) {
  auto isCopied = [&](uint32_t i) { return (i != ports.input || inputs[i].data) && frame.inputBytes(i) != 0; };
  uint64_t total = 0;
  for (uint32_t i = 0; i < frame.inputCount(); ++i) {
    total += isCopied(i) ? format::alignTo(frame.inputBytes(i), 16) : 0;
  }
  if (total > step.inputs.size()) {
    if (Status s = PinnedMemory::allocate(device(), grownSize(total, step.inputs.size()), "inputs", step.inputs)) {
      return s;
    }
  }
  uint64_t offset = 0;
  for (uint32_t i = 0; i < frame.inputCount(); ++i) {
    if (!isCopied(i)) {
      continue;
    }
    uint64_t bytes = frame.inputBytes(i);
    std::memcpy(step.inputs.data() + offset, inputs[i].data, bytes);
    Result result =
        driver().memcpyHtoDAsync(memory.inputAddresses[i], step.inputs.data() + offset, bytes, stream.get());
    if (Status s = driver().check(result, frame.place() + ": input " + std::to_string(i))) {
      return s;
    }
    offset += format::alignTo(bytes, 16);
  }
  return {};
}

Status CudaExecutor::makeStep(Frame &frame, TokenPorts ports, Step &step) {
  step.tokenBytes = frame.outputBytes(ports.output);
  if (frame.inputBytes(ports.input) != step.tokenBytes) {
    return {KIMI_RUNTIME_ERROR, frame.place() + ": takes other tokens than it gives"};
  }
  for (Step *it : {&step, &stepBefore()}) {
    if (Status s = grow(it->tokens, step.tokenBytes, frame.place() + ": tokens")) {
      return s;
    }
  }
  if (step.tokenBytes > step.hostTokens.size()) {
    if (Status s = PinnedMemory::allocate(device(), step.tokenBytes, "tokens", step.hostTokens)) {
      return s;
    }
  }
  for (OwnedEvent *event : {&step.computed, &step.copied}) {
    if (!*event) {
      if (Status s = createEvent(device(), /*timed=*/false, *event)) {
        return s;
      }
    }
  }
  return {};
}

Status CudaExecutor::enqueueStep(Frame &frame, const kimi_tensor *inputs, TokenPorts ports) {
  CudaDevice::Scope scope(device());
  if (enqueued - taken >= maxSteps) {
    return {KIMI_RUNTIME_ERROR, "the tokens of two steps wait to be taken"};
  }
  Step &step = nextStep(); // its last use was taken, so its memory is free
  if (Status s = makeStep(frame, ports, step)) {
    return s;
  }
  EntryMemory *memory = nullptr;
  if (Status s = place(frame, &ports, memory)) {
    return s;
  }
  if (Status s = stageInputs(frame, inputs, ports, *memory, step)) {
    return s;
  }
  if (Status s = launch(frame, *memory, 1 + static_cast<int>(enqueued % maxSteps))) {
    return s;
  }
  Result result = driver().eventRecord(step.computed.get(), stream.get());
  if (result == Success) {
    result = driver().streamWaitEvent(copies.get(), step.computed.get(), 0);
  }
  if (result == Success) {
    result = driver().memcpyDtoHAsync(step.hostTokens.data(), step.tokens.address(), step.tokenBytes, copies.get());
  }
  if (result == Success) {
    result = driver().eventRecord(step.copied.get(), copies.get());
  }
  if (Status s = driver().check(result, frame.place() + ": tokens")) {
    return s;
  }
  ++enqueued;
  return {};
}

Status CudaExecutor::takeTokens(void *tokens, uint64_t bytes) {
  if (taken == enqueued || steps[taken % maxSteps].tokenBytes != bytes) {
    return {KIMI_RUNTIME_ERROR, "there is no step whose tokens could be taken"};
  }
  CudaDevice::Scope scope(device());
  Step &step = steps[taken % maxSteps];
  if (Status s = driver().check(driver().eventSynchronize(step.copied.get()), "a step of decoding failed")) {
    return s;
  }
  std::memcpy(tokens, step.hostTokens.data(), bytes);
  ++taken;
  return {};
}

} // namespace kimi::cuda
