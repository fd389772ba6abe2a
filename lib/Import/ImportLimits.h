//===- ImportLimits.h - what the importer accepts at most
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_IMPORT_IMPORTLIMITS_H
#define KIMI_LIB_IMPORT_IMPORTLIMITS_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>

namespace kimi {

/// Opsets of the default domain, and versions of the file format, that are understood.
constexpr int64_t kMinOpset = 1, kMaxOpset = 28;
constexpr int64_t kMinIrVersion = 3, kMaxIrVersion = 14;
/// The one version of the com.microsoft domain.
constexpr int64_t kMicrosoftOpset = 1;

/// Tensors of at most this many bytes become `onnx.constant`; so do integer and boolean tensors of at most
/// kInlineIntegers elements, since shapes are computed from them. Others become `kimi.weight`.
constexpr uint64_t kInlineConstantBytes = 4096;
constexpr int64_t kInlineIntegers = 1024;

/// What a model may ask for at most. Each is a flag of kimi-compile (see importLimits), so that a larger model of one's
/// own can be let through, and a stranger's held to less.
struct ImportLimits {
  /// Bytes of the model file, tensor contents included. It is mapped, not read.
  uint64_t fileBytes = uint64_t(1) << 44;
  /// Bytes of it apart from large tensor contents, doc strings and metadata; fields of its nodes, graphs and tensors. A
  /// graph of a million nodes and half a million tensors takes about a fifth of either.
  uint64_t structureBytes = uint64_t(1) << 30;
  uint64_t fields = uint64_t(1) << 26;
  /// Subgraphs within subgraphs in the file.
  uint64_t nesting = 64;
  /// Subgraphs and function calls within each other while functions are inlined.
  uint64_t depth = 256;
  /// Nodes, value types and attributes after functions are inlined.
  uint64_t nodes = uint64_t(1) << 23;
  /// Tensors that graphs hold, sparse ones included.
  uint64_t initializers = uint64_t(1) << 22;
  /// Bytes of one name with what its functions put before it, and of the names made for inlined nodes together.
  uint64_t nameBytes = uint64_t(1) << 20;
  uint64_t allNameBytes = uint64_t(1) << 30;
  /// Extents of a tensor; elements of a tensor (product of its extents, in 128 bits), counting an extent of 0 as 1.
  uint64_t rank = 64;
  uint64_t elements = uint64_t(1) << 56;
  /// Sparse tensors are made dense up to this size.
  uint64_t sparseBytes = uint64_t(64) << 20;
  /// Of a file that holds the constant of an input.
  uint64_t constantBytes = uint64_t(64) << 20;
  /// Files that tensors name as external data.
  uint64_t externalFiles = uint64_t(1) << 16;
};

/// A limit by name: `--max-<name>` sets it, to `ceiling` at most, beyond which the importer's own arithmetic or stack
/// would not hold.
struct ImportLimit {
  const char *name;
  const char *description;
  uint64_t ImportLimits::*value;
  uint64_t ceiling;
};
llvm::ArrayRef<ImportLimit> importLimits();

} // namespace kimi

#endif // KIMI_LIB_IMPORT_IMPORTLIMITS_H
