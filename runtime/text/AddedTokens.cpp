//===- AddedTokens.cpp - tokens that are found in the text before anything else
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/AddedTokens.h"
#include "runtime/text/Bpe.h"
#include "runtime/text/Utf8.h"

namespace kimi::text {

bool AddedTokens::add(AddedToken token, std::string &error) {
  if (token.content.empty() || token.content.size() > maxLength) {
    error = "an added token has " + std::to_string(token.content.size()) + " bytes; 1 to " + std::to_string(maxLength) +
            " are accepted";
    return false;
  }
  if (token.id < 0 || token.id >= Bpe::maxIds) {
    error = "an added token has id " + std::to_string(token.id) + ", outside 0.." + std::to_string(Bpe::maxIds - 1);
    return false;
  }
  if (byId.count(token.id) || byContent.count(token.content)) {
    error = "the added token with id " + std::to_string(token.id) + " is given twice (as an id or as a text)";
    return false;
  }
  size_t node = 0;
  for (unsigned char c : token.content) {
    auto [it, fresh] = trie[node].children.emplace(c, trie.size());
    node = it->second;
    if (fresh) {
      trie.emplace_back();
    }
  }
  trie[node].token = tokens.size();
  byId.emplace(token.id, tokens.size());
  byContent.emplace(token.content, tokens.size());
  tokens.push_back(std::move(token));
  return true;
}

/// The last character before `at`, or 0 at the start; bytes that are no UTF-8 count as themselves.
static char32_t characterBefore(std::string_view text, size_t at, size_t &begin) {
  begin = at;
  if (at == 0) {
    return 0;
  }
  for (size_t back = 1; back <= 4 && back <= at; ++back) {
    Utf8Step step = decodeUtf8(text.substr(at - back, back));
    if (step.kind == Utf8Step::Valid && step.length == back) {
      begin = at - back;
      return step.codePoint;
    }
  }
  begin = at - 1;
  return 0xFFFD;
}

/// Letters beyond ASCII count as words, punctuation and spaces do not.
static bool isWordCharacter(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         (c >= 0xAA && c != 0xFFFD && !isWhiteSpace(c) && !(c >= 0x2010 && c <= 0x206F) &&
          !(c >= 0x3000 && c <= 0x3020));
}

AddedTokens::Hit AddedTokens::next(std::string_view text, size_t from) const {
  for (size_t at = from; !tokens.empty() && at < text.size(); ++at) {
    size_t node = 0;
    const AddedToken *best = nullptr;
    for (size_t i = at; i < text.size(); ++i) {
      auto it = trie[node].children.find(static_cast<unsigned char>(text[i]));
      if (it == trie[node].children.end()) {
        break;
      }
      node = it->second;
      if (trie[node].token == SIZE_MAX) {
        continue;
      }
      const AddedToken &token = tokens[trie[node].token];
      if (token.singleWord) {
        size_t ignored;
        Utf8Step after = i + 1 < text.size() ? decodeUtf8(text.substr(i + 1)) : Utf8Step{Utf8Step::Invalid, 0, 0};
        if (isWordCharacter(characterBefore(text, at, ignored)) ||
            (after.kind == Utf8Step::Valid && isWordCharacter(after.codePoint))) {
          continue;
        }
      }
      best = &token;
    }
    if (!best) {
      continue;
    }
    size_t begin = at, end = at + best->content.size(), before;
    while (best->stripLeft && begin > from && isWhiteSpace(characterBefore(text, begin, before)) && before >= from) {
      begin = before;
    }
    while (best->stripRight && end < text.size()) {
      Utf8Step step = decodeUtf8(text.substr(end));
      if (step.kind != Utf8Step::Valid || !isWhiteSpace(step.codePoint)) {
        break;
      }
      end += step.length;
    }
    return {begin, end, best};
  }
  return {text.size(), text.size(), nullptr};
}

const AddedToken *AddedTokens::find(int64_t id) const {
  auto it = byId.find(id);
  return it == byId.end() ? nullptr : &tokens[it->second];
}

const AddedToken *AddedTokens::find(std::string_view content) const {
  auto it = byContent.find(std::string(content));
  return it == byContent.end() ? nullptr : &tokens[it->second];
}

} // namespace kimi::text
