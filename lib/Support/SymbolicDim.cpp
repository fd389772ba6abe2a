//===- SymbolicDim.cpp - integer polynomials over named dims
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Support/SymbolicDim.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace kimi;

using Monomial = SymbolicDim::Monomial;
using Terms = std::map<Monomial, int64_t>;
using Atoms = std::map<std::string, SymbolicDim::AtomRef>;

/// Of a polynomial that is expanded.
static constexpr size_t kMaxTerms = 256;
static constexpr int kMaxDegree = 32;
/// Bytes of an atom's text that are kept as they are.
static constexpr size_t kMaxAtomText = 256;

//===----------------------------------------------------------------------===//
// Integers that wrap: coefficients come from files
//===----------------------------------------------------------------------===//

static int64_t wrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
static int64_t wrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
static int64_t wrapNeg(int64_t a) { return static_cast<int64_t>(0 - static_cast<uint64_t>(a)); }
static int64_t floorDivInt(int64_t a, int64_t b) {
  if (b == -1) {
    return wrapNeg(a);
  }
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
static int64_t floorModInt(int64_t a, int64_t b) { return wrapAdd(a, wrapNeg(wrapMul(floorDivInt(a, b), b))); }

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string monomialText(const Monomial &monomial) {
  std::string text;
  for (const auto &[name, power] : monomial) {
    for (int i = 0; i < power; ++i) {
      text += (text.empty() ? "" : "*") + name;
    }
  }
  return text;
}

static std::string polynomialText(const Terms &terms) {
  std::string text;
  auto append = [&](const Monomial &monomial, int64_t coefficient) {
    bool negative = coefficient < 0;
    uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(coefficient) : static_cast<uint64_t>(coefficient);
    if (text.empty()) {
      text += negative ? "-" : "";
    } else {
      text += negative ? " - " : " + ";
    }
    if (monomial.empty()) {
      text += std::to_string(magnitude);
    } else {
      text += (magnitude == 1 ? "" : std::to_string(magnitude) + "*") + monomialText(monomial);
    }
  };
  for (const auto &[monomial, coefficient] : terms) {
    if (!monomial.empty()) {
      append(monomial, coefficient);
    }
  }
  auto constant = terms.find(Monomial());
  if (constant != terms.end()) {
    append({}, constant->second);
  }
  return text.empty() ? "0" : text;
}

static const char *kindName(SymbolicDim::AtomKind kind) {
  switch (kind) {
  case SymbolicDim::AtomKind::Symbol:
    return "";
  case SymbolicDim::AtomKind::Runtime:
    return "value";
  case SymbolicDim::AtomKind::FloorDiv:
    return "floordiv";
  case SymbolicDim::AtomKind::CeilDiv:
    return "ceildiv";
  case SymbolicDim::AtomKind::Mod:
    return "mod";
  case SymbolicDim::AtomKind::Min:
    return "min";
  case SymbolicDim::AtomKind::Max:
    return "max";
  case SymbolicDim::AtomKind::Eq:
    return "eq";
  case SymbolicDim::AtomKind::Lt:
    return "lt";
  case SymbolicDim::AtomKind::Select:
    return "select";
  case SymbolicDim::AtomKind::Product:
    return "product";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Construction
//===----------------------------------------------------------------------===//

static const std::shared_ptr<const Atoms> &noAtoms() {
  static const std::shared_ptr<const Atoms> empty = std::make_shared<const Atoms>();
  return empty;
}

SymbolicDim::SymbolicDim(int64_t constant)
    : poly(std::make_shared<const Terms>(constant == 0 ? Terms() : Terms{{Monomial(), constant}})), atoms(noAtoms()),
      text(std::make_shared<const std::string>(std::to_string(constant))) {}

SymbolicDim::SymbolicDim(Terms terms, Atoms allAtoms) {
  Atoms used;
  for (auto it = terms.begin(); it != terms.end();) {
    if (it->second == 0) {
      it = terms.erase(it);
      continue;
    }
    for (const auto &factor : it->first) {
      used.emplace(factor.first, allAtoms.at(factor.first));
    }
    ++it;
  }
  text = std::make_shared<const std::string>(polynomialText(terms));
  poly = std::make_shared<const Terms>(std::move(terms));
  atoms = used.empty() ? noAtoms() : std::make_shared<const Atoms>(std::move(used));
}

static bool atomNonNegative(SymbolicDim::AtomKind kind, const std::vector<SymbolicDim> &operands) {
  using Kind = SymbolicDim::AtomKind;
  switch (kind) {
  case Kind::Symbol:
  case Kind::Eq:
  case Kind::Lt:
    return true;
  case Kind::Runtime:
    return false;
  case Kind::FloorDiv:
  case Kind::CeilDiv:
  case Kind::Min:
  case Kind::Product:
    return operands[0].isKnownNonNegative() && operands[1].isKnownNonNegative();
  case Kind::Mod:
    return operands[1].isKnownNonNegative();
  case Kind::Max:
    return operands[0].isKnownNonNegative() || operands[1].isKnownNonNegative();
  case Kind::Select:
    return operands[1].isKnownNonNegative() && operands[2].isKnownNonNegative();
  }
  return false;
}

SymbolicDim SymbolicDim::fromAtom(AtomKind kind, std::string name, std::vector<SymbolicDim> operands) {
  std::string key;
  if (kind == AtomKind::Symbol) {
    key = isIdentifier(name) ? name : "'" + name + "'";
  } else if (kind == AtomKind::Runtime) {
    key = std::string(kindName(kind)) + "(" + name + ")";
  } else {
    for (const SymbolicDim &operand : operands) {
      key += (key.empty() ? "" : ", ") + operand.str();
    }
    key = std::string(kindName(kind)) + "(" + key + ")";
  }
  if (key.size() > kMaxAtomText) {
    llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(key.data()), key.size());
    llvm::XXH128_hash_t hash = llvm::xxh3_128bits(bytes);
    key = std::string(kind == AtomKind::Symbol ? "name" : kindName(kind)) + "#" + llvm::utohexstr(hash.high64, true) +
          "." + llvm::utohexstr(hash.low64, true);
  }
  std::set<Leaf> leaves;
  if (kind == AtomKind::Symbol || kind == AtomKind::Runtime) {
    leaves.insert({kind, name});
  }
  for (const SymbolicDim &operand : operands) {
    leaves.merge(operand.leaves());
  }
  bool nonNegative = atomNonNegative(kind, operands);
  auto atom =
      std::make_shared<const Atom>(Atom{kind, std::move(name), std::move(operands), std::move(leaves), nonNegative});
  return SymbolicDim(Terms{{Monomial{{key, 1}}, 1}}, Atoms{{key, std::move(atom)}});
}

SymbolicDim SymbolicDim::opaque(const std::string &name) { return fromAtom(AtomKind::Symbol, name, {}); }
SymbolicDim SymbolicDim::runtime(const std::string &id) { return fromAtom(AtomKind::Runtime, id, {}); }

SymbolicDim::AtomRef SymbolicDim::atom(const std::string &key) const {
  auto it = atoms->find(key);
  return it == atoms->end() ? nullptr : it->second;
}

bool SymbolicDim::isConstant() const { return atoms->empty(); }

std::optional<int64_t> SymbolicDim::getConstant() const {
  if (!isConstant()) {
    return std::nullopt;
  }
  return poly->empty() ? 0 : poly->begin()->second;
}

bool SymbolicDim::hasRuntime() const {
  for (const auto &[key, atom] : *atoms) {
    for (const Leaf &leaf : atom->leaves) {
      if (leaf.kind == AtomKind::Runtime) {
        return true;
      }
    }
  }
  return false;
}

std::set<SymbolicDim::Leaf> SymbolicDim::leaves() const {
  std::set<Leaf> all;
  for (const auto &[key, atom] : *atoms) {
    all.insert(atom->leaves.begin(), atom->leaves.end());
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Ring operations
//===----------------------------------------------------------------------===//

static Atoms mergeAtoms(const Atoms &a, const Atoms &b) {
  Atoms merged = a;
  merged.insert(b.begin(), b.end());
  return merged;
}

static int degreeOf(const Monomial &monomial) {
  int degree = 0;
  for (const auto &[name, power] : monomial) {
    degree += power;
  }
  return degree;
}

int SymbolicDim::degree() const {
  int most = 0;
  for (const auto &[monomial, coefficient] : *poly) {
    most = std::max(most, degreeOf(monomial));
  }
  return most;
}

SymbolicDim SymbolicDim::bounded() const {
  return poly->size() <= kMaxTerms ? *this : fromAtom(AtomKind::Product, "", {*this, SymbolicDim(1)});
}

SymbolicDim SymbolicDim::operator+(const SymbolicDim &other) const {
  if (other.is(0)) {
    return *this;
  }
  if (is(0)) {
    return other;
  }
  if (isConstant() && other.isConstant()) {
    return SymbolicDim(wrapAdd(*getConstant(), *other.getConstant()));
  }
  Terms sum = *poly;
  for (const auto &[monomial, coefficient] : *other.poly) {
    int64_t &slot = sum[monomial];
    slot = wrapAdd(slot, coefficient);
  }
  return SymbolicDim(std::move(sum), mergeAtoms(*atoms, *other.atoms)).bounded();
}

SymbolicDim SymbolicDim::operator-(const SymbolicDim &other) const { return *this + other * SymbolicDim(-1); }

SymbolicDim SymbolicDim::operator*(const SymbolicDim &other) const {
  if (other.is(1) || is(0)) {
    return *this;
  }
  if (is(1) || other.is(0)) {
    return other;
  }
  if (isConstant() && other.isConstant()) {
    return SymbolicDim(wrapMul(*getConstant(), *other.getConstant()));
  }
  if (poly->size() * other.poly->size() > kMaxTerms || degree() + other.degree() > kMaxDegree) {
    return str() < other.str() ? fromAtom(AtomKind::Product, "", {*this, other})
                               : fromAtom(AtomKind::Product, "", {other, *this});
  }
  Atoms merged = mergeAtoms(*atoms, *other.atoms);
  Terms product;
  for (const auto &[left, leftCoefficient] : *poly) {
    for (const auto &[right, rightCoefficient] : *other.poly) {
      Monomial monomial = left;
      for (const auto &[name, power] : right) {
        int &slot = monomial[name];
        slot += power;
        AtomKind kind = merged.at(name)->kind;
        if (kind == AtomKind::Eq || kind == AtomKind::Lt) {
          slot = 1; // A truth value is its own square.
        }
      }
      int64_t &coefficient = product[monomial];
      coefficient = wrapAdd(coefficient, wrapMul(leftCoefficient, rightCoefficient));
    }
  }
  return SymbolicDim(std::move(product), std::move(merged));
}

//===----------------------------------------------------------------------===//
// Division
//===----------------------------------------------------------------------===//

/// Lexicographic order of exponents, which multiplication preserves.
static bool lexLess(const Monomial &a, const Monomial &b) {
  auto left = a.begin(), right = b.begin();
  while (left != a.end() && right != b.end()) {
    if (left->first != right->first) {
      return left->first > right->first;
    }
    if (left->second != right->second) {
      return left->second < right->second;
    }
    ++left;
    ++right;
  }
  return left == a.end() && right != b.end();
}

static Terms::const_iterator leading(const Terms &terms) {
  auto best = terms.begin();
  for (auto it = terms.begin(); it != terms.end(); ++it) {
    if (lexLess(best->first, it->first)) {
      best = it;
    }
  }
  return best;
}

static std::optional<Monomial> divideMonomial(Monomial a, const Monomial &b) {
  for (const auto &[name, power] : b) {
    auto it = a.find(name);
    if (it == a.end() || it->second < power) {
      return std::nullopt;
    }
    it->second -= power;
    if (it->second == 0) {
      a.erase(it);
    }
  }
  return a;
}

std::optional<SymbolicDim> SymbolicDim::divideExactly(const SymbolicDim &a, const SymbolicDim &b) {
  if (b.poly->empty()) {
    return std::nullopt;
  }
  if (a == b) {
    return SymbolicDim(1);
  }
  for (const auto &[key, atom] : *b.atoms) {
    if (atom->kind == AtomKind::Eq || atom->kind == AtomKind::Lt) {
      return std::nullopt; // x * x == x: such products have no order that multiplication preserves
    }
  }
  // The degrees of factors add up, so a quotient of a higher one has left the road.
  int most = a.degree() - b.degree();
  auto divisor = leading(*b.poly);
  Atoms merged = mergeAtoms(*a.atoms, *b.atoms);
  Terms quotient, rest = *a.poly;
  for (size_t step = 0; !rest.empty(); ++step) {
    auto lead = leading(rest);
    std::optional<Monomial> monomial = divideMonomial(lead->first, divisor->first);
    if (step == kMaxTerms || rest.size() > 4 * kMaxTerms || !monomial || degreeOf(*monomial) > most ||
        floorModInt(lead->second, divisor->second) != 0) {
      return std::nullopt;
    }
    int64_t coefficient = floorDivInt(lead->second, divisor->second);
    quotient[*monomial] = coefficient;
    for (const auto &[factor, scale] : *b.poly) {
      Monomial product = *monomial;
      for (const auto &[name, power] : factor) {
        product[name] += power;
      }
      int64_t &slot = rest[product];
      slot = wrapAdd(slot, wrapNeg(wrapMul(coefficient, scale)));
      if (slot == 0) {
        rest.erase(product);
      }
    }
  }
  return SymbolicDim(std::move(quotient), std::move(merged));
}

SymbolicDim SymbolicDim::floorDiv(const SymbolicDim &a, const SymbolicDim &b) {
  if (std::optional<SymbolicDim> quotient = divideExactly(a, b)) {
    return *quotient;
  }
  std::optional<int64_t> divisor = b.getConstant();
  if (!divisor || *divisor == 0) {
    return fromAtom(AtomKind::FloorDiv, "", {a, b});
  }
  // floor((b*q + r) / b) = q + floor(r / b), with every coefficient of r in [0, b).
  Terms quotient, rest;
  for (const auto &[monomial, coefficient] : *a.poly) {
    quotient[monomial] = floorDivInt(coefficient, *divisor);
    rest[monomial] = floorModInt(coefficient, *divisor);
  }
  SymbolicDim whole(std::move(quotient), *a.atoms), remainder(std::move(rest), *a.atoms);
  if (remainder.isConstant()) {
    return whole;
  }
  return whole + fromAtom(AtomKind::FloorDiv, "", {remainder, b});
}

SymbolicDim SymbolicDim::ceilDiv(const SymbolicDim &a, const SymbolicDim &b) {
  if (std::optional<SymbolicDim> quotient = divideExactly(a, b)) {
    return *quotient;
  }
  std::optional<int64_t> divisor = b.getConstant();
  if (!divisor || *divisor == 0) {
    return fromAtom(AtomKind::CeilDiv, "", {a, b});
  }
  Terms quotient, rest;
  for (const auto &[monomial, coefficient] : *a.poly) {
    quotient[monomial] = floorDivInt(coefficient, *divisor);
    rest[monomial] = floorModInt(coefficient, *divisor);
  }
  SymbolicDim whole(std::move(quotient), *a.atoms), remainder(std::move(rest), *a.atoms);
  if (std::optional<int64_t> constant = remainder.getConstant()) {
    return whole + SymbolicDim(*constant == 0 ? 0 : 1);
  }
  return whole + fromAtom(AtomKind::CeilDiv, "", {remainder, b});
}

SymbolicDim SymbolicDim::mod(const SymbolicDim &a, const SymbolicDim &b) {
  if (divideExactly(a, b)) {
    return SymbolicDim(0);
  }
  std::optional<int64_t> divisor = b.getConstant();
  if (!divisor || *divisor == 0) {
    return fromAtom(AtomKind::Mod, "", {a, b});
  }
  Terms rest;
  for (const auto &[monomial, coefficient] : *a.poly) {
    rest[monomial] = floorModInt(coefficient, *divisor);
  }
  SymbolicDim remainder(std::move(rest), *a.atoms);
  return remainder.isConstant() ? remainder : fromAtom(AtomKind::Mod, "", {remainder, b});
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

bool SymbolicDim::isKnownNonNegative() const {
  int budget = 256; // replacements tried
  return provenNonNegative(4, budget);
}

bool SymbolicDim::provenNonNegative(int depth, int &budget) const {
  bool allPositive = true;
  for (const auto &[monomial, coefficient] : *poly) {
    if (coefficient < 0) {
      allPositive = false;
      break;
    }
    for (const auto &[name, power] : monomial) {
      if (power % 2 != 0 && !atoms->at(name)->nonNegative) {
        allPositive = false;
        break;
      }
    }
  }
  if (allPositive) {
    return true;
  }
  if (depth == 0) {
    return false;
  }
  // An extremum or a choice that stands alone in a term may be bounded by what it is made of.
  for (const auto &[monomial, coefficient] : *poly) {
    if (monomial.size() != 1 || monomial.begin()->second != 1) {
      continue;
    }
    const Atom &atom = *atoms->at(monomial.begin()->first);
    auto replaced = [this, depth, &budget, scale = coefficient, &term = monomial](const SymbolicDim &by) {
      if (--budget < 0) {
        return false;
      }
      SymbolicDim whole(Terms{{term, scale}}, *atoms);
      return (*this - whole + by * SymbolicDim(scale)).provenNonNegative(depth - 1, budget);
    };
    bool either = (atom.kind == AtomKind::Max && coefficient > 0) || (atom.kind == AtomKind::Min && coefficient < 0);
    bool both = (atom.kind == AtomKind::Max && coefficient < 0) || (atom.kind == AtomKind::Min && coefficient > 0);
    if (either && (replaced(atom.operands[0]) || replaced(atom.operands[1]))) {
      return true;
    }
    if (both && replaced(atom.operands[0]) && replaced(atom.operands[1])) {
      return true;
    }
    if (atom.kind == AtomKind::Select && replaced(atom.operands[1]) && replaced(atom.operands[2])) {
      return true;
    }
  }
  return false;
}

SymbolicDim SymbolicDim::extremum(AtomKind kind, const SymbolicDim &a, const SymbolicDim &b) {
  bool isMax = kind == AtomKind::Max;
  if ((a - b).isKnownNonNegative()) {
    return isMax ? a : b;
  }
  if ((b - a).isKnownNonNegative()) {
    return isMax ? b : a;
  }
  return a.str() < b.str() ? fromAtom(kind, "", {a, b}) : fromAtom(kind, "", {b, a});
}

SymbolicDim SymbolicDim::min(const SymbolicDim &a, const SymbolicDim &b) { return extremum(AtomKind::Min, a, b); }
SymbolicDim SymbolicDim::max(const SymbolicDim &a, const SymbolicDim &b) { return extremum(AtomKind::Max, a, b); }

bool SymbolicDim::isTruth() const {
  // A product of truths, or 1 less one.
  auto isProduct = [](const SymbolicDim &dim) {
    const auto &terms = dim.terms();
    return terms.size() == 1 && terms.begin()->second == 1 &&
           llvm::all_of(terms.begin()->first, [&](const auto &factor) {
             AtomRef atom = dim.atom(factor.first);
             return atom->kind == AtomKind::Eq || atom->kind == AtomKind::Lt ||
                    (atom->kind == AtomKind::Select && atom->operands[1].isTruth() && atom->operands[2].isTruth());
           });
  };
  return is(0) || isProduct(*this) || isProduct(SymbolicDim(1) - *this);
}

SymbolicDim SymbolicDim::eq(const SymbolicDim &a, const SymbolicDim &b) {
  SymbolicDim difference = a - b;
  if (std::optional<int64_t> constant = difference.getConstant()) {
    return SymbolicDim(*constant == 0 ? 1 : 0);
  }
  SymbolicDim opposite = b - a;
  if (difference.isKnownPositive() || opposite.isKnownPositive()) {
    return SymbolicDim(0);
  }
  // What is 0 or 1 is compared by its value: an extent that went through arithmetic reads as before.
  for (const SymbolicDim &side : {difference, opposite}) {
    if (side.isTruth()) {
      return SymbolicDim(1) - side;
    }
    if ((side + SymbolicDim(1)).isTruth()) {
      return side + SymbolicDim(1);
    }
  }
  return fromAtom(AtomKind::Eq, "", {difference.str() < opposite.str() ? opposite : difference, SymbolicDim(0)});
}

SymbolicDim SymbolicDim::lt(const SymbolicDim &a, const SymbolicDim &b) {
  SymbolicDim difference = b - a;
  if (difference.isKnownPositive()) {
    return SymbolicDim(1);
  }
  if ((a - b).isKnownNonNegative()) {
    return SymbolicDim(0);
  }
  return fromAtom(AtomKind::Lt, "", {SymbolicDim(0), difference});
}

SymbolicDim SymbolicDim::le(const SymbolicDim &a, const SymbolicDim &b) { return lt(a, b + SymbolicDim(1)); }

SymbolicDim SymbolicDim::select(const SymbolicDim &cond, const SymbolicDim &a, const SymbolicDim &b) {
  if (std::optional<int64_t> constant = cond.getConstant()) {
    return *constant != 0 ? a : b;
  }
  if (cond.isTruth() && a.is(1) && b.is(0)) {
    return cond;
  }
  if (cond.isTruth() && a.is(0) && b.is(1)) {
    return SymbolicDim(1) - cond;
  }
  return a == b ? a : fromAtom(AtomKind::Select, "", {cond, a, b});
}
