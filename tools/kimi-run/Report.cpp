//===- Report.cpp - results as text and as JSON
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Report.h"
#include "runtime/files/WholeFile.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kimi::run {

Quantiles quantiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto at = [&](double q) {
    double position = q * static_cast<double>(values.size() - 1);
    auto low = static_cast<size_t>(position), high = std::min(low + 1, values.size() - 1);
    return values[low] + (position - static_cast<double>(low)) * (values[high] - values[low]);
  };
  return {at(0.5), at(0.1), at(0.9)};
}

std::string seconds(double value) {
  char text[32];
  const char *unit = value < 1e-3 ? "us" : value < 1 ? "ms" : "s";
  std::snprintf(text, sizeof(text), "%.3g %s", value < 1e-3 ? value * 1e6 : value < 1 ? value * 1e3 : value, unit);
  return text;
}

Status writeJson(const std::string &where, const Json &json, std::ostream &out) {
  if (where.empty()) {
    return {};
  }
  std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (where == "-") {
    out << text << std::flush;
    return {};
  }
  WholeFile file(where);
  file.stream().write(text.data(), static_cast<std::streamsize>(text.size()));
  Status status = file.finish();
  return status ? Status(status.code(), where + ": " + status.message()) : Status();
}

} // namespace kimi::run
