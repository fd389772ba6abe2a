//===- DataTypes.cpp - element types and value types of ONNX
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/ImportLimits.h"
#include "lib/Import/TensorImporter.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kimi;
using Proto = ::onnx::TensorProto;
using ::onnx::TypeProto;

std::string kimi::dataTypeName(int32_t dataType) {
  static const char *const names[] = {"undefined",      "float32",  "uint8",        "int8",           "uint16",
                                      "int16",          "int32",    "int64",        "string",         "bool",
                                      "float16",        "float64",  "uint32",       "uint64",         "complex64",
                                      "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
                                      "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
                                      "uint2",          "int2",     "float6e2m3",   "float6e3m2"};
  constexpr int32_t count = sizeof(names) / sizeof(names[0]);
  return dataType >= 0 && dataType < count ? names[dataType] : "data type " + std::to_string(dataType);
}

Type TensorImporter::elementType(int32_t dataType, StringRef what) {
  Builder b(context);
  auto unsignedInt = [&](unsigned bits) { return b.getIntegerType(bits, /*isSigned=*/false); };
  switch (dataType) {
  case Proto::FLOAT:
    return b.getF32Type();
  case Proto::DOUBLE:
    return b.getF64Type();
  case Proto::FLOAT16:
    return b.getF16Type();
  case Proto::BFLOAT16:
    return b.getBF16Type();
  case Proto::BOOL:
    return b.getI1Type();
  case Proto::INT2:
    return b.getIntegerType(2);
  case Proto::INT4:
    return b.getIntegerType(4);
  case Proto::INT8:
    return b.getI8Type();
  case Proto::INT16:
    return b.getI16Type();
  case Proto::INT32:
    return b.getI32Type();
  case Proto::INT64:
    return b.getI64Type();
  case Proto::UINT2:
    return unsignedInt(2);
  case Proto::UINT4:
    return unsignedInt(4);
  case Proto::UINT8:
    return unsignedInt(8);
  case Proto::UINT16:
    return unsignedInt(16);
  case Proto::UINT32:
    return unsignedInt(32);
  case Proto::UINT64:
    return unsignedInt(64);
  case Proto::FLOAT8E4M3FN:
    return Float8E4M3FNType::get(context);
  case Proto::FLOAT8E4M3FNUZ:
    return Float8E4M3FNUZType::get(context);
  case Proto::FLOAT8E5M2:
    return Float8E5M2Type::get(context);
  case Proto::FLOAT8E5M2FNUZ:
    return Float8E5M2FNUZType::get(context);
  case Proto::FLOAT8E8M0:
    return Float8E8M0FNUType::get(context);
  case Proto::FLOAT6E2M3:
    return Float6E2M3FNType::get(context);
  case Proto::FLOAT6E3M2:
    return Float6E3M2FNType::get(context);
  case Proto::FLOAT4E2M1:
    return Float4E2M1FNType::get(context);
  case Proto::STRING:
  case Proto::COMPLEX64:
  case Proto::COMPLEX128:
    errors.report() << what << ": elements of type " << dataTypeName(dataType)
                    << " are not supported; only numbers and booleans are";
    return {};
  default:
    errors.report() << what << ": " << dataTypeName(dataType) << " is no element type";
    return {};
  }
}

Type TensorImporter::valueType(const TypeProto &type, StringRef what) {
  auto unsupported = [&](StringRef kind) -> Type {
    errors.report() << what << ": " << kind << " are not supported; only dense tensors are";
    return {};
  };
  switch (type.value_case()) {
  case TypeProto::VALUE_NOT_SET:
    return NoneType::get(context);
  case TypeProto::kTensorType:
    break;
  case TypeProto::kSequenceType:
    return unsupported("sequences");
  case TypeProto::kMapType:
    return unsupported("maps");
  case TypeProto::kOptionalType:
    return unsupported("optional values");
  case TypeProto::kSparseTensorType:
    return unsupported("sparse values");
  case TypeProto::kOpaqueType:
    return unsupported("opaque values");
  }
  const TypeProto::Tensor &tensor = type.tensor_type();
  if (tensor.elem_type() == Proto::UNDEFINED) {
    return NoneType::get(context);
  }
  Type element = elementType(tensor.elem_type(), what);
  if (!element) {
    return {};
  }
  if (!tensor.has_shape()) {
    return UnrankedTensorType::get(element);
  }
  if (static_cast<uint64_t>(tensor.shape().dim_size()) > limits.rank) {
    errors.report() << what << ": rank " << tensor.shape().dim_size() << " is more than " << limits.rank
                    << " (--max-rank)";
    return {};
  }
  SmallVector<int64_t> shape;
  int64_t product = 1;
  for (const auto &dim : tensor.shape().dim()) {
    if (!dim.has_dim_value()) {
      shape.push_back(ShapedType::kDynamic);
      continue;
    }
    int64_t extent = dim.dim_value();
    if (extent < 0) {
      errors.report() << what << ": extent " << extent << " is negative";
      return {};
    }
    shape.push_back(extent);
    if (extent > 1 && static_cast<uint64_t>(product) > limits.elements / static_cast<uint64_t>(extent)) {
      errors.report() << what << ": more than " << limits.elements << " elements (--max-elements)";
      return {};
    }
    product *= std::max<int64_t>(extent, 1);
  }
  return RankedTensorType::get(shape, element);
}
