//===- Zip.cpp - zip archives in memory -------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/io/Zip.h"
#include "runtime/Text.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <zlib.h>

namespace kimi {
namespace {

constexpr uint32_t localMagic = 0x04034b50, centralMagic = 0x02014b50, endMagic = 0x06054b50;
constexpr uint32_t end64Magic = 0x06064b50, locator64Magic = 0x07064b50;
constexpr uint64_t localSize = 30, centralSize = 46, endSize = 22, end64Size = 56, locator64Size = 20;
constexpr uint16_t extra64Id = 1, needsVersion64 = 45, needsVersion20 = 20;
constexpr uint32_t max32 = 0xffffffffu;
/// Deflate cannot make more of a byte.
constexpr uint64_t largestRatio = 1032;

/// A run of bytes that is read little-endian; reads past the end give 0 and are remembered.
class Bytes {
public:
  Bytes(const uint8_t *data, uint64_t size) : data(data), size(size) {}
  template <typename T>
  T get(uint64_t offset) const {
    T value = 0;
    if (offset <= size && sizeof(T) <= size - offset) {
      std::memcpy(&value, data + offset, sizeof(T));
    }
    return value;
  }
  bool has(uint64_t offset, uint64_t length) const { return offset <= size && length <= size - offset; }

  const uint8_t *data;
  uint64_t size;
};

struct Directory {
  uint64_t offset, entries;
};

Status findDirectory(const Bytes &archive, Directory &out) {
  for (uint64_t back = endSize; back <= std::min<uint64_t>(archive.size, endSize + 0xffff); ++back) {
    uint64_t end = archive.size - back;
    if (archive.get<uint32_t>(end) != endMagic) {
      continue;
    }
    out = {archive.get<uint32_t>(end + 16), archive.get<uint16_t>(end + 10)};
    if (end >= locator64Size && archive.get<uint32_t>(end - locator64Size) == locator64Magic) {
      uint64_t end64 = archive.get<uint64_t>(end - locator64Size + 8);
      if (!archive.has(end64, end64Size) || archive.get<uint32_t>(end64) != end64Magic) {
        return badFile("zip64 directory is damaged");
      }
      out = {archive.get<uint64_t>(end64 + 48), archive.get<uint64_t>(end64 + 32)};
    }
    return {};
  }
  return badFile("is no zip archive, or is cut off");
}

/// Takes sizes and offset that do not fit 32 bits from the extra fields.
void readExtra64(const Bytes &archive, uint64_t begin, uint64_t length, ZipMember &member) {
  for (uint64_t at = begin; at + 4 <= begin + length;) {
    uint16_t id = archive.get<uint16_t>(at), size = archive.get<uint16_t>(at + 2);
    if (id == extra64Id) {
      uint64_t field = at + 4;
      for (uint64_t *value : {&member.size, &member.storedSize, &member.offset}) {
        if (*value == max32 && field + 8 <= at + 4 + size) {
          *value = archive.get<uint64_t>(field);
          field += 8;
        }
      }
    }
    at += 4 + uint64_t(size);
  }
}

template <typename T>
void append(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof(T));
}

} // namespace

Status listZip(const uint8_t *bytes, uint64_t archiveSize, std::vector<ZipMember> &out) {
  Bytes archive(bytes, archiveSize);
  Directory directory;
  if (Status s = findDirectory(archive, directory)) {
    return s;
  }
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (!archive.has(at, centralSize) || archive.get<uint32_t>(at) != centralMagic) {
      return badFile("zip directory entry " + std::to_string(i) + " is damaged");
    }
    uint64_t nameLength = archive.get<uint16_t>(at + 28), extraLength = archive.get<uint16_t>(at + 30);
    uint64_t commentLength = archive.get<uint16_t>(at + 32);
    if (!archive.has(at + centralSize, nameLength + extraLength + commentLength)) {
      return badFile("zip directory entry " + std::to_string(i) + " is cut off");
    }
    ZipMember member;
    member.name.assign(reinterpret_cast<const char *>(bytes) + at + centralSize, nameLength);
    if (archive.get<uint16_t>(at + 8) & 1) {
      return {KIMI_UNSUPPORTED, "member " + quoted(member.name) + " is encrypted"};
    }
    member.method = archive.get<uint16_t>(at + 10);
    member.crc = archive.get<uint32_t>(at + 16);
    member.storedSize = archive.get<uint32_t>(at + 20);
    member.size = archive.get<uint32_t>(at + 24);
    member.offset = archive.get<uint32_t>(at + 42);
    readExtra64(archive, at + centralSize + nameLength, extraLength, member);
    uint64_t local = member.offset;
    if (!archive.has(local, localSize) || archive.get<uint32_t>(local) != localMagic) {
      return badFile("member " + quoted(member.name) + " has no header where the directory says");
    }
    member.offset = local + localSize + archive.get<uint16_t>(local + 26) + archive.get<uint16_t>(local + 28);
    if (!archive.has(member.offset, member.storedSize)) {
      return badFile("member " + quoted(member.name) + " reaches past the end of the archive");
    }
    out.push_back(std::move(member));
    at += centralSize + nameLength + extraLength + commentLength;
  }
  return {};
}

static Status inflateMember(const uint8_t *input, const ZipMember &member, std::vector<uint8_t> &out) {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    return {KIMI_OUT_OF_MEMORY, "zlib cannot start"};
  }
  uint64_t consumed = 0, produced = 0;
  int result = Z_OK;
  while (result == Z_OK) { // zlib counts in 32 bits
    uInt inputNow = static_cast<uInt>(std::min<uint64_t>(member.storedSize - consumed, INT_MAX));
    uInt outputNow = static_cast<uInt>(std::min<uint64_t>(member.size - produced, INT_MAX));
    stream.next_in = const_cast<Bytef *>(input + consumed);
    stream.avail_in = inputNow;
    stream.next_out = out.data() + produced;
    stream.avail_out = outputNow;
    result = inflate(&stream, Z_NO_FLUSH);
    consumed += inputNow - stream.avail_in;
    produced += outputNow - stream.avail_out;
  }
  inflateEnd(&stream);
  return result == Z_STREAM_END && produced == member.size
             ? Status()
             : badFile("member " + quoted(member.name) + " cannot be unpacked; the archive is damaged");
}

Status readZipMember(const uint8_t *archive, const ZipMember &member, std::vector<uint8_t> &out) {
  const uint8_t *input = archive + member.offset;
  if (member.method == 0 && member.size == member.storedSize) {
    out.assign(input, input + member.size);
  } else if (member.method == 8 && member.size / largestRatio <= member.storedSize) {
    out.resize(member.size + 1); // a place to write even where nothing is expected
    if (Status s = inflateMember(input, member, out)) {
      return s;
    }
    out.resize(member.size);
  } else if (member.method == 0 || member.method == 8) {
    return badFile("member " + quoted(member.name) + " has an impossible size");
  } else {
    return {KIMI_UNSUPPORTED, "member " + quoted(member.name) + " is packed by method " +
                                  std::to_string(member.method) + "; stored and deflate can be read"};
  }
  if (crc32_z(0, out.data(), out.size()) != member.crc) {
    return badFile("member " + quoted(member.name) + " is damaged: its checksum is wrong");
  }
  return {};
}

void ZipWriter::put(const std::string &bytes) {
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  position += bytes.size();
}

void ZipWriter::add(const std::string &name, const std::vector<std::pair<const void *, uint64_t>> &parts) {
  uint64_t size = 0, start = position;
  uint32_t crc = 0;
  for (auto [data, length] : parts) {
    size += length;
    if (length != 0) {
      crc = static_cast<uint32_t>(crc32_z(crc, static_cast<const Bytef *>(data), length));
    }
  }
  bool isLarge = size >= max32 || start >= max32;
  // The fields that local and central headers share: version .. extra length.
  std::string extra, shared;
  if (isLarge) {
    append<uint16_t>(extra, extra64Id);
    append<uint16_t>(extra, 24);
    append<uint64_t>(extra, size);
    append<uint64_t>(extra, size);
    append<uint64_t>(extra, start);
  }
  uint32_t size32 = isLarge ? max32 : static_cast<uint32_t>(size);
  append<uint16_t>(shared, isLarge ? needsVersion64 : needsVersion20);
  append<uint16_t>(shared, 0);         // flags
  append<uint16_t>(shared, 0);         // stored
  append<uint32_t>(shared, 33u << 16); // 1980-01-01: the same input gives the same bytes
  append<uint32_t>(shared, crc);
  append<uint32_t>(shared, size32);
  append<uint32_t>(shared, size32);
  append<uint16_t>(shared, static_cast<uint16_t>(name.size()));
  append<uint16_t>(shared, static_cast<uint16_t>(extra.size()));

  std::string local;
  append<uint32_t>(local, localMagic);
  put(local + shared + name + extra);
  for (auto [data, length] : parts) {
    out.write(static_cast<const char *>(data), static_cast<std::streamsize>(length));
    position += length;
  }
  append<uint32_t>(directory, centralMagic);
  append<uint16_t>(directory, needsVersion64); // made by
  directory += shared;
  append<uint16_t>(directory, 0); // comment
  append<uint16_t>(directory, 0); // disk
  append<uint16_t>(directory, 0); // internal attributes
  append<uint32_t>(directory, 0600u << 16);
  append<uint32_t>(directory, isLarge ? max32 : static_cast<uint32_t>(start));
  directory += name + extra;
  ++members;
}

void ZipWriter::finish() {
  uint64_t start = position;
  put(directory);
  bool isLarge = start >= max32 || directory.size() >= max32 || members >= 0xffff;
  if (isLarge) {
    std::string end64;
    uint64_t at = position;
    append<uint32_t>(end64, end64Magic);
    append<uint64_t>(end64, end64Size - 12);
    append<uint16_t>(end64, needsVersion64);
    append<uint16_t>(end64, needsVersion64);
    append<uint32_t>(end64, 0);
    append<uint32_t>(end64, 0);
    append<uint64_t>(end64, members);
    append<uint64_t>(end64, members);
    append<uint64_t>(end64, directory.size());
    append<uint64_t>(end64, start);
    append<uint32_t>(end64, locator64Magic);
    append<uint32_t>(end64, 0);
    append<uint64_t>(end64, at);
    append<uint32_t>(end64, 1);
    put(end64);
  }
  std::string end;
  uint16_t count = static_cast<uint16_t>(isLarge ? 0xffff : members);
  append<uint32_t>(end, endMagic);
  append<uint16_t>(end, 0);
  append<uint16_t>(end, 0);
  append<uint16_t>(end, count);
  append<uint16_t>(end, count);
  append<uint32_t>(end, isLarge ? max32 : static_cast<uint32_t>(directory.size()));
  append<uint32_t>(end, isLarge ? max32 : static_cast<uint32_t>(start));
  append<uint16_t>(end, 0);
  put(end);
}

} // namespace kimi
