//===- OpsEinsum.cpp - Einsum of one or two operands
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include <map>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {
/// An equation with its labels numbered: result labels first, summed labels after them. An ellipsis stands for labels
/// of its own, one for each axis that it covers.
struct Equation {
  SmallVector<SmallVector<int64_t>> inputs;
  Shape extents; // of every label
  int64_t outputs = 0;
};
} // namespace

static FailureOr<Equation> parse(InferContext &c) {
  std::string text;
  for (char ch : c.node.getString("equation", "")) {
    if (ch != ' ') {
      text += ch;
    }
  }
  size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  SmallVector<StringRef> terms;
  StringRef(left).split(terms, ',');
  if (terms.size() != c.numInputs() || terms.size() > 2) {
    return c.fail("equation '" + text + "' must have one term for each input, and at most two");
  }
  // Labels are letters; the axes of an ellipsis, counted from its end, are negative numbers.
  SmallVector<SmallVector<int64_t>> labels;
  std::map<int64_t, SymbolicDim> extents;
  std::map<int64_t, int> uses;
  int64_t widest = 0;
  auto read = [&](StringRef term, int64_t rank) -> FailureOr<SmallVector<int64_t>> {
    SmallVector<int64_t> result;
    size_t dots = term.find("...");
    int64_t named = static_cast<int64_t>(term.size()) - (dots == StringRef::npos ? 0 : 3);
    int64_t covered = rank < 0 ? widest : rank - named;
    if (covered < 0 || (dots == StringRef::npos && covered != 0 && rank >= 0)) {
      return c.fail("term '" + term + "' does not fit an input of rank " + Twine(rank));
    }
    for (size_t i = 0; i < term.size(); ++i) {
      if (i == dots) {
        for (int64_t axis = covered; axis > 0; --axis) {
          result.push_back(-axis);
        }
        i += 2;
      } else if (!std::isalpha(static_cast<unsigned char>(term[i]))) {
        return c.fail("term '" + term + "' holds '" + Twine(term[i]) + "'");
      } else {
        result.push_back(term[i]);
      }
    }
    return result;
  };
  for (auto [i, term] : llvm::enumerate(terms)) {
    FailureOr<SmallVector<int64_t>> axes = read(term, c.in(i).rank());
    if (failed(axes)) {
      return failure();
    }
    for (auto [axis, label] : llvm::enumerate(*axes)) {
      widest = std::max(widest, -label);
      ++uses[label];
      auto [at, isNew] = extents.try_emplace(label, c.shape(i)[axis]);
      if (!isNew) {
        c.broadcasts(c.shape(i)[axis], at->second);
        at->second = broadcastDim(at->second, c.shape(i)[axis]);
      }
    }
    labels.push_back(*axes);
  }
  SmallVector<int64_t> output;
  if (arrow != std::string::npos) {
    FailureOr<SmallVector<int64_t>> given = read(StringRef(text).drop_front(arrow + 2), -1);
    if (failed(given)) {
      return failure();
    }
    output = *given;
  } else {
    // Without an arrow: the ellipsis, then every letter that occurs once, in alphabetical order.
    for (const auto &[label, count] : uses) {
      if (label < 0 || count == 1) {
        output.push_back(label);
      }
    }
  }
  Equation equation;
  std::map<int64_t, int64_t> number;
  for (int64_t label : output) {
    if (!extents.count(label) || !number.try_emplace(label, number.size()).second) {
      return c.fail("the result of equation '" + text + "' has a label that no input has, or one twice");
    }
    equation.extents.push_back(extents.at(label));
  }
  equation.outputs = static_cast<int64_t>(output.size());
  for (const auto &[label, extent] : extents) {
    if (number.try_emplace(label, number.size()).second) {
      equation.extents.push_back(extent);
    }
  }
  for (const SmallVector<int64_t> &axes : labels) {
    SmallVector<int64_t> numbered;
    for (int64_t label : axes) {
      numbered.push_back(number.at(label));
    }
    equation.inputs.push_back(numbered);
  }
  return equation;
}

static LogicalResult inferEinsum(InferContext &c) {
  FailureOr<Equation> equation = parse(c);
  if (failed(equation)) {
    return failure();
  }
  Shape shape(ArrayRef<SymbolicDim>(equation->extents).take_front(equation->outputs));
  c.setOut(ValueInfo(c.in(0).elementType, shape));
  return success();
}

static LogicalResult buildEinsum(BuildContext &c) {
  Equation equation = *parse(c);
  size_t rank = equation.extents.size();
  Type type = c.result().elementType, sum = accumulatorType(type);
  const Shape &shape = *c.result().shape;
  SmallVector<Value> operands;
  SmallVector<AffineMap> maps;
  for (auto [i, axes] : llvm::enumerate(equation.inputs)) {
    Tensor x = c.input(i);
    Shape wanted = x.shape;
    SmallVector<AffineExpr> exprs;
    for (auto [axis, label] : llvm::enumerate(axes)) {
      const SymbolicDim &extent = equation.extents[label];
      bool repeats = x.shape[axis].is(1) && !extent.is(1);
      exprs.push_back(repeats ? c.b.getAffineConstantExpr(0) : c.b.getAffineDimExpr(label));
      if (!repeats && !x.shape[axis].isConstant()) {
        wanted[axis] = extent; // Where it is not known to be equal, it is broadcast first.
      }
    }
    operands.push_back(c.value(c.expand(x, wanted)));
    maps.push_back(AffineMap::get(rank, 0, exprs, c.b.getContext()));
  }
  SmallVector<AffineExpr> outputs;
  SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::reduction);
  for (int64_t i = 0; i < equation.outputs; ++i) {
    outputs.push_back(c.b.getAffineDimExpr(i));
    iterators[i] = utils::IteratorType::parallel;
  }
  maps.push_back(AffineMap::get(rank, 0, outputs, c.b.getContext()));
  Value zero = linalg::FillOp::create(c.b, c.loc, c.constant(storageType(sum), 0), c.empty(shape, sum)).getResult(0);
  auto generic = linalg::GenericOp::create(c.b, c.loc, TypeRange(zero.getType()), operands, ValueRange(zero), maps,
                                           iterators, [&](OpBuilder &b, Location loc, ValueRange e) {
                                             bool isFloat = isa<FloatType>(sum);
                                             Value term = widenElement(b, loc, e[0]);
                                             for (Value next : e.drop_front().drop_back()) {
                                               Value factor = widenElement(b, loc, next);
                                               term = isFloat ? arith::MulFOp::create(b, loc, term, factor).getResult()
                                                              : arith::MulIOp::create(b, loc, term, factor).getResult();
                                             }
                                             Value total =
                                                 isFloat ? arith::AddFOp::create(b, loc, e.back(), term).getResult()
                                                         : arith::AddIOp::create(b, loc, e.back(), term).getResult();
                                             linalg::YieldOp::create(b, loc, total);
                                           });
  c.give(c.cast(c.wrap(generic.getResult(0), shape, sum), type));
  return success();
}

void kimi::onnx::registerEinsumOps(OpTable &table) {
  table.add("Einsum", 12, inferEinsum, buildEinsum, "at most two operands");
}
