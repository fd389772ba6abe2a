//===- ScalarCode.cpp - the integer arithmetic of an entry -----------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/ScalarCode.h"
#include "runtime/Checked.h"
#include "runtime/Dtype.h"
#include "runtime/Text.h"

#include <algorithm>
#include <cstring>

namespace kimi {
namespace {

using fb::ScalarOp;

/// Number of operands that are slots.
int operandCount(ScalarOp op) {
  switch (op) {
  case ScalarOp::Const:
  case ScalarOp::InputDim:
  case ScalarOp::InputValue:
  case ScalarOp::StateLength:
  case ScalarOp::Capacity:
    return 0;
  case ScalarOp::Not:
    return 1;
  case ScalarOp::Select:
    return 3;
  default:
    return 2;
  }
}

template <typename T>
int64_t load(const void *data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T), sizeof(T));
  return static_cast<int64_t>(value);
}

/// Element `index` of an integer tensor; false for a missing tensor, an index past its end, or more than 63 bits.
bool readElement(const kimi_tensor &tensor, int64_t index, int64_t &out) {
  auto bytes = denseBytes(tensor.dims, tensor.rank, dtypeSize(tensor.dtype));
  if (!tensor.data || !bytes || index >= *bytes / static_cast<int64_t>(dtypeSize(tensor.dtype))) {
    return false;
  }
  switch (tensor.dtype) {
  case KIMI_I64:
    out = load<int64_t>(tensor.data, index);
    return true;
  case KIMI_I32:
    out = load<int32_t>(tensor.data, index);
    return true;
  case KIMI_I16:
    out = load<int16_t>(tensor.data, index);
    return true;
  case KIMI_I8:
    out = load<int8_t>(tensor.data, index);
    return true;
  case KIMI_U64:
    out = load<uint64_t>(tensor.data, index);
    return out >= 0;
  case KIMI_U32:
    out = load<uint32_t>(tensor.data, index);
    return true;
  case KIMI_U16:
    out = load<uint16_t>(tensor.data, index);
    return true;
  case KIMI_U8:
  case KIMI_BOOL:
    out = load<uint8_t>(tensor.data, index);
    return true;
  default:
    return false;
  }
}

/// Rounds towards minus infinity; b is not 0, and a / b does not overflow.
int64_t floorDiv(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

/// Why `op` has no value for these operands; nullptr where it has one, in `out`.
const char *apply(ScalarOp op, int64_t a, int64_t b, int64_t c, int64_t &out) {
  const char *overflow = "overflows 64 bits";
  switch (op) {
  case ScalarOp::Add:
    return add(a, b, out) ? nullptr : overflow;
  case ScalarOp::Sub:
    return sub(a, b, out) ? nullptr : overflow;
  case ScalarOp::Mul:
    return mul(a, b, out) ? nullptr : overflow;
  case ScalarOp::FloorDiv:
  case ScalarOp::CeilDiv:
  case ScalarOp::Mod:
    if (b == 0) {
      return "divides by zero";
    }
    if (a == INT64_MIN && b == -1) {
      return overflow;
    }
    out = floorDiv(a, b);
    if (op == ScalarOp::CeilDiv) {
      out += a % b != 0;
    } else if (op == ScalarOp::Mod) { // the sign of the divisor
      out = a % b != 0 && (a < 0) != (b < 0) ? a % b + b : a % b;
    }
    return nullptr;
  case ScalarOp::Min:
    out = std::min(a, b);
    return nullptr;
  case ScalarOp::Max:
    out = std::max(a, b);
    return nullptr;
  case ScalarOp::Eq:
    out = a == b;
    return nullptr;
  case ScalarOp::Lt:
    out = a < b;
    return nullptr;
  case ScalarOp::Le:
    out = a <= b;
    return nullptr;
  case ScalarOp::And:
    out = a && b;
    return nullptr;
  case ScalarOp::Or:
    out = a || b;
    return nullptr;
  case ScalarOp::Not:
    out = !a;
    return nullptr;
  case ScalarOp::Select:
    out = a ? b : c;
    return nullptr;
  default:
    return "is unknown";
  }
}

} // namespace

ScalarCode::ScalarCode(const fb::Entry &entry) : entry(entry) {
  if (!entry.scalars()) {
    return;
  }
  for (const fb::Scalar *scalar : *entry.scalars()) {
    uint8_t depends = DependsOnNothing;
    int operands = operandCount(scalar->op());
    depends |= operands > 0 ? dependences[scalar->a()] : 0;
    depends |= operands > 1 ? dependences[scalar->b()] : 0;
    depends |= operands > 2 ? dependences[scalar->c()] : 0;
    if (scalar->op() == ScalarOp::InputDim) {
      depends = DependsOnDims;
    } else if (scalar->op() == ScalarOp::StateLength) {
      depends = DependsOnLength;
    } else if (scalar->op() == ScalarOp::InputValue) {
      depends = DependsOnValues | DependsOnDims;
      valueSlots.push_back(code.size());
    }
    code.push_back(*scalar);
    dependences.push_back(depends);
  }
}

Status ScalarCode::evaluate(const ScalarInputs &inputs, uint8_t changed, bool everything, std::vector<int64_t> &values,
                            size_t &failedSlot) const {
  values.resize(code.size());
  for (size_t i = 0; i < code.size(); ++i) {
    if (!everything && !(dependences[i] & changed)) {
      continue;
    }
    const fb::Scalar &it = code[i];
    const char *reason = nullptr;
    switch (it.op()) {
    case ScalarOp::Const:
      values[i] = it.imm();
      break;
    case ScalarOp::InputDim:
      values[i] = inputs.inputs[it.a()].dims[it.imm()];
      break;
    case ScalarOp::InputValue:
      if (!readElement(inputs.inputs[it.a()], it.imm(), values[i])) {
        failedSlot = i;
        return invalidArgument("element " + std::to_string(it.imm()) + " of input " +
                               quoted(entry.inputs()->Get(it.a())->name()->str()) + " is needed but cannot be read");
      }
      break;
    case ScalarOp::StateLength:
      values[i] = inputs.length;
      break;
    case ScalarOp::Capacity:
      values[i] = inputs.capacity;
      break;
    default: {
      int operands = operandCount(it.op());
      reason = apply(it.op(), values[it.a()], operands > 1 ? values[it.b()] : 0, operands > 2 ? values[it.c()] : 0,
                     values[i]);
    }
    }
    if (reason) {
      failedSlot = i;
      return invalidArgument("scalar " + std::to_string(i) + " (" + fb::EnumNameScalarOp(it.op()) + ") " + reason +
                             " for these input shapes");
    }
  }
  return {};
}

bool ScalarCode::inputValuesChanged(const ScalarInputs &inputs, const std::vector<int64_t> &values) const {
  for (size_t slot : valueSlots) {
    int64_t value;
    if (!readElement(inputs.inputs[code[slot].a()], code[slot].imm(), value) || value != values[slot]) {
      return true;
    }
  }
  return false;
}

bool ScalarCode::readsInput(int32_t input) const {
  for (size_t slot : valueSlots) {
    if (code[slot].a() == input) {
      return true;
    }
  }
  return false;
}

} // namespace kimi
