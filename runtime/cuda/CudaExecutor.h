//===- CudaExecutor.h - runs of a module on a GPU ---------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_CUDAEXECUTOR_H
#define KIMI_RUNTIME_CUDA_CUDAEXECUTOR_H

#include "runtime/cuda/Graphs.h"

#include <map>

namespace kimi::cuda {

/// One stream. States, arena and ports lie on the device and stay where they are from run to run, unless they must
/// grow; then the stream is waited for.
class CudaExecutor : public Executor {
public:
  static Status create(const CudaProgram &program, const kimi_session_options &options, std::unique_ptr<Executor> &out);
  ~CudaExecutor() override;

  Status allocateStates(uint64_t bytes) override;
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
  /// What an entry has on the device.
  struct EntryMemory {
    std::vector<DeviceMemory> inputs, outputs;
    std::vector<uint64_t> inputAddresses, outputAddresses;
    std::unique_ptr<LaunchList> launches;
  };
  /// A step of decoding in the queue. Its tokens are copied to the host by a stream of their own, while the next step
  /// runs; so steps write to two places in turn, each reading what the other one holds.
  struct Step {
    PinnedMemory inputs, hostTokens;
    DeviceMemory tokens;
    OwnedEvent computed, copied;
    uint64_t tokenBytes = 0;
  };
  static constexpr size_t maxSteps = 2;

  explicit CudaExecutor(const CudaProgram &program) : program(program) {}
  const CudaDevice &device() const { return program.device(); }
  const Driver &driver() const { return program.device().driver(); }

  /// Waits for the stream. Errors name the entry.
  Status wait(const std::string &place);
  Status grow(DeviceMemory &memory, uint64_t bytes, const std::string &what);
  /// Makes room for arena and ports, and fills the launches in. `ports`, where given, lie in the tokens of the next
  /// step and of the one before it.
  Status place(Frame &frame, const TokenPorts *ports, EntryMemory *&out);
  Status copyInputs(Frame &frame, const kimi_tensor *inputs, const EntryMemory &memory);
  Status copyOutputs(Frame &frame, const kimi_tensor *outputs, const EntryMemory &memory);
  /// `turn`: see GraphCache; steps of decoding take turns.
  Status launch(Frame &frame, EntryMemory &memory, int turn = 0);
  /// Without a graph.
  Status launchEach(const EntryMemory &memory);
  Status launchTimed(Frame &frame, EntryMemory &memory, std::vector<LaunchTime> &times);
  Step &nextStep() { return steps[enqueued % maxSteps]; }
  Step &stepBefore() { return steps[(enqueued + 1) % maxSteps]; }
  Status makeStep(Frame &frame, TokenPorts ports, Step &step);
  /// Copies inputs by way of the step's pinned memory.
  Status stageInputs(Frame &frame, const kimi_tensor *inputs, TokenPorts ports, const EntryMemory &memory, Step &step);

  const CudaProgram &program;
  OwnedStream stream, copies;
  DeviceMemory states, arena;
  std::map<const Plan *, EntryMemory> entries;
  GraphCache graphs;
  bool usesGraphs = true, checksLaunches = false;
  Step steps[maxSteps];
  uint64_t enqueued = 0, taken = 0; // steps so far
};

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_CUDAEXECUTOR_H
