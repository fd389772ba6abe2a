//===- HostTensor.cpp - a tensor in the memory of this process
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/HostTensor.h"
#include <cstring>

namespace kimi::run {

Status HostTensor::create(kimi_dtype dtype, std::vector<int64_t> dims, HostTensor &out) {
  if (dims.size() > KIMI_MAX_RANK) {
    return invalidArgument("a tensor of rank " + std::to_string(dims.size()) + "; at most " +
                           std::to_string(KIMI_MAX_RANK) + " dims are supported");
  }
  int64_t elements = 1, size = static_cast<int64_t>(kimi_dtype_size(dtype)), bytes = 0;
  bool empty = false;
  for (int64_t dim : dims) {
    empty |= dim == 0;
    if (dim < 0 || (dim > 0 && __builtin_mul_overflow(elements, dim, &elements))) {
      return invalidArgument("a tensor with an impossible shape");
    }
  }
  elements = empty ? 0 : elements;
  if (size == 0 || __builtin_mul_overflow(elements, size, &bytes) || bytes > INT64_MAX - 64) {
    return invalidArgument("a tensor with an impossible size");
  }
  size_t rounded = (static_cast<size_t>(bytes) + 64) / 64 * 64; // Never nothing: empty tensors have an address too.
  out.memory.reset(std::aligned_alloc(64, rounded));
  if (!out.memory) {
    return {KIMI_OUT_OF_MEMORY, "no memory for a tensor of " + std::to_string(bytes) + " bytes"};
  }
  out.dtype = dtype;
  out.dims = std::move(dims);
  out.elements = elements;
  return {};
}

kimi_tensor HostTensor::view() const {
  kimi_tensor tensor{};
  tensor.dtype = dtype;
  tensor.rank = static_cast<int32_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    tensor.dims[i] = dims[i];
  }
  tensor.data = memory.get();
  return tensor;
}

float bfloatToFloat(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

float halfToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 0x1F, fraction = bits & 0x3FF;
  uint32_t wide;
  if (exponent == 0) {
    float magnitude = static_cast<float>(fraction) * 0x1p-24f; // Subnormals are exact in fp32.
    std::memcpy(&wide, &magnitude, sizeof(wide));
  } else {
    wide = (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | (fraction << 13);
  }
  wide |= sign;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

template <typename T>
static T load(const void *data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

int64_t HostTensor::integerAt(int64_t i) const {
  switch (dtype) {
  case KIMI_I64:
  case KIMI_U64:
    return load<int64_t>(data(), i);
  case KIMI_I32:
    return load<int32_t>(data(), i);
  case KIMI_U32:
    return load<uint32_t>(data(), i);
  case KIMI_I16:
    return load<int16_t>(data(), i);
  case KIMI_U16:
    return load<uint16_t>(data(), i);
  case KIMI_I8:
    return load<int8_t>(data(), i);
  case KIMI_U8:
    return load<uint8_t>(data(), i);
  case KIMI_BOOL:
    return load<uint8_t>(data(), i);
  default:
    return static_cast<int64_t>(at(i));
  }
}

double HostTensor::at(int64_t i) const {
  switch (dtype) {
  case KIMI_F32:
    return load<float>(data(), i);
  case KIMI_F64:
    return load<double>(data(), i);
  case KIMI_F16:
    return halfToFloat(load<uint16_t>(data(), i));
  case KIMI_BF16:
    return bfloatToFloat(load<uint16_t>(data(), i));
  case KIMI_U64:
    return static_cast<double>(load<uint64_t>(data(), i));
  default:
    return static_cast<double>(integerAt(i));
  }
}

/// The nearest half to a small integer is all that is needed here (masks and positions).
static uint16_t integerToHalf(int64_t value) {
  uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  uint16_t sign = value < 0 ? 0x8000 : 0;
  if (magnitude == 0) {
    return sign;
  }
  int exponent = 63 - __builtin_clzll(magnitude);
  if (exponent > 15) {
    return sign | 0x7C00;
  }
  uint64_t fraction = exponent <= 10 ? magnitude << (10 - exponent) : magnitude >> (exponent - 10);
  return static_cast<uint16_t>(sign | ((exponent + 15) << 10) | (fraction & 0x3FF));
}

void HostTensor::set(int64_t i, int64_t value) {
  char *to = static_cast<char *>(data()) + i * static_cast<int64_t>(kimi_dtype_size(dtype));
  float single = static_cast<float>(value);
  double wide = static_cast<double>(value);
  uint16_t half = 0;
  if (dtype == KIMI_F16) {
    half = integerToHalf(value);
  } else if (dtype == KIMI_BF16) {
    uint32_t bits;
    std::memcpy(&bits, &single, sizeof(bits));
    half = static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
  const void *from = dtype == KIMI_F32                         ? static_cast<const void *>(&single)
                     : dtype == KIMI_F64                       ? static_cast<const void *>(&wide)
                     : dtype == KIMI_F16 || dtype == KIMI_BF16 ? static_cast<const void *>(&half)
                                                               : static_cast<const void *>(&value);
  std::memcpy(to, from, kimi_dtype_size(dtype)); // Integers are little-endian: the low bytes are the narrower number.
}

std::string shapeText(const std::vector<int64_t> &dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    out += (i ? ", " : "") + std::to_string(dims[i]);
  }
  return out + "]";
}

std::string describePort(const kimi_port &port) {
  std::string out = std::string(kimi_dtype_name(port.dtype)) + " [";
  for (int32_t i = 0; i < port.rank; ++i) {
    out += i ? ", " : "";
    out += port.dims[i] >= 0 ? std::to_string(port.dims[i]) : port.symbols[i] ? port.symbols[i] : "?";
  }
  return out + "]";
}

} // namespace kimi::run
