//===- CudaDevice.cpp - a GPU and its context -------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/CudaDevice.h"
#include "runtime/Text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

namespace kimi::cuda {
namespace {

Status readProperties(const Driver &driver, int32_t ordinal, Device &handle, DeviceProperties &out) {
  std::string place = "device cuda:" + std::to_string(ordinal);
  char name[256] = {};
  size_t bytes = 0;
  int memoryClock = 0, busWidth = 0;
  out.ordinal = ordinal;
  if (Status s = driver.check(driver.deviceGet(&handle, ordinal), place)) {
    return s;
  }
  if (Status s = driver.check(driver.deviceGetName(name, sizeof(name) - 1, handle), place)) {
    return s;
  }
  if (Status s = driver.check(driver.deviceTotalMem(&bytes, handle), place)) {
    return s;
  }
  const std::pair<DeviceAttribute, int *> attributes[] = {{ComputeCapabilityMajor, &out.major},
                                                          {ComputeCapabilityMinor, &out.minor},
                                                          {MultiprocessorCount, &out.multiprocessors},
                                                          {MaxSharedMemoryPerBlockOptin, &out.sharedBytes},
                                                          {MemoryClockRate, &memoryClock},
                                                          {GlobalMemoryBusWidth, &busWidth}};
  for (auto [attribute, value] : attributes) {
    if (Status s = driver.check(driver.deviceGetAttribute(value, attribute, handle), place)) {
      return s;
    }
  }
  out.name = printable(name);
  out.memoryBytes = bytes;
  out.memoryBandwidth = 2.0 * memoryClock * 1e3 * busWidth / 8; // two transfers a clock
  return {};
}

/// "sm_90a" as 90 and "a"; 0 for anything else.
std::pair<int, std::string_view> parseArch(std::string_view arch) {
  if (arch.substr(0, 3) != "sm_") {
    return {0, {}};
  }
  int number = 0;
  size_t i = 3;
  for (; i < arch.size() && i < 7 && std::isdigit(static_cast<unsigned char>(arch[i])); ++i) {
    number = number * 10 + (arch[i] - '0');
  }
  return {number, arch.substr(i)};
}

std::string gibibytes(uint64_t bytes) {
  char text[32];
  if (bytes < (1u << 20)) {
    std::snprintf(text, sizeof(text), "%llu bytes", static_cast<unsigned long long>(bytes));
  } else if (bytes < (1u << 30)) {
    std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1u << 20));
  } else {
    std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / (1u << 30));
  }
  return text;
}

} // namespace

bool cubinFits(std::string_view arch, const DeviceProperties &device) {
  auto [number, letter] = parseArch(arch);
  int own = device.major * 10 + device.minor;
  return letter == "a" ? number == own : number / 10 == device.major && number <= own;
}

bool ptxFits(std::string_view arch, const DeviceProperties &device) {
  auto [number, letter] = parseArch(arch);
  int own = device.major * 10 + device.minor;
  if (letter == "f") { // one family
    return number / 10 == device.major && number <= own;
  }
  return letter == "a" ? number == own : number > 0 && number <= own;
}

Status listDevices(const Driver &driver, std::vector<DeviceProperties> &out) {
  int count = 0;
  if (Status s = driver.check(driver.deviceGetCount(&count), "cannot count the GPUs")) {
    return s;
  }
  for (int i = 0; i < count; ++i) {
    Device handle;
    out.emplace_back();
    if (Status s = readProperties(driver, i, handle, out.back())) {
      return s;
    }
  }
  return {};
}

Status CudaDevice::open(int32_t ordinal, std::shared_ptr<const CudaDevice> &out) {
  const Driver *driver = nullptr;
  if (Status s = Driver::get(driver)) {
    return s;
  }
  int count = 0;
  if (Status s = driver->check(driver->deviceGetCount(&count), "cannot count the GPUs")) {
    return s;
  }
  if (ordinal < 0 || ordinal >= count) {
    return {KIMI_UNSUPPORTED, "there is no device cuda:" + std::to_string(ordinal) + "; the driver shows " +
                                  std::to_string(count) +
                                  " (kimi-run --list-devices; CUDA_VISIBLE_DEVICES hides some)"};
  }
  static std::mutex mutex;
  static std::map<std::pair<const Driver *, int32_t>, std::weak_ptr<const CudaDevice>> open;
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<const CudaDevice> &known = open[{driver, ordinal}];
  if ((out = known.lock())) {
    return {};
  }
  DeviceProperties properties;
  Device handle = -1;
  if (Status s = readProperties(*driver, ordinal, handle, properties)) {
    return s;
  }
  std::shared_ptr<CudaDevice> device(new CudaDevice(*driver, std::move(properties)));
  if (Status s = driver->check(driver->devicePrimaryCtxRetain(&device->context, handle),
                               device->about.place() + ": cannot make a context")) {
    return s;
  }
  device->handle = handle;
  known = device;
  out = std::move(device);
  return {};
}

CudaDevice::~CudaDevice() {
  if (handle >= 0) {
    api.devicePrimaryCtxRelease(handle);
  }
}

Status CudaDevice::outOfMemory(uint64_t bytes, const std::string &what) const {
  size_t free = 0, total = 0;
  std::string message = about.place() + ": no " + gibibytes(bytes) + " for " + what;
  if (api.memGetInfo(&free, &total) == Success) {
    message += ": " + gibibytes(free) + " of " + gibibytes(total) + " are free";
  }
  return {KIMI_OUT_OF_MEMORY, message};
}

CudaDevice::Scope::Scope(const CudaDevice &device)
    : device(device), isPushed(device.api.ctxPushCurrent(device.context) == Success) {}

CudaDevice::Scope::~Scope() {
  Context popped;
  if (isPushed) {
    device.api.ctxPopCurrent(&popped);
  }
}

} // namespace kimi::cuda
