//===- OpenBeneath.cpp - files named by a file that is not trusted ----------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/files/OpenBeneath.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string_view>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kimi {
namespace {

/// O_NONBLOCK: a FIFO in place of a file must not hang us before we see what it is.
constexpr int readFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

/// Why a path cannot be beneath a folder, or nothing.
const char *leavesFolder(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos) {
    return "is no file name";
  }
  if (path[0] == '/') {
    return "is an absolute path";
  }
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..") {
      return "leaves its folder by '..'";
    }
    begin = end + 1;
  }
  return nullptr;
}

/// The same by hand, a component at a time, for systems without openat2.
int openByComponents(int folder, const std::string &path) {
  FileDescriptor current;
  for (size_t begin = 0;;) {
    size_t end = std::min(path.find('/', begin), path.size());
    bool last = end == path.size();
    std::string component = path.substr(begin, end - begin);
    int from = current ? current.get() : folder;
    int next =
        openat(from, component.empty() ? "." : component.c_str(), readFlags | O_NOFOLLOW | (last ? 0 : O_DIRECTORY));
    if (next < 0) {
      if (errno == ENOTDIR && !last) { // a link in the middle is reported as "not a directory"
        struct stat info;
        errno = fstatat(from, component.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode) ? ELOOP
                                                                                                           : ENOTDIR;
      }
      return -1;
    }
    if (last) {
      return next;
    }
    current = FileDescriptor(next);
    begin = end + 1;
  }
}

} // namespace

FileDescriptor::~FileDescriptor() {
  if (descriptor >= 0) {
    close(descriptor);
  }
}

FileDescriptor openFolder(const char *path) { return FileDescriptor(open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)); }

Status openBeneath(const FileDescriptor &folder, const std::string &path, OpenedFile &out) {
  if (const char *reason = leavesFolder(path)) {
    return badFile(std::string(reason) + "; files must lie beneath the model's folder");
  }
  struct open_how how = {};
  how.flags = readFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  FileDescriptor file(static_cast<int>(syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof(how))));
  if (!file && (errno == ENOSYS || errno == EPERM || errno == E2BIG || errno == EINVAL)) {
    file = FileDescriptor(openByComponents(folder.get(), path));
  }
  if (!file) {
    if (errno == ELOOP || errno == EXDEV) {
      return badFile(
          "goes through a symbolic link, which is refused; copy the file, or name the folder where it really is");
    }
    kimi_status code = errno == ENOENT || errno == ENOTDIR ? KIMI_NOT_FOUND : KIMI_RUNTIME_ERROR;
    return {code, std::string("cannot be opened: ") + std::strerror(errno)};
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0) {
    return {KIMI_RUNTIME_ERROR, std::string("cannot be examined: ") + std::strerror(errno)};
  }
  if (!S_ISREG(info.st_mode)) {
    return badFile("is not a regular file");
  }
  if (info.st_nlink > 1) {
    return badFile("has " + std::to_string(info.st_nlink) +
                   " names (hard links), of which one may lie elsewhere, which is refused; copy the file");
  }
  out.file = std::move(file);
  out.size = static_cast<uint64_t>(info.st_size);
  return {};
}

} // namespace kimi
