//===- Formula.cpp - the value of one tensor element as a formula of its indices
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/Formula.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <cstdio>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;
using Kind = Formula::Kind;

static FormulaRef make(Kind kind, std::string text, SymbolicDim dim = 0, double real = 0.0,
                       std::vector<FormulaRef> args = {}, Value tensor = {}) {
  return std::make_shared<Formula>(Formula{kind, std::move(dim), real, tensor, std::move(args), std::move(text)});
}

static std::string call(StringRef name, const std::vector<FormulaRef> &args) {
  std::string text = name.str() + "(";
  for (const FormulaRef &arg : args) {
    text += arg->text + ",";
  }
  return text + ")";
}

std::optional<double> Formula::constant() const {
  if (kind == Kind::Real) {
    return real;
  }
  std::optional<int64_t> known = kind == Kind::Int ? dim.getConstant() : std::nullopt;
  return known ? std::optional<double>(static_cast<double>(*known)) : std::nullopt;
}

namespace {
/// Replaces the named dim `name`. What an expression holds several times is visited once.
class Substitution {
public:
  Substitution(const std::string &name, const SymbolicDim &by) : name(name), by(by) {}

  std::optional<SymbolicDim> in(const SymbolicDim &dim) {
    SymbolicDim result(0);
    for (const auto &[monomial, coefficient] : dim.terms()) {
      SymbolicDim term(coefficient);
      for (const auto &[key, power] : monomial) {
        auto [it, inserted] = known.try_emplace(key);
        if (inserted) {
          std::optional<SymbolicDim> replaced = inAtom(dim.atom(key));
          known[key] = replaced;
        }
        const std::optional<SymbolicDim> &factor = known[key];
        if (!factor) {
          return std::nullopt;
        }
        for (int i = 0; i < power; ++i) {
          term = term * *factor;
        }
      }
      result = result + term;
    }
    return result;
  }

private:
  std::optional<SymbolicDim> inAtom(const SymbolicDim::AtomRef &atom) {
    using AtomKind = SymbolicDim::AtomKind;
    if (!atom) {
      return std::nullopt;
    }
    std::vector<SymbolicDim> operands;
    for (const SymbolicDim &operand : atom->operands) {
      std::optional<SymbolicDim> replaced = in(operand);
      if (!replaced) {
        return std::nullopt;
      }
      operands.push_back(*replaced);
    }
    switch (atom->kind) {
    case AtomKind::Symbol:
      return atom->name == name ? by : SymbolicDim::opaque(atom->name);
    case AtomKind::Runtime:
      return SymbolicDim::runtime(atom->name);
    case AtomKind::FloorDiv:
      return SymbolicDim::floorDiv(operands[0], operands[1]);
    case AtomKind::CeilDiv:
      return SymbolicDim::ceilDiv(operands[0], operands[1]);
    case AtomKind::Mod:
      return SymbolicDim::mod(operands[0], operands[1]);
    case AtomKind::Min:
      return SymbolicDim::min(operands[0], operands[1]);
    case AtomKind::Max:
      return SymbolicDim::max(operands[0], operands[1]);
    case AtomKind::Eq:
      return SymbolicDim::eq(operands[0], operands[1]);
    case AtomKind::Lt:
      return SymbolicDim::lt(operands[0], operands[1]);
    case AtomKind::Select:
      return SymbolicDim::select(operands[0], operands[1], operands[2]);
    case AtomKind::Product:
      return operands[0] * operands[1];
    }
    return std::nullopt;
  }

  const std::string &name;
  const SymbolicDim &by;
  std::map<std::string, std::optional<SymbolicDim>> known;
};
} // namespace

std::optional<SymbolicDim> onnx::substitute(const SymbolicDim &dim, const std::string &name, const SymbolicDim &by) {
  return Substitution(name, by).in(dim);
}

SymbolicDim onnx::assumeCovered(const SymbolicDim &dim) {
  for (const auto &[monomial, coefficient] : dim.terms()) {
    SymbolicDim::AtomRef atom = monomial.size() == 1 ? dim.atom(monomial.begin()->first) : nullptr;
    if (!atom || atom->kind != SymbolicDim::AtomKind::Min || monomial.begin()->second != 1) {
      continue;
    }
    for (unsigned side : {0u, 1u}) {
      std::optional<int64_t> rows = atom->operands[side].getConstant();
      if (rows && *rows >= 2) {
        SymbolicDim covered = SymbolicDim::min(atom->operands[0], atom->operands[1]);
        SymbolicDim replaced = dim + (atom->operands[1 - side] - covered) * SymbolicDim(coefficient);
        return replaced == dim ? dim : assumeCovered(replaced);
      }
    }
  }
  return dim;
}

SymbolicDim Formulas::variable(const std::string &name, const SymbolicDim &extent) {
  extents.insert_or_assign(name, extent);
  return SymbolicDim::opaque(name);
}

bool Formulas::isNonNegative(SymbolicDim dim) const {
  if (dim.isKnownNonNegative()) {
    return true;
  }
  // A variable that only lowers the value takes its largest value, extent - 1.
  for (const auto &[name, extent] : extents) {
    std::string key = SymbolicDim::opaque(name).str();
    int64_t coefficient = 0;
    for (const auto &[monomial, factor] : dim.terms()) {
      if (!monomial.count(key)) {
        continue;
      }
      coefficient = monomial.size() == 1 && monomial.begin()->second == 1 ? factor : 0;
      if (coefficient >= 0) {
        break;
      }
    }
    if (coefficient >= 0) {
      continue;
    }
    if (std::optional<SymbolicDim> lowered = substitute(dim, name, extent - 1)) {
      dim = *lowered;
    }
  }
  return dim.isKnownNonNegative();
}

FormulaRef Formulas::integer(const SymbolicDim &dim) const { return make(Kind::Int, dim.str(), dim); }

FormulaRef Formulas::number(double value) const {
  constexpr double kExact = 9007199254740992.0; // 2^53
  if (std::trunc(value) == value && std::fabs(value) < kExact) {
    return integer(SymbolicDim(static_cast<int64_t>(value)));
  }
  char text[40];
  std::snprintf(text, sizeof text, "real %a", value); // exact: equal texts are equal numbers
  return make(Kind::Real, text, 0, value);
}

FormulaRef Formulas::boolean(bool value) const { return make(Kind::Bool, value ? "true" : "false", 0, value); }

FormulaRef Formulas::atLeastZero(const SymbolicDim &dim) const {
  if (isNonNegative(dim)) {
    return boolean(true);
  }
  if (isNonNegative(SymbolicDim(-1) - dim)) {
    return boolean(false);
  }
  return make(Kind::AtLeastZero, "(" + dim.str() + " >= 0)", dim);
}

FormulaRef Formulas::isZero(const SymbolicDim &dim) const {
  if (std::optional<int64_t> known = dim.getConstant()) {
    return boolean(*known == 0);
  }
  if (isNonNegative(dim - 1) || isNonNegative(SymbolicDim(-1) - dim)) {
    return boolean(false);
  }
  return make(Kind::IsZero, "(" + dim.str() + " == 0)", dim);
}

FormulaRef Formulas::negate(const FormulaRef &a) const {
  switch (a->kind) {
  case Kind::Bool:
    return boolean(a->real == 0.0);
  case Kind::Not:
    return a->args[0];
  case Kind::AtLeastZero: // not (d >= 0) is -d - 1 >= 0
    return atLeastZero(SymbolicDim(-1) - a->dim);
  case Kind::And:
    return either(negate(a->args[0]), negate(a->args[1]));
  case Kind::Or:
    return both(negate(a->args[0]), negate(a->args[1]));
  default:
    return make(Kind::Not, "!" + a->text, 0, 0.0, {a});
  }
}

FormulaRef Formulas::both(const FormulaRef &a, const FormulaRef &b) const {
  if (a->isBool(false) || b->isBool(true) || a->text == b->text) {
    return a;
  }
  if (b->isBool(false) || a->isBool(true)) {
    return b;
  }
  return make(Kind::And, "(" + a->text + " & " + b->text + ")", 0, 0.0, {a, b});
}

FormulaRef Formulas::either(const FormulaRef &a, const FormulaRef &b) const {
  if (a->isBool(true) || b->isBool(false) || a->text == b->text) {
    return a;
  }
  if (b->isBool(true) || a->isBool(false)) {
    return b;
  }
  return make(Kind::Or, "(" + a->text + " | " + b->text + ")", 0, 0.0, {a, b});
}

static bool isTruth(const FormulaRef &a) {
  switch (a->kind) {
  case Kind::Bool:
  case Kind::AtLeastZero:
  case Kind::IsZero:
  case Kind::And:
  case Kind::Or:
  case Kind::Not:
    return true;
  default:
    return false;
  }
}

FormulaRef Formulas::select(const FormulaRef &cond, const FormulaRef &a, const FormulaRef &b) const {
  if (cond->kind == Kind::Bool) {
    return cond->isBool(true) ? a : b;
  }
  if (a->text == b->text) {
    return a;
  }
  if (isTruth(a) && isTruth(b)) {
    return either(both(cond, a), both(negate(cond), b));
  }
  return make(Kind::Select, call("select", {cond, a, b}), 0, 0.0, {cond, a, b});
}

FormulaRef Formulas::load(Value tensor, std::vector<FormulaRef> indices) const {
  std::string name = "load#" + llvm::utohexstr(reinterpret_cast<uintptr_t>(tensor.getAsOpaquePointer()));
  std::string text = call(name, indices);
  return make(Kind::Load, std::move(text), 0, 0.0, std::move(indices), tensor);
}

FormulaRef Formulas::unknown(const std::string &name, std::vector<FormulaRef> args) const {
  std::string text = call(name, args);
  return make(Kind::Unknown, std::move(text), 0, 0.0, std::move(args));
}

static bool isComparison(StringRef op) {
  return op == "Less" || op == "LessOrEqual" || op == "Greater" || op == "GreaterOrEqual" || op == "Equal";
}

FormulaRef Formulas::binary(StringRef op, const FormulaRef &a, const FormulaRef &b) const {
  if (a->kind == Kind::Select) {
    return select(a->args[0], binary(op, a->args[1], b), binary(op, a->args[2], b));
  }
  if (b->kind == Kind::Select) {
    return select(b->args[0], binary(op, a, b->args[1]), binary(op, a, b->args[2]));
  }
  if (op == "Equal" && a->text == b->text && a->kind != Kind::Real) {
    return boolean(true);
  }
  if (a->kind == Kind::Int && b->kind == Kind::Int) {
    const SymbolicDim &x = a->dim;
    const SymbolicDim &y = b->dim;
    if (op == "Add" || op == "Sub" || op == "Mul") {
      return integer(op == "Add" ? x + y : op == "Sub" ? x - y : x * y);
    }
    if (op == "Min" || op == "Max") {
      bool firstLess = isNonNegative(y - x);
      if (firstLess || isNonNegative(x - y)) {
        return firstLess == (op == "Min") ? a : b;
      }
      return integer(op == "Min" ? SymbolicDim::min(x, y) : SymbolicDim::max(x, y));
    }
    if (op == "Equal") {
      return isZero(x - y);
    }
    if (op == "LessOrEqual" || op == "Less") {
      return atLeastZero(op == "Less" ? y - x - 1 : y - x);
    }
    if (op == "GreaterOrEqual" || op == "Greater") {
      return atLeastZero(op == "Greater" ? x - y - 1 : x - y);
    }
  }
  std::optional<double> x = a->constant();
  std::optional<double> y = b->constant();
  if (x && y) {
    if (op == "Add" || op == "Sub" || op == "Mul") {
      return number(op == "Add" ? *x + *y : op == "Sub" ? *x - *y : *x * *y);
    }
    if (op == "Min" || op == "Max") {
      return number(op == "Min" ? std::fmin(*x, *y) : std::fmax(*x, *y));
    }
    if (isComparison(op)) {
      return boolean(op == "Less"          ? *x < *y
                     : op == "LessOrEqual" ? *x <= *y
                     : op == "Greater"     ? *x > *y
                     : op == "Equal"       ? *x == *y
                                           : *x >= *y);
    }
  }
  return unknown(op.str(), {a, b});
}

FormulaRef Formulas::toBool(const FormulaRef &a) const {
  switch (a->kind) {
  case Kind::Int:
    return negate(isZero(a->dim));
  case Kind::Real:
    return boolean(a->real != 0.0);
  case Kind::Select:
    return select(a->args[0], toBool(a->args[1]), toBool(a->args[2]));
  case Kind::Load:
    return unknown("bool", {a});
  default:
    return a;
  }
}

FormulaRef Formulas::toNumber(const FormulaRef &a) const { return isTruth(a) ? select(a, number(1), number(0)) : a; }
