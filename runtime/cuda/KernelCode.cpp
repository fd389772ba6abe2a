//===- KernelCode.cpp - the kernels of a module, loaded ---------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/KernelCode.h"
#include "runtime/Text.h"

#include <algorithm>
#include <cstdio>

namespace kimi::cuda {
namespace {

/// The words and tensor maps of the parameters of each kernel, by the launches that use it.
struct Parameters {
  int64_t words = -1; // nobody launches it
  bool agree = true;  // all launches pass as many
};

std::vector<Parameters> parametersOf(const fb::Module &module) {
  std::vector<Parameters> out(module.kernels()->size());
  for (uint32_t e = 0; module.entries() && e < module.entries()->size(); ++e) {
    const fb::Entry &entry = *module.entries()->Get(e);
    for (uint32_t i = 0; entry.launches() && i < entry.launches()->size(); ++i) {
      const fb::Launch &launch = *entry.launches()->Get(i);
      int64_t words = 0;
      for (const fb::Arg *arg : *launch.args()) {
        words += 1 + (arg->buffer() >= 0 && arg->sizes() ? 2 * int64_t(arg->sizes()->size()) : 0);
      }
      for (const fb::Variant *variant : *launch.variants()) {
        Parameters &parameters = out[variant->kernel()];
        parameters.agree &= parameters.words < 0 || parameters.words == words;
        parameters.words = words;
      }
    }
  }
  return out;
}

/// A kernel that takes other parameters than it is given would read the host's stack.
Status checkParameters(const Driver &driver, const LoadedKernel &kernel, const Parameters &parameters) {
  if (!parameters.agree) {
    return badFile(kernel.place() + ": two launches give it different numbers of arguments");
  }
  if (parameters.words < 0 || !driver.funcGetParamInfo) {
    return {};
  }
  size_t maps = kernel.record->tensor_maps() ? kernel.record->tensor_maps()->size() : 0;
  size_t wanted = static_cast<size_t>(parameters.words) + 1 + maps, found = 0, offset = 0, size = 0;
  while (found <= wanted && driver.funcGetParamInfo(kernel.function, found, &offset, &size) == Success) {
    size_t needed = found + maps < wanted ? sizeof(int64_t) : sizeof(TensorMap);
    if (size != needed && found < wanted) {
      return badFile(kernel.place() + ": parameter " + std::to_string(found) + " has " + std::to_string(size) +
                     " bytes in the code, " + std::to_string(needed) + " in the plan");
    }
    ++found;
  }
  return found == wanted ? Status()
                         : badFile(kernel.place() + ": the plan gives it " + std::to_string(wanted) +
                                   " parameters, the code takes " + (found > wanted ? "more" : std::to_string(found)));
}

Status prepareKernel(const CudaDevice &device, const LoadedKernel &kernel) {
  const Driver &driver = device.driver();
  int most = 0, fixedShared = 0;
  Status status =
      driver.check(driver.funcGetAttribute(&most, FunctionMaxThreadsPerBlock, kernel.function), kernel.place());
  if (!status) {
    status =
        driver.check(driver.funcGetAttribute(&fixedShared, FunctionSharedSizeBytes, kernel.function), kernel.place());
  }
  if (status) {
    return status;
  }
  if (kernel.record->threads() > most) {
    return {KIMI_UNSUPPORTED, kernel.place() + ": has blocks of " + std::to_string(kernel.record->threads()) +
                                  " threads, but its registers allow " + std::to_string(most) + " on " +
                                  device.properties().place()};
  }
  int64_t shared = int64_t(kernel.record->shared_bytes()) + fixedShared;
  if (shared > device.properties().sharedBytes) {
    return {KIMI_UNSUPPORTED, kernel.place() + ": needs " + std::to_string(shared) + " bytes of shared memory, " +
                                  device.properties().place() + " gives a block " +
                                  std::to_string(device.properties().sharedBytes) +
                                  "; compile with --target=cuda:" + device.properties().arch()};
  }
  if (kernel.record->shared_bytes() == 0) {
    return {};
  }
  return driver.check(
      driver.funcSetAttribute(kernel.function, FunctionMaxDynamicSharedSizeBytes, kernel.record->shared_bytes()),
      kernel.place() + ": " + std::to_string(kernel.record->shared_bytes()) + " bytes of shared memory");
}

/// Loads one image. Errors carry the driver's reason.
Status loadImage(const CudaDevice &device, const void *bytes, OwnedModule &out) {
  char log[2048] = {};
  JitOption options[] = {JitErrorLogBuffer, JitErrorLogBufferSizeBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
  CodeModule module = nullptr;
  Result result = device.driver().moduleLoadDataEx(&module, bytes, 2, options, values);
  if (Status s = device.driver().check(result, "the driver does not load it")) {
    std::string line = printable(std::string_view(log).substr(0, std::string_view(log).find('\n')));
    std::string advice = result == UnsupportedPtxVersion ? "; install a newer driver" : "";
    return {s.code(), s.message() + (line.empty() ? "" : ": " + line) + advice};
  }
  out = {device, module};
  return {};
}

} // namespace

std::string LoadedKernel::place() const { return "kernel " + quoted(record->name()->string_view()); }

Status KernelCode::load(const CudaDevice &device, const format::Contents &contents, KernelCode &out) {
  const fb::Module &module = *contents.module;
  if (!module.kernels() || module.kernels()->size() == 0) {
    return {};
  }
  std::string reasons, refused;
  for (const fb::Image *image : *module.images()) {
    std::string_view target = image->target()->string_view();
    bool isPtx = format::isPtx(target);
    std::string_view arch = target.substr(target.rfind(':') + 1);
    std::string why;
    if (!(isPtx ? ptxFits(arch, device.properties()) : cubinFits(arch, device.properties()))) {
      why = "does not fit";
    } else if (Status s = loadImage(device, contents.data + image->blob()->offset(), out.image)) {
      if (s.code() == KIMI_OUT_OF_MEMORY) {
        return device.outOfMemory(image->blob()->length(), "the kernels");
      }
      why = s.message();
      refused = refused.empty() && !isPtx ? "the cubin for " + quoted(arch) + " is not used: " + why : refused;
    } else {
      break;
    }
    reasons +=
        (reasons.empty() ? "" : "; ") + std::string(isPtx ? "PTX" : "cubin") + " for " + quoted(arch) + ": " + why;
  }
  if (!out.image) {
    return {KIMI_UNSUPPORTED, "the module is compiled for " + quoted(module.target()->string_view()) + " and has no " +
                                  "code for " + device.properties().place() + ", which is " +
                                  device.properties().arch() + " (" + reasons +
                                  "); compile with --target=cuda:" + device.properties().arch()};
  }
  if (!refused.empty()) { // compiling PTX takes seconds, and may give other code than what was measured
    std::fprintf(stderr, "kimi: remark: %s; its PTX is compiled instead\n", refused.c_str());
  }
  std::vector<Parameters> parameters = parametersOf(module);
  for (const fb::Kernel *record : *module.kernels()) {
    LoadedKernel kernel{nullptr, record};
    const char *symbol = record->symbol()->c_str();
    Result result = device.driver().moduleGetFunction(&kernel.function, out.image.get(), symbol);
    if (result == NotFound) {
      return badFile(kernel.place() + ": the code has no symbol " + quoted(symbol));
    }
    if (Status s = device.driver().check(result, kernel.place())) {
      return s;
    }
    if (Status s = checkParameters(device.driver(), kernel, parameters[out.kernels.size()])) {
      return s;
    }
    if (Status s = prepareKernel(device, kernel)) {
      return s;
    }
    out.kernels.push_back(kernel);
  }
  return {};
}

} // namespace kimi::cuda
