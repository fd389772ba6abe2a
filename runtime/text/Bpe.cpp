//===- Bpe.cpp - byte-level byte-pair encoding
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Bpe.h"
#include "runtime/text/ByteAlphabet.h"
#include "runtime/text/Utf8.h"
#include <functional>
#include <optional>
#include <queue>

namespace kimi::text {

static uint64_t pairKey(int32_t left, int32_t right) { return (uint64_t(uint32_t(left)) << 32) | uint32_t(right); }

/// A token for an error message: short, and without bytes that a terminal would obey.
static std::string quote(std::string_view token) {
  std::string out = "'";
  for (char c : token.substr(0, 40)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  return out + (token.size() > 40 ? "...'" : "'");
}

bool Bpe::addToken(std::string_view token, int64_t id, std::string &error) {
  if (id < 0 || id >= maxIds) {
    error = "token " + quote(token) + " has id " + std::to_string(id) + ", outside 0.." + std::to_string(maxIds - 1);
    return false;
  }
  if (id < size() && used[id]) {
    error = "id " + std::to_string(id) + " belongs to two tokens, one of them " + quote(token);
    return false;
  }
  if (!byName.emplace(std::string(token), static_cast<int32_t>(id)).second) {
    error = "token " + quote(token) + " has two ids";
    return false;
  }
  if (id >= size()) {
    byId.resize(id + 1);
    used.resize(id + 1, false);
  }
  std::optional<std::string> bytes = bytesOfToken(token);
  byId[id] = bytes ? std::move(*bytes) : std::string(token);
  used[id] = true;
  return true;
}

bool Bpe::addMerge(std::string_view left, std::string_view right, std::string &error) {
  int32_t leftId = find(left), rightId = find(right), result = find(std::string(left) + std::string(right));
  std::string name = "merge " + std::to_string(merges.size()) + " (" + quote(left) + ", " + quote(right) + ")";
  if (leftId < 0 || rightId < 0 || result < 0) {
    error = name + ": " +
            (leftId < 0    ? "the left token"
             : rightId < 0 ? "the right token"
                           : "the result") +
            " is not in the vocabulary";
    return false;
  }
  Merge merge{static_cast<uint32_t>(merges.size()), result};
  if (!merges.emplace(pairKey(leftId, rightId), merge).second) {
    error = name + ": the pair was given before";
    return false;
  }
  return true;
}

bool Bpe::finish(bool wholeFirst, std::string &error) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string name;
    appendUtf8(characterOfByte(static_cast<uint8_t>(byte)), name);
    byteIds[byte] = find(name);
    if (byteIds[byte] < 0) {
      error = "the vocabulary has no token for byte " + std::to_string(byte) + " (written '" + name +
              "'); only byte-level vocabularies are supported";
      return false;
    }
  }
  if (wholeFirst) {
    for (const auto &[name, id] : byName) {
      if (bytesOfToken(name)) {
        byBytes.emplace(byId[id], id);
      }
    }
  }
  return true;
}

int32_t Bpe::find(std::string_view token) const {
  auto it = byName.find(std::string(token));
  return it == byName.end() ? -1 : it->second;
}

std::string_view Bpe::bytes(int64_t id) const {
  return id < 0 || id >= size() ? std::string_view() : std::string_view(byId[id]);
}

const Bpe::Merge *Bpe::findMerge(int32_t left, int32_t right) const {
  auto it = merges.find(pairKey(left, right));
  return it == merges.end() ? nullptr : &it->second;
}

void Bpe::encode(std::string_view piece, std::vector<int32_t> &ids) const {
  if (piece.empty()) {
    return;
  }
  if (!byBytes.empty()) {
    if (auto it = byBytes.find(std::string(piece)); it != byBytes.end()) {
      ids.push_back(it->second);
      return;
    }
  }
  // Symbols form a doubly linked list over positions; a heap gives the lowest rank, leftmost first. Entries of pairs
  // that have changed since are recognised by their ids and skipped.
  struct Symbol {
    int32_t id;
    int64_t previous, next;
  };
  struct Candidate {
    uint32_t rank;
    int64_t at;
    int32_t left, right, result;
    bool operator<(const Candidate &o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };
  int64_t n = static_cast<int64_t>(piece.size());
  std::vector<Symbol> symbols(n);
  for (int64_t i = 0; i < n; ++i) {
    symbols[i] = {byteIds[static_cast<uint8_t>(piece[i])], i - 1, i + 1 < n ? i + 1 : -1};
  }
  std::vector<Candidate> initial;
  auto candidate = [&](int64_t at) -> std::optional<Candidate> {
    if (at < 0 || symbols[at].next < 0) {
      return std::nullopt;
    }
    int32_t left = symbols[at].id, right = symbols[symbols[at].next].id;
    const Merge *merge = findMerge(left, right);
    return merge ? std::optional<Candidate>({merge->rank, at, left, right, merge->result}) : std::nullopt;
  };
  for (int64_t i = 0; i < n; ++i) {
    if (auto c = candidate(i)) {
      initial.push_back(*c);
    }
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(initial));
  while (!queue.empty()) {
    Candidate c = queue.top();
    queue.pop();
    Symbol &symbol = symbols[c.at];
    if (symbol.id != c.left || symbol.next < 0 || symbols[symbol.next].id != c.right) {
      continue;
    }
    Symbol &gone = symbols[symbol.next];
    symbol.id = c.result;
    symbol.next = gone.next;
    gone.id = -1;
    if (symbol.next >= 0) {
      symbols[symbol.next].previous = c.at;
    }
    for (int64_t at : {symbol.previous, c.at}) {
      if (auto next = candidate(at)) {
        queue.push(*next);
      }
    }
  }
  for (int64_t i = 0; i >= 0; i = symbols[i].next) {
    ids.push_back(symbols[i].id);
  }
}

} // namespace kimi::text
