//===- TokenRunner.cpp - feeds token ids to a module and takes the last logits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/TokenRunner.h"
#include <algorithm>

namespace kimi::run {

static int32_t findRole(const std::vector<kimi_port> &ports, kimi_role role) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].role == role) {
      return static_cast<int32_t>(i);
    }
  }
  return -1;
}

static bool isInteger(kimi_dtype dtype) { return dtype == KIMI_I64 || dtype == KIMI_I32; }

/// Why text cannot be made with this entry, or an empty status.
static Status checkEntry(const Entry &entry) {
  std::string who = "entry '" + entry.name + "' ";
  int32_t ids = findRole(entry.inputs, KIMI_ROLE_TOKEN_IDS), logits = findRole(entry.outputs, KIMI_ROLE_LOGITS);
  if (ids < 0 || logits < 0) {
    return invalidArgument(who + (ids < 0 ? "has no input for token ids" : "has no output of logits") +
                           "; run it with --input and --output");
  }
  for (const kimi_port &port : entry.inputs) {
    std::string name = std::string(port.name) + " (" + describePort(port) + ")";
    if (port.role == KIMI_ROLE_TOKEN_IDS && (!isInteger(port.dtype) || port.rank < 1 || port.rank > 2)) {
      return invalidArgument(who + "takes token ids as " + name + "; i64 or i32 of rank 1 or 2 is supported");
    }
    if (port.role == KIMI_ROLE_POSITION_IDS && (!isInteger(port.dtype) || port.rank < 1 || port.rank > 2)) {
      return invalidArgument(who + "takes positions as " + name + "; i64 or i32 of rank 1 or 2 is supported");
    }
    if (port.role == KIMI_ROLE_ATTENTION_MASK && port.rank != 2) {
      return invalidArgument(who + "takes an attention mask as " + name + "; rank 2 is supported");
    }
    if (port.role == KIMI_ROLE_NONE || port.role >= KIMI_ROLE_LOGITS) {
      return invalidArgument(who + "needs input " + name + ", which tokens do not give; run it with --input");
    }
  }
  const kimi_port &out = entry.outputs[logits];
  if (!isFloat(out.dtype) || out.rank < 1 || out.rank > 3) {
    return invalidArgument(who + "gives logits as " + describePort(out) + "; a float of rank 1 to 3 is supported");
  }
  return {};
}

Status TokenRunner::create(Model &model, int64_t batch, const std::string &entry, std::unique_ptr<TokenRunner> &out) {
  std::unique_ptr<TokenRunner> runner(new TokenRunner(model, batch));
  if (entry.empty() || entry == "prefill" || entry == "decode") {
    runner->prefill = model.find("prefill");
    runner->lastOnly = model.find("prefill_last");
    runner->prefill = runner->prefill ? runner->prefill : runner->lastOnly;
    runner->decode = model.find("decode");
  }
  if (runner->recomputes()) {
    runner->whole = model.find(entry.empty() ? "main" : entry);
    if (!runner->whole && entry.empty() && model.entries().size() == 1) {
      runner->whole = &model.entries().front();
    }
    if (!runner->whole) {
      return {KIMI_NOT_FOUND, entry.empty() ? "the module has none of the entries prefill, decode and main"
                                            : "the module has no entry '" + entry + "'"};
    }
  }
  for (const Entry *used : {runner->prefill, runner->lastOnly, runner->decode, runner->whole}) {
    if (used) {
      if (Status s = checkEntry(*used)) {
        return s;
      }
    }
  }
  out = std::move(runner);
  return {};
}

int64_t TokenRunner::length() const {
  return recomputes() ? static_cast<int64_t>(history.size()) / batch : kimi_session_length(model.session());
}

Status TokenRunner::reset() {
  history.clear();
  return model.reset();
}

int64_t TokenRunner::vocabulary() const {
  const Entry *entry = decode ? decode : prefill ? prefill : whole;
  const kimi_port &logits = entry->outputs[findRole(entry->outputs, KIMI_ROLE_LOGITS)];
  return logits.dims[logits.rank - 1];
}

bool TokenRunner::choosesTokens() const {
  auto chooses = [](const Entry *entry) { return !entry || findRole(entry->outputs, KIMI_ROLE_NEXT_TOKEN) >= 0; };
  return !recomputes() && decode && chooses(decode) && chooses(lastOnly ? lastOnly : prefill) &&
         model.canDecode(*decode);
}

Status TokenRunner::decodeGreedy(const std::vector<int64_t> &tokens, int64_t steps, kimi_token_function take,
                                 void *user) {
  if (!choosesTokens() || tokens.size() != static_cast<size_t>(batch)) {
    return invalidArgument("the module does not choose tokens itself");
  }
  return lastError(kimi_session_decode(model.session(), decode->index, tokens.data(), batch, steps, take, user));
}

std::vector<const Entry *> TokenRunner::sequenceEntries() const {
  std::vector<const Entry *> out;
  for (const Entry *entry : {prefill, lastOnly == prefill ? nullptr : lastOnly, whole}) {
    if (entry) {
      out.push_back(entry);
    }
  }
  return out;
}

Status TokenRunner::prepareAfter(int64_t past, const Entry &entry, const std::vector<int64_t> &ids,
                                 Prepared &out) const {
  out.entry = &entry;
  return makeInputs(entry, ids, past, out.inputs);
}

Status TokenRunner::feed(const std::vector<int64_t> &ids, std::vector<float> *logits, std::vector<int64_t> *next) {
  if (ids.empty() || ids.size() % static_cast<size_t>(batch) != 0) {
    return invalidArgument("there are no tokens to feed");
  }
  for (int64_t id : ids) {
    if (id < 0 || (vocabulary() >= 0 && id >= vocabulary())) {
      return invalidArgument("token " + std::to_string(id) + " is outside the model's vocabulary of " +
                             std::to_string(vocabulary()) + "; does the tokenizer belong to this model?");
    }
  }
  int64_t n = static_cast<int64_t>(ids.size()) / batch;
  if (recomputes() || chunk == 0 || n <= chunk) {
    return feedPart(ids, logits, next);
  }
  for (int64_t first = 0; first < n; first += chunk) {
    int64_t last = std::min(first + chunk, n);
    std::vector<int64_t> part;
    for (int64_t b = 0; b < batch; ++b) {
      part.insert(part.end(), ids.begin() + b * n + first, ids.begin() + b * n + last);
    }
    bool isEnd = last == n;
    if (Status s = feedPart(part, isEnd ? logits : nullptr, isEnd ? next : nullptr)) {
      return s;
    }
  }
  return {};
}

Status TokenRunner::feedPart(const std::vector<int64_t> &ids, std::vector<float> *logits, std::vector<int64_t> *next) {
  int64_t n = static_cast<int64_t>(ids.size()) / batch, past = length();
  if (recomputes()) {
    std::vector<int64_t> all;
    all.reserve(history.size() + ids.size());
    for (int64_t b = 0; b < batch; ++b) {
      all.insert(all.end(), history.begin() + b * past, history.begin() + (b + 1) * past);
      all.insert(all.end(), ids.begin() + b * n, ids.begin() + (b + 1) * n);
    }
    history = std::move(all);
    return step(*whole, history, 0, logits, next);
  }
  if (prefill && (n > 1 || past == 0 || !decode)) {
    return step(lastOnly ? *lastOnly : *prefill, ids, past, logits, next);
  }
  std::vector<int64_t> column(batch);
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t b = 0; b < batch; ++b) {
      column[b] = ids[b * n + t];
    }
    if (Status s = step(*decode, column, past + t, logits, next)) {
      return s;
    }
  }
  return {};
}

Status TokenRunner::makeInputs(const Entry &entry, const std::vector<int64_t> &ids, int64_t past,
                               std::vector<HostTensor> &inputs) const {
  int64_t n = static_cast<int64_t>(ids.size()) / batch;
  inputs.clear();
  inputs.resize(entry.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const kimi_port &port = entry.inputs[i];
    int64_t columns = port.role == KIMI_ROLE_ATTENTION_MASK ? past + n : n;
    // Positions may be shared by the whole batch.
    int64_t rows = port.rank == 1 || (port.role == KIMI_ROLE_POSITION_IDS && port.dims[0] == 1) ? 1 : batch;
    std::vector<int64_t> dims = {rows, columns};
    if (port.rank == 1) {
      if (port.role == KIMI_ROLE_TOKEN_IDS && batch != 1) {
        return invalidArgument("entry '" + entry.name + "' takes one sequence at a time: leave --batch out");
      }
      dims = {columns};
    }
    if (Status s = HostTensor::create(port.dtype, dims, inputs[i])) {
      return s;
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        int64_t value = port.role == KIMI_ROLE_TOKEN_IDS      ? ids[r * n + c]
                        : port.role == KIMI_ROLE_POSITION_IDS ? past + c
                                                              : 1;
        inputs[i].set(r * columns + c, value);
      }
    }
  }
  return {};
}

/// The last row of the logits of each sequence.
static Status takeLast(const HostTensor &out, const std::string &entry, int64_t batch, std::vector<float> &logits) {
  int64_t vocab = out.dims.back(), rows = vocab > 0 ? out.count() / vocab : 0;
  if (rows == 0 || rows % batch != 0) {
    return {KIMI_RUNTIME_ERROR, "entry '" + entry + "' gave no logits for " + std::to_string(batch) + " sequences"};
  }
  int64_t positions = rows / batch;
  logits.resize(static_cast<size_t>(batch * vocab));
  for (int64_t b = 0; b < batch; ++b) {
    int64_t from = ((b + 1) * positions - 1) * vocab;
    for (int64_t v = 0; v < vocab; ++v) {
      logits[b * vocab + v] = static_cast<float>(out.at(from + v));
    }
  }
  return {};
}

Status TokenRunner::step(const Entry &entry, const std::vector<int64_t> &ids, int64_t past, std::vector<float> *logits,
                         std::vector<int64_t> *next) {
  std::vector<HostTensor> inputs;
  if (Status s = makeInputs(entry, ids, past, inputs)) {
    return s;
  }
  int32_t logitsPort = findRole(entry.outputs, KIMI_ROLE_LOGITS);
  int32_t nextPort = findRole(entry.outputs, KIMI_ROLE_NEXT_TOKEN);
  if (next && nextPort < 0) {
    return invalidArgument("entry '" + entry.name + "' does not choose tokens");
  }
  std::vector<bool> wanted(entry.outputs.size());
  if (logits) {
    wanted[logitsPort] = true;
  }
  if (next) {
    wanted[nextPort] = true;
  }
  if (Status s = model.run(entry, inputs, outputs, {/*poison=*/false, &wanted})) {
    return s;
  }
  if (next) {
    const HostTensor &out = outputs[nextPort];
    if (out.count() != batch) {
      return {KIMI_RUNTIME_ERROR, "entry '" + entry.name + "' gave " + std::to_string(out.count()) + " tokens for " +
                                      std::to_string(batch) + " sequences"};
    }
    next->resize(static_cast<size_t>(batch));
    for (int64_t b = 0; b < batch; ++b) {
      (*next)[b] = out.integerAt(b);
    }
  }
  return logits ? takeLast(outputs[logitsPort], entry.name, batch, *logits) : Status();
}

} // namespace kimi::run
