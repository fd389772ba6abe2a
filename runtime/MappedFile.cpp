//===- MappedFile.cpp - files and memory mapped into the process ------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/MappedFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace kimi {
namespace {

constexpr uint64_t pageSize = 4096, hugePageSize = 2 << 20;

/// O_NONBLOCK: a FIFO in place of a file must not hang us before we see what it is.
constexpr int readFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

} // namespace

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

} // namespace kimi
