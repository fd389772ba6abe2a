//===- Generate.cpp - text from a prompt
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Generate.h"
#include "runtime/io/Npy.h"
#include "runtime/text/Sampler.h"
#include "runtime/text/Utf8.h"
#include "tools/kimi-run/Prompt.h"
#include "tools/kimi-run/Report.h"
#include "tools/kimi-run/TokenRunner.h"
#include <algorithm>
#include <chrono>
#include <functional>
#include <ostream>

namespace kimi::run {

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static std::string rate(size_t tokens, double time) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f tokens/s", time > 0 ? static_cast<double>(tokens) / time : 0.0);
  return text;
}

namespace {
struct Run {
  Prompt prompt;
  std::vector<int64_t> tokens; ///< [steps, batch]: of each step one for each sequence.
  std::string text, stopped;
  double prefillTime = 0, decodeTime = 0;

  int64_t batch() const { return prompt.batch; }
  int64_t promptTokens() const { return static_cast<int64_t>(prompt.ids.size()) / batch(); }
  int64_t steps() const { return static_cast<int64_t>(tokens.size()) / batch(); }
};
} // namespace

/// Session options that hold the prompt and what is to be written, as far as the module allows.
static Status openFor(Model &model, const Options &options, int64_t batch, int64_t promptTokens) {
  int64_t limit = model.maxContext();
  if (limit >= 0 && promptTokens > limit) {
    return invalidArgument("the prompt has " + std::to_string(promptTokens) + " tokens; the model's context is " +
                           std::to_string(limit));
  }
  kimi_session_options session = sessionOptions(options);
  session.batch = batch;
  if (session.max_seq == 0) {
    session.max_seq = promptTokens + options.tokens;
    session.max_seq = limit >= 0 ? std::min(session.max_seq, limit) : session.max_seq;
  }
  if (promptTokens > session.max_seq) {
    return invalidArgument("the prompt has " + std::to_string(promptTokens) + " tokens; --max-seq allows " +
                           std::to_string(session.max_seq));
  }
  return model.open(session);
}

/// Receives a token of each sequence; false where no more are wanted.
using Take = std::function<bool(const int64_t *)>;

static Status writeLogits(const Options &options, const std::vector<float> &logits, int64_t batch) {
  if (options.logits.empty()) {
    return {};
  }
  kimi_tensor tensor{KIMI_F32, 2, {batch, static_cast<int64_t>(logits.size()) / batch}, nullptr};
  tensor.data = const_cast<float *>(logits.data()); // only read
  return writeNpy(options.logits, tensor);
}

/// Draws each token from logits that come to the host.
static Status chooseHere(TokenRunner &runner, const Options &options, int64_t room, Run &run, const Take &take) {
  text::Sampler sampler({options.temperature, options.topK, options.topP, options.seed});
  std::vector<float> logits;
  std::vector<int64_t> ids(static_cast<size_t>(run.batch()));
  double start = now();
  if (Status s = runner.feed(run.prompt.ids, logits)) {
    return s;
  }
  run.prefillTime = now() - start;
  if (Status s = writeLogits(options, logits, run.batch())) {
    return s;
  }
  start = now();
  for (bool more = options.tokens > 0; more;) {
    int64_t vocabulary = static_cast<int64_t>(logits.size()) / run.batch();
    for (int64_t b = 0; b < run.batch(); ++b) {
      std::string error;
      if (!sampler.sample(logits.data() + b * vocabulary, vocabulary, ids[b], error)) {
        return {KIMI_RUNTIME_ERROR, error + ", at token " + std::to_string(run.steps()) + " of the answer"};
      }
    }
    more = take(ids.data());
    if (more && runner.length() >= room) {
      run.stopped = "context";
      break;
    }
    if (more) {
      if (Status s = runner.feed(ids, logits)) {
        return s;
      }
    }
  }
  run.decodeTime = now() - start;
  return {};
}

/// Lets the module choose the likeliest tokens: only they come to the host.
static Status chooseOnDevice(TokenRunner &runner, const Options &options, int64_t room, Run &run, const Take &take) {
  std::vector<int64_t> next;
  double start = now();
  if (Status s = runner.feedGreedy(run.prompt.ids, next)) {
    return s;
  }
  run.prefillTime = now() - start;
  start = now();
  if (options.tokens > 0 && take(next.data())) {
    int64_t steps = options.tokens - 1;
    bool isShort = steps > room - runner.length();
    steps = isShort ? room - runner.length() : steps;
    struct Taker {
      const Take &take;
      bool more = true;
    } taker{take};
    auto onTokens = [](void *user, const int64_t *tokens, int64_t) -> int32_t {
      auto &taker = *static_cast<Taker *>(user);
      return !(taker.more = taker.take(tokens));
    };
    if (Status s = runner.decodeGreedy(next, steps, onTokens, &taker)) {
      return s;
    }
    if (isShort && taker.more) {
      run.stopped = "context";
    }
  }
  run.decodeTime = now() - start;
  return {};
}

/// The tokens of each sequence.
static Json bySequence(const std::vector<int64_t> &ids, int64_t batch, bool stepsFirst) {
  if (batch == 1) {
    return ids;
  }
  Json all = Json::array();
  int64_t columns = static_cast<int64_t>(ids.size()) / batch;
  for (int64_t b = 0; b < batch; ++b) {
    Json row = Json::array();
    for (int64_t i = 0; i < columns; ++i) {
      row.push_back(ids[static_cast<size_t>(stepsFirst ? i * batch + b : b * columns + i)]);
    }
    all.push_back(std::move(row));
  }
  return all;
}

Status generate(Model &model, const Options &options, const std::string &folder, std::ostream &out, std::ostream &log) {
  Run run;
  if (Status s = readPrompt(options, folder, run.prompt)) {
    return s;
  }
  if (Status s = openFor(model, options, run.batch(), run.promptTokens())) {
    return s;
  }
  std::unique_ptr<TokenRunner> runner;
  if (Status s = TokenRunner::create(model, run.batch(), "", runner)) {
    return s;
  }
  runner->setChunk(options.prefillChunk);
  if (runner->recomputes()) {
    log << "kimi-run: no decode entry: recomputing the prompt for each token" << std::endl;
  }
  int64_t context = model.maxContext() >= 0 ? model.maxContext() : INT64_MAX;
  // What is recomputed, or kept in states of a fixed size, has no capacity of its own.
  int64_t room = runner->recomputes() || !model.hasGrowingStates()
                     ? context
                     : std::min(context, kimi_session_capacity(model.session()));
  bool streams = options.json != "-";
  text::Utf8Stream stream;
  auto write = [&](const std::string &piece) {
    run.text += piece;
    if (streams && !piece.empty()) {
      out << piece << std::flush;
    }
  };
  const std::vector<int64_t> &endIds = run.prompt.endIds;
  bool none = false;
  /// Takes a token of each sequence; false where they end the text.
  auto take = [&](const int64_t *ids) {
    bool isEnd = !options.ignoreEnd;
    for (int64_t b = 0; b < run.batch(); ++b) {
      none |= ids[b] < 0; // what a module chooses where its logits allow no token
      isEnd &= std::find(endIds.begin(), endIds.end(), ids[b]) != endIds.end();
    }
    if (none) {
      return false;
    }
    if (isEnd) { // of all sequences at once
      run.stopped = "end";
      return false;
    }
    run.tokens.insert(run.tokens.end(), ids, ids + run.batch());
    if (run.prompt.tokenizer) {
      write(stream.feed(run.prompt.tokenizer->bytes(ids[0])));
    }
    return run.steps() < options.tokens;
  };
  run.stopped = "length";
  Status status = options.temperature == 0 && options.logits.empty() && runner->choosesTokens()
                      ? chooseOnDevice(*runner, options, room, run, take)
                      : chooseHere(*runner, options, room, run, take);
  if (status) {
    return status;
  }
  if (none) {
    return {KIMI_RUNTIME_ERROR, "no token can be chosen: a logit is NaN or infinite, or all are -inf, at token " +
                                    std::to_string(run.steps()) + " of the answer"};
  }
  write(stream.finish());
  Json tokens = bySequence(run.tokens, run.batch(), /*stepsFirst=*/true);
  if (streams && !run.prompt.tokenizer) { // a line of ids for each sequence
    for (int64_t b = 0; b < run.batch(); ++b) {
      for (int64_t i = 0; i < run.steps(); ++i) {
        out << (i ? "," : "") << run.tokens[static_cast<size_t>(i * run.batch() + b)];
      }
      out << (b + 1 < run.batch() ? "\n" : "");
    }
  }
  if (streams) {
    out << std::endl;
  }
  // The first token comes from the prompt's pass: one step fewer than tokens was timed.
  auto count = static_cast<size_t>(run.batch()), steps = run.tokens.empty() ? 0 : run.tokens.size() - count;
  log << "kimi-run: prompt of " << run.prompt.ids.size() << " tokens in " << seconds(run.prefillTime) << " ("
      << rate(run.prompt.ids.size(), run.prefillTime) << "), then " << run.tokens.size() << " tokens in "
      << seconds(run.decodeTime) << " (" << rate(steps, run.decodeTime) << ")";
  log << (run.stopped == "context" ? "; the context of " + std::to_string(room) + " tokens is full" : "") << std::endl;
  return writeJson(options.json,
                   Json{{"prompt_tokens", bySequence(run.prompt.ids, run.batch(), /*stepsFirst=*/false)},
                        {"tokens", tokens},
                        {"text", run.text},
                        {"stopped", run.stopped},
                        {"prefill_s", run.prefillTime},
                        {"decode_s", run.decodeTime},
                        {"tokens_per_s", run.decodeTime > 0 ? static_cast<double>(steps) / run.decodeTime : 0.0}},
                   out);
}

} // namespace kimi::run
