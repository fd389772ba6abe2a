//===- LaunchReport.cpp - where the time of a run goes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/LaunchReport.h"
#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>

namespace kimi::run {

static constexpr int profiledRuns = 5;

Status profileLaunches(Model &model, const Entry &entry, const std::vector<HostTensor> &inputs,
                       std::vector<LaunchSummary> &out) {
  std::vector<std::vector<double>> lengths;
  std::vector<kimi_launch_time> times;
  for (int run = 0; run < profiledRuns; ++run) {
    if (Status s = model.profile(entry, inputs, times)) {
      return s;
    }
    lengths.resize(times.size());
    for (size_t i = 0; i < times.size(); ++i) {
      lengths[i].push_back(times[i].length);
    }
  }
  out.clear();
  for (size_t i = 0; i < times.size(); ++i) {
    const kimi_launch_time &time = times[i];
    out.push_back({time.name,
                   time.kernel,
                   time.index,
                   time.threads,
                   time.shared_bytes,
                   {time.grid[0], time.grid[1], time.grid[2]},
                   time.start,
                   quantiles(lengths[i]).median,
                   time.bytes,
                   time.flops});
  }
  return {};
}

std::string kernelTable(const std::vector<LaunchSummary> &launches, double bandwidth) {
  struct Row {
    std::string kernel;
    int count = 0;
    double time = 0, bytes = 0, flops = 0;
    bool knowsFlops = true;
  };
  std::map<std::string, Row> byKernel;
  Row total;
  for (const LaunchSummary &launch : launches) {
    for (Row *row : {&byKernel[launch.kernel], &total}) {
      row->kernel = row == &total ? "all" : launch.kernel;
      ++row->count;
      row->time += launch.length;
      row->bytes += launch.bytes;
      row->flops += std::max(launch.flops, 0.0);
      row->knowsFlops &= launch.flops >= 0;
    }
  }
  std::vector<Row> rows;
  for (auto &[name, row] : byKernel) {
    rows.push_back(row);
  }
  std::sort(rows.begin(), rows.end(),
            [](const Row &a, const Row &b) { return std::tie(b.time, a.kernel) < std::tie(a.time, b.kernel); });
  if (!launches.empty()) {
    rows.push_back(total);
  }
  char line[256];
  std::snprintf(line, sizeof(line), "%-44s %8s %10s %6s %10s %8s %8s %7s\n", "kernel", "launches", "us", "share", "MB",
                "GB/s", "TFLOP/s", "floor");
  std::string text = line;
  for (const Row &row : rows) {
    double time = std::max(row.time, 1e-12);
    std::snprintf(line, sizeof(line), "%-44s %8d %10.1f %5.1f%% %10.2f %8.0f", row.kernel.substr(0, 44).c_str(),
                  row.count, row.time * 1e6, 100 * row.time / std::max(total.time, 1e-12), row.bytes * 1e-6,
                  row.bytes / time * 1e-9);
    text += line;
    std::snprintf(line, sizeof(line), " %8.1f", row.flops / time * 1e-12);
    text += row.knowsFlops ? std::string(line) : std::string(9, ' ');
    if (bandwidth > 0) {
      std::snprintf(line, sizeof(line), " %6.1f%%", 100 * row.bytes / bandwidth / time);
      text += line;
    }
    text += "\n";
  }
  return text;
}

Json launchesJson(const std::vector<LaunchSummary> &launches) {
  Json out = Json::array();
  for (const LaunchSummary &launch : launches) {
    out.push_back({{"name", launch.name},
                   {"kernel", launch.kernel},
                   {"index", launch.index},
                   {"median_us", launch.length * 1e6},
                   {"bytes", launch.bytes},
                   {"flops", launch.flops < 0 ? Json() : Json(launch.flops)},
                   {"grid", {launch.grid[0], launch.grid[1], launch.grid[2]}},
                   {"threads", launch.threads},
                   {"shared_bytes", launch.sharedBytes}});
  }
  return out;
}

Trace::Trace(const std::string &process) {
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", process}}}});
}

void Trace::add(const std::string &row, const std::vector<LaunchSummary> &launches) {
  int track = ++rows;
  events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", track}, {"args", {{"name", row}}}});
  for (const LaunchSummary &launch : launches) {
    Json args = {{"kernel", launch.kernel},
                 {"launch", launch.index},
                 {"grid", {launch.grid[0], launch.grid[1], launch.grid[2]}},
                 {"threads", launch.threads},
                 {"shared_bytes", launch.sharedBytes},
                 {"bytes", launch.bytes}};
    if (launch.flops >= 0) {
      args["flops"] = launch.flops;
    }
    events.push_back({{"name", launch.name.empty() ? launch.kernel : launch.name + " " + launch.kernel},
                      {"cat", "kernel"},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", track},
                      {"ts", launch.start * 1e6},
                      {"dur", launch.length * 1e6},
                      {"args", std::move(args)}});
  }
}

Status Trace::write(const std::string &path) const {
  std::ostream none(nullptr);
  return writeJson(path, Json{{"displayTimeUnit", "ns"}, {"traceEvents", events}}, none);
}

} // namespace kimi::run
