//===- FuzzTokenizer.cpp - any bytes as a tokenizer, and a text for it
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Tokenizer.h"
#include <cstdint>

using namespace kimi::text;

/// A tokenizer.json; or, where the bytes hold a 0, vocab.json, 0, merges.txt. What it makes of a text must be tokens it
/// has.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  std::string_view all(reinterpret_cast<const char *>(bytes), size);
  size_t zero = all.find('\0');
  std::string error;
  std::unique_ptr<Tokenizer> tokenizer =
      zero == std::string_view::npos ? Tokenizer::fromJson(all, error)
                                     : Tokenizer::fromVocabAndMerges(all.substr(0, zero), all.substr(zero + 1), error);
  if (!tokenizer) {
    if (error.empty()) {
      __builtin_trap(); // refused without a reason
    }
    return 0;
  }
  std::vector<int32_t> ids;
  std::string_view text = all.substr(0, 256);
  if (!tokenizer->encode(text, ids, error)) {
    return 0;
  }
  for (int32_t id : ids) {
    if (id < 0 || id >= tokenizer->size()) {
      __builtin_trap();
    }
  }
  tokenizer->decode(ids);
  return 0;
}
