//===- Module.h - a compiled module, loaded and checked ---------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_MODULE_H
#define KIMI_RUNTIME_MODULE_H

#include "runtime/Device.h"
#include "runtime/MappedFile.h"
#include "runtime/StateLayout.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kimi {

/// A .kmod file in memory. Immutable for its users; sessions in several threads may share it.
class Module {
public:
  /// Maps and verifies the file. `weightsFolder`: where external weights are; empty: the folder of the file.
  /// Error: KIMI_NOT_FOUND, KIMI_BAD_FILE.
  static Status load(const std::string &path, const std::string &weightsFolder, std::unique_ptr<Module> &out);

  const fb::Module &table() const { return *contents.module; }
  int32_t entryCount() const { return static_cast<int32_t>(plans.size()); }
  const Plan &plan(int32_t entry) const { return *plans[entry]; }
  /// Index of the entry of that name, or -1.
  int32_t findEntry(std::string_view name) const;
  int32_t stateCount() const { return table().states() ? static_cast<int32_t>(table().states()->size()) : 0; }

  /// Outlives the module in whoever holds it, and is another one for each module: what belongs together.
  const std::shared_ptr<const char> &identity() const { return token; }
  /// Bytes of states, of one sequence and of one token of it, of weights and of derived buffers; no arena.
  kimi_memory memory() const;
  /// Bytes of the arena of a run of `entry` with these inputs, of which only values that sizes depend on are read,
  /// after `length` tokens in states made for `batch` sequences of `capacity` tokens. Error: as of a run.
  Status arenaBytes(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, const StateSizes &sizes,
                    int64_t length, uint64_t &out) const;

  /// Weights, code and derived buffers on a device, made on the first call (for the CPU with `threads` threads) and
  /// shared from then on.
  Status bind(const DeviceId &device, int32_t threads, std::shared_ptr<const Program> &out) const;

private:
  std::shared_ptr<const char> token = std::make_shared<const char>();
  Mapping file;
  format::Contents contents;
  std::string weightsFolder;
  std::vector<std::unique_ptr<Plan>> plans;
  mutable std::mutex programMutex;
  mutable std::map<DeviceId, std::shared_ptr<const Program>> programs;
};

/// A readable listing: entries with ports, buffers with their sizes, launches with kernels, guards and arguments.
std::string describe(const Module &module);

} // namespace kimi

#endif // KIMI_RUNTIME_MODULE_H
