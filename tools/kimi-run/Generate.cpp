//===- Generate.cpp - text from a prompt
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Generate.h"
#include "runtime/text/Sampler.h"
#include "runtime/text/Tokenizer.h"
#include "runtime/text/Utf8.h"
#include "tools/kimi-run/Report.h"
#include "tools/kimi-run/TokenRunner.h"
#include <algorithm>
#include <chrono>
#include <filesystem>
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
  std::vector<int32_t> prompt;
  std::vector<int64_t> tokens;
  std::string text, stopped;
  double prefillTime = 0, decodeTime = 0;
};
} // namespace

/// Reads the prompt and the files that belong to it.
static Status readPrompt(const Options &options, const std::string &folder, std::unique_ptr<text::Tokenizer> &tokenizer,
                         std::vector<int64_t> &endIds, Run &run) {
  std::string where = options.tokenizer.empty() ? folder : options.tokenizer, error;
  tokenizer = text::Tokenizer::load(where, error);
  if (!tokenizer) {
    return {KIMI_BAD_FILE, "no tokenizer: " + error + "; name another folder with --tokenizer"};
  }
  std::string prompt = options.prompt.value_or("");
  if (!options.promptFile.empty()) {
    std::optional<std::string> file = text::readFile(options.promptFile, uint64_t(1) << 30, error);
    if (!file) {
      return {KIMI_NOT_FOUND, error};
    }
    prompt = std::move(*file);
  }
  if (!tokenizer->encode(prompt, run.prompt, error)) {
    return {KIMI_RUNTIME_ERROR, error};
  }
  if (run.prompt.empty()) {
    return invalidArgument("the prompt is empty: a model needs at least one token to continue");
  }
  std::error_code code;
  std::filesystem::path path(where);
  endIds = text::findEndIds(std::filesystem::is_directory(path, code) ? where : path.parent_path().string(),
                            tokenizer.get());
  return {};
}

/// Session options that hold the prompt and what is to be written, as far as the module allows.
static Status openFor(Model &model, const Options &options, int64_t promptTokens) {
  int64_t limit = model.maxContext();
  if (limit >= 0 && promptTokens > limit) {
    return invalidArgument("the prompt has " + std::to_string(promptTokens) + " tokens; the model's context is " +
                           std::to_string(limit));
  }
  kimi_session_options session = sessionOptions(options);
  session.batch = 1;
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

/// Receives a token; false where no more are wanted.
using Take = std::function<bool(int64_t)>;

/// Draws each token from logits that come to the host.
static Status chooseHere(TokenRunner &runner, const Options &options, int64_t room, Run &run, const Take &take) {
  text::Sampler sampler({options.temperature, options.topK, options.topP, options.seed});
  std::vector<float> logits;
  double start = now();
  if (Status s = runner.feed(std::vector<int64_t>(run.prompt.begin(), run.prompt.end()), logits)) {
    return s;
  }
  run.prefillTime = now() - start;
  start = now();
  for (bool more = options.tokens > 0; more;) {
    int64_t id = 0;
    std::string error;
    if (!sampler.sample(logits.data(), static_cast<int64_t>(logits.size()), id, error)) {
      return {KIMI_RUNTIME_ERROR, error + ", at token " + std::to_string(run.tokens.size()) + " of the answer"};
    }
    more = take(id);
    if (more && runner.length() >= room) {
      run.stopped = "context";
      break;
    }
    if (more) {
      if (Status s = runner.feed({id}, logits)) {
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
  if (Status s = runner.feedGreedy(std::vector<int64_t>(run.prompt.begin(), run.prompt.end()), next)) {
    return s;
  }
  run.prefillTime = now() - start;
  start = now();
  if (options.tokens > 0 && take(next[0])) {
    int64_t steps = options.tokens - 1;
    bool isShort = steps > room - runner.length();
    steps = isShort ? room - runner.length() : steps;
    struct Taker {
      const Take &take;
      bool more = true;
    } taker{take};
    auto onTokens = [](void *user, const int64_t *tokens, int64_t) -> int32_t {
      auto &taker = *static_cast<Taker *>(user);
      return !(taker.more = taker.take(tokens[0]));
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

Status generate(Model &model, const Options &options, const std::string &folder, std::ostream &out, std::ostream &log) {
  Run run;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::vector<int64_t> endIds;
  if (Status s = readPrompt(options, folder, tokenizer, endIds, run)) {
    return s;
  }
  if (Status s = openFor(model, options, static_cast<int64_t>(run.prompt.size()))) {
    return s;
  }
  std::unique_ptr<TokenRunner> runner;
  if (Status s = TokenRunner::create(model, 1, "", runner)) {
    return s;
  }
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
  bool none = false;
  /// Takes a token; false where it ends the text.
  auto take = [&](int64_t id) {
    if (id < 0) { // what a module chooses where its logits allow no token
      none = true;
      return false;
    }
    if (!options.ignoreEnd && std::find(endIds.begin(), endIds.end(), id) != endIds.end()) {
      run.stopped = "end";
      return false;
    }
    run.tokens.push_back(id);
    write(stream.feed(tokenizer->bytes(id)));
    return static_cast<int64_t>(run.tokens.size()) < options.tokens;
  };
  run.stopped = "length";
  Status status = options.temperature == 0 && runner->choosesTokens()
                      ? chooseOnDevice(*runner, options, room, run, take)
                      : chooseHere(*runner, options, room, run, take);
  if (status) {
    return status;
  }
  if (none) {
    return {KIMI_RUNTIME_ERROR, "no token can be chosen: a logit is NaN or infinite, or all are -inf, at token " +
                                    std::to_string(run.tokens.size()) + " of the answer"};
  }
  write(stream.finish());
  if (streams) {
    out << std::endl;
  }
  // The first token comes from the prompt's pass: one step fewer than tokens was timed.
  size_t steps = run.tokens.empty() ? 0 : run.tokens.size() - 1;
  log << "kimi-run: prompt of " << run.prompt.size() << " tokens in " << seconds(run.prefillTime) << " ("
      << rate(run.prompt.size(), run.prefillTime) << "), then " << run.tokens.size() << " tokens in "
      << seconds(run.decodeTime) << " (" << rate(steps, run.decodeTime) << ")";
  log << (run.stopped == "context" ? "; the context of " + std::to_string(room) + " tokens is full" : "") << std::endl;
  return writeJson(options.json,
                   Json{{"prompt_tokens", run.prompt},
                        {"tokens", run.tokens},
                        {"text", run.text},
                        {"stopped", run.stopped},
                        {"prefill_s", run.prefillTime},
                        {"decode_s", run.decodeTime},
                        {"tokens_per_s", run.decodeTime > 0 ? static_cast<double>(steps) / run.decodeTime : 0.0}},
                   out);
}

} // namespace kimi::run
