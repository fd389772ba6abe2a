//===- StoredWeight.cpp - triangular masks stored as weights
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/StoredWeight.h"
#include "dialects/Kimi/KimiDialect.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

static constexpr int64_t kMaxRows = 4096;

/// Reads the triangle through `at(flat index)`, row-major.
static std::optional<Triangle> findTriangle(int64_t rows, llvm::function_ref<double(int64_t)> at) {
  Triangle triangle{at(0), at(1)};
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < rows; ++column) {
      double expected = column <= row ? triangle.below : triangle.above;
      if (at(row * rows + column) != expected) {
        return std::nullopt;
      }
    }
  }
  return triangle;
}

std::optional<Triangle> onnx::readTriangle(Value value, DenseElementsAttr elements, StringRef modelDir) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || type.getRank() < 2) {
    return std::nullopt;
  }
  int64_t rows = type.getDimSize(type.getRank() - 1);
  if (rows < 2 || rows > kMaxRows || type.getNumElements() != rows * rows ||
      type.getDimSize(type.getRank() - 2) != rows) {
    return std::nullopt;
  }
  Type element = type.getElementType();
  if (elements && isa<FloatType>(element)) {
    auto values = elements.getValues<APFloat>();
    return findTriangle(rows, [&](int64_t i) { return values[i].convertToDouble(); });
  }
  if (elements && isa<IntegerType>(element)) {
    auto values = elements.getValues<APInt>();
    bool isBool = element.isInteger(1);
    return findTriangle(
        rows, [&](int64_t i) -> double { return isBool ? values[i].getZExtValue() : values[i].getSExtValue(); });
  }
  auto reference = value.getDefiningOp<WeightRefOp>();
  auto weight =
      reference ? SymbolTable::lookupNearestSymbolFrom<WeightOp>(reference, reference.getWeightAttr()) : WeightOp();
  auto external = weight ? dyn_cast<ExternalAttr>(weight.getSource()) : ExternalAttr();
  bool isByte = element.isInteger(1) || element.isInteger(8);
  if (!external || modelDir.empty() || !(isByte || element.isF32()) ||
      external.getLength() != static_cast<uint64_t>(rows * rows) * (isByte ? 1 : 4)) {
    return std::nullopt;
  }
  llvm::SmallString<128> path(modelDir);
  llvm::sys::path::append(path, external.getFile().getValue());
  auto buffer = llvm::MemoryBuffer::getFileSlice(path, external.getLength(), external.getOffset());
  if (!buffer || (*buffer)->getBufferSize() != external.getLength()) {
    return std::nullopt; // the loader reports files that are missing
  }
  const char *bytes = (*buffer)->getBufferStart();
  return findTriangle(rows, [&](int64_t i) -> double {
    if (isByte) {
      return static_cast<unsigned char>(bytes[i]);
    }
    return llvm::bit_cast<float>(llvm::support::endian::read32le(bytes + 4 * i));
  });
}
