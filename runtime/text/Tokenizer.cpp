//===- Tokenizer.cpp - text to token ids and back
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Tokenizer.h"
#include <algorithm>

namespace kimi::text {

bool Tokenizer::encode(std::string_view text, std::vector<int32_t> &ids, std::string &error) const {
  auto piece = [&](std::string_view bytes) { bpe.encode(bytes, ids); };
  size_t at = 0;
  while (at < text.size()) {
    AddedTokens::Hit hit = added.next(text, at);
    if (!preTokenizer.run(text.substr(at, hit.begin - at), piece, error)) {
      return false;
    }
    if (hit.token) {
      ids.push_back(static_cast<int32_t>(hit.token->id));
    }
    at = hit.end;
  }
  return true;
}

std::string_view Tokenizer::bytes(int64_t id) const {
  const AddedToken *token = added.find(id);
  return token ? std::string_view(token->content) : bpe.bytes(id);
}

std::string Tokenizer::decode(const std::vector<int32_t> &ids) const {
  std::string out;
  for (int32_t id : ids) {
    out.append(bytes(id));
  }
  return out;
}

bool Tokenizer::isSpecial(int64_t id) const {
  const AddedToken *token = added.find(id);
  return token && token->special;
}

int64_t Tokenizer::find(std::string_view token) const {
  const AddedToken *hit = added.find(token);
  return hit ? hit->id : bpe.find(token);
}

int64_t Tokenizer::size() const {
  int64_t size = bpe.size();
  for (const AddedToken &token : added.all()) {
    size = std::max(size, token.id + 1);
  }
  return size;
}

} // namespace kimi::text
