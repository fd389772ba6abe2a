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
  Status feed(const std::vector<int64_t> &ids, std::vector<float> &logits);
  /// Tokens held so far in each sequence.
  int64_t length() const;
  Status reset();

  /// Size of the vocabulary, or -1 where the module's signature does not say.
  int64_t vocabulary() const;

private:
  TokenRunner(Model &model, int64_t batch) : model(model), batch(batch) {}
  Status step(const Entry &entry, const std::vector<int64_t> &ids, int64_t past, std::vector<float> &logits);

  Model &model;
  int64_t batch;
  const Entry *prefill = nullptr, *decode = nullptr, *whole = nullptr;
  std::vector<int64_t> history; ///< [batch, length], only where all is recomputed.
  std::vector<HostTensor> outputs;
};

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_TOKENRUNNER_H
