//===- CpuTarget.h - may code for a CPU target run on this machine? ---------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CPU_CPUTARGET_H
#define KIMI_RUNTIME_CPU_CPUTARGET_H

#include "runtime/Status.h"

#include <string_view>

namespace kimi {

/// Checks a target of a module, "cpu:<name>" or "cpu:<name>:+feature,+feature", against this CPU. Levels x86-64 to
/// x86-64-v4 and the listed features are asked of the CPU; a name of a CPU model says nothing by itself.
/// Error: KIMI_UNSUPPORTED with what is missing.
Status checkCpuTarget(std::string_view target);

/// This machine's CPU: model, threads that this process may use, memory.
kimi_device_info describeCpu();

} // namespace kimi

#endif // KIMI_RUNTIME_CPU_CPUTARGET_H
