//===- Report.h - results as text and as JSON
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_REPORT_H
#define KIMI_TOOLS_KIMIRUN_REPORT_H

#include "runtime/Status.h"
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kimi::run {

using Json = nlohmann::ordered_json;

/// Median and 10th and 90th percentile, linearly interpolated; `values` in any order and not empty.
struct Quantiles {
  double median, p10, p90;
};
Quantiles quantiles(std::vector<double> values);

/// "12.3 ms", "4.56 s".
std::string seconds(double value);

/// Writes `json` to the file that --json names, to `out` for "-", nowhere for "". Text that is no UTF-8 is replaced.
Status writeJson(const std::string &where, const Json &json, std::ostream &out);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_REPORT_H
