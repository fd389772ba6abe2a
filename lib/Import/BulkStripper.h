//===- BulkStripper.h - protobuf without its large tensor contents
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_IMPORT_BULKSTRIPPER_H
#define KIMI_LIB_IMPORT_BULKSTRIPPER_H

#include "lib/Import/ImportLimits.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace kimi {

/// Copies a serialized ModelProto, replacing each `TensorProto.raw_data` of more than kInlineConstantBytes by a
/// `segment` that holds its byte range in the file, and leaving out doc strings and metadata. So a file whose weights
/// are inside is parsed without loading them, and protobuf's limit of 2 GiB holds only for the rest.
class BulkStripper {
public:
  BulkStripper(llvm::StringRef file, const ImportLimits &limits) : file(file), limits(limits) {}

  /// False where the file is damaged; error() then says what and at which byte.
  bool run(std::string &out);
  const std::string &error() const { return problem; }
  /// The ranges left out: begin -> end.
  const llvm::DenseMap<uint64_t, uint64_t> &ranges() const { return bulk; }

private:
  enum class Message { Model, Graph, Node, Attribute, Function, Sparse, Tensor, Other };
  static Message child(Message parent, uint32_t field);
  /// Fields that say nothing about the computation, and are often most of the file.
  static bool isCommentary(Message parent, uint32_t field);
  bool copy(Message kind, llvm::StringRef body, unsigned depth, std::string &out);
  bool readVarint(llvm::StringRef body, size_t &pos, uint64_t &value);
  bool fail(llvm::StringRef body, size_t pos, const char *what);

  llvm::StringRef file;
  const ImportLimits &limits;
  std::string problem;
  uint64_t fields = 0;
  llvm::DenseMap<uint64_t, uint64_t> bulk;
};

} // namespace kimi

#endif // KIMI_LIB_IMPORT_BULKSTRIPPER_H
