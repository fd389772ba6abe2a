//===- Prompt.h - the tokens that a text begins with
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_PROMPT_H
#define KIMI_TOOLS_KIMIRUN_PROMPT_H

#include "runtime/Status.h"
#include "runtime/text/Tokenizer.h"
#include "tools/kimi-run/Options.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kimi::run {

struct Prompt {
  int64_t batch = 1;
  std::vector<int64_t> ids;                   ///< [batch, n]
  std::unique_ptr<text::Tokenizer> tokenizer; ///< Null where the prompt was given as tokens.
  std::vector<int64_t> endIds;                ///< Tokens that end a text.
};

/// Reads what --prompt, --prompt-file or --prompt-tokens give. `folder`: where tokenizer and configuration are, unless
/// --tokenizer names another one.
/// Error: KIMI_BAD_FILE, KIMI_NOT_FOUND, KIMI_INVALID_ARGUMENT for an empty prompt or tokens that are no rectangle.
Status readPrompt(const Options &options, const std::string &folder, Prompt &out);

/// Reads "1,2,3", "1,2;3,4" (two sequences), or an .npy of integers [n] or [batch, n].
Status readTokens(const std::string &text, int64_t &batch, std::vector<int64_t> &ids);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_PROMPT_H
