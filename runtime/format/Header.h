//===- Header.h - the first 40 bytes of a .kmod file ------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_FORMAT_HEADER_H
#define KIMI_RUNTIME_FORMAT_HEADER_H

#include <cstddef>
#include <cstdint>

namespace kimi::format {

constexpr char fileMagic[4] = {'K', 'M', 'O', 'D'};
/// Raised whenever a file of the old kind would be misread by a new runtime or the other way round.
constexpr uint32_t formatVersion = 1;
/// The table starts at a multiple of 64, the data segment at a multiple of a page, so that it can be mapped.
constexpr uint64_t tableAlignment = 64;
constexpr uint64_t dataAlignment = 4096;
/// Blobs of weights start at multiples of this within the data segment.
constexpr uint64_t blobAlignment = 64;

/// Little-endian, offsets and lengths in bytes from the start of the file. An empty data segment has length 0 and any
/// aligned offset up to the end of the file rounded up.
struct FileHeader {
  char magic[4];
  uint32_t version;
  uint64_t tableOffset, tableLength;
  uint64_t dataOffset, dataLength;
};
static_assert(sizeof(FileHeader) == 40, "the header is written to the file as it is");

} // namespace kimi::format

#endif // KIMI_RUNTIME_FORMAT_HEADER_H
