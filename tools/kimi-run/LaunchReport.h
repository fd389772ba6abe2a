//===- LaunchReport.h - where the time of a run goes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_LAUNCHREPORT_H
#define KIMI_TOOLS_KIMIRUN_LAUNCHREPORT_H

#include "tools/kimi-run/Model.h"
#include "tools/kimi-run/Report.h"

namespace kimi::run {

/// A launch of an entry: the median over several profiled runs.
struct LaunchSummary {
  std::string name, kernel;
  int32_t index, threads, sharedBytes;
  int64_t grid[3];
  double start, length; ///< Seconds; start: of the run that was profiled last.
  double bytes, flops;  ///< See kimi_launch_time.
};

/// Profiles a few runs of an entry.
Status profileLaunches(Model &model, const Entry &entry, const std::vector<HostTensor> &inputs,
                       std::vector<LaunchSummary> &out);

/// A table with a line a kernel, the slowest first: launches a run, time, bytes and operations a second, and the
/// fraction of the time that moving the bytes would take at `bandwidth` bytes a second (0: not known).
std::string kernelTable(const std::vector<LaunchSummary> &launches, double bandwidth);

/// [{"name", "kernel", "index", "median_us", "bytes", "flops" (null where unknown), "grid", "threads",
/// "shared_bytes"}].
Json launchesJson(const std::vector<LaunchSummary> &launches);

/// Adds the launches to a trace as Chrome and Perfetto read it; `row`: what was run, a track of its own.
class Trace {
public:
  explicit Trace(const std::string &process);
  void add(const std::string &row, const std::vector<LaunchSummary> &launches);
  Status write(const std::string &path) const;

private:
  Json events = Json::array();
  int rows = 0;
};

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_LAUNCHREPORT_H
