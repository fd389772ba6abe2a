//===- RunArrays.h - one entry with arrays from files
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_RUNARRAYS_H
#define KIMI_TOOLS_KIMIRUN_RUNARRAYS_H

#include "tools/kimi-run/Model.h"
#include "tools/kimi-run/Options.h"
#include <iosfwd>

namespace kimi::run {

/// The entry of that name; for an empty name `main`, or the only one there is.
Status selectEntry(const Model &model, const std::string &name, const Entry *&entry);

/// Reads `NAME=file.npy` and `file.npz` arguments into the order of the entry's signature. Every input must be there
/// once, of the right dtype and rank. A single `file.npy` without a name serves an entry with one input.
Status readInputs(const Entry &entry, const std::vector<std::string> &arguments, std::vector<HostTensor> &inputs);

/// Runs the entry that --entry names. Outputs go where --output says; their shapes and ranges to `log`.
Status runArrays(Model &model, const Options &options, std::ostream &out, std::ostream &log);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_RUNARRAYS_H
