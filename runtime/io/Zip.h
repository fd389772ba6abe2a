//===- Zip.h - zip archives in memory ---------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_IO_ZIP_H
#define KIMI_RUNTIME_IO_ZIP_H

#include "runtime/Status.h"

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace kimi {

/// A file of an archive. `offset` and `storedSize` are checked to lie within the archive.
struct ZipMember {
  std::string name;
  uint16_t method; // 0: stored, 8: deflate
  uint32_t crc;
  uint64_t offset, storedSize, size; // bytes
};

/// Lists the central directory (zip64 too). Error: KIMI_BAD_FILE; KIMI_UNSUPPORTED for encryption.
Status listZip(const uint8_t *archive, uint64_t archiveSize, std::vector<ZipMember> &out);

/// Unpacks a member and checks its sum. Error: KIMI_BAD_FILE, KIMI_UNSUPPORTED for another method.
Status readZipMember(const uint8_t *archive, const ZipMember &member, std::vector<uint8_t> &out);

/// Writes an archive front to back, members stored as they are.
class ZipWriter {
public:
  explicit ZipWriter(std::ostream &out) : out(out) {}
  /// Adds a member that is `parts` one after the other.
  void add(const std::string &name, const std::vector<std::pair<const void *, uint64_t>> &parts);
  /// Writes the central directory.
  void finish();

private:
  void put(const std::string &bytes);

  std::ostream &out;
  uint64_t position = 0;
  std::string directory;
  uint64_t members = 0;
};

} // namespace kimi

#endif // KIMI_RUNTIME_IO_ZIP_H
