//===- SymbolicDim.h - integer polynomials over named dims
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_SUPPORT_SYMBOLICDIM_H
#define KIMI_LIB_SUPPORT_SYMBOLICDIM_H

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace kimi {

/// An extent or index known as an integer polynomial over atoms. An atom is a named dim ("batch", "past") or an opaque
/// term (floordiv, mod, min, max, a comparison, or a run-time value) of polynomials. Two dims that are equal as
/// polynomials compare equal, whatever way they were computed: (past + seq) - seq == past. Immutable, cheap to copy.
///
/// Size is bounded, for files may ask for anything: an atom whose text is long goes by a hash of it, and a polynomial
/// of too many terms or too high a degree is not expanded but becomes an atom (Product). So each operation takes
/// bounded time, and an expression grows with the number of operations that made it.
class SymbolicDim {
public:
  enum class AtomKind { Symbol, FloorDiv, CeilDiv, Mod, Min, Max, Eq, Lt, Select, Runtime, Product };
  struct Atom;
  using AtomRef = std::shared_ptr<const Atom>;
  /// A product of atoms, each with its power, keyed by the atoms' text (unique by construction).
  using Monomial = std::map<std::string, int>;
  /// A named dim or run-time value that an expression is made of.
  struct Leaf {
    AtomKind kind; // Symbol or Runtime
    std::string name;
    bool operator<(const Leaf &other) const { return std::tie(kind, name) < std::tie(other.kind, other.name); }
  };

  SymbolicDim(int64_t constant = 0);
  /// The named dim `name`; a name that is an expression over + - * // and parentheses ("past + seq") is parsed.
  static SymbolicDim symbol(const std::string &name);
  /// The named dim `name`, taken as it stands.
  static SymbolicDim opaque(const std::string &name);
  /// A value known only at run time, told apart by `id` (for example a counter of the analysis). May be negative.
  static SymbolicDim runtime(const std::string &id);

  bool isConstant() const;
  /// The constant, where the polynomial is one.
  std::optional<int64_t> getConstant() const;
  bool is(int64_t constant) const { return getConstant() == constant; }

  SymbolicDim operator+(const SymbolicDim &other) const;
  SymbolicDim operator-(const SymbolicDim &other) const;
  SymbolicDim operator*(const SymbolicDim &other) const;
  static SymbolicDim floorDiv(const SymbolicDim &a, const SymbolicDim &b);
  static SymbolicDim ceilDiv(const SymbolicDim &a, const SymbolicDim &b);
  static SymbolicDim mod(const SymbolicDim &a, const SymbolicDim &b);
  static SymbolicDim min(const SymbolicDim &a, const SymbolicDim &b);
  static SymbolicDim max(const SymbolicDim &a, const SymbolicDim &b);
  /// 1 or 0. Conjunction is the product, negation is 1 - x.
  static SymbolicDim eq(const SymbolicDim &a, const SymbolicDim &b);
  static SymbolicDim lt(const SymbolicDim &a, const SymbolicDim &b);
  static SymbolicDim le(const SymbolicDim &a, const SymbolicDim &b);
  static SymbolicDim select(const SymbolicDim &cond, const SymbolicDim &a, const SymbolicDim &b);

  bool operator==(const SymbolicDim &other) const { return str() == other.str(); }
  bool operator!=(const SymbolicDim &other) const { return !(*this == other); }
  /// True where this >= 0 follows from every named dim being >= 0. False means "not known".
  bool isKnownNonNegative() const;
  /// True where this >= 1 follows in the same way.
  bool isKnownPositive() const { return (*this - SymbolicDim(1)).isKnownNonNegative(); }
  /// a / b where that is a polynomial (no remainder, whatever the dims are, as long as b is not 0).
  static std::optional<SymbolicDim> divideExactly(const SymbolicDim &a, const SymbolicDim &b);
  /// True where a run-time value (AtomKind::Runtime) occurs anywhere in this.
  bool hasRuntime() const;
  /// The named dims and run-time values that occur anywhere in this.
  std::set<Leaf> leaves() const;

  /// The polynomial: coefficient of each monomial (the empty monomial is the constant term), no zero coefficients.
  const std::map<Monomial, int64_t> &terms() const { return *poly; }
  /// The atom whose text is `key` in a monomial.
  AtomRef atom(const std::string &key) const;
  /// Canonical text, equal for equal dims: "past + seq", "2*batch*seq + 1". Long atoms are hashes: "min#5f..".
  const std::string &str() const { return *text; }

private:
  SymbolicDim(std::map<Monomial, int64_t> terms, std::map<std::string, AtomRef> atoms);
  static SymbolicDim fromAtom(AtomKind kind, std::string name, std::vector<SymbolicDim> operands);
  static SymbolicDim extremum(AtomKind kind, const SymbolicDim &a, const SymbolicDim &b);
  /// This, as one atom if it has too many terms.
  SymbolicDim bounded() const;
  int degree() const;
  bool provenNonNegative(int depth, int &budget) const;
  /// Whether this is 0 or 1, as eq and lt are.
  bool isTruth() const;
  static bool isIdentifier(const std::string &name);
  std::shared_ptr<const std::map<Monomial, int64_t>> poly;
  std::shared_ptr<const std::map<std::string, AtomRef>> atoms;
  std::shared_ptr<const std::string> text;
};

struct SymbolicDim::Atom {
  AtomKind kind;
  std::string name;                  // Symbol, Runtime
  std::vector<SymbolicDim> operands; // the others
  std::set<Leaf> leaves;
  bool nonNegative; // follows from every named dim being >= 0
};

} // namespace kimi

#endif // KIMI_LIB_SUPPORT_SYMBOLICDIM_H
