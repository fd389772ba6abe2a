//===- TokenRunner.h - feeds token ids to a module and takes the last logits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_TOKENRUNNER_H
#define KIMI_TOOLS_KIMIRUN_TOKENRUNNER_H

#include "tools/kimi-run/Model.h"

namespace kimi::run {

/// One or several sequences of tokens that grow in step. Uses `prefill` and `decode` with the module's states where
/// they exist, otherwise runs the whole sequence through one entry each time. The model's session must be open.
class TokenRunner {
public:
  /// `entry`: an entry to use instead of what is found (empty: none). Fails where an entry has inputs that tokens, a
  /// mask and positions do not fill, or no logits.
  static Status create(Model &model, int64_t batch, const std::string &entry, std::unique_ptr<TokenRunner> &out);

  /// True where each token costs a pass over the whole sequence.
  bool recomputes() const { return !prefill && !decode; }
  /// Name of the entry that takes whole sequences.
  const std::string &sequenceEntry() const { return (recomputes() ? whole : prefill ? prefill : decode)->name; }

  /// Appends `ids` [batch, n] and gives the logits after the last of them, [batch, vocabulary] in fp32.
  Status feed(const std::vector<int64_t> &ids, std::vector<float> &logits) { return feed(ids, &logits, nullptr); }

  /// Lets feed() take at most `tokens` tokens of each sequence in one run (0: all at once).
  void setChunk(int64_t tokens) { chunk = tokens; }

  /// True where the entries choose the greedy token themselves, so that no logits need to come to the host.
  bool choosesTokens() const;
  /// Appends `ids` [batch, n] and gives the greedy token after the last of them of each sequence.
  Status feedGreedy(const std::vector<int64_t> &ids, std::vector<int64_t> &next) { return feed(ids, nullptr, &next); }
  /// Appends `tokens` [batch], then what the model chooses, `steps` times; see kimi_session_decode.
  Status decodeGreedy(const std::vector<int64_t> &tokens, int64_t steps, kimi_token_function take, void *user);

  /// An entry, ready to be measured with `ids` [batch, n] at the present length.
  struct Prepared {
    const Entry *entry;
    std::vector<HostTensor> inputs;
  };
  /// The entries that take whole sequences, and the one that takes the next token.
  std::vector<const Entry *> sequenceEntries() const;
  const Entry *stepEntry() const { return decode ? decode : prefill; }
  Status prepare(const Entry &entry, const std::vector<int64_t> &ids, Prepared &out) const {
    return prepareAfter(recomputes() ? 0 : length(), entry, ids, out);
  }
  /// The same after `past` tokens; needs no session.
  Status prepareAfter(int64_t past, const Entry &entry, const std::vector<int64_t> &ids, Prepared &out) const;
  /// Tokens held so far in each sequence.
  int64_t length() const;
  Status reset();

  /// Size of the vocabulary, or -1 where the module's signature does not say.
  int64_t vocabulary() const;

private:
  TokenRunner(Model &model, int64_t batch) : model(model), batch(batch) {}
  Status feed(const std::vector<int64_t> &ids, std::vector<float> *logits, std::vector<int64_t> *next);
  Status feedPart(const std::vector<int64_t> &ids, std::vector<float> *logits, std::vector<int64_t> *next);
  Status makeInputs(const Entry &entry, const std::vector<int64_t> &ids, int64_t past,
                    std::vector<HostTensor> &inputs) const;
  Status step(const Entry &entry, const std::vector<int64_t> &ids, int64_t past, std::vector<float> *logits,
              std::vector<int64_t> *next);

  Model &model;
  int64_t batch, chunk = 0;
  const Entry *prefill = nullptr, *decode = nullptr, *whole = nullptr;
  const Entry *lastOnly = nullptr; ///< Like prefill, but with the logits of the last token only.
  std::vector<int64_t> history;    ///< [batch, length], only where all is recomputed.
  std::vector<HostTensor> outputs;
};

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_TOKENRUNNER_H
