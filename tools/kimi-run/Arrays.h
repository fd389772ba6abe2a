//===- Arrays.h - tensors in .npy and .npz files
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_ARRAYS_H
#define KIMI_TOOLS_KIMIRUN_ARRAYS_H

#include "runtime/Status.h"
#include "tools/kimi-run/HostTensor.h"
#include <string>
#include <utility>
#include <vector>

namespace kimi::run {

using NamedTensors = std::vector<std::pair<std::string, HostTensor>>;

/// Reads an .npz (all its arrays) or an .npy (one array, with an empty name).
Status readArrays(const std::string &path, NamedTensors &out);

/// Writes an .npz, an .npy where `path` ends so (exactly one tensor), or a folder with one .npy a tensor.
Status writeArrays(const std::string &path, const NamedTensors &tensors);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_ARRAYS_H
