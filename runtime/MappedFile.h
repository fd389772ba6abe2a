//===- MappedFile.h - files and memory mapped into the process --------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_MAPPEDFILE_H
#define KIMI_RUNTIME_MAPPEDFILE_H

#include "runtime/Status.h"
#include "runtime/files/OpenBeneath.h"

#include <cstdint>
#include <string>

namespace kimi {

/// Bytes mapped into memory: a file (read-only) or fresh zeros (writable), unmapped at the end. Page-aligned.
class Mapping {
public:
  Mapping() = default;
  Mapping(Mapping &&other) noexcept
      : start(std::exchange(other.start, nullptr)), length(std::exchange(other.length, 0)) {}
  Mapping &operator=(Mapping &&other) noexcept {
    std::swap(start, other.start);
    std::swap(length, other.length);
    return *this;
  }
  ~Mapping();

  /// Maps a whole regular file. Error: KIMI_BAD_FILE for anything else than a regular file, KIMI_RUNTIME_ERROR.
  static Status ofFile(const FileDescriptor &file, Mapping &out);
  /// Opens and maps the file at `path`. Error: KIMI_NOT_FOUND as well.
  static Status ofPath(const std::string &path, Mapping &out);
  /// Reserves `size` bytes of zeros; a page costs memory when it is first written. Error: KIMI_OUT_OF_MEMORY.
  static Status ofZeros(uint64_t size, Mapping &out);

  uint8_t *data() const { return start; }
  uint64_t size() const { return length; }
  /// Lets the system take back the resident pages that lie wholly within these bytes; a file's are read again when
  /// they are touched.
  void release(uint64_t offset, uint64_t size) const;

private:
  uint8_t *start = nullptr;
  uint64_t length = 0;
};

} // namespace kimi

#endif // KIMI_RUNTIME_MAPPEDFILE_H
