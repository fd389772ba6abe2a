//===- TinyModule.h - a module small enough to know every answer
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TEST_UNIT_KIMIRUN_TINYMODULE_H
#define KIMI_TEST_UNIT_KIMIRUN_TINYMODULE_H

#include <cstdint>
#include <string>
#include <vector>

namespace kimi::run {

/// What the module holds. Its next token is (1 + the sum of all tokens so far) modulo the vocabulary.
struct TinyModule {
  bool prefill = true, decode = true; ///< Entries with a state, a mask and positions,
  bool whole = true;                  ///< and `main`, which maps ids [batch, seq] to logits.
  bool nextToken = false;             ///< prefill and decode choose the token themselves, too.
  bool cuda = false;                  ///< For the fake driver of test/unit/Runtime/FakeCuda.h.
  int64_t vocabulary = 1024;
  int64_t context = -1; ///< Longest sequence, or -1.

  /// Writes it as a .kmod; false where that fails.
  bool write(const std::string &path) const;

  /// What a greedy continuation of `ids` is.
  std::vector<int64_t> answer(std::vector<int64_t> ids, int64_t count) const;
};

} // namespace kimi::run

#endif // KIMI_TEST_UNIT_KIMIRUN_TINYMODULE_H
