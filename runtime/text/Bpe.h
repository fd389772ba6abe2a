//===- Bpe.h - byte-level byte-pair encoding
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_TEXT_BPE_H
#define KIMI_RUNTIME_TEXT_BPE_H

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kimi::text {

/// Vocabulary and merges. Tokens are kept as the bytes they stand for.
class Bpe {
public:
  /// Ids run from 0 to this, exclusive: a guard against files that ask for terabytes.
  static constexpr int64_t maxIds = int64_t(1) << 22;

  /// Adds a token as the vocabulary file writes it. False with a message: id out of range, id or token given twice.
  bool addToken(std::string_view token, int64_t id, std::string &error);
  /// Adds the next merge (ranks count up), of two tokens as written. False with a message: a token, or the result of
  /// the merge, is not in the vocabulary, or the pair was given before.
  bool addMerge(std::string_view left, std::string_view right, std::string &error);
  /// To be called once all is added: every byte must have a token. `wholeFirst`: a piece that is itself in the
  /// vocabulary is that token, whatever the merges say.
  bool finish(bool wholeFirst, std::string &error);

  /// Appends the ids of one pre-tokenized piece. O(n log n) in its bytes.
  void encode(std::string_view piece, std::vector<int32_t> &ids) const;

  /// Id of a token as written in the file, or -1.
  int32_t find(std::string_view token) const;
  /// Bytes of an id; empty for an id that no token has.
  std::string_view bytes(int64_t id) const;
  /// One past the largest id.
  int64_t size() const { return static_cast<int64_t>(byId.size()); }

private:
  struct Merge {
    uint32_t rank;
    int32_t result;
  };
  const Merge *findMerge(int32_t left, int32_t right) const;

  std::unordered_map<std::string, int32_t> byName;  ///< As written.
  std::unordered_map<std::string, int32_t> byBytes; ///< Filled for `wholeFirst` only.
  std::vector<std::string> byId;
  std::vector<bool> used;
  std::unordered_map<uint64_t, Merge> merges; ///< Key: left id << 32 | right id.
  std::array<int32_t, 256> byteIds{};
};

} // namespace kimi::text

#endif // KIMI_RUNTIME_TEXT_BPE_H
