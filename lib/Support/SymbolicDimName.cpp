//===- SymbolicDimName.cpp - dims whose names are expressions
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Support/SymbolicDim.h"
#include <cctype>

using namespace kimi;

namespace {
/// Recursive descent over `a + 2*(b - 1)//c`, `Max(1, a)`, `a**2`; any error makes the whole name one symbol.
class NameParser {
public:
  explicit NameParser(const std::string &text) : text(text) {}
  std::optional<SymbolicDim> parse() {
    std::optional<SymbolicDim> result = sum();
    skipBlanks();
    return result && pos == text.size() ? result : std::nullopt;
  }

private:
  static constexpr int kMaxDepth = 64;
  const std::string &text;
  size_t pos = 0;
  int depth = 0;

  void skipBlanks() {
    while (pos < text.size() && text[pos] == ' ') {
      ++pos;
    }
  }
  bool eat(const char *token) {
    skipBlanks();
    size_t length = std::char_traits<char>::length(token);
    if (text.compare(pos, length, token) != 0) {
      return false;
    }
    pos += length;
    return true;
  }

  std::optional<SymbolicDim> sum() {
    if (++depth > kMaxDepth) {
      return std::nullopt;
    }
    std::optional<SymbolicDim> left = product();
    while (left) {
      bool plus = eat("+");
      if (!plus && !eat("-")) {
        break;
      }
      std::optional<SymbolicDim> right = product();
      left = !right ? std::nullopt : std::optional<SymbolicDim>(plus ? *left + *right : *left - *right);
    }
    --depth;
    return left;
  }

  std::optional<SymbolicDim> product() {
    std::optional<SymbolicDim> left = power();
    while (left) {
      bool times = eat("*");
      if (!times && !eat("//") && !eat("/")) {
        break;
      }
      std::optional<SymbolicDim> right = power();
      left = !right ? std::nullopt
                    : std::optional<SymbolicDim>(times ? *left * *right : SymbolicDim::floorDiv(*left, *right));
    }
    return left;
  }

  std::optional<SymbolicDim> power() {
    std::optional<SymbolicDim> base = factor();
    if (!base || !eat("**")) {
      return base;
    }
    std::optional<SymbolicDim> exponent = factor();
    if (!exponent || !exponent->isConstant() || *exponent->getConstant() < 0 || *exponent->getConstant() > 8) {
      return std::nullopt;
    }
    SymbolicDim result(1);
    for (int64_t i = 0; i < *exponent->getConstant(); ++i) {
      result = result * *base;
    }
    return result;
  }

  std::optional<SymbolicDim> factor() {
    skipBlanks();
    if (eat("-")) {
      if (++depth > kMaxDepth) {
        return std::nullopt;
      }
      std::optional<SymbolicDim> operand = factor();
      --depth;
      return operand ? std::optional<SymbolicDim>(SymbolicDim(0) - *operand) : std::nullopt;
    }
    if (eat("(")) {
      std::optional<SymbolicDim> inner = sum();
      return inner && eat(")") ? inner : std::nullopt;
    }
    size_t start = pos;
    while (pos < text.size() && (std::isalnum(static_cast<unsigned char>(text[pos])) || text[pos] == '_' ||
                                 text[pos] == '.' || text[pos] == '$' || text[pos] == ':')) {
      ++pos;
    }
    std::string word = text.substr(start, pos - start);
    if (word.empty() || word.size() > 256) {
      return std::nullopt;
    }
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      if (word.find_first_not_of("0123456789") != std::string::npos || word.size() > 18) {
        return std::nullopt;
      }
      return SymbolicDim(static_cast<int64_t>(std::stoll(word)));
    }
    return eat("(") ? call(word) : std::optional<SymbolicDim>(SymbolicDim::opaque(word));
  }

  std::optional<SymbolicDim> call(const std::string &name) {
    std::optional<SymbolicDim> a = sum();
    if (!a) {
      return std::nullopt;
    }
    if (name == "floor") {
      return eat(")") ? a : std::nullopt;
    }
    std::optional<SymbolicDim> b = eat(",") ? sum() : std::nullopt;
    if (!b || !eat(")")) {
      return std::nullopt;
    }
    if (name == "Max" || name == "max") {
      return SymbolicDim::max(*a, *b);
    }
    if (name == "Min" || name == "min") {
      return SymbolicDim::min(*a, *b);
    }
    if (name == "Mod" || name == "mod") {
      return SymbolicDim::mod(*a, *b);
    }
    if (name == "FloorDiv" || name == "floordiv") {
      return SymbolicDim::floorDiv(*a, *b);
    }
    return std::nullopt;
  }
};
} // namespace

bool SymbolicDim::isIdentifier(const std::string &name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) {
    return false;
  }
  for (char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '$' && c != ':') {
      return false;
    }
  }
  return true;
}

SymbolicDim SymbolicDim::symbol(const std::string &name) {
  if (isIdentifier(name)) {
    return opaque(name);
  }
  std::optional<SymbolicDim> parsed = NameParser(name).parse();
  return parsed ? *parsed : opaque(name);
}
