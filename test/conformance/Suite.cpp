//===- Suite.cpp - test folders on several threads, a line of JSON each
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Suite.h"
#include "tools/kimi-run/Report.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <ostream>
#include <sstream>
#include <system_error>
#include <thread>

namespace kimi::conformance {

using run::Json;

static std::string line(const Json &json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

void Suite::print(const std::string &line) {
  std::lock_guard<std::mutex> lock(outMutex);
  out << line << std::flush;
}

void Suite::runFolder(const std::string &folder) {
  print(line({{"event", "start"}, {"folder", folder}}));
  auto begin = std::chrono::steady_clock::now();
  run::Options one = options;
  one.onnxTests = {folder};
  one.json = "-"; // what people read then goes to the log
  std::ostringstream data, log;
  run::Exit code = runOnnxTests(one, data, log, open);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  Json result = Json::parse(data.str(), nullptr, /*allow_exceptions=*/false);
  if (!result.is_object()) {
    result = Json::object();
  }
  result.update({{"event", "end"},
                 {"folder", folder},
                 {"exit", static_cast<int>(code)},
                 {"log", log.str()},
                 {"seconds", seconds.count()}});
  print(line(result));
}

bool Suite::run(unsigned jobs) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < options.onnxTests.size();) {
      runFolder(options.onnxTests[i]);
    }
  };
  std::vector<std::thread> threads;
  bool all = true;
  for (size_t n = std::min<size_t>(jobs, options.onnxTests.size()); threads.size() < n && all;) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error &) {
      all = false;
    }
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  return all && out.good();
}

} // namespace kimi::conformance
