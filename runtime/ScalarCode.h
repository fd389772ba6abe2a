//===- ScalarCode.h - the integer arithmetic of an entry -------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_SCALARCODE_H
#define KIMI_RUNTIME_SCALARCODE_H

#include "runtime/Status.h"
#include "runtime/format/kmod_generated.h"

#include <vector>

namespace kimi {

/// What a value depends on beyond the module and the session. A set of bits.
enum Dependence : uint8_t {
  DependsOnNothing = 0,
  DependsOnDims = 1,
  DependsOnLength = 2,
  DependsOnValues = 4,
  DependsOnAll = 7
};

/// What a program reads. `inputs` have been checked against the signature.
struct ScalarInputs {
  const kimi_tensor *inputs = nullptr;
  int64_t length = 0, capacity = 0;
};

/// The scalar program of a verified entry. Immutable; keeps no values.
class ScalarCode {
public:
  explicit ScalarCode(const fb::Entry &entry);

  size_t size() const { return code.size(); }
  /// What slot `slot` depends on, through its operands.
  uint8_t dependence(int64_t slot) const { return dependences[slot]; }
  bool readsInputValues() const { return !valueSlots.empty(); }
  /// True where the program reads elements of input `input`.
  bool readsInput(int32_t input) const;

  /// Fills `values` (one for each slot). Slots whose dependence shares no bit with `changed` keep their value, unless
  /// `everything`. On error, `failedSlot` is the first slot without a value.
  Status evaluate(const ScalarInputs &inputs, uint8_t changed, bool everything, std::vector<int64_t> &values,
                  size_t &failedSlot) const;
  /// True where an input element that the program reads differs from what `values` holds (or cannot be read).
  bool inputValuesChanged(const ScalarInputs &inputs, const std::vector<int64_t> &values) const;

private:
  const fb::Entry &entry;
  std::vector<fb::Scalar> code;
  std::vector<uint8_t> dependences;
  std::vector<size_t> valueSlots;
};

} // namespace kimi

#endif // KIMI_RUNTIME_SCALARCODE_H
