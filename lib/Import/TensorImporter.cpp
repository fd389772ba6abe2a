//===- TensorImporter.cpp - tensors of every encoding
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/TensorImporter.h"
#include "dialects/Kimi/KimiDialect.h"
#include "lib/Import/ImportLimits.h"
#include "llvm/ADT/StringExtras.h"
#include <cstring>

using namespace mlir;
using namespace kimi;
using ::onnx::SparseTensorProto;
using Proto = ::onnx::TensorProto;

namespace {
/// Bits of one element in raw_data.
unsigned fileBits(Type element) { return element.isInteger(1) ? 8 : element.getIntOrFloatBitWidth(); }

/// Appends the low bytes of each value.
template <typename Value, typename Source>
void appendAs(std::string &out, const Source &source) {
  out.reserve(out.size() + source.size() * sizeof(Value));
  for (auto item : source) {
    Value value = static_cast<Value>(item);
    out.append(reinterpret_cast<const char *>(&value), sizeof(value));
  }
}

/// Packs the low `bits` of each value into a bit stream, first value in the lowest bits.
template <typename Source>
void appendBits(std::string &out, const Source &source, unsigned bits) {
  unsigned held = 0, count = 0;
  for (auto item : source) {
    held |= (static_cast<unsigned>(item) & ((1u << bits) - 1)) << count;
    for (count += bits; count >= 8; count -= 8) {
      out.push_back(static_cast<char>(held));
      held >>= 8;
    }
  }
  if (count) {
    out.push_back(static_cast<char>(held));
  }
}
} // namespace

template <typename Dims>
FailureOr<TensorImporter::Layout> TensorImporter::layout(const Dims &dims, int32_t dataType, StringRef what) {
  Type element = elementType(dataType, what);
  if (!element) {
    return failure();
  }
  if (static_cast<uint64_t>(dims.size()) > limits.rank) {
    errors.report() << what << ": rank " << dims.size() << " is more than " << limits.rank << " (--max-rank)";
    return failure();
  }
  Layout layout;
  __int128 product = 1, elements = 1;
  for (int64_t extent : dims) {
    if (extent < 0) {
      errors.report() << what << ": extent " << extent << " is negative";
      return failure();
    }
    product *= std::max<int64_t>(extent, 1);
    elements *= extent;
    if (product > limits.elements) {
      errors.report() << what << ": more than " << limits.elements << " elements (--max-elements)";
      return failure();
    }
  }
  layout.bits = fileBits(element);
  layout.elements = static_cast<uint64_t>(elements);
  layout.bytes = (layout.elements * layout.bits + 7) / 8;
  layout.type = RankedTensorType::get(SmallVector<int64_t>(dims.begin(), dims.end()), element);
  return layout;
}

bool TensorImporter::isInline(const Layout &layout) const {
  return layout.bytes <= kInlineConstantBytes ||
         (layout.type.getElementType().isInteger() && layout.elements <= static_cast<uint64_t>(kInlineIntegers));
}

FailureOr<StringRef> TensorImporter::typedContents(const Proto &tensor, const Layout &layout, std::string &storage,
                                                   StringRef what) {
  Type element = layout.type.getElementType();
  bool isFloat = element.isF32(), isDouble = element.isF64(), isLong = element.isSignlessInteger(64);
  bool isUnsigned = element.isUnsignedInteger(32) || element.isUnsignedInteger(64);
  bool isInt = !isFloat && !isDouble && !isLong && !isUnsigned;
  struct Field {
    StringRef name;
    uint64_t count;
    bool right;
  };
  const Field fields[] = {{"float_data", static_cast<uint64_t>(tensor.float_data_size()), isFloat},
                          {"double_data", static_cast<uint64_t>(tensor.double_data_size()), isDouble},
                          {"int64_data", static_cast<uint64_t>(tensor.int64_data_size()), isLong},
                          {"uint64_data", static_cast<uint64_t>(tensor.uint64_data_size()), isUnsigned},
                          {"int32_data", static_cast<uint64_t>(tensor.int32_data_size()), isInt},
                          {"string_data", static_cast<uint64_t>(tensor.string_data_size()), false}};
  // Types of 2 and 4 bits are packed into the low byte of each entry, those of 6 bits have an entry each.
  uint64_t entries = isInt && (layout.bits == 2 || layout.bits == 4) ? layout.bytes : layout.elements;
  for (const Field &field : fields) {
    if (!field.right && field.count != 0) {
      errors.report() << what << ": " << field.name << " cannot hold elements of type "
                      << dataTypeName(tensor.data_type());
      return failure();
    }
  }
  for (const Field &field : fields) {
    if (field.right && field.count != entries) {
      errors.report() << what << ": " << field.name << " has " << field.count << " entries where its type takes "
                      << entries;
      return failure();
    }
  }
  if (isFloat) {
    appendAs<float>(storage, tensor.float_data());
  } else if (isDouble) {
    appendAs<double>(storage, tensor.double_data());
  } else if (isLong) {
    appendAs<int64_t>(storage, tensor.int64_data());
  } else if (isUnsigned && layout.bits == 64) {
    appendAs<uint64_t>(storage, tensor.uint64_data());
  } else if (isUnsigned) {
    appendAs<uint32_t>(storage, tensor.uint64_data());
  } else if (layout.bits == 32) {
    appendAs<int32_t>(storage, tensor.int32_data());
  } else if (layout.bits == 16) {
    appendAs<uint16_t>(storage, tensor.int32_data());
  } else if (layout.bits == 6) {
    appendBits(storage, tensor.int32_data(), 6);
  } else {
    appendAs<uint8_t>(storage, tensor.int32_data());
  }
  return StringRef(storage);
}

FailureOr<StringRef> TensorImporter::contents(const Proto &tensor, const Layout &layout, std::string &storage,
                                              StringRef what) {
  auto checked = [&](StringRef bytes, StringRef field) -> FailureOr<StringRef> {
    if (bytes.size() != layout.bytes) {
      errors.report() << what << ": " << field << " has " << bytes.size() << " bytes where its type takes "
                      << layout.bytes;
      return failure();
    }
    return bytes;
  };
  if (tensor.data_location() == Proto::EXTERNAL) {
    std::optional<FileRange> range = file.externalRange(tensor, layout.bytes, what, errors);
    if (!range) {
      return failure();
    }
    std::optional<std::string> read = file.readExternal(*range);
    if (!read) {
      errors.report() << what << ": its values are needed but cannot be read from '" << range->file << "'";
      return failure();
    }
    storage = std::move(*read);
    return checked(storage, range->file);
  }
  if (std::optional<FileRange> range = file.bulkRange(tensor)) {
    return checked(file.bytes(*range), "raw_data");
  }
  if (tensor.has_segment()) {
    errors.report() << what << ": tensors in segments are not supported";
    return failure();
  }
  bool hasTyped = tensor.float_data_size() || tensor.double_data_size() || tensor.int32_data_size() ||
                  tensor.int64_data_size() || tensor.uint64_data_size() || tensor.string_data_size();
  if (tensor.has_raw_data() && !(hasTyped && tensor.raw_data().empty())) {
    if (hasTyped) {
      errors.report() << what << ": has both raw_data and a typed data field";
      return failure();
    }
    return checked(tensor.raw_data(), "raw_data");
  }
  return typedContents(tensor, layout, storage, what);
}

DenseElementsAttr TensorImporter::decode(const Layout &layout, StringRef bytes) {
  if (layout.elements == 0) {
    return DenseElementsAttr::get(layout.type, ArrayRef<Attribute>());
  }
  if (layout.type.getElementType().isInteger(1)) {
    SmallVector<bool> values(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      values[i] = bytes[i] != 0;
    }
    return DenseElementsAttr::get(layout.type, ArrayRef<bool>(values));
  }
  if (layout.bits >= 8) {
    return DenseElementsAttr::getFromRawBuffer(layout.type, ArrayRef<char>(bytes.data(), bytes.size()));
  }
  // A byte per element in the attribute.
  SmallVector<char> values(layout.elements);
  for (uint64_t i = 0; i < layout.elements; ++i) {
    uint64_t bit = i * layout.bits;
    unsigned window = static_cast<uint8_t>(bytes[bit / 8]);
    if (bit / 8 + 1 < bytes.size()) {
      window |= static_cast<unsigned>(static_cast<uint8_t>(bytes[bit / 8 + 1])) << 8;
    }
    values[i] = static_cast<char>((window >> (bit % 8)) & ((1u << layout.bits) - 1));
  }
  return DenseElementsAttr::getFromRawBuffer(layout.type, values);
}

FailureOr<DenseElementsAttr> TensorImporter::elements(const Proto &tensor, StringRef what) {
  FailureOr<Layout> layout = this->layout(tensor.dims(), tensor.data_type(), what);
  std::string storage;
  if (failed(layout)) {
    return failure();
  }
  FailureOr<StringRef> bytes = contents(tensor, *layout, storage, what);
  if (failed(bytes)) {
    return failure();
  }
  return decode(*layout, *bytes);
}

FailureOr<ImportedTensor> TensorImporter::tensor(const Proto &tensor, StringRef what) {
  FailureOr<Layout> layout = this->layout(tensor.dims(), tensor.data_type(), what);
  if (failed(layout)) {
    return failure();
  }
  ImportedTensor result;
  result.type = layout->type;
  std::optional<FileRange> range;
  if (tensor.data_location() == Proto::EXTERNAL) {
    range = file.externalRange(tensor, layout->bytes, what, errors);
    if (!range) {
      return failure();
    }
    // Shapes and scalar settings are worth reading; vectors of weights stay where they are.
    Type element = layout->type.getElementType();
    bool isScalar = layout->elements == 1 && !isa<Float4E2M1FNType, Float8E8M0FNUType>(element);
    bool worthReading = isScalar || element.isInteger();
    if (worthReading && isInline(*layout)) {
      if (std::optional<std::string> read = file.readExternal(*range)) {
        result.source = decode(*layout, *read);
        result.isConstant = true;
        return result;
      }
    }
  } else if (!isInline(*layout)) {
    range = file.bulkRange(tensor);
    if (range && range->length != layout->bytes) {
      errors.report() << what << ": raw_data has " << range->length << " bytes where its type takes " << layout->bytes;
      return failure();
    }
  }
  if (range) {
    result.source = ExternalAttr::get(context, StringAttr::get(context, range->file), range->offset, range->length);
    return result;
  }
  std::string storage;
  FailureOr<StringRef> bytes = contents(tensor, *layout, storage, what);
  if (failed(bytes)) {
    return failure();
  }
  result.source = decode(*layout, *bytes);
  // Small floats are codes with a scale elsewhere: weights, however few there are.
  bool isPacked = isa<Float4E2M1FNType, Float8E8M0FNUType>(layout->type.getElementType());
  result.isConstant = isInline(*layout) && !isPacked;
  return result;
}

FailureOr<ImportedTensor> TensorImporter::sparse(const SparseTensorProto &tensor, StringRef what) {
  FailureOr<Layout> dense = layout(tensor.dims(), tensor.values().data_type(), what);
  FailureOr<Layout> values = layout(tensor.values().dims(), tensor.values().data_type(), what);
  FailureOr<Layout> indices = layout(tensor.indices().dims(), tensor.indices().data_type(), what);
  if (failed(dense) || failed(values) || failed(indices)) {
    return failure();
  }
  if (dense->bytes > limits.sparseBytes) {
    errors.report() << what << ": a sparse tensor of " << dense->bytes << " bytes when dense is more than "
                    << limits.sparseBytes << " (--max-sparse-bytes); store it dense";
    return failure();
  }
  int64_t rank = tensor.dims_size(), count = static_cast<int64_t>(values->elements);
  bool linear = indices->type.getRank() == 1 && indices->type.getDimSize(0) == count;
  bool coordinates =
      indices->type.getRank() == 2 && indices->type.getDimSize(0) == count && indices->type.getDimSize(1) == rank;
  if (values->type.getRank() != 1 || !indices->type.getElementType().isSignlessInteger(64) ||
      !(linear || coordinates) || dense->bits < 8) {
    errors.report() << what << ": a sparse tensor needs values [n] of at least 8 bits each and int64 indices [n] or "
                    << "[n, rank]";
    return failure();
  }
  std::string valueStorage, indexStorage;
  FailureOr<StringRef> valueBytes = contents(tensor.values(), *values, valueStorage, what);
  FailureOr<StringRef> indexBytes = contents(tensor.indices(), *indices, indexStorage, what);
  if (failed(valueBytes) || failed(indexBytes)) {
    return failure();
  }
  std::string bytes(dense->bytes, '\0');
  unsigned size = dense->bits / 8;
  auto indexAt = [&](int64_t i) {
    int64_t index = 0;
    std::memcpy(&index, indexBytes->data() + 8 * i, 8);
    return index;
  };
  for (int64_t i = 0; i < count; ++i) {
    int64_t position = linear ? indexAt(i) : 0;
    bool inside = position >= 0 && static_cast<uint64_t>(position) < dense->elements;
    for (int64_t d = 0; !linear && d < rank; ++d) {
      int64_t index = indexAt(i * rank + d), extent = dense->type.getDimSize(d);
      inside &= index >= 0 && index < extent;
      position = inside ? position * extent + index : 0;
    }
    if (!inside) {
      errors.report() << what << ": index " << i << " of the sparse tensor lies outside its shape";
      return failure();
    }
    std::memcpy(bytes.data() + position * size, valueBytes->data() + i * size, size);
  }
  return ImportedTensor{dense->type, decode(*dense, bytes), isInline(*dense)};
}
