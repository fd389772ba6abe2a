//===- AddedTokens.h - tokens that are found in the text before anything else
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_TEXT_ADDEDTOKENS_H
#define KIMI_RUNTIME_TEXT_ADDEDTOKENS_H

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kimi::text {

struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool special = false;    ///< Not text: left out when ids are decoded for a reader.
  bool singleWord = false; ///< Matches only where no word character touches it.
  bool stripLeft = false;  ///< Takes the white space before it along,
  bool stripRight = false; ///< and after it.
};

/// The set of added tokens, and the search for them: leftmost, then longest.
class AddedTokens {
public:
  static constexpr size_t maxLength = 1024; ///< Bytes of one token; bounds the cost of a search.

  /// False with a message: empty, too long, given twice, or an id out of range or given twice.
  bool add(AddedToken token, std::string &error);

  struct Hit {
    size_t begin, end; ///< Of the text to replace, with the white space taken along.
    const AddedToken *token;
  };
  /// The next hit at or after `from`, or one with a null token.
  Hit next(std::string_view text, size_t from) const;

  /// The token of an id, or null.
  const AddedToken *find(int64_t id) const;
  /// The token with this content, or null.
  const AddedToken *find(std::string_view content) const;
  const std::vector<AddedToken> &all() const { return tokens; }

private:
  std::vector<AddedToken> tokens;
  std::unordered_map<int64_t, size_t> byId;
  std::unordered_map<std::string, size_t> byContent;
  struct Node {
    std::map<unsigned char, size_t> children;
    size_t token = SIZE_MAX;
  };
  std::vector<Node> trie = std::vector<Node>(1);
};

} // namespace kimi::text

#endif // KIMI_RUNTIME_TEXT_ADDEDTOKENS_H
