//===- SessionTiming.cpp - how long runs and launches take ------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Session.h"

namespace kimi {

Status Session::prepareDropping(int32_t entry, const kimi_tensor *inputs, int32_t inputCount) {
  if (Status s = prepare(entry, inputs, inputCount)) {
    return s;
  }
  Status status = checkData(module.plan(entry), *frames[entry], inputs, nullptr);
  return status ? Status(status.code(), module.plan(entry).place() + ": " + status.message()) : Status();
}

Status Session::time(int32_t entry, const kimi_tensor *inputs, int32_t inputCount, int64_t runs, double *seconds) {
  if (runs < 0 || (runs != 0 && !seconds)) {
    return invalidArgument("cannot time " + std::to_string(runs) + " runs");
  }
  if (Status s = prepareDropping(entry, inputs, inputCount)) {
    return s;
  }
  return executor->time(*frames[entry], inputs, runs, seconds);
}

Status Session::profile(int32_t entry, const kimi_tensor *inputs, int32_t inputCount,
                        std::vector<kimi_launch_time> &out) {
  if (Status s = prepareDropping(entry, inputs, inputCount)) {
    return s;
  }
  Frame &frame = *frames[entry];
  std::vector<LaunchTime> times;
  if (Status s = executor->run(frame, inputs, nullptr, &times)) {
    return s;
  }
  const fb::Entry &table = module.plan(entry).entry;
  for (const LaunchTime &time : times) {
    const fb::Launch &launch = *table.launches()->Get(static_cast<uint32_t>(time.launch));
    Frame::Launch ready = frame.launch(time.launch);
    const fb::Kernel &kernel = *module.table().kernels()->Get(static_cast<uint32_t>(ready.kernel));
    kimi_launch_time it = {};
    it.name = launch.name() ? launch.name()->c_str() : "";
    it.kernel = kernel.name()->c_str();
    it.index = static_cast<int32_t>(time.launch);
    it.start = time.start;
    it.length = time.length;
    it.bytes = frame.launchBytes(time.launch);
    it.flops = launch.flops() < 0 ? -1 : static_cast<double>(frame.value(launch.flops()));
    it.grid[0] = ready.grid.x;
    it.grid[1] = ready.grid.y;
    it.grid[2] = ready.grid.z;
    it.threads = kernel.threads();
    it.shared_bytes = kernel.shared_bytes();
    out.push_back(it);
  }
  return {};
}

} // namespace kimi
