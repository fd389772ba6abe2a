//===- TensorProto.cpp - ONNX tensor files
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/TensorProto.h"
#include "onnx/onnx-ml.pb.h"
#include "runtime/text/Tokenizer.h"
#include <cstring>
#include <optional>

namespace kimi::run {

static std::optional<kimi_dtype> dtypeOf(int32_t type) {
  switch (type) {
  case onnx::TensorProto::FLOAT:
    return KIMI_F32;
  case onnx::TensorProto::FLOAT16:
    return KIMI_F16;
  case onnx::TensorProto::BFLOAT16:
    return KIMI_BF16;
  case onnx::TensorProto::DOUBLE:
    return KIMI_F64;
  case onnx::TensorProto::INT64:
    return KIMI_I64;
  case onnx::TensorProto::INT32:
    return KIMI_I32;
  case onnx::TensorProto::INT16:
    return KIMI_I16;
  case onnx::TensorProto::INT8:
    return KIMI_I8;
  case onnx::TensorProto::UINT64:
    return KIMI_U64;
  case onnx::TensorProto::UINT32:
    return KIMI_U32;
  case onnx::TensorProto::UINT16:
    return KIMI_U16;
  case onnx::TensorProto::UINT8:
    return KIMI_U8;
  case onnx::TensorProto::BOOL:
    return KIMI_BOOL;
  // A module takes and gives the bits of narrow floats, and an element of few bits in a byte.
  case onnx::TensorProto::FLOAT8E4M3FN:
  case onnx::TensorProto::FLOAT8E4M3FNUZ:
  case onnx::TensorProto::FLOAT8E5M2:
  case onnx::TensorProto::FLOAT8E5M2FNUZ:
  case onnx::TensorProto::FLOAT8E8M0:
  case onnx::TensorProto::FLOAT4E2M1:
  case onnx::TensorProto::UINT4:
  case onnx::TensorProto::UINT2:
    return KIMI_U8;
  case onnx::TensorProto::INT4:
  case onnx::TensorProto::INT2:
    return KIMI_I8;
  default:
    return std::nullopt;
  }
}

/// Bits of an element where several are packed in a byte; 0 where none are.
static unsigned packedBits(int32_t type) {
  switch (type) {
  case onnx::TensorProto::FLOAT4E2M1:
  case onnx::TensorProto::UINT4:
  case onnx::TensorProto::INT4:
    return 4;
  case onnx::TensorProto::UINT2:
  case onnx::TensorProto::INT2:
    return 2;
  default:
    return 0;
  }
}

/// Elements of `bits` bits, the first in the low bits of a byte, as a byte each.
static Status unpack(const onnx::TensorProto &proto, unsigned bits, HostTensor &tensor) {
  std::string bytes = proto.raw_data();
  if (!proto.has_raw_data()) {
    for (int32_t byte : proto.int32_data()) {
      bytes += static_cast<char>(byte);
    }
  }
  uint64_t count = static_cast<uint64_t>(tensor.count());
  if (bytes.size() != count / (8 / bits) + (count % (8 / bits) != 0)) {
    return {KIMI_BAD_FILE, std::to_string(bytes.size()) + " bytes for " + std::to_string(count) + " elements of " +
                               std::to_string(bits) + " bits"};
  }
  auto *out = static_cast<unsigned char *>(tensor.data());
  for (uint64_t i = 0; i < count; ++i) {
    unsigned element =
        static_cast<unsigned char>(bytes[i / (8 / bits)]) >> (i % (8 / bits) * bits) & ((1U << bits) - 1);
    bool negative = tensor.dtype == KIMI_I8 && (element >> (bits - 1)) != 0;
    out[i] = static_cast<unsigned char>(negative ? element | (0xFFU << bits) : element);
  }
  return {};
}

static std::string typeName(int32_t type) {
  return onnx::TensorProto::DataType_IsValid(type)
             ? onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type))
             : "number " + std::to_string(type);
}

/// Copies a typed field, each element cut to the width of the dtype (halves lie in the low bits of int32_data).
template <typename Field>
static Status copyField(const Field &field, HostTensor &tensor) {
  if (field.size() != tensor.count()) {
    return {KIMI_BAD_FILE, std::to_string(field.size()) + " elements for a shape of " + std::to_string(tensor.count())};
  }
  size_t size = kimi_dtype_size(tensor.dtype);
  for (int i = 0; i < field.size(); ++i) {
    auto value = field.Get(i);
    std::memcpy(static_cast<char *>(tensor.data()) + static_cast<size_t>(i) * size, &value, size);
  }
  return {};
}

Status parseTensorProto(std::string_view bytes, std::string &name, HostTensor &tensor) {
  onnx::TensorProto proto;
  if (bytes.size() > INT32_MAX || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return {KIMI_BAD_FILE, "not a TensorProto"};
  }
  name = proto.name();
  if (proto.data_location() == onnx::TensorProto::EXTERNAL || proto.external_data_size() || proto.has_segment()) {
    return {KIMI_BAD_FILE, "its data lie in another file or in parts, which is not supported here"};
  }
  std::optional<kimi_dtype> dtype = dtypeOf(proto.data_type());
  if (!dtype) {
    return {KIMI_UNSUPPORTED, "element type " + typeName(proto.data_type()) + " is not supported"};
  }
  // The shape is checked against the data before any memory is taken for it.
  std::vector<int64_t> dims(proto.dims().begin(), proto.dims().end());
  int64_t elements = 1;
  for (int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) {
      return {KIMI_BAD_FILE, "an impossible shape"};
    }
  }
  if (unsigned bits = packedBits(proto.data_type())) {
    // No more memory than sixteen times the bytes that are there.
    uint64_t present = proto.has_raw_data() ? proto.raw_data().size() : static_cast<uint64_t>(proto.int32_data_size());
    if (static_cast<uint64_t>(elements) > present * (8 / bits)) {
      return {KIMI_BAD_FILE, std::to_string(present) + " bytes for a shape of " + std::to_string(elements)};
    }
    Status s = HostTensor::create(*dtype, std::move(dims), tensor);
    return s ? s : unpack(proto, bits, tensor);
  }
  uint64_t present = proto.has_raw_data()
                         ? proto.raw_data().size() / kimi_dtype_size(*dtype)
                         : static_cast<uint64_t>(proto.float_data_size()) + proto.int32_data_size() +
                               proto.int64_data_size() + proto.double_data_size() + proto.uint64_data_size();
  if (static_cast<uint64_t>(elements) != present ||
      (proto.has_raw_data() && proto.raw_data().size() % kimi_dtype_size(*dtype) != 0)) {
    return {KIMI_BAD_FILE, std::to_string(present) + " elements for a shape of " + std::to_string(elements)};
  }
  if (Status s = HostTensor::create(*dtype, std::move(dims), tensor)) {
    return s;
  }
  if (proto.has_raw_data()) {
    std::memcpy(tensor.data(), proto.raw_data().data(), tensor.bytes());
    return {};
  }
  switch (*dtype) {
  case KIMI_F32:
    return copyField(proto.float_data(), tensor);
  case KIMI_F64:
    return copyField(proto.double_data(), tensor);
  case KIMI_I64:
    return copyField(proto.int64_data(), tensor);
  case KIMI_U64:
  case KIMI_U32:
    return copyField(proto.uint64_data(), tensor);
  default:
    return copyField(proto.int32_data(), tensor);
  }
}

Status readTensorProto(const std::string &path, std::string &name, HostTensor &tensor) {
  std::string error;
  std::optional<std::string> bytes = text::readFile(path, INT32_MAX, error);
  if (!bytes) {
    return {KIMI_NOT_FOUND, error};
  }
  Status s = parseTensorProto(*bytes, name, tensor);
  return s ? Status(s.code(), path + ": " + s.message()) : Status();
}

} // namespace kimi::run
