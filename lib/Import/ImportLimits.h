//===- ImportLimits.h - what the importer accepts at most
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_IMPORT_IMPORTLIMITS_H
#define KIMI_LIB_IMPORT_IMPORTLIMITS_H

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

/// Bytes of a model file apart from large tensor contents, doc strings and metadata; fields of its nodes, graphs and
/// tensors. A graph of a million nodes and half a million tensors takes about a fifth of either.
constexpr uint64_t kMaxStructureBytes = uint64_t(1) << 30;
constexpr uint64_t kMaxFields = uint64_t(1) << 26;
/// Nodes, value types and attributes after functions are inlined, and bytes of the names made for them.
constexpr uint64_t kMaxInlinedItems = uint64_t(1) << 23;
constexpr uint64_t kMaxInlinedNameBytes = uint64_t(1) << 30;
/// Subgraphs within subgraphs in the file, and subgraphs and function calls within each other while inlining.
constexpr unsigned kMaxFileNesting = 64;
constexpr unsigned kMaxInlineNesting = 256;
/// Extents of a tensor; elements of a tensor (dims product), counting an extent of 0 as 1.
constexpr int kMaxRank = 64;
constexpr int64_t kMaxElements = int64_t(1) << 56;
/// Sparse tensors are made dense up to this size.
constexpr uint64_t kMaxSparseBytes = uint64_t(64) << 20;
/// Of a file that holds the constant of an input.
constexpr uint64_t kMaxConstantFileBytes = uint64_t(64) << 20;

} // namespace kimi

#endif // KIMI_LIB_IMPORT_IMPORTLIMITS_H
