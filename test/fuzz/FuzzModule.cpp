//===- FuzzModule.cpp - any bytes as a .kmod file
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/Header.h"
#include "runtime/format/Verify.h"
#include <cstdlib>
#include <cstring>

using namespace kimi;

/// The bytes as they are, then with a header and a checksum that fit them, so that changes of the table get past those.
/// At an address as aligned as that of a mapped file, of that size exactly.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  void *memory = nullptr;
  if (size == 0 || posix_memalign(&memory, format::tableAlignment, size) != 0) {
    return 0;
  }
  auto *file = static_cast<uint8_t *>(memory);
  std::memcpy(file, bytes, size);
  format::Contents contents;
  (void)static_cast<bool>(format::verifyFile(file, size, contents));
  if (size >= sizeof(format::FileHeader)) {
    format::FileHeader header;
    std::memcpy(&header, file, sizeof(header));
    std::memcpy(header.magic, format::fileMagic, sizeof(header.magic));
    header.version = format::formatVersion;
    if (header.tableOffset <= size && header.tableLength <= size - header.tableOffset) {
      header.tableChecksum = format::checksum(file + header.tableOffset, header.tableLength);
    }
    std::memcpy(file, &header, sizeof(header));
    Status status = format::verifyFile(file, size, contents);
    if (status && status.message().empty()) {
      __builtin_trap(); // refused without a reason
    }
  }
  std::free(memory);
  return 0;
}
