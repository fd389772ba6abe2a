//===- MemoryFile.h - bytes as a file that is nowhere on a disk
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TEST_FUZZ_MEMORYFILE_H
#define KIMI_TEST_FUZZ_MEMORYFILE_H

#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace kimi {

class MemoryFile {
public:
  MemoryFile(const uint8_t *bytes, size_t size) : descriptor(memfd_create("model.onnx", MFD_CLOEXEC)) {
    for (size_t done = 0; done < size;) {
      ssize_t count = write(descriptor, bytes + done, size - done);
      if (count <= 0) {
        std::abort();
      }
      done += static_cast<size_t>(count);
    }
  }
  ~MemoryFile() { close(descriptor); }
  MemoryFile(const MemoryFile &) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor); }

private:
  int descriptor;
};

} // namespace kimi

#endif // KIMI_TEST_FUZZ_MEMORYFILE_H
