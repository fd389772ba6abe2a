//===- Model.h - a loaded module with its session
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_MODEL_H
#define KIMI_TOOLS_KIMIRUN_MODEL_H

#include "runtime/Status.h"
#include "tools/kimi-run/HostTensor.h"
#include "tools/kimi-run/Options.h"
#include <memory>
#include <string>
#include <vector>

namespace kimi::run {

struct Entry {
  int32_t index = -1;
  std::string name;
  std::vector<kimi_port> inputs, outputs;
};

/// The C API with memory management, and entries by name.
class Model {
public:
  /// Maps a .kmod. `weights`: the folder of its weight files, empty for the module's own.
  static Status load(const std::string &path, const std::string &weights, std::unique_ptr<Model> &out);

  const std::vector<Entry> &entries() const { return all; }
  /// The entry of that name, or null.
  const Entry *find(const std::string &name) const;
  int64_t maxContext() const { return kimi_module_max_context(module.get()); }
  /// True where kimi_session_decode can run the entry.
  bool canDecode(const Entry &entry) const { return kimi_module_can_decode(module.get(), entry.index) == 1; }
  int32_t stateCount() const { return kimi_module_state_count(module.get()); }
  /// True where a session has room for so many tokens and no more.
  bool hasGrowingStates() const;
  Status state(int32_t index, kimi_state_info &out) const;
  Status describe(std::string &out) const;
  /// Bytes by the module's tables; see kimi_module_memory and kimi_module_arena.
  Status memory(kimi_memory &out) const;
  Status arena(const Entry &entry, const kimi_session_options &options, int64_t length,
               const std::vector<HostTensor> &inputs, uint64_t &bytes) const;

  /// Makes the session that run() needs; called again, it replaces the one before.
  Status open(const kimi_session_options &options);
  kimi_session *session() const { return live.get(); }

  /// True where the session is on a GPU.
  bool onGpu() const;

  /// How outputs are made: `poison` fills them with 0xFF first, so that an element that nothing wrote is seen; those
  /// that `wanted` (where given) leaves out get no memory and no values.
  struct Outputs {
    bool poison = false;
    const std::vector<bool> *wanted = nullptr;
  };
  Status run(const Entry &entry, const std::vector<HostTensor> &inputs, std::vector<HostTensor> &outputs,
             const Outputs &how);
  Status run(const Entry &entry, const std::vector<HostTensor> &inputs, std::vector<HostTensor> &outputs) {
    return run(entry, inputs, outputs, Outputs());
  }
  /// Seconds on the device of `runs` runs at the present length, and of the launches of one run: see kimi_session_time
  /// and kimi_session_profile.
  Status time(const Entry &entry, const std::vector<HostTensor> &inputs, int64_t runs, std::vector<double> &seconds);
  Status profile(const Entry &entry, const std::vector<HostTensor> &inputs, std::vector<kimi_launch_time> &times);
  Status reset();

private:
  struct FreeModule {
    void operator()(kimi_module *m) const { kimi_module_free(m); }
  };
  struct FreeSession {
    void operator()(kimi_session *s) const { kimi_session_free(s); }
  };
  std::unique_ptr<kimi_module, FreeModule> module;
  std::unique_ptr<kimi_session, FreeSession> live; // After the module: freed before it.
  std::vector<Entry> all;
};

/// What the command line says of sessions. The texts of `options` must outlive it.
kimi_session_options sessionOptions(const Options &options);

/// The C API's last error as a status.
Status lastError(kimi_status code);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_MODEL_H
