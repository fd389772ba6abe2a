//===- Benchmark.h - timings of prefill, decode or one entry
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_BENCHMARK_H
#define KIMI_TOOLS_KIMIRUN_BENCHMARK_H

#include "tools/kimi-run/Model.h"
#include "tools/kimi-run/Options.h"
#include <iosfwd>

namespace kimi::run {

/// Times the module as --prefill-tokens and --context ask (both by default), or one entry where --input is given.
/// A table goes to `out`, or the JSON where --json - asks for it. On a GPU the device's own clock is read, and a second
/// table says where the time goes; --profile asks for that on a CPU too, and for a trace in a file.
Status benchmark(Model &model, const Options &options, std::ostream &out, std::ostream &log);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_BENCHMARK_H
