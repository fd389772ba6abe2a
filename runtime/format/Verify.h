//===- Verify.h - checks a .kmod file before anything trusts it -------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_FORMAT_VERIFY_H
#define KIMI_RUNTIME_FORMAT_VERIFY_H

#include "runtime/Status.h"
#include "runtime/format/kmod_generated.h"

#include <cstdint>
#include <string_view>

namespace kimi::format {

/// The parts of a verified file; pointers into the file's bytes.
struct Contents {
  const fb::Module *module = nullptr;
  const uint8_t *data = nullptr;
  uint64_t dataLength = 0;
};

/// The entry that fills the derived buffers; it has no ports and no states.
constexpr std::string_view initEntryName = "init";

/// True where the target of an image says that it holds PTX text.
inline bool isPtx(std::string_view target) { return target.substr(0, 9) == "cuda:ptx:"; }

/// Most of anything a file may hold, so that a hostile one cannot make verification slow.
constexpr uint32_t maxEntries = 1024, maxVariants = 64, maxNameLength = 4096;

/// Checks the `size` bytes of a file at `file` (aligned to 64) and finds its parts. After success every index, enum,
/// rank, count, operand, offset and length of the table is within bounds, names that are looked up are unique, and the
/// checksums hold. What depends on run-time values (sizes, strides, guards) is checked by the session before a launch.
/// Error: KIMI_BAD_FILE with one line that says what is wrong and where.
Status verifyFile(const uint8_t *file, uint64_t size, Contents &out);

/// The second half of verifyFile: a table that passed the FlatBuffers verifier, with its data segment.
Status verifyModule(const Contents &contents);

} // namespace kimi::format

#endif // KIMI_RUNTIME_FORMAT_VERIFY_H
