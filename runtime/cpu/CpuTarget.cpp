//===- CpuTarget.cpp - may code for a CPU target run on this machine? -------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cpu/CpuTarget.h"
#include "runtime/Text.h"

#include <fstream>
#include <sched.h>
#include <unistd.h>

namespace kimi {
namespace {

/// A capability by the name it has in a target, and whether this CPU (and its system) has it.
struct Capability {
  std::string_view name;
  bool (*isThere)();
};

// __builtin_cpu_supports takes a literal, so each capability has a function of its own.
#if defined(__x86_64__)
#define KIMI_CAPABILITY(name, builtinName) {name, [] { return bool(__builtin_cpu_supports(builtinName)); }}
constexpr Capability capabilities[] = {
    KIMI_CAPABILITY("x86-64-v2", "x86-64-v2"),
    KIMI_CAPABILITY("x86-64-v3", "x86-64-v3"),
    KIMI_CAPABILITY("x86-64-v4", "x86-64-v4"),
    KIMI_CAPABILITY("sse3", "sse3"),
    KIMI_CAPABILITY("ssse3", "ssse3"),
    KIMI_CAPABILITY("sse4.1", "sse4.1"),
    KIMI_CAPABILITY("sse4.2", "sse4.2"),
    KIMI_CAPABILITY("popcnt", "popcnt"),
    KIMI_CAPABILITY("avx", "avx"),
    KIMI_CAPABILITY("avx2", "avx2"),
    KIMI_CAPABILITY("fma", "fma"),
    KIMI_CAPABILITY("bmi", "bmi"),
    KIMI_CAPABILITY("bmi2", "bmi2"),
    KIMI_CAPABILITY("avx512f", "avx512f"),
    KIMI_CAPABILITY("avx512bw", "avx512bw"),
    KIMI_CAPABILITY("avx512cd", "avx512cd"),
    KIMI_CAPABILITY("avx512dq", "avx512dq"),
    KIMI_CAPABILITY("avx512vl", "avx512vl"),
    KIMI_CAPABILITY("avx512ifma", "avx512ifma"),
    KIMI_CAPABILITY("avx512vbmi", "avx512vbmi"),
    KIMI_CAPABILITY("avx512vbmi2", "avx512vbmi2"),
    KIMI_CAPABILITY("avx512vnni", "avx512vnni"),
    KIMI_CAPABILITY("avx512bitalg", "avx512bitalg"),
    KIMI_CAPABILITY("avx512vpopcntdq", "avx512vpopcntdq"),
    KIMI_CAPABILITY("avx512bf16", "avx512bf16"),
    KIMI_CAPABILITY("avx512vp2intersect", "avx512vp2intersect"),
    KIMI_CAPABILITY("gfni", "gfni"),
    KIMI_CAPABILITY("vpclmulqdq", "vpclmulqdq"),
};
#undef KIMI_CAPABILITY
#else
constexpr Capability capabilities[] = {
    {"x86-64", [] { return false; }},
    {"x86-64-v2", [] { return false; }},
    {"x86-64-v3", [] { return false; }},
    {"x86-64-v4", [] { return false; }},
};
#endif

/// True unless the capability is known and missing.
bool isThere(std::string_view name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  for (const Capability &capability : capabilities) {
    if (capability.name == name) {
      return capability.isThere();
    }
  }
  return true;
}

} // namespace

Status checkCpuTarget(std::string_view target) {
  size_t colon = target.find(':');
  std::string_view device = target.substr(0, colon);
  if (device != "cpu") {
    return {KIMI_UNSUPPORTED,
            "the module is compiled for " + quoted(target) + ", this runtime has the device 'cpu' only"};
  }
  std::string_view rest = colon == std::string_view::npos ? std::string_view() : target.substr(colon + 1);
  colon = rest.find(':');
  std::string_view name = rest.substr(0, colon);
  if (!isThere(name)) {
    return {KIMI_UNSUPPORTED, "the module is compiled for " + quoted(target) +
                                  ", which this CPU is not; compile with " +
                                  "--cpu=native here, or with a lower --cpu level"};
  }
  std::string_view features = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  while (!features.empty()) {
    size_t comma = features.find(',');
    std::string_view feature = features.substr(0, comma);
    features = comma == std::string_view::npos ? std::string_view() : features.substr(comma + 1);
    if (feature.substr(0, 1) == "+" && !isThere(feature.substr(1))) {
      return {KIMI_UNSUPPORTED, "the module needs the CPU feature " + quoted(feature.substr(1)) +
                                    ", which this CPU lacks; compile with --cpu=native here"};
    }
  }
  return {};
}

kimi_device_info describeCpu() {
  kimi_device_info info = {};
  std::snprintf(info.id, sizeof(info.id), "cpu");
  std::string name = "CPU", line;
  std::ifstream file("/proc/cpuinfo");
  while (std::getline(file, line)) {
    size_t colon = line.find(": ");
    if (line.compare(0, 10, "model name") == 0 && colon != std::string::npos) {
      name = printable(line.substr(colon + 2));
      break;
    }
  }
  std::snprintf(info.name, sizeof(info.name), "%s", name.c_str());
#if defined(__x86_64__)
  const char *level = isThere("x86-64-v4") ? "x86-64-v4" : isThere("x86-64-v3") ? "x86-64-v3" : "x86-64";
  std::snprintf(info.arch, sizeof(info.arch), "%s", level);
#endif
  cpu_set_t set;
  info.cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  long pages = sysconf(_SC_PHYS_PAGES), pageSize = sysconf(_SC_PAGESIZE);
  info.memory_bytes = pages > 0 && pageSize > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(pageSize) : 0;
  return info;
}

} // namespace kimi
