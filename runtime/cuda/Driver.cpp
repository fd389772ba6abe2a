//===- Driver.cpp - the CUDA driver, opened at run time ---------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/Driver.h"
#include "runtime/Text.h"

#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>

namespace kimi::cuda {
namespace {

constexpr const char *driverLibrary = "libcuda.so.1";

/// A library that is closed again unless it is kept.
struct Library {
  void *handle = nullptr;
  ~Library() {
    if (handle) {
      dlclose(handle);
    }
  }
  template <typename Type>
  Type find(const char *name) const {
    return reinterpret_cast<Type>(dlsym(handle, name));
  }
};

using GetProcAddress = Result (*)(const char *, void **, int, uint64_t, ProcAddressStatus *);

Status unsupported(std::string message) { return {KIMI_UNSUPPORTED, std::move(message)}; }

/// The variant of a function that came with CUDA `version`.
void *findEntry(GetProcAddress getProcAddress, const char *name, int version) {
  void *found = nullptr;
  ProcAddressStatus status = ProcFound;
  Result result = getProcAddress(name, &found, version, /*flags=*/0, &status);
  return result == Success && status == ProcFound ? found : nullptr;
}

Status findEntries(GetProcAddress getProcAddress, Driver &driver) {
#define KIMI_CUDA_FIND(member, name, entryVersion, needed, parameters)                                                 \
  if (entryVersion <= driver.version) {                                                                                \
    driver.member = reinterpret_cast<decltype(driver.member)>(findEntry(getProcAddress, name, entryVersion));          \
  }                                                                                                                    \
  if (needed && !driver.member) {                                                                                      \
    return unsupported(std::string("the CUDA driver has no ") + name + "; install a newer one");                       \
  }
  KIMI_CUDA_ENTRIES(KIMI_CUDA_FIND)
#undef KIMI_CUDA_FIND
  return {};
}

Status open(const std::string &path, std::unique_ptr<Driver> &out) {
  Library library;
  library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library.handle) {
    const char *reason = dlerror();
    return unsupported("no CUDA driver: " + printable(reason ? reason : "unknown reason") +
                       "; install NVIDIA's driver, or run a module that is compiled with --target=cpu");
  }
  auto getVersion = library.find<Result (*)(int *)>("cuDriverGetVersion");
  auto getProcAddress = library.find<GetProcAddress>("cuGetProcAddress_v2");
  auto driver = std::make_unique<Driver>();
  if (!getVersion || getVersion(&driver->version) != Success) {
    return unsupported(path + " is no CUDA driver: it has no version");
  }
  if (driver->version < oldestDriver || !getProcAddress) {
    return unsupported("the CUDA driver is too old: it speaks CUDA " + versionText(driver->version) + ", " +
                       versionText(oldestDriver) +
                       " (driver 525) is the oldest that is supported; install a newer one");
  }
  if (Status s = findEntries(getProcAddress, *driver)) {
    return s;
  }
  if (Result result = driver->init(0)) {
    const char *advice = result == NoDevice ? "; is there a GPU, and may this process see it (CUDA_VISIBLE_DEVICES)?"
                         : result == SystemDriverMismatch
                             ? "; the driver's kernel module and library differ: restart the machine"
                             : "";
    return unsupported("the CUDA driver cannot start: " + driver->text(result) + advice);
  }
  library.handle = nullptr; // kept: the driver has threads of its own
  out = std::move(driver);
  return {};
}

} // namespace

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Status Driver::get(const Driver *&out) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Driver>> drivers;
  std::lock_guard<std::mutex> lock(mutex);
  const char *given = std::getenv("KIMI_CUDA_DRIVER");
  std::string path = given && *given ? given : driverLibrary;
  std::unique_ptr<Driver> &driver = drivers[path];
  if (!driver) {
    if (Status s = open(path, driver)) {
      return s;
    }
  }
  out = driver.get();
  return {};
}

std::string Driver::text(Result result) const {
  const char *name = nullptr, *description = nullptr;
  if (getErrorName(result, &name) != Success || !name) {
    return "CUDA error " + std::to_string(int(result));
  }
  bool described = getErrorString(result, &description) == Success && description;
  return name + (described ? " (" + std::string(description) + ")" : std::string());
}

Status Driver::check(Result result, const std::string &what) const {
  if (result == Success) {
    return {};
  }
  return {result == OutOfMemory ? KIMI_OUT_OF_MEMORY : KIMI_RUNTIME_ERROR, what + ": " + text(result)};
}

} // namespace kimi::cuda
