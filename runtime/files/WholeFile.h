//===- WholeFile.h - files that are written whole or not at all -------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_FILES_WHOLEFILE_H
#define KIMI_RUNTIME_FILES_WHOLEFILE_H

#include "runtime/Status.h"
#include "runtime/files/OpenBeneath.h"

#include <ostream>
#include <streambuf>
#include <string>

namespace kimi {

/// What to do about a write that failed with this errno: "; make room ...", or nothing where the reason says it all.
const char *adviceOnWriting(int error);

/// A file that is written under a temporary name beside its place and renamed at the end, so that no reader sees half
/// of it and a failure leaves the old one. What is no regular file (a device, a pipe) is written as it is.
class WholeFile : private std::streambuf {
public:
  explicit WholeFile(const std::string &path);
  ~WholeFile() override;
  WholeFile(const WholeFile &) = delete;

  /// Where the bytes go; not buffered, so whole pieces are best. Errors show in `finish`.
  std::ostream &stream() { return out; }

  /// Gives the file its name. Error: KIMI_RUNTIME_ERROR, "cannot be written: why", to be put behind the path; then
  /// nothing is left of it.
  Status finish();

private:
  int overflow(int c) override;
  std::streamsize xsputn(const char *bytes, std::streamsize count) override;

  std::string path, temporary; // temporary: empty where there is none
  FileDescriptor file;
  int error = 0; // the first errno
  std::ostream out;
};

} // namespace kimi

#endif // KIMI_RUNTIME_FILES_WHOLEFILE_H
