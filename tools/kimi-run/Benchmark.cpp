//===- Benchmark.cpp - timings of prefill, decode or one entry
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Benchmark.h"
#include "tools/kimi-run/LaunchReport.h"
#include "tools/kimi-run/RunArrays.h"
#include "tools/kimi-run/TokenRunner.h"
#include <algorithm>
#include <chrono>
#include <functional>
#include <ostream>
#include <random>

namespace kimi::run {

static constexpr int64_t defaultTokens = 128;

namespace {
/// Collects timed rows.
class Table {
public:
  explicit Table(const Options &options) : options(options), trace(options.model) {}

  /// Times `action` after the warm-up; `prepare` runs before each, untimed. `tokens`: handled by one action.
  Status measure(const std::string &name, Json about, int64_t tokens, const std::function<Status()> &prepare,
                 const std::function<Status()> &action) {
    std::vector<double> times;
    for (int64_t i = -options.warmup; i < options.runs; ++i) {
      if (Status s = prepare()) {
        return s;
      }
      auto start = std::chrono::steady_clock::now();
      if (Status s = action()) {
        return s;
      }
      if (i >= 0) {
        times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
    }
    add(name, std::move(about), tokens, times);
    return {};
  }

  /// Times an entry on the device itself, runs following each other without a pause, and then its launches.
  Status measureOnDevice(Model &model, const std::string &name, Json about, int64_t tokens, const Entry &entry,
                         const std::vector<HostTensor> &inputs) {
    std::vector<double> times;
    if (Status s = model.time(entry, inputs, options.warmup + options.runs, times)) {
      return s;
    }
    times.erase(times.begin(), times.begin() + options.warmup);
    add(name, std::move(about), tokens, times);
    return profile(model, name, entry, inputs);
  }

  /// Times each launch of an entry.
  Status profile(Model &model, const std::string &name, const Entry &entry, const std::vector<HostTensor> &inputs) {
    std::vector<LaunchSummary> launches;
    if (Status s = profileLaunches(model, entry, inputs, launches)) {
      return s;
    }
    kernels += "\n" + name + "\n" + kernelTable(launches, bandwidth);
    json[key(name)]["launches"] = launchesJson(launches);
    trace.add(name, launches);
    return {};
  }

  /// A row of times in seconds.
  void add(const std::string &name, Json about, int64_t tokens, const std::vector<double> &times) {
    Quantiles q = quantiles(times);
    about["runs"] = times.size();
    about["median_s"] = q.median;
    about["p10_s"] = q.p10;
    about["p90_s"] = q.p90;
    char line[160];
    std::snprintf(line, sizeof(line), "%-32s %10.3f %10.3f %10.3f", name.substr(0, 32).c_str(), q.median * 1e3,
                  q.p10 * 1e3, q.p90 * 1e3);
    text += line;
    if (tokens > 0) {
      about["tokens_per_s"] = static_cast<double>(tokens) / q.median;
      std::snprintf(line, sizeof(line), " %12.1f", static_cast<double>(tokens) / q.median);
      text += line;
    }
    text += "\n";
    Json &row = json[key(name)];
    if (row.contains("launches")) {
      about["launches"] = row["launches"];
    }
    row = std::move(about);
  }

  Status write(std::ostream &out, std::ostream &log) const {
    char head[160];
    std::snprintf(head, sizeof(head), "%-32s %10s %10s %10s %12s\n", "", "median ms", "p10 ms", "p90 ms", "tokens/s");
    (options.json == "-" ? log : out) << head << text << kernels << std::flush;
    if (Status s = options.profile.empty() ? Status() : trace.write(options.profile)) {
      return s;
    }
    return writeJson(options.json, json, out);
  }

  Json json;
  double bandwidth = 0; ///< Of the device's memory, bytes a second.

private:
  static std::string key(const std::string &name) { return name.substr(0, name.find(' ')); }

  const Options &options;
  std::string text, kernels;
  Trace trace;
};
} // namespace

/// The memory bandwidth of the session's device; 0 where it is not known.
static double bandwidthOf(const Model &model) {
  kimi_device_info devices[64];
  int32_t count = 0;
  if (kimi_devices(devices, 64, &count) != KIMI_OK) {
    return 0;
  }
  for (int32_t i = 0; i < std::min(count, 64); ++i) {
    if (std::string(devices[i].id) == kimi_session_device(model.session())) {
      return devices[i].memory_bandwidth;
    }
  }
  return 0;
}

static Status timeEntry(Model &model, const Options &options, Table &table) {
  const Entry *entry = nullptr;
  std::vector<HostTensor> inputs, outputs;
  if (Status s = selectEntry(model, options.entry, entry)) {
    return s;
  }
  if (Status s = readInputs(*entry, options.inputs, inputs)) {
    return s;
  }
  if (Status s = model.open(sessionOptions(options))) {
    return s;
  }
  table.bandwidth = bandwidthOf(model);
  if (model.onGpu()) {
    if (Status s = table.measureOnDevice(model, entry->name, Json::object(), 0, *entry, inputs)) {
      return s;
    }
    table.json["launches"] = table.json[entry->name]["launches"];
    return {};
  }
  if (Status s = options.profile.empty() ? Status() : table.profile(model, entry->name, *entry, inputs)) {
    return s;
  }
  auto prepare = [&] { return model.stateCount() ? model.reset() : Status(); };
  return table.measure(entry->name, Json::object(), 0, prepare, [&] { return model.run(*entry, inputs, outputs); });
}

/// `n` columns of random ids for each sequence.
static std::vector<int64_t> randomIds(std::mt19937_64 &random, int64_t batch, int64_t n, int64_t vocabulary) {
  std::vector<int64_t> ids(static_cast<size_t>(batch * n));
  for (int64_t &id : ids) {
    id = static_cast<int64_t>(random() % static_cast<uint64_t>(vocabulary));
  }
  return ids;
}

namespace {
struct TokenSizes {
  int64_t batch, prompt, context, capacity, vocabulary;
};
} // namespace

/// Greedy decoding as a user sees it, the host included: the time of one step.
static Status timeLoop(TokenRunner &runner, const Options &options, const TokenSizes &sizes, Table &table) {
  int64_t steps = std::min(options.warmup + options.runs, sizes.capacity - runner.length());
  if (!runner.choosesTokens() || steps <= options.warmup) {
    return {};
  }
  struct Clock {
    std::vector<double> times;
    std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
  } clock;
  auto take = [](void *user, const int64_t *, int64_t) -> int32_t {
    auto &clock = *static_cast<Clock *>(user);
    auto now = std::chrono::steady_clock::now();
    clock.times.push_back(std::chrono::duration<double>(now - clock.last).count());
    clock.last = now;
    return 0;
  };
  std::vector<int64_t> first(static_cast<size_t>(sizes.batch), 1 % sizes.vocabulary);
  if (Status s = runner.decodeGreedy(first, steps, take, &clock)) {
    return s;
  }
  clock.times.erase(clock.times.begin(), clock.times.begin() + options.warmup);
  table.add("loop after " + std::to_string(sizes.context) + ", greedy", Json{{"context", sizes.context}}, sizes.batch,
            clock.times);
  return {};
}

/// Entries on the device itself; on a CPU only their launches.
static Status timeOnDevice(Model &model, TokenRunner &runner, const Options &options, const TokenSizes &sizes,
                           std::mt19937_64 &random, Table &table) {
  auto measure = [&](const std::string &name, Json about, int64_t tokens, const Entry &entry,
                     const std::vector<int64_t> &ids) -> Status {
    TokenRunner::Prepared prepared;
    if (Status s = runner.prepare(entry, ids, prepared)) {
      return s;
    }
    return model.onGpu() ? table.measureOnDevice(model, name, std::move(about), tokens, entry, prepared.inputs)
                         : table.profile(model, name, entry, prepared.inputs);
  };
  if (sizes.prompt > 0) {
    for (const Entry *entry : runner.sequenceEntries()) {
      if (Status s = runner.reset()) {
        return s;
      }
      if (Status s = measure(entry->name + " of " + std::to_string(sizes.prompt) + " tokens",
                             Json{{"tokens", sizes.prompt}}, sizes.prompt * sizes.batch, *entry,
                             randomIds(random, sizes.batch, sizes.prompt, sizes.vocabulary))) {
        return s;
      }
    }
  }
  if (sizes.context == 0) {
    return {};
  }
  std::string name = "decode after " + std::to_string(sizes.context);
  if (Status s = runner.reset()) {
    return s;
  }
  if (runner.recomputes()) { // the whole sequence again for each token
    return measure(name, Json{{"context", sizes.context}}, sizes.batch, *runner.sequenceEntries()[0],
                   randomIds(random, sizes.batch, sizes.context + 1, sizes.vocabulary));
  }
  std::vector<float> logits;
  if (Status s = runner.feed(randomIds(random, sizes.batch, sizes.context, sizes.vocabulary), logits)) {
    return s;
  }
  if (Status s = measure(name, Json{{"context", sizes.context}}, sizes.batch, *runner.stepEntry(),
                         randomIds(random, sizes.batch, 1, sizes.vocabulary))) {
    return s;
  }
  return model.onGpu() ? timeLoop(runner, options, sizes, table) : Status();
}

static Status timeTokens(Model &model, const Options &options, Table &table) {
  int64_t batch = std::max<int64_t>(options.batch, 1), limit = model.maxContext();
  bool both = options.prefillTokens == 0 && options.context == 0;
  int64_t prompt = both ? defaultTokens : options.prefillTokens, context = both ? defaultTokens : options.context;
  if (both && limit > 0) {
    prompt = context = std::min(defaultTokens, std::max<int64_t>(limit / 2, 1));
  }
  int64_t needed = std::max(prompt, context ? context + 1 : 0);
  if (limit >= 0 && needed > limit) {
    return invalidArgument("the benchmark needs " + std::to_string(needed) + " tokens; the model's context is " +
                           std::to_string(limit));
  }
  int64_t capacity = options.maxSeq;
  if (capacity == 0) {
    capacity = std::max(prompt, context ? context + options.warmup + options.runs : 0);
    capacity = limit >= 0 ? std::min(capacity, limit) : capacity;
  }
  if (needed > capacity) {
    return invalidArgument("the benchmark needs " + std::to_string(needed) + " tokens; --max-seq allows " +
                           std::to_string(capacity));
  }
  kimi_session_options session = sessionOptions(options);
  session.max_seq = capacity;
  session.batch = batch;
  if (Status s = model.open(session)) {
    return s;
  }
  std::unique_ptr<TokenRunner> runner;
  if (Status s = TokenRunner::create(model, batch, options.entry, runner)) {
    return s;
  }
  std::vector<float> logits;
  int64_t vocabulary = runner->vocabulary();
  if (vocabulary < 0) {
    if (Status s = runner->feed(std::vector<int64_t>(static_cast<size_t>(batch), 0), logits)) {
      return s;
    }
    vocabulary = static_cast<int64_t>(logits.size()) / batch;
  }
  if (vocabulary <= 0) {
    return invalidArgument("the model's vocabulary is empty");
  }
  table.bandwidth = bandwidthOf(model);
  std::mt19937_64 random(options.seed);
  if (model.onGpu() || !options.profile.empty()) {
    context = both && runner->recomputes() ? 0 : context;
    Status status =
        timeOnDevice(model, *runner, options, {batch, prompt, context, capacity, vocabulary}, random, table);
    if (status || model.onGpu()) {
      return status;
    }
  }
  std::vector<int64_t> ids;
  if (prompt > 0) {
    auto prepare = [&] {
      ids = randomIds(random, batch, prompt, vocabulary);
      return runner->reset();
    };
    std::string name = runner->sequenceEntry() == "decode" ? "prefill" : runner->sequenceEntry();
    if (Status s = table.measure(name + " of " + std::to_string(prompt) + " tokens", Json{{"tokens", prompt}},
                                 prompt * batch, prepare, [&] { return runner->feed(ids, logits); })) {
      return s;
    }
  }
  if (context == 0 || (both && runner->recomputes())) {
    return {};
  }
  bool fresh = true;
  auto prepare = [&]() -> Status {
    // The states grow by a token with each run; where they are full it starts over.
    if (fresh || runner->recomputes() || runner->length() >= capacity) {
      if (Status s = runner->reset()) {
        return s;
      }
      if (Status s = runner->feed(randomIds(random, batch, context, vocabulary), logits)) {
        return s;
      }
      fresh = false;
    }
    ids = randomIds(random, batch, 1, vocabulary);
    return {};
  };
  return table.measure("decode after " + std::to_string(context), Json{{"context", context}}, batch, prepare,
                       [&] { return runner->feed(ids, logits); });
}

Status benchmark(Model &model, const Options &options, std::ostream &out, std::ostream &log) {
  Table table(options);
  table.json["model"] = options.model;
  table.json["batch"] = std::max<int64_t>(options.batch, 1);
  if (Status s = options.inputs.empty() ? timeTokens(model, options, table) : timeEntry(model, options, table)) {
    return s;
  }
  return table.write(out, log);
}

} // namespace kimi::run
