//===- Device.cpp - where a module runs -------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Device.h"
#include "runtime/Checked.h"
#include "runtime/Dtype.h"
#include "runtime/Text.h"
#include "runtime/format/Header.h"

#include <algorithm>

namespace kimi {

std::string DeviceId::text() const {
  return kind == Kind::Cpu ? std::string("cpu") : "cuda:" + std::to_string(ordinal);
}

Status parseDevice(std::string_view text, DeviceId &out) {
  if (text == "cpu" || text == "cuda") {
    out = {text == "cpu" ? DeviceId::Kind::Cpu : DeviceId::Kind::Cuda, 0};
    return {};
  }
  std::string_view digits = text.substr(0, 5) == "cuda:" ? text.substr(5) : std::string_view();
  bool isNumber = !digits.empty() && digits.size() <= 4 &&
                  std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!isNumber) {
    return invalidArgument("there is no device " + quoted(text) + "; write cpu, cuda, or cuda:1 for the second GPU");
  }
  out = {DeviceId::Kind::Cuda, static_cast<int32_t>(std::stol(std::string(digits)))};
  return {};
}

Status chooseDevice(const char *asked, std::string_view target, DeviceId &out) {
  std::string_view kind = target.substr(0, target.find(':'));
  if (kind != "cpu" && kind != "cuda") {
    return {KIMI_UNSUPPORTED,
            "the module is compiled for " + quoted(target) + "; this runtime has the devices 'cpu' and 'cuda'"};
  }
  if (!asked || !*asked) {
    return parseDevice(kind, out);
  }
  if (Status s = parseDevice(asked, out)) {
    return s;
  }
  if ((out.kind == DeviceId::Kind::Cpu) == (kind == "cpu")) {
    return {};
  }
  return {KIMI_UNSUPPORTED, "the module is compiled for " + quoted(target) + " and cannot run on " +
                                quoted(out.text()) + "; compile it with " +
                                (kind == "cpu" ? "--target=cuda:sm_90a (or what the GPU is)" : "--target=cpu")};
}

Status runInit(const Plan &init, const Program &program, Executor &executor) {
  Environment environment;
  environment.derivedExtents = &program.derivedExtents();
  Frame frame(init);
  if (Status s = frame.prepare(environment, nullptr, 0)) {
    return s;
  }
  return executor.run(frame, nullptr, nullptr);
}

Status layOutDerived(const fb::Module &module, uint64_t alignment, std::vector<Extent> &extents, uint64_t &total) {
  total = 0;
  if (!module.derived()) {
    return {};
  }
  for (const fb::Derived *derived : *module.derived()) {
    uint64_t bytes = *denseBytes(derived->dims()->data(), derived->dims()->size(), dtypeSize(derived->dtype()));
    extents.push_back({total, bytes});
    total = format::alignTo(total + bytes, alignment);
    if (total > INT64_MAX) {
      return {KIMI_OUT_OF_MEMORY, "the derived buffers pass 63 bits"};
    }
  }
  return {};
}

std::vector<bool> weightsInUse(const fb::Module &module) {
  std::vector<bool> isUsed(module.weights() ? module.weights()->size() : 0);
  if (!module.entries()) {
    return isUsed;
  }
  for (const fb::Entry *entry : *module.entries()) {
    if (entry->name()->string_view() == format::initEntryName || !entry->buffers()) {
      continue;
    }
    for (const fb::Buffer *buffer : *entry->buffers()) {
      if (buffer->kind() == fb::BufferKind::Weight) {
        isUsed[buffer->index()] = true;
      }
    }
  }
  return isUsed;
}

} // namespace kimi
