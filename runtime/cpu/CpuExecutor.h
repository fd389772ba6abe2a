//===- CpuExecutor.h - runs of a module on the CPU --------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CPU_CPUEXECUTOR_H
#define KIMI_RUNTIME_CPU_CPUEXECUTOR_H

#include "runtime/cpu/CpuProgram.h"

#include <deque>

namespace kimi {

/// Launches one after the other on a thread pool; ports lie where the caller has them.
class CpuExecutor : public Executor {
public:
  static Status create(const CpuProgram &program, int32_t threads, std::unique_ptr<Executor> &out);

  Status allocateStates(uint64_t bytes) override { return Mapping::ofZeros(bytes, states); }
  Status clearStates(const Extent &extent) override;
  Status readStates(const std::vector<StateBytes> &parts, uint8_t *to) override;
  Status writeStates(const std::vector<StateBytes> &parts, const uint8_t *from) override;
  Status run(Frame &frame, const kimi_tensor *inputs, const kimi_tensor *outputs,
             std::vector<LaunchTime> *times) override;
  Status time(Frame &frame, const kimi_tensor *inputs, int64_t count, double *seconds) override;
  Status enqueueStep(Frame &frame, const kimi_tensor *inputs, TokenPorts ports) override;
  Status takeTokens(void *tokens, uint64_t bytes) override;
  uint64_t arenaBytes() const override { return arena.size(); }

private:
  explicit CpuExecutor(const CpuProgram &program) : program(program) {}
  Status growArena(Frame &frame);
  Status placePorts(const Frame &frame, const kimi_tensor *inputs, const kimi_tensor *outputs);
  void runLaunches(Frame &frame, std::vector<LaunchTime> *times);

  const CpuProgram &program;
  std::unique_ptr<ThreadPool> pool;
  Mapping states;
  Mapping arena;   // grows to what the largest run needed
  Mapping dropped; // outputs that nobody wants
  std::vector<uint64_t> inputAddresses, outputAddresses;
  std::vector<uint8_t> lastTokens;
  std::deque<std::vector<uint8_t>> steps; // tokens that nobody has taken
};

} // namespace kimi

#endif // KIMI_RUNTIME_CPU_CPUEXECUTOR_H
