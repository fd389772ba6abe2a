//===- CpuExecutor.cpp - runs of a module on the CPU ------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cpu/CpuExecutor.h"
#include "runtime/format/Header.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace kimi {

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static uint64_t address(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

Status CpuExecutor::create(const CpuProgram &program, int32_t threads, std::unique_ptr<Executor> &out) {
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor(program));
  if (Status s = ThreadPool::create(threads, executor->pool)) {
    return s;
  }
  out = std::move(executor);
  return {};
}

Status CpuExecutor::clearStates(const Extent &extent) {
  if (extent.size != 0) {
    std::memset(states.data() + extent.offset, 0, extent.size);
  }
  return {};
}

Status CpuExecutor::readStates(const std::vector<StateBytes> &parts, uint8_t *to) {
  for (const StateBytes &part : parts) {
    std::memcpy(to + part.host, states.data() + part.state, part.size);
  }
  return {};
}

Status CpuExecutor::writeStates(const std::vector<StateBytes> &parts, const uint8_t *from) {
  for (const StateBytes &part : parts) {
    std::memcpy(states.data() + part.state, from + part.host, part.size);
  }
  return {};
}

Status CpuExecutor::growArena(Frame &frame) {
  uint64_t needed = frame.arenaSize();
  if (needed > arena.size()) {
    uint64_t size = grownSize(needed, arena.size());
    arena = Mapping();
    if (Status s = Mapping::ofZeros(size, arena)) {
      return {s.code(), frame.place() + ": arena: " + s.message()};
    }
  }
#ifndef NDEBUG
  if (needed != 0) {
    std::memset(arena.data(), 0xff, needed); // NaN: a value that is read before it is written shows
  }
#endif
  return {};
}

Status CpuExecutor::placePorts(const Frame &frame, const kimi_tensor *inputs, const kimi_tensor *outputs) {
  inputAddresses.resize(frame.inputCount());
  for (size_t i = 0; i < inputAddresses.size(); ++i) {
    inputAddresses[i] = address(inputs[i].data);
  }
  outputAddresses.resize(frame.outputCount());
  uint64_t room = 0;
  for (uint32_t i = 0; i < outputAddresses.size(); ++i) {
    bool isWanted = outputs && outputs[i].data;
    outputAddresses[i] = isWanted ? address(outputs[i].data) : room;
    room += isWanted ? 0 : format::alignTo(frame.outputBytes(i), format::blobAlignment);
  }
  if (room > dropped.size()) {
    uint64_t size = grownSize(room, dropped.size());
    dropped = Mapping();
    if (Status s = Mapping::ofZeros(size, dropped)) {
      return {s.code(), frame.place() + ": outputs: " + s.message()};
    }
  }
  for (uint32_t i = 0; i < outputAddresses.size(); ++i) {
    outputAddresses[i] += outputs && outputs[i].data ? 0 : address(dropped.data());
  }
  return {};
}

void CpuExecutor::runLaunches(Frame &frame, std::vector<LaunchTime> *times) {
  frame.bind({address(arena.data()), address(states.data()), address(program.derivedData()),
              reinterpret_cast<const uint64_t *>(program.weightPointers().data()), inputAddresses.data(),
              outputAddresses.data()});
  double start = times ? now() : 0;
  for (size_t i = 0; i < frame.launchCount(); ++i) {
    Frame::Launch launch = frame.launch(i);
    if (launch.kernel < 0) {
      continue;
    }
    double begin = times ? now() : 0;
    pool->run(program.kernel(launch.kernel), launch.words, launch.grid);
    if (times) {
      times->push_back({i, begin - start, now() - begin});
    }
  }
}

Status CpuExecutor::run(Frame &frame, const kimi_tensor *inputs, const kimi_tensor *outputs,
                        std::vector<LaunchTime> *times) {
  if (Status s = growArena(frame)) {
    return s;
  }
  if (Status s = placePorts(frame, inputs, outputs)) {
    return s;
  }
  runLaunches(frame, times);
  return {};
}

Status CpuExecutor::time(Frame &frame, const kimi_tensor *inputs, int64_t count, double *seconds) {
  for (int64_t i = 0; i < count; ++i) {
    double start = now();
    if (Status s = run(frame, inputs, nullptr, nullptr)) {
      return s;
    }
    seconds[i] = now() - start;
  }
  return {};
}

Status CpuExecutor::enqueueStep(Frame &frame, const kimi_tensor *inputs, TokenPorts ports) {
  if (Status s = growArena(frame)) {
    return s;
  }
  if (Status s = placePorts(frame, inputs, nullptr)) {
    return s;
  }
  std::vector<uint8_t> tokens(frame.outputBytes(ports.output));
  if (!inputs[ports.input].data) {
    inputAddresses[ports.input] = address(lastTokens.data());
  }
  outputAddresses[ports.output] = address(tokens.data());
  runLaunches(frame, nullptr);
  lastTokens = tokens;
  steps.push_back(std::move(tokens));
  return {};
}

Status CpuExecutor::takeTokens(void *tokens, uint64_t bytes) {
  if (steps.empty() || steps.front().size() != bytes) {
    return {KIMI_RUNTIME_ERROR, "there is no step whose tokens could be taken"};
  }
  std::memcpy(tokens, steps.front().data(), bytes);
  steps.pop_front();
  return {};
}

} // namespace kimi
