//===- ScalarProgram.cpp - polynomials as a program of slots
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Module/ScalarProgram.h"

using namespace kimi;

int32_t ScalarProgram::emit(fb::Scalar instruction, const std::string &text) {
  auto [it, inserted] = slots.try_emplace(text, static_cast<int32_t>(entry.scalars.size()));
  if (inserted) {
    entry.scalars.push_back(instruction);
    entry.scalarText.push_back(text);
  }
  return it->second;
}

int32_t ScalarProgram::binary(fb::ScalarOp op, int32_t a, int32_t b, const std::string &text) {
  return a < 0 || b < 0 ? -1 : emit(fb::Scalar(op, a, b, 0, 0), text);
}

int32_t ScalarProgram::emitAtom(const SymbolicDim::Atom &atom, const std::string &key) {
  using K = SymbolicDim::AtomKind;
  using Op = fb::ScalarOp;
  auto it = slots.find(key);
  if (it != slots.end()) {
    return it->second;
  }
  if (atom.kind == K::Symbol || atom.kind == K::Runtime) {
    if (std::optional<fb::Scalar> instruction = source(atom.name)) {
      return emit(*instruction, key);
    }
    missingAtom = atom.name;
    return -1;
  }
  int32_t operands[3] = {0, 0, 0};
  for (size_t i = 0; i < atom.operands.size(); ++i) {
    operands[i] = emit(atom.operands[i]);
    if (operands[i] < 0) {
      return -1;
    }
  }
  Op op = Op::FloorDiv;
  switch (atom.kind) {
  case K::FloorDiv:
    break;
  case K::CeilDiv:
    op = Op::CeilDiv;
    break;
  case K::Mod:
    op = Op::Mod;
    break;
  case K::Product:
    op = Op::Mul;
    break;
  case K::Min:
    op = Op::Min;
    break;
  case K::Max:
    op = Op::Max;
    break;
  case K::Eq:
    op = Op::Eq;
    break;
  case K::Lt:
    op = Op::Lt;
    break;
  case K::Select:
    op = Op::Select;
    break;
  case K::Symbol:
  case K::Runtime:
    return -1;
  }
  return emit(fb::Scalar(op, operands[0], operands[1], operands[2], 0), key);
}

int32_t ScalarProgram::emit(const SymbolicDim &dim) {
  auto known = slots.find(dim.str());
  if (known != slots.end()) {
    return known->second;
  }
  if (std::optional<int64_t> constant = dim.getConstant()) {
    return emit(fb::Scalar(fb::ScalarOp::Const, 0, 0, 0, *constant), dim.str());
  }
  int32_t sum = -1;
  for (const auto &[monomial, coefficient] : dim.terms()) {
    int32_t product = -1;
    SymbolicDim::Monomial done;
    std::string text;
    for (const auto &[key, power] : monomial) {
      int32_t factor = emitAtom(*dim.atom(key), key);
      if (factor < 0) {
        return -1;
      }
      for (int i = 0; i < power; ++i) {
        text = text.empty() ? key : text + "*" + key;
        product = product < 0 ? factor : binary(fb::ScalarOp::Mul, product, factor, text);
      }
    }
    std::string scaled = text;
    if (product < 0) {
      product = emit(SymbolicDim(coefficient));
    } else if (coefficient != 1) {
      scaled = std::to_string(coefficient) + "*" + text;
      product = binary(fb::ScalarOp::Mul, product, emit(SymbolicDim(coefficient)), scaled);
    }
    if (sum < 0) {
      sum = product;
    } else {
      sum = binary(fb::ScalarOp::Add, sum, product,
                   "(" + entry.scalarText[sum] + ") + (" + entry.scalarText[product] + ")");
    }
  }
  if (sum >= 0) {
    slots.try_emplace(dim.str(), sum);
  }
  return sum;
}
