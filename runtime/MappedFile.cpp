//===- MappedFile.cpp - files and memory mapped into the process ------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/MappedFile.h"
#include "runtime/Text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kimi {
namespace {

constexpr uint64_t pageSize = 4096, hugePageSize = 2 << 20;

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

Mapping::~Mapping() {
  if (start) {
    munmap(start, length);
  }
}

Status Mapping::ofFile(const FileDescriptor &file, Mapping &out) {
  struct stat info;
  if (fstat(file.get(), &info) != 0) {
    return {KIMI_RUNTIME_ERROR, std::string("cannot be examined: ") + std::strerror(errno)};
  }
  if (!S_ISREG(info.st_mode)) {
    return badFile("is not a regular file");
  }
  Mapping mapping;
  mapping.length = static_cast<uint64_t>(info.st_size);
  if (mapping.length != 0) {
    void *start = mmap(nullptr, mapping.length, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (start == MAP_FAILED) {
      return {KIMI_RUNTIME_ERROR, std::string("cannot be mapped: ") + std::strerror(errno)};
    }
    mapping.start = static_cast<uint8_t *>(start);
  }
  out = std::move(mapping);
  return {};
}

Status Mapping::ofPath(const std::string &path, Mapping &out) {
  FileDescriptor file(open(path.c_str(), readFlags));
  if (!file) {
    kimi_status code = errno == ENOENT || errno == ENOTDIR ? KIMI_NOT_FOUND : KIMI_RUNTIME_ERROR;
    return {code, std::string("cannot be opened: ") + std::strerror(errno)};
  }
  return ofFile(file, out);
}

Status Mapping::ofZeros(uint64_t size, Mapping &out) {
  Mapping mapping;
  if (size != 0) {
    void *start =
        size > INT64_MAX ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
      return {KIMI_OUT_OF_MEMORY, "no memory for " + std::to_string(size) + " bytes"};
    }
    mapping.start = static_cast<uint8_t *>(start);
    mapping.length = size;
    if (size >= 2 * hugePageSize) {
      madvise(start, size, MADV_HUGEPAGE); // packed weights are streamed: fewer TLB misses; a refusal is no harm
    }
  }
  out = std::move(mapping);
  return {};
}

void Mapping::release(uint64_t offset, uint64_t size) const {
  uint64_t first = (offset + pageSize - 1) / pageSize * pageSize, end = (offset + size) / pageSize * pageSize;
  if (start && first < end && end <= length) {
    madvise(start + first, end - first, MADV_DONTNEED);
  }
}

Status openBeneath(const FileDescriptor &folder, const std::string &path, FileDescriptor &out) {
  if (const char *reason = leavesFolder(path)) {
    return badFile(quoted(path) + " " + reason + ", which a module may not ask for");
  }
  struct open_how how = {};
  how.flags = readFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  int descriptor = static_cast<int>(syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof(how)));
  if (descriptor < 0 && (errno == ENOSYS || errno == EPERM || errno == E2BIG || errno == EINVAL)) {
    descriptor = openByComponents(folder.get(), path);
  }
  if (descriptor < 0) {
    if (errno == ELOOP || errno == EXDEV) {
      return badFile(quoted(path) + " goes through a symbolic link, which is refused; copy the file or pass the folder "
                                    "where it really is");
    }
    kimi_status code = errno == ENOENT || errno == ENOTDIR ? KIMI_NOT_FOUND : KIMI_RUNTIME_ERROR;
    return {code, quoted(path) + " cannot be opened: " + std::strerror(errno)};
  }
  out = FileDescriptor(descriptor);
  return {};
}

} // namespace kimi
