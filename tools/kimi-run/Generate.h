//===- Generate.h - text from a prompt
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_GENERATE_H
#define KIMI_TOOLS_KIMIRUN_GENERATE_H

#include "tools/kimi-run/Model.h"
#include "tools/kimi-run/Options.h"
#include <iosfwd>

namespace kimi::run {

/// Continues the prompt. Text goes to `out` as it comes (not where --json - has taken it), timings to `log`.
/// `folder`: where the model is, for its tokenizer.
Status generate(Model &model, const Options &options, const std::string &folder, std::ostream &out, std::ostream &log);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_GENERATE_H
