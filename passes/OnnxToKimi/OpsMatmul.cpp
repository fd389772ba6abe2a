//===- OpsMatmul.cpp - matrix products
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/OpUtils.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

static LogicalResult inferMatMul(InferContext &c) {
  ArrayRef<SymbolicDim> a = c.shape(0), b = c.shape(1);
  if (a.empty() || b.empty()) {
    return c.fail("an input is a scalar");
  }
  SymbolicDim inner = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (a.back().isConstant() && inner.isConstant() && a.back() != inner) {
    return c.fail("the inner extents " + a.back().str() + " and " + inner.str() + " differ");
  }
  Shape shape = broadcastShapes(a.size() < 2 ? ArrayRef<SymbolicDim>() : a.drop_back(2),
                                b.size() < 2 ? ArrayRef<SymbolicDim>() : b.drop_back(2));
  if (a.size() > 1) {
    shape.push_back(a[a.size() - 2]);
  }
  if (b.size() > 1) {
    shape.push_back(b.back());
  }
  c.setOut(ValueInfo(c.in(0).elementType, std::move(shape)));
  return success();
}

static LogicalResult inferGemm(InferContext &c) {
  ArrayRef<SymbolicDim> a = c.shape(0), b = c.shape(1);
  if (a.size() != 2 || b.size() != 2) {
    return c.fail("its inputs must be matrices");
  }
  SymbolicDim m = a[c.node.getInt("transA", 0) ? 1 : 0], n = b[c.node.getInt("transB", 0) ? 0 : 1];
  SymbolicDim ka = a[c.node.getInt("transA", 0) ? 0 : 1], kb = b[c.node.getInt("transB", 0) ? 1 : 0];
  if (ka.isConstant() && kb.isConstant() && ka != kb) {
    return c.fail("the inner extents " + ka.str() + " and " + kb.str() + " differ");
  }
  c.setOut(ValueInfo(c.in(0).elementType, {m, n}));
  return success();
}

void kimi::onnx::registerMatmulOps(OpTable &table) {
  table.add("MatMul", 1, inferMatMul, nullptr);
  table.add("Gemm", 7, inferGemm, nullptr);
}
