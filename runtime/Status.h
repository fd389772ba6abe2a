//===- Status.h - what a fallible call of the runtime returns --------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_STATUS_H
#define KIMI_RUNTIME_STATUS_H

#include "kimi/kimi.h"

#include <string>
#include <utility>

namespace kimi {

/// KIMI_OK, or an error code with one line for a person (lower case; what, where, why, what next). Converts to true on
/// *failure*, so that `if (Status s = f()) return s;` passes an error on. Success holds no heap memory.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(kimi_status code, std::string message) : statusCode(code), text(std::move(message)) {}

  explicit operator bool() const { return statusCode != KIMI_OK; }
  kimi_status code() const { return statusCode; }
  const std::string &message() const { return text; }

private:
  kimi_status statusCode = KIMI_OK;
  std::string text;
};

inline Status badFile(std::string message) { return {KIMI_BAD_FILE, std::move(message)}; }
inline Status invalidArgument(std::string message) { return {KIMI_INVALID_ARGUMENT, std::move(message)}; }

} // namespace kimi

#endif // KIMI_RUNTIME_STATUS_H
