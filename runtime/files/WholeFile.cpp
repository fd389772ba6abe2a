//===- WholeFile.cpp - files that are written whole or not at all -----------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/files/WholeFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

namespace kimi {

const char *adviceOnWriting(int error) {
  switch (error) {
  case ENOSPC:
  case EDQUOT:
    return "; make room there, or name another place";
  case EFBIG:
    return "; raise the limit of file sizes (ulimit -f)";
  case EROFS:
  case EACCES:
  case EPERM:
    return "; name a folder that can be written";
  default:
    return "";
  }
}

WholeFile::WholeFile(const std::string &path) : path(path), out(this) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    file = FileDescriptor(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  } else {
    std::random_device random;
    do { // a name that nobody has: it may be a folder that others write to
      temporary = path + "." + std::to_string(random()) + ".tmp";
      file = FileDescriptor(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    } while (!file && errno == EEXIST);
  }
  if (!file) {
    error = errno;
    temporary.clear();
    out.setstate(std::ios::badbit);
  }
}

WholeFile::~WholeFile() {
  if (!temporary.empty()) {
    unlink(temporary.c_str());
  }
}

int WholeFile::overflow(int c) {
  char byte = static_cast<char>(c);
  return c == EOF || xsputn(&byte, 1) == 1 ? 0 : EOF;
}

std::streamsize WholeFile::xsputn(const char *bytes, std::streamsize count) {
  std::streamsize done = 0;
  while (error == 0 && done < count) {
    ssize_t written = write(file.get(), bytes + done, static_cast<size_t>(count - done));
    if (written >= 0) {
      done += written;
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  return done;
}

Status WholeFile::finish() {
  if (error == 0 && !temporary.empty()) {
    if (rename(temporary.c_str(), path.c_str()) == 0) {
      temporary.clear();
    } else {
      error = errno;
    }
  }
  if (error == 0) {
    return {};
  }
  return {KIMI_RUNTIME_ERROR, std::string("cannot be written: ") + std::strerror(error) + adviceOnWriting(error)};
}

} // namespace kimi
