//===- OpsElementwise.cpp - arithmetic, comparison, logic, selection
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/Elementwise.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

using Dims = ArrayRef<SymbolicDim>;
using Reals = ArrayRef<double>;
using Host = std::optional<SymbolicDim>;

/// Division of ONNX truncates toward zero.
static Host hostDiv(NodeOp, Dims x) {
  std::optional<int64_t> a = x[0].getConstant(), b = x[1].getConstant();
  if (a && b) {
    return *b == 0 ? Host() : *b == -1 ? Host(SymbolicDim(0) - x[0]) : Host(SymbolicDim(*a / *b));
  }
  if (std::optional<SymbolicDim> exact = SymbolicDim::divideExactly(x[0], x[1])) {
    return exact;
  }
  if (x[0].isKnownNonNegative() && x[1].isKnownNonNegative()) {
    return SymbolicDim::floorDiv(x[0], x[1]);
  }
  return std::nullopt;
}

static Host hostMod(NodeOp node, Dims x) {
  if (x[1].is(0)) {
    return std::nullopt;
  }
  if (node.getInt("fmod", 0) == 0) {
    return SymbolicDim::mod(x[0], x[1]);
  }
  std::optional<int64_t> a = x[0].getConstant(), b = x[1].getConstant();
  return a && b ? Host(*b == -1 ? 0 : *a % *b) : Host();
}

static Host hostPow(NodeOp, Dims x) {
  std::optional<int64_t> exponent = x[1].getConstant();
  if (!exponent || *exponent < 0 || *exponent > 62) {
    return std::nullopt;
  }
  SymbolicDim result(1);
  for (int64_t i = 0; i < *exponent; ++i) {
    result = result * x[0];
  }
  return result;
}

static SymbolicDim truth(const SymbolicDim &x) { return SymbolicDim(1) - SymbolicDim::eq(x, 0); }

void kimi::onnx::registerElementwiseOps(OpTable &table) {
  auto add = [&](ElementwiseOp op) { addElementwise(table, std::move(op)); };
  auto binary = [&](const char *name, int64_t since, unsigned kinds, EmitFn emit, HostFn host, RealFn real) {
    ElementwiseOp op{name, since, kinds};
    op.emit = std::move(emit);
    op.host = std::move(host);
    op.real = std::move(real);
    add(std::move(op));
  };
  auto compare = [&](const char *name, int64_t since, unsigned kinds, EmitFn emit, HostFn host, RealFn real) {
    ElementwiseOp op{name, since, kinds, /*toBool=*/true, /*exact=*/true};
    op.emit = std::move(emit);
    op.host = std::move(host);
    op.real = std::move(real);
    add(std::move(op));
  };

  binary("Add", 7, kNumber, nullptr, [](NodeOp, Dims x) -> Host { return x[0] + x[1]; },
         [](NodeOp, Reals x) { return x[0] + x[1]; });
  binary("Sub", 7, kNumber, nullptr, [](NodeOp, Dims x) -> Host { return x[0] - x[1]; },
         [](NodeOp, Reals x) { return x[0] - x[1]; });
  binary("Mul", 7, kNumber, nullptr, [](NodeOp, Dims x) -> Host { return x[0] * x[1]; },
         [](NodeOp, Reals x) { return x[0] * x[1]; });
  binary("Div", 7, kNumber, nullptr, hostDiv, [](NodeOp, Reals x) { return x[0] / x[1]; });
  binary("Mod", 10, kNumber, nullptr, hostMod, [](NodeOp, Reals x) { return std::fmod(x[0], x[1]); });
  binary("Pow", 7, kNumber, nullptr, hostPow, [](NodeOp, Reals x) { return std::pow(x[0], x[1]); });

  compare("Equal", 7, kAnyElement, nullptr, [](NodeOp, Dims x) -> Host { return SymbolicDim::eq(x[0], x[1]); },
          [](NodeOp, Reals x) { return x[0] == x[1] ? 1.0 : 0.0; });
  compare("Less", 9, kNumber, nullptr, [](NodeOp, Dims x) -> Host { return SymbolicDim::lt(x[0], x[1]); },
          [](NodeOp, Reals x) { return x[0] < x[1] ? 1.0 : 0.0; });
  compare("LessOrEqual", 12, kNumber, nullptr, [](NodeOp, Dims x) -> Host { return SymbolicDim::le(x[0], x[1]); },
          [](NodeOp, Reals x) { return x[0] <= x[1] ? 1.0 : 0.0; });
  compare("Greater", 9, kNumber, nullptr, [](NodeOp, Dims x) -> Host { return SymbolicDim::lt(x[1], x[0]); },
          [](NodeOp, Reals x) { return x[0] > x[1] ? 1.0 : 0.0; });
  compare("GreaterOrEqual", 12, kNumber, nullptr, [](NodeOp, Dims x) -> Host { return SymbolicDim::le(x[1], x[0]); },
          [](NodeOp, Reals x) { return x[0] >= x[1] ? 1.0 : 0.0; });
  compare("And", 7, kBool, nullptr, [](NodeOp, Dims x) -> Host { return x[0] * x[1]; }, nullptr);
  compare("Or", 7, kBool, nullptr, [](NodeOp, Dims x) -> Host { return x[0] + x[1] - x[0] * x[1]; }, nullptr);
  compare("Xor", 7, kBool, nullptr,
          [](NodeOp, Dims x) -> Host { return x[0] + x[1] - x[0] * x[1] * SymbolicDim(2); }, nullptr);
  compare("Not", 1, kBool, nullptr, [](NodeOp, Dims x) -> Host { return SymbolicDim(1) - x[0]; }, nullptr);

  ElementwiseOp where{"Where", 9, kAnyElement};
  where.exact = true;
  where.typeInput = 1;
  where.host = [](NodeOp, Dims x) -> Host { return SymbolicDim::select(truth(x[0]), x[1], x[2]); };
  where.real = [](NodeOp, Reals x) { return x[0] != 0 ? x[1] : x[2]; };
  add(std::move(where));

  auto fold = [&](const char *name, HostFn host, RealFn real, bool exact) {
    ElementwiseOp op{name, 8, kNumber};
    op.exact = exact;
    op.variadic = true;
    op.host = std::move(host);
    op.real = std::move(real);
    add(std::move(op));
  };
  fold("Max", [](NodeOp, Dims x) -> Host { return SymbolicDim::max(x[0], x[1]); },
       [](NodeOp, Reals x) { return std::isnan(x[0]) || x[0] > x[1] ? x[0] : x[1]; }, true);
  fold("Min", [](NodeOp, Dims x) -> Host { return SymbolicDim::min(x[0], x[1]); },
       [](NodeOp, Reals x) { return std::isnan(x[0]) || x[0] < x[1] ? x[0] : x[1]; }, true);
  fold("Sum", [](NodeOp, Dims x) -> Host { return x[0] + x[1]; }, [](NodeOp, Reals x) { return x[0] + x[1]; }, false);
}
