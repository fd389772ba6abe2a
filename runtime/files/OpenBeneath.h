//===- OpenBeneath.h - files named by a file that is not trusted ------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_FILES_OPENBENEATH_H
#define KIMI_RUNTIME_FILES_OPENBENEATH_H

#include "runtime/Status.h"

#include <cstdint>
#include <string>

namespace kimi {

/// A file descriptor that closes itself.
class FileDescriptor {
public:
  explicit FileDescriptor(int descriptor = -1) : descriptor(descriptor) {}
  FileDescriptor(FileDescriptor &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return descriptor; }
  explicit operator bool() const { return descriptor >= 0; }

private:
  int descriptor;
};

/// A regular file, opened for reading, and its size in bytes.
struct OpenedFile {
  FileDescriptor file;
  uint64_t size = 0;
};

/// The folder at `path`, for openBeneath; none, with errno set, where it cannot be opened.
FileDescriptor openFolder(const char *path);

/// Opens the regular file `path` beneath `folder` for reading. Refused, whatever the folder holds: absolute paths,
/// "..", symbolic links anywhere on the way, files with a second name (a hard link may be to a file from outside the
/// folder), and whatever is no regular file. Error: KIMI_BAD_FILE for those, KIMI_NOT_FOUND, KIMI_RUNTIME_ERROR; the
/// message says what is wrong, to be put behind the path ("is an absolute path, ...").
Status openBeneath(const FileDescriptor &folder, const std::string &path, OpenedFile &out);

} // namespace kimi

#endif // KIMI_RUNTIME_FILES_OPENBENEATH_H
