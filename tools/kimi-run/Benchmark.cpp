//===- Benchmark.cpp - timings of prefill, decode or one entry
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Benchmark.h"
#include "tools/kimi-run/Report.h"
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
  Table(const Options &options) : options(options) {}

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
    Quantiles q = quantiles(times);
    about["runs"] = options.runs;
    about["median_s"] = q.median;
    about["p10_s"] = q.p10;
    about["p90_s"] = q.p90;
    char line[160];
    std::snprintf(line, sizeof(line), "%-28s %10.3f %10.3f %10.3f", name.substr(0, 28).c_str(), q.median * 1e3,
                  q.p10 * 1e3, q.p90 * 1e3);
    text += line;
    if (tokens > 0) {
      about["tokens_per_s"] = static_cast<double>(tokens) / q.median;
      std::snprintf(line, sizeof(line), " %12.1f", static_cast<double>(tokens) / q.median);
      text += line;
    }
    text += "\n";
    json[name.substr(0, name.find(' '))] = std::move(about);
    return {};
  }

  Status write(std::ostream &out, std::ostream &log) const {
    char head[160];
    std::snprintf(head, sizeof(head), "%-28s %10s %10s %10s %12s\n", "", "median ms", "p10 ms", "p90 ms", "tokens/s");
    (options.json == "-" ? log : out) << head << text << std::flush;
    return writeJson(options.json, json, out);
  }

  Json json;

private:
  const Options &options;
  std::string text;
};
} // namespace

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
  std::mt19937_64 random(options.seed);
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
