//===- Suite.h - test folders on several threads, a line of JSON each
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TEST_CONFORMANCE_SUITE_H
#define KIMI_TEST_CONFORMANCE_SUITE_H

#include "tools/kimi-run/OnnxTest.h"
#include <iosfwd>
#include <mutex>

namespace kimi::conformance {

/// Runs each folder of `options.onnxTests` by itself through run::runOnnxTests, `jobs` at a time, in their order. Of
/// each two lines of JSON go to `out`: as it begins {"event": "start", "folder": F}, so that whoever reads them knows
/// what was in flight when the process ended early, and then
///   {"event": "end", "folder": F, "exit": what runOnnxTests returned (run::Exit), "passed": N, "failed": N,
///    "sets": as in kimi-run's --json, "log": the lines that kimi-run would have printed, "seconds": S}
class Suite {
public:
  Suite(const run::Options &options, const run::OpenFunction &open, std::ostream &out)
      : options(options), open(open), out(out) {}

  /// False where `out` could not be written, or no thread was to be had.
  bool run(unsigned jobs);

private:
  void runFolder(const std::string &folder);
  void print(const std::string &line);

  const run::Options &options;
  const run::OpenFunction &open;
  std::ostream &out;
  std::mutex outMutex;
};

} // namespace kimi::conformance

#endif // KIMI_TEST_CONFORMANCE_SUITE_H
