//===- Gate.h - lets a stream wait for the host -----------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_GATE_H
#define KIMI_RUNTIME_CUDA_GATE_H

#include "runtime/cuda/Driver.h"

#include <condition_variable>
#include <memory>
#include <mutex>

namespace kimi::cuda {

/// What is put into a stream after close() runs when open() is called, or when the gate goes.
class Gate {
public:
  Status close(const Driver &driver, Stream stream) {
    // The stream may come by when the gate is gone: it has a share of its own.
    auto share = std::make_unique<std::shared_ptr<State>>(state);
    Result result = driver.launchHostFunc(stream, &Gate::wait, share.get());
    if (result == Success) {
      share.release();
    }
    return driver.check(result, "cannot hold the stream");
  }

  void open() {
    {
      std::lock_guard<std::mutex> lock(state->mutex);
      state->isOpen = true;
    }
    state->changed.notify_all();
  }

  ~Gate() { open(); }

private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool isOpen = false;
  };

  static void wait(void *data) {
    std::unique_ptr<std::shared_ptr<State>> share(static_cast<std::shared_ptr<State> *>(data));
    State &state = **share;
    std::unique_lock<std::mutex> lock(state.mutex);
    state.changed.wait(lock, [&] { return state.isOpen; });
  }

  std::shared_ptr<State> state = std::make_shared<State>();
};

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_GATE_H
