//===- Snapshot.h - what a session held at some moment ----------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_SNAPSHOT_H
#define KIMI_RUNTIME_SNAPSHOT_H

#include "runtime/MappedFile.h"

#include <memory>
#include <vector>

namespace kimi {

/// The tokens that sequences hold, as moments at which snapshots were taken: a session whose history has the moment of
/// a snapshot still begins with the tokens that the snapshot was taken after.
class History {
public:
  using Moment = std::shared_ptr<const char>;

  /// A moment of its own, at `length` tokens.
  Moment mark(int64_t length);
  bool has(const Moment &moment) const;
  /// Forgets what came after `length` tokens.
  void cut(int64_t length);
  void clear() { marks.clear(); }

private:
  struct Mark {
    int64_t length;
    std::weak_ptr<const char> moment; // that of a snapshot, as long as there is one
  };
  std::vector<Mark> marks;
};

/// A copy of states in host memory. Refers to neither session nor module, and outlives both.
struct Snapshot {
  std::shared_ptr<const char> module; // see Module::identity
  int64_t batch = 0, length = 0;
  bool isWhole = false; // the rows of growing states, too
  Mapping data;         // see heldBytes
  uint64_t bytes = 0;
  History::Moment moment;
  History history; // up to and with `moment`
};

} // namespace kimi

#endif // KIMI_RUNTIME_SNAPSHOT_H
