//===- WeightFiles.h - maps the weights of a module -------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_WEIGHTFILES_H
#define KIMI_RUNTIME_WEIGHTFILES_H

#include "runtime/MappedFile.h"
#include "runtime/format/Verify.h"

#include <map>
#include <vector>

namespace kimi {

/// The weights of a module in memory: in the module's data segment, or in files beneath one folder, each mapped once.
class WeightFiles {
public:
  /// Maps every weight of the module. Nothing is read. Error: KIMI_NOT_FOUND for a file that is not there,
  /// KIMI_BAD_FILE for one that is too short or lies outside the folder.
  Status map(const format::Contents &contents, const std::string &folder);

  /// First byte of a weight. External weights have whatever alignment their file gives them.
  const uint8_t *data(size_t weight) const { return pointers[weight]; }
  const std::vector<const uint8_t *> &all() const { return pointers; }
  /// Gives back the memory of a weight's pages; they are read again when touched.
  void release(const fb::Weight &weight) const;

private:
  std::map<std::string, Mapping> files;
  std::vector<const uint8_t *> pointers;
};

} // namespace kimi

#endif // KIMI_RUNTIME_WEIGHTFILES_H
