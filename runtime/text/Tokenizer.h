//===- Tokenizer.h - text to token ids and back
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_TEXT_TOKENIZER_H
#define KIMI_RUNTIME_TEXT_TOKENIZER_H

#include "runtime/text/AddedTokens.h"
#include "runtime/text/Bpe.h"
#include "runtime/text/PreTokenizer.h"
#include <optional>

namespace kimi::text {

/// A byte-level BPE tokenizer. Any bytes can be encoded, and decode(encode(x)) == x unless the tokenizer adds a prefix
/// space, removes separators or strips around added tokens. Const calls may be made from several threads.
class Tokenizer {
public:
  /// Reads `path`: a tokenizer.json, or a folder with a tokenizer.json or with vocab.json and merges.txt. Null with a
  /// message for what is missing, damaged or of a kind that is not supported.
  static std::unique_ptr<Tokenizer> load(const std::string &path, std::string &error);
  /// The same from the text of a tokenizer.json,
  static std::unique_ptr<Tokenizer> fromJson(std::string_view json, std::string &error);
  /// and from the texts of vocab.json and merges.txt (GPT-2's split; `<|endoftext|>` is special where it exists).
  static std::unique_ptr<Tokenizer> fromVocabAndMerges(std::string_view vocab, std::string_view merges,
                                                       std::string &error);

  /// Appends the ids of `text`; added tokens in the text become their ids. False with a message only where a regular
  /// expression of the file exceeds its limits.
  bool encode(std::string_view text, std::vector<int32_t> &ids, std::string &error) const;

  /// Bytes of one id, empty where no token has it. Not always whole characters: see Utf8Stream.
  std::string_view bytes(int64_t id) const;
  /// Bytes of all ids, one after another.
  std::string decode(const std::vector<int32_t> &ids) const;

  bool isSpecial(int64_t id) const;
  /// Id of a token: an added one by its text, another as the vocabulary writes it; -1 where there is none.
  int64_t find(std::string_view token) const;
  /// One past the largest id.
  int64_t size() const;

  Bpe bpe;
  PreTokenizer preTokenizer;
  AddedTokens added;
};

/// Ids that end a text, from the folder of a model: eos_token_id of config.json or generation_config.json, else
/// eos_token of tokenizer_config.json, else `<|endoftext|>`. Empty where nothing says. `tokenizer` may be null.
std::vector<int64_t> findEndIds(const std::string &folder, const Tokenizer *tokenizer);

/// The whole of a regular file of at most `limit` bytes; nothing, with a message, otherwise.
std::optional<std::string> readFile(const std::string &path, uint64_t limit, std::string &error);

} // namespace kimi::text

#endif // KIMI_RUNTIME_TEXT_TOKENIZER_H
