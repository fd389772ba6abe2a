//===- SessionState.cpp - forgets, keeps and brings back what a session holds ===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Session.h"
#include "runtime/Snapshot.h"
#include "runtime/Text.h"

#include <algorithm>

namespace kimi {

static bool isSame(const std::weak_ptr<const char> &a, const History::Moment &b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

History::Moment History::mark(int64_t length) {
  marks.erase(std::remove_if(marks.begin(), marks.end(), [](const Mark &it) { return it.moment.expired(); }),
              marks.end());
  auto moment = std::make_shared<const char>();
  marks.push_back({length, moment});
  return moment;
}

bool History::has(const Moment &moment) const {
  return std::any_of(marks.begin(), marks.end(), [&](const Mark &it) { return isSame(it.moment, moment); });
}

void History::cut(int64_t length) {
  marks.erase(std::remove_if(marks.begin(), marks.end(), [&](const Mark &it) { return it.length > length; }),
              marks.end());
}

static std::string tokens(int64_t count) { return std::to_string(count) + (count == 1 ? " token" : " tokens"); }

Status Session::reset() {
  environment.length = 0;
  history.clear();
  for (int32_t i = 0; i < module.stateCount(); ++i) {
    if (module.table().states()->Get(i)->grows() < 0) {
      if (Status s = executor->clearStates(environment.stateExtents[i])) {
        return s;
      }
    }
  }
  return {};
}

Status Session::snapshot(bool whole, std::unique_ptr<Snapshot> &out) {
  auto snapshot = std::make_unique<Snapshot>();
  snapshot->module = module.identity();
  snapshot->batch = sizes.batch;
  snapshot->length = environment.length;
  snapshot->isWhole = whole;
  std::vector<StateBytes> parts =
      heldBytes(module.table(), sizes, environment.stateExtents, environment.length, whole, snapshot->bytes);
  if (snapshot->bytes != 0) {
    if (Status s = Mapping::ofZeros(snapshot->bytes, snapshot->data)) {
      return {s.code(), "a snapshot of " + tokens(environment.length) + ": " + s.message()};
    }
    if (Status s = executor->readStates(parts, snapshot->data.data())) {
      return s;
    }
  }
  snapshot->moment = history.mark(environment.length);
  snapshot->history = history;
  out = std::move(snapshot);
  return {};
}

Status Session::checkSnapshot(const Snapshot &snapshot) const {
  if (snapshot.module != module.identity()) {
    return invalidArgument("the snapshot is of another module");
  }
  if (snapshot.batch != sizes.batch) {
    return invalidArgument("the snapshot is of a session for " + std::to_string(snapshot.batch) +
                           " sequences, this one is made for " + std::to_string(sizes.batch));
  }
  return {};
}

Status Session::restore(const Snapshot &snapshot) {
  if (Status s = checkSnapshot(snapshot)) {
    return s;
  }
  if (!snapshot.isWhole) {
    return invalidArgument("the snapshot holds states of fixed size only: give it to kimi_session_truncate");
  }
  if (environment.hasGrowingStates && snapshot.length > environment.capacity) {
    return invalidArgument("the snapshot holds " + tokens(snapshot.length) + ", the session was made for " +
                           std::to_string(environment.capacity) + "; raise --max-seq");
  }
  uint64_t bytes = 0;
  std::vector<StateBytes> parts =
      heldBytes(module.table(), sizes, environment.stateExtents, snapshot.length, /*growing=*/true, bytes);
  history.clear(); // of a copy that fails nobody knows what it left
  environment.length = 0;
  if (Status s = executor->writeStates(parts, snapshot.data.data())) {
    return s;
  }
  environment.length = snapshot.length;
  history = snapshot.history;
  return {};
}

Status Session::truncate(int64_t length, const Snapshot *snapshot) {
  if (length < 0 || length > environment.length) {
    return invalidArgument("cannot cut the sequence to " + tokens(length) + ", it has " +
                           std::to_string(environment.length));
  }
  if (snapshot) {
    if (Status s = checkSnapshot(*snapshot)) {
      return s;
    }
    if (snapshot->length != length) {
      return invalidArgument("cannot cut the sequence to " + tokens(length) + ": the snapshot was taken at " +
                             std::to_string(snapshot->length));
    }
    if (!history.has(snapshot->moment)) {
      return invalidArgument("cannot cut the sequence to " + tokens(length) +
                             ": since the snapshot the session has been reset, cut further or restored to something "
                             "else, so that it may begin with other tokens");
    }
  }
  const fb::State *fixed = findFixedState(module.table());
  if (fixed && !snapshot && length != environment.length) {
    return invalidArgument("cannot cut the sequence to " + tokens(length) + ": state " + quoted(fixed->name()->str()) +
                           " has a fixed size and keeps no token apart; pass a snapshot taken at that length, or "
                           "reset the session");
  }
  if (fixed && snapshot) {
    uint64_t bytes = 0;
    std::vector<StateBytes> parts =
        heldBytes(module.table(), sizes, environment.stateExtents, length, /*growing=*/false, bytes);
    if (Status s = executor->writeStates(parts, snapshot->data.data())) {
      return s;
    }
  }
  environment.length = length;
  history.cut(length);
  return {};
}

} // namespace kimi
