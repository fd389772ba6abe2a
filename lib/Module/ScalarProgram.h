//===- ScalarProgram.h - polynomials as a program of slots
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_MODULE_SCALARPROGRAM_H
#define KIMI_LIB_MODULE_SCALARPROGRAM_H

#include "lib/Module/Plan.h"
#include "lib/Support/SymbolicDim.h"
#include <functional>
#include <map>
#include <optional>

namespace kimi {

/// Builds the scalar program of an entry. Equal expressions share a slot.
class ScalarProgram {
public:
  /// The instruction that yields a Symbol or Runtime atom, by name; nullopt where the host cannot compute it.
  using AtomSource = std::function<std::optional<fb::Scalar>(const std::string &name)>;

  ScalarProgram(plan::Entry &entry, AtomSource source) : entry(entry), source(std::move(source)) {}
  /// The slot of `dim`; -1 where it depends on an atom without a source (see `missing`).
  int32_t emit(const SymbolicDim &dim);
  /// The slot of an instruction that stands for itself, described by `text`.
  int32_t emit(fb::Scalar instruction, const std::string &text);
  /// The name of the atom at which the last failed emit stopped.
  const std::string &missing() const { return missingAtom; }

private:
  int32_t emitAtom(const SymbolicDim::Atom &atom, const std::string &key);
  int32_t binary(fb::ScalarOp op, int32_t a, int32_t b, const std::string &text);

  plan::Entry &entry;
  AtomSource source;
  std::map<std::string, int32_t> slots; // by text of the polynomial
  std::string missingAtom;
};

} // namespace kimi

#endif // KIMI_LIB_MODULE_SCALARPROGRAM_H
