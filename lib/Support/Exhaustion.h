//===- Exhaustion.h - messages for what a process runs out of
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_SUPPORT_EXHAUSTION_H
#define KIMI_LIB_SUPPORT_EXHAUSTION_H

namespace kimi {

/// From now on, memory that is not to be had (by `new` or by LLVM's allocators) ends the process with status 1 and an
/// error of `tool`, a string that lives on, after temporary files are removed; and a file that reaches the limit of its
/// size is an error of the write rather than a signal.
void reportExhaustion(const char *tool);

} // namespace kimi

#endif // KIMI_LIB_SUPPORT_EXHAUSTION_H
