//===- Session.h - states of a sequence, and the runs that use them ---------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_SESSION_H
#define KIMI_RUNTIME_SESSION_H

#include "runtime/Module.h"
#include "runtime/Snapshot.h"

namespace kimi {

/// The device, the states and the arena of one user of a module, who must not outlive it. Not thread-safe.
class Session {
public:
  static Status create(const Module &module, const kimi_session_options &options, std::unique_ptr<Session> &out);

  /// Fills dtype, rank and dims of `outputs`.
  Status outputShapes(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, kimi_tensor *outputs,
                      int32_t outputCount);
  Status run(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, kimi_tensor *outputs, int32_t outputCount);

  /// Greedy decoding: see kimi_session_decode.
  Status decode(int32_t entry, const int64_t *tokens, int64_t batch, int64_t steps, kimi_token_function onTokens,
                void *user);
  /// Each run takes place at the present length, which stays: see kimi_session_time and kimi_session_profile.
  Status time(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, int64_t runs, double *seconds);
  Status profile(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, std::vector<kimi_launch_time> &out);

  const std::string &deviceName() const { return device; }
  int64_t length() const { return environment.length; }
  int64_t capacity() const { return environment.capacity; }

  // What the session holds: see the functions of kimi.h of these names.
  Status reset();
  Status truncate(int64_t length, const Snapshot *snapshot);
  Status snapshot(bool whole, std::unique_ptr<Snapshot> &out);
  Status restore(const Snapshot &snapshot);
  kimi_memory memory() const;

private:
  explicit Session(const Module &module) : module(module) {}
  Status allocateStates();
  /// That the states of a snapshot are laid out as those of this session.
  Status checkSnapshot(const Snapshot &snapshot) const;
  Status prepare(int32_t entry, const kimi_tensor *inputs, int32_t inputCount);
  Status checkOutputCount(int32_t entry, const kimi_tensor *outputs, int32_t outputCount) const;
  /// Checks the pointers of a prepared run; `outputs` may be null where all are dropped.
  Status checkData(const Plan &plan, const Frame &frame, const kimi_tensor *inputs, const kimi_tensor *outputs) const;
  /// prepare and checkData for a run whose outputs are dropped.
  Status prepareDropping(int32_t entry, const kimi_tensor *inputs, int32_t inputCount);

  const Module &module;
  std::string device; // "cuda:0"
  std::shared_ptr<const Program> program;
  std::unique_ptr<Executor> executor; // after the program, which must outlive it
  StateSizes sizes;
  Environment environment;
  History history;
  std::vector<std::unique_ptr<Frame>> frames; // of each entry, made when it is first used
};

/// Which ports of an entry carry tokens from step to step.
/// Error: KIMI_UNSUPPORTED with what the entry lacks for greedy decoding.
Status findTokenPorts(const Plan &plan, Executor::TokenPorts &out);

} // namespace kimi

#endif // KIMI_RUNTIME_SESSION_H
