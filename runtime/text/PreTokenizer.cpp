//===- PreTokenizer.cpp - cuts text into the pieces that BPE merges within
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/PreTokenizer.h"
#include "runtime/text/Utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace kimi::text {

/// GPT-2's \s is Unicode's White_Space, which PCRE2's \s is not quite (it adds U+180E): hence the class spelled out.
#define KIMI_SPACE "\\t-\\r\\x{85}\\p{Z}"

const char *PreTokenizer::gpt2Pattern() {
  return "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" KIMI_SPACE "\\p{L}\\p{N}]+|[" KIMI_SPACE
         "]+(?![^" KIMI_SPACE "])|[" KIMI_SPACE "]+";
}

static std::string pcreMessage(int code) {
  PCRE2_UCHAR buffer[256];
  return pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0 ? "error " + std::to_string(code)
                                                                   : std::string(reinterpret_cast<char *>(buffer));
}

std::shared_ptr<const Regex> Regex::compile(std::string_view pattern, std::string &error) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  // \C would let a match end inside a character.
  pcre2_code *compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                       PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr);
  if (!compiled) {
    error = "the regular expression of the pre-tokenizer does not compile: " + pcreMessage(code) + " at byte " +
            std::to_string(offset);
    return nullptr;
  }
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE); // Only for speed: without it the interpreter matches.
  std::shared_ptr<Regex> regex(new Regex());
  regex->code = compiled;
  return regex;
}

Regex::~Regex() { pcre2_code_free(static_cast<pcre2_code *>(code)); }

bool Regex::splitValid(std::string_view text, size_t base, std::vector<Span> &spans, std::string &error) const {
  auto *compiled = static_cast<pcre2_code *>(code);
  std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data *)> match(
      pcre2_match_data_create_from_pattern(compiled, nullptr), pcre2_match_data_free);
  std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context *)> context(pcre2_match_context_create(nullptr),
                                                                                pcre2_match_context_free);
  if (!match || !context) {
    error = "out of memory in the pre-tokenizer";
    return false;
  }
  pcre2_set_heap_limit(context.get(), 256 * 1024); // KiB
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t at = 0, covered = 0;
  auto emit = [&](size_t begin, size_t end, bool matched) {
    if (begin < end) {
      spans.push_back({base + begin, base + end, matched});
    }
  };
  while (at < text.size()) {
    // The text is valid here (see split), and checking it again at each match would be quadratic.
    uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int result = pcre2_match(compiled, subject, text.size(), at, options, match.get(), context.get());
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
      result = pcre2_match(compiled, subject, text.size(), at, options | PCRE2_NO_JIT, match.get(), context.get());
    }
    if (result == PCRE2_ERROR_NOMATCH) {
      break;
    }
    PCRE2_SIZE *ends = pcre2_get_ovector_pointer(match.get());
    if (result < 0 || ends[0] < at || ends[1] <= ends[0] || ends[1] > text.size()) {
      error = "the regular expression of the pre-tokenizer failed at byte " + std::to_string(base + at) + ": " +
              (result < 0 ? pcreMessage(result) : "a match that does not advance");
      return false;
    }
    emit(covered, ends[0], false);
    emit(ends[0], ends[1], true);
    at = covered = ends[1];
  }
  emit(covered, text.size(), false);
  return true;
}

bool Regex::split(std::string_view text, std::vector<Span> &spans, std::string &error) const {
  size_t at = 0;
  while (at < text.size()) {
    size_t valid = validUtf8Prefix(text.substr(at));
    if (valid && !splitValid(text.substr(at, valid), at, spans, error)) {
      return false;
    }
    at += valid;
    size_t bad = at;
    while (at < text.size()) {
      Utf8Step step = decodeUtf8(text.substr(at));
      if (step.kind == Utf8Step::Valid) {
        break;
      }
      at += step.length;
    }
    if (bad < at) {
      spans.push_back({bad, at, false});
    }
  }
  return true;
}

/// Joins spans as `behavior` says; what remains are the pieces.
static std::vector<Regex::Span> pieces(const std::vector<Regex::Span> &spans, SplitStep::Behavior behavior) {
  std::vector<Regex::Span> out;
  switch (behavior) {
  case SplitStep::Isolated:
    return spans;
  case SplitStep::Removed:
    for (const Regex::Span &span : spans) {
      if (!span.match) {
        out.push_back(span);
      }
    }
    return out;
  case SplitStep::Contiguous:
    for (const Regex::Span &span : spans) {
      if (!out.empty() && out.back().match == span.match) {
        out.back().end = span.end;
      } else {
        out.push_back(span);
      }
    }
    return out;
  case SplitStep::MergedWithPrevious:
    for (size_t i = 0; i < spans.size(); ++i) {
      if (spans[i].match && i > 0 && !spans[i - 1].match) {
        out.back().end = spans[i].end;
      } else {
        out.push_back(spans[i]);
      }
    }
    return out;
  case SplitStep::MergedWithNext:
    for (size_t i = 0; i < spans.size(); ++i) {
      if (i > 0 && spans[i - 1].match && !spans[i].match) {
        out.back().end = spans[i].end;
      } else {
        out.push_back(spans[i]);
      }
    }
    return out;
  }
  return spans;
}

bool PreTokenizer::run(std::string_view text, const std::function<void(std::string_view)> &piece,
                       std::string &error) const {
  return runFrom(0, text, piece, error);
}

bool PreTokenizer::runFrom(size_t index, std::string_view text, const std::function<void(std::string_view)> &piece,
                           std::string &error) const {
  if (text.empty()) {
    return true;
  }
  if (index == steps.size()) {
    piece(text);
    return true;
  }
  const SplitStep &step = steps[index];
  std::string prefixed;
  if (step.addPrefixSpace && text.front() != ' ') {
    prefixed.reserve(text.size() + 1);
    prefixed.append(" ").append(text);
    text = prefixed;
  }
  if (!step.regex) {
    return runFrom(index + 1, text, piece, error);
  }
  std::vector<Regex::Span> spans;
  if (!step.regex->split(text, spans, error)) {
    return false;
  }
  if (step.invert) {
    for (Regex::Span &span : spans) {
      span.match = !span.match;
    }
  }
  for (const Regex::Span &span : pieces(spans, step.behavior)) {
    if (!runFrom(index + 1, text.substr(span.begin, span.end - span.begin), piece, error)) {
      return false;
    }
  }
  return true;
}

} // namespace kimi::text
