//===- MemoryReport.cpp - what a model keeps in memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/MemoryReport.h"
#include "tools/kimi-run/Report.h"
#include "tools/kimi-run/TokenRunner.h"
#include <algorithm>
#include <ostream>

namespace kimi::run {

std::string kindOf(const std::string &state) {
  size_t end = state.size();
  while (end > 0) {
    size_t dot = end > 1 ? state.rfind('.', end - 1) : std::string::npos;
    size_t start = dot == std::string::npos ? 0 : dot + 1;
    std::string part = state.substr(start, end - start);
    if (part.find_first_not_of("0123456789") != std::string::npos) {
      return part;
    }
    end = dot == std::string::npos ? 0 : dot;
  }
  return state;
}

/// Bytes of one sequence, and, where the state grows, of one token of it.
static uint64_t bytesOf(const kimi_state_info &state) {
  uint64_t bytes = kimi_dtype_size(state.dtype);
  for (int32_t axis = 0; axis < state.rank; ++axis) {
    bytes *= state.dims[axis] < 0 ? 1 : static_cast<uint64_t>(state.dims[axis]);
  }
  return bytes;
}

Status stateKinds(const Model &model, std::vector<StateKind> &out) {
  for (int32_t i = 0; i < model.stateCount(); ++i) {
    kimi_state_info state{};
    if (Status s = model.state(i, state)) {
      return s;
    }
    std::string name = kindOf(state.name);
    auto kind = std::find_if(out.begin(), out.end(), [&](const StateKind &it) { return it.name == name; });
    if (kind == out.end()) {
      kind = out.insert(out.end(), {name});
    }
    ++kind->count;
    (state.grows < 0 ? kind->fixedBytes : kind->bytesPerToken) += bytesOf(state);
  }
  return {};
}

namespace {
/// The arena of an entry for some number of tokens.
struct Arena {
  std::string what; // "prefill of 128 tokens"
  uint64_t bytes;
};
} // namespace

/// Appends the arena that `entry` needs for `tokens` new tokens after `past`; not where it takes other inputs.
static Status addArena(const Model &model, const TokenRunner &runner, const kimi_session_options &session,
                       const Entry &entry, int64_t tokens, int64_t past, const std::string &what,
                       std::vector<Arena> &out) {
  TokenRunner::Prepared prepared;
  std::vector<int64_t> ids(static_cast<size_t>(std::max<int64_t>(session.batch, 1) * tokens));
  if (Status s = runner.prepareAfter(past, entry, ids, prepared)) {
    return s;
  }
  Arena arena{what, 0};
  if (Status s = model.arena(entry, session, past, prepared.inputs, arena.bytes)) {
    return s;
  }
  out.push_back(arena);
  return {};
}

/// The arenas of the entries that make text; none, and why, where there are no such entries.
static Status plannedArenas(Model &model, const Options &options, std::vector<Arena> &out, std::string &why) {
  constexpr int64_t defaultCapacity = 1024; // see kimi_session_options
  kimi_session_options session = sessionOptions(options);
  std::unique_ptr<TokenRunner> runner;
  if (Status s = TokenRunner::create(model, std::max<int64_t>(options.batch, 1), "", runner)) {
    why = s.message();
    return {};
  }
  int64_t context = model.maxContext() >= 0 ? model.maxContext() : INT64_MAX;
  int64_t capacity = options.maxSeq > 0 ? options.maxSeq : std::min(context, defaultCapacity);
  int64_t prompt = options.prefillTokens > 0 ? options.prefillTokens : capacity;
  int64_t past = options.context > 0 ? options.context : std::max<int64_t>(capacity - 1, 0);
  if (options.maxSeq == 0) { // states that hold what is asked about
    session.max_seq = std::min(context, std::max({capacity, prompt, past + 1}));
  }
  std::string text = " of " + std::to_string(prompt) + " tokens";
  for (const Entry *entry : runner->sequenceEntries()) {
    if (Status s = addArena(model, *runner, session, *entry, prompt, 0, entry->name + text, out)) {
      return s;
    }
  }
  if (const Entry *step = runner->stepEntry(); step && step->name == "decode") {
    return addArena(model, *runner, session, *step, 1, past, "decode after " + std::to_string(past) + " tokens", out);
  }
  return {};
}

static std::string line(const std::string &what, uint64_t bytes, const char *unit) {
  char text[160];
  std::snprintf(text, sizeof(text), "%-34s %18llu %s\n", what.c_str(), static_cast<unsigned long long>(bytes), unit);
  return text;
}

Status reportMemory(Model &model, const Options &options, bool alone, std::ostream &out) {
  kimi_memory memory{};
  if (Status s = model.session() ? lastError(kimi_session_memory(model.session(), &memory)) : model.memory(memory)) {
    return s;
  }
  std::vector<StateKind> kinds;
  if (Status s = stateKinds(model, kinds)) {
    return s;
  }
  std::vector<Arena> arenas;
  std::string why;
  if (model.session()) {
    arenas.push_back({"", memory.arena_bytes});
  } else if (Status s = plannedArenas(model, options, arenas, why)) {
    return s;
  }
  if (alone && options.json == "-") {
    Json states = Json::array(), planned = Json::array();
    for (const StateKind &kind : kinds) {
      states.push_back({{"kind", kind.name},
                        {"count", kind.count},
                        {"fixed_bytes", kind.fixedBytes},
                        {"bytes_per_token", kind.bytesPerToken}});
    }
    uint64_t largest = 0;
    for (const Arena &arena : arenas) {
      planned.push_back({{"run", arena.what}, {"bytes", arena.bytes}});
      largest = std::max(largest, arena.bytes);
    }
    return writeJson("-",
                     Json{{"states", states},
                          {"state_fixed_bytes", memory.state_fixed_bytes},
                          {"state_bytes_per_token", memory.state_bytes_per_token},
                          {"weight_bytes", memory.weight_bytes},
                          {"derived_bytes", memory.derived_bytes},
                          {"arenas", planned},
                          {"arena_bytes", largest}},
                     out);
  }
  for (const StateKind &kind : kinds) {
    std::string what = kind.name + " (" + std::to_string(kind.count) + ")";
    if (kind.fixedBytes) {
      out << line(what, kind.fixedBytes, "bytes a sequence");
    }
    if (kind.bytesPerToken) {
      out << line(what, kind.bytesPerToken, "bytes a token of a sequence");
    }
  }
  out << line("state, fixed", memory.state_fixed_bytes, "bytes a sequence")
      << line("state, growing", memory.state_bytes_per_token, "bytes a token of a sequence")
      << line("weights, mapped", memory.weight_bytes, "bytes")
      << line("weights, packed", memory.derived_bytes, "bytes");
  for (const Arena &arena : arenas) {
    out << line(arena.what.empty() ? "arena" : "arena, " + arena.what, arena.bytes, "bytes");
  }
  if (!why.empty()) {
    out << "arena: depends on the inputs (" << why << ")\n";
  }
  out << std::flush;
  return {};
}

} // namespace kimi::run
