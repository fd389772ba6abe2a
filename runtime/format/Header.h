//===- Header.h - the first 48 bytes of a .kmod file ------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_FORMAT_HEADER_H
#define KIMI_RUNTIME_FORMAT_HEADER_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kimi::format {

constexpr char fileMagic[4] = {'K', 'M', 'O', 'D'};
/// Raised whenever a file of the old kind would be misread by a new runtime or the other way round.
constexpr uint32_t formatVersion = 2;
/// The table starts at a multiple of 64, the data segment at a multiple of a page, so that it can be mapped.
constexpr uint64_t tableAlignment = 64;
constexpr uint64_t dataAlignment = 4096;
/// Blobs start at multiples of this within the data segment.
constexpr uint64_t blobAlignment = 64;

/// Little-endian; offsets and lengths in bytes from the start of the file. The offset of an empty data segment means
/// nothing.
struct FileHeader {
  char magic[4];
  uint32_t version;
  uint64_t tableOffset, tableLength;
  uint64_t dataOffset, dataLength;
  uint64_t tableChecksum;
};
static_assert(sizeof(FileHeader) == 48, "the header is written to the file as it is");

/// A sum of `length` bytes that any damage to one 8-byte word changes, whatever its position. Finds accidents; no
/// protection against intent.
inline uint64_t checksum(const void *bytes, size_t length) {
  const uint8_t *p = static_cast<const uint8_t *>(bytes);
  uint64_t hash = 0x9e3779b97f4a7c15ull ^ length;
  auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0xff51afd7ed558ccdull; // odd: a bijection, so a changed word cannot vanish
    hash ^= hash >> 32;
  };
  for (; length >= 8; p += 8, length -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    mix(word);
  }
  uint64_t tail = 0;
  std::memcpy(&tail, p, length);
  mix(tail);
  return hash;
}

constexpr uint64_t alignTo(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// The header of a file laid out as header, padding, table (a finished FlatBuffer of `tableLength` bytes), padding,
/// data segment of `dataLength` bytes: what a writer puts first, and where it puts the rest.
inline FileHeader makeHeader(const void *table, uint64_t tableLength, uint64_t dataLength) {
  FileHeader header;
  std::memcpy(header.magic, fileMagic, sizeof(fileMagic));
  header.version = formatVersion;
  header.tableOffset = alignTo(sizeof(FileHeader), tableAlignment);
  header.tableLength = tableLength;
  header.dataOffset = alignTo(header.tableOffset + tableLength, dataAlignment);
  header.dataLength = dataLength;
  header.tableChecksum = checksum(table, tableLength);
  return header;
}

} // namespace kimi::format

#endif // KIMI_RUNTIME_FORMAT_HEADER_H
