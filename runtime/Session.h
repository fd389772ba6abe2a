//===- Session.h - states of a sequence, and the runs that use them ---------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_SESSION_H
#define KIMI_RUNTIME_SESSION_H

#include "runtime/Frame.h"
#include "runtime/Module.h"

namespace kimi {

/// The threads, the states and the arena of one user of a module, who must not outlive it. Not thread-safe.
class Session {
public:
  static Status create(const Module &module, const kimi_session_options &options, std::unique_ptr<Session> &out);

  /// Fills dtype, rank and dims of `outputs`.
  Status outputShapes(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, kimi_tensor *outputs,
                      int32_t outputCount);
  Status run(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, kimi_tensor *outputs, int32_t outputCount);

  int64_t length() const { return environment.length; }
  int64_t capacity() const { return environment.capacity; }
  void reset();
  Status truncate(int64_t length);
  kimi_memory memory() const;

private:
  explicit Session(const Module &module) : module(module) {}
  Status allocateStates(int64_t batch);
  Status prepare(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, const kimi_tensor *outputs,
                 int32_t outputCount);
  Status checkData(const Plan &plan, const Frame &frame, const kimi_tensor *inputs, const kimi_tensor *outputs) const;

  const Module &module;
  std::shared_ptr<const Bindings> bindings;
  std::unique_ptr<ThreadPool> pool;
  Environment environment;
  std::vector<std::unique_ptr<Frame>> frames; // of each entry, made when it is first used
};

} // namespace kimi

#endif // KIMI_RUNTIME_SESSION_H
