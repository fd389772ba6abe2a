//===- Device.h - where a module runs ---------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_DEVICE_H
#define KIMI_RUNTIME_DEVICE_H

#include "runtime/Frame.h"
#include "runtime/format/Verify.h"

#include <memory>
#include <string>
#include <string_view>

namespace kimi {

/// A device of this machine.
struct DeviceId {
  enum class Kind : uint8_t { Cpu, Cuda };
  Kind kind = Kind::Cpu;
  int32_t ordinal = 0; // of CUDA devices

  std::string text() const; // "cpu", "cuda:1"
  bool operator<(const DeviceId &other) const {
    return kind != other.kind ? kind < other.kind : ordinal < other.ordinal;
  }
};

/// Reads "cpu", "cuda" (the first one) or "cuda:1". Error: KIMI_INVALID_ARGUMENT.
Status parseDevice(std::string_view text, DeviceId &out);

/// Chooses the device of a session: `asked`, or what the module's target names where `asked` is null or empty.
/// Error: KIMI_UNSUPPORTED where the module is compiled for another kind of device.
Status chooseDevice(const char *asked, std::string_view target, DeviceId &out);

/// The time of one launch of a run.
struct LaunchTime {
  size_t launch;        // index in the entry
  double start, length; // seconds since the run began; of the launch alone
};

/// `size` bytes that lie at `state` in the states and at `host` in a copy of them.
struct StateBytes {
  uint64_t state, host, size;
};

/// The memory of one session on a device, and the queue of its runs. Not thread-safe.
class Executor {
public:
  virtual ~Executor() = default;

  /// Makes the memory of the states, zeros.
  virtual Status allocateStates(uint64_t bytes) = 0;
  /// Fills a part of the states with zeros, after all that was run before.
  virtual Status clearStates(const Extent &extent) = 0;
  /// Copies parts of the states to host memory at `to`, after all that was run before, and waits for them.
  virtual Status readStates(const std::vector<StateBytes> &parts, uint8_t *to) = 0;
  /// The same the other way round.
  virtual Status writeStates(const std::vector<StateBytes> &parts, const uint8_t *from) = 0;

  /// Runs a prepared frame and waits for it. `inputs` and `outputs` were checked against the frame; they lie in host
  /// memory. An output without data is computed and dropped. Where `times` is given, it gets one element for each
  /// launch that ran. Error: KIMI_OUT_OF_MEMORY for the arena or the ports, before anything is written.
  virtual Status run(Frame &frame, const kimi_tensor *inputs, const kimi_tensor *outputs,
                     std::vector<LaunchTime> *times = nullptr) = 0;

  /// Runs a prepared frame `count` times and gives the seconds that each run took on the device. Outputs are dropped.
  virtual Status time(Frame &frame, const kimi_tensor *inputs, int64_t count, double *seconds) = 0;

  /// Which ports carry tokens from one step to the next.
  struct TokenPorts {
    uint32_t input, output;
  };
  /// Puts a step of greedy decoding in the queue: the tokens come from the host (`inputs[ports.input].data`), or, where
  /// that is null, from the step before. The data of the other inputs may change after the call. Outputs are dropped.
  virtual Status enqueueStep(Frame &frame, const kimi_tensor *inputs, TokenPorts ports) = 0;
  /// Waits for the tokens of the oldest step in the queue that nobody has taken, and copies its `bytes` bytes. At most
  /// two steps may be in the queue.
  virtual Status takeTokens(void *tokens, uint64_t bytes) = 0;

  virtual uint64_t arenaBytes() const = 0;
};

/// A module on a device: weights, code, and the derived buffers that `init` has filled. Shared by sessions, immutable.
class Program {
public:
  virtual ~Program() = default;

  /// Makes what one session needs. The program must outlive it.
  virtual Status makeExecutor(const kimi_session_options &options, std::unique_ptr<Executor> &out) const = 0;

  const std::vector<Extent> &derivedExtents() const { return extents; }
  virtual uint64_t derivedBytes() const = 0;

protected:
  std::vector<Extent> extents;
};

/// Runs the entry `init` of a program.
Status runInit(const Plan &init, const Program &program, Executor &executor);

/// The size of a block that was too small and needs `needed` bytes: in steps of half its size, so that one that grows
/// with the sequence is not made anew for every token.
inline uint64_t grownSize(uint64_t needed, uint64_t size) { return needed > size / 2 * 3 ? needed : size / 2 * 3; }

/// The extents of the module's derived buffers in one block of memory, each at a multiple of `alignment`; `total`: its
/// bytes. Error: KIMI_OUT_OF_MEMORY where they pass 63 bits.
Status layOutDerived(const fb::Module &module, uint64_t alignment, std::vector<Extent> &extents, uint64_t &total);

/// For each weight, whether an entry besides `init` reads it.
std::vector<bool> weightsInUse(const fb::Module &module);

} // namespace kimi

#endif // KIMI_RUNTIME_DEVICE_H
