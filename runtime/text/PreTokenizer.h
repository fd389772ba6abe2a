//===- PreTokenizer.h - cuts text into the pieces that BPE merges within
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_TEXT_PRETOKENIZER_H
#define KIMI_RUNTIME_TEXT_PRETOKENIZER_H

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kimi::text {

/// A compiled Unicode regular expression (PCRE2 with UTF and UCP).
class Regex {
public:
  /// Null with a message where the pattern does not compile.
  static std::shared_ptr<const Regex> compile(std::string_view pattern, std::string &error);

  struct Span {
    size_t begin, end;
    bool match;
  };
  /// Covers `text` with spans in order: matches and what lies between them. Bytes that are no UTF-8 match nothing.
  /// Empty matches are skipped. False with a message where matching exceeds the library's limits.
  bool split(std::string_view text, std::vector<Span> &spans, std::string &error) const;

  ~Regex();
  Regex(const Regex &) = delete;
  Regex &operator=(const Regex &) = delete;

private:
  Regex() = default;
  bool splitValid(std::string_view text, size_t base, std::vector<Span> &spans, std::string &error) const;
  void *code = nullptr; ///< pcre2_code
};

/// One step of a pre-tokenizer.
struct SplitStep {
  enum Behavior { Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous };
  std::shared_ptr<const Regex> regex; ///< Null: no split, only the prefix space.
  Behavior behavior = Isolated;
  bool invert = false;         ///< What matches is content and what lies between is the delimiter.
  bool addPrefixSpace = false; ///< Puts a space before a piece that begins with none.
};

/// Steps applied one after another, each to every piece of the one before.
class PreTokenizer {
public:
  /// The split of GPT-2: contractions, words, numbers and the rest, each with one space before it, and runs of spaces.
  static const char *gpt2Pattern();

  void add(SplitStep step) { steps.push_back(std::move(step)); }
  size_t size() const { return steps.size(); }

  /// Calls `piece` for each piece in order. False with a message where a regular expression exceeds its limits.
  bool run(std::string_view text, const std::function<void(std::string_view)> &piece, std::string &error) const;

private:
  bool runFrom(size_t step, std::string_view text, const std::function<void(std::string_view)> &piece,
               std::string &error) const;
  std::vector<SplitStep> steps;
};

} // namespace kimi::text

#endif // KIMI_RUNTIME_TEXT_PRETOKENIZER_H
