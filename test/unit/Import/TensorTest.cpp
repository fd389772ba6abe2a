//===- TensorTest.cpp - tensors in every encoding, and sizes that cannot be
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/ImportLimits.h"
#include "test/unit/Import/ImportTester.h"
#include <cstring>

using namespace kimi;
using namespace kimi::test;

namespace {

class TensorTest : public ImportTester {
protected:
  /// The elements of a tensor of floats or integers, as numbers.
  std::vector<double> values(const Tensor &tensor) {
    auto elements = mlir::dyn_cast_or_null<mlir::DenseElementsAttr>(importTensor(tensor));
    std::vector<double> result;
    if (!elements) {
      ADD_FAILURE() << "refused, or no constant: " << said;
      return result;
    }
    mlir::Type element = elements.getElementType();
    if (mlir::isa<mlir::FloatType>(element)) {
      for (llvm::APFloat value : elements.getValues<llvm::APFloat>()) {
        bool lost;
        value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
        result.push_back(value.convertToDouble());
      }
      return result;
    }
    bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
    for (llvm::APInt value : elements.getValues<llvm::APInt>()) {
      result.push_back(isUnsigned ? static_cast<double>(value.getZExtValue())
                                  : static_cast<double>(value.getSExtValue()));
    }
    return result;
  }

  void refuses(const Tensor &tensor, const std::string &why) {
    EXPECT_FALSE(importTensor(tensor));
    EXPECT_NE(said.find(why), std::string::npos) << said;
  }
};

template <typename T>
std::string rawOf(const std::vector<T> &values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST_F(TensorTest, RawAndTypedFieldsSayTheSame) {
  Tensor raw = tensorOf(Tensor::FLOAT, {3}), typed = raw;
  raw.set_raw_data(rawOf<float>({1.5f, -2.0f, 0.25f}));
  for (float value : {1.5f, -2.0f, 0.25f}) {
    typed.add_float_data(value);
  }
  EXPECT_EQ(values(raw), (std::vector<double>{1.5, -2.0, 0.25}));
  EXPECT_EQ(importTensor(raw), importTensor(typed));

  raw = typed = tensorOf(Tensor::UINT64, {1});
  raw.set_raw_data(rawOf<uint64_t>({UINT64_MAX}));
  typed.add_uint64_data(UINT64_MAX);
  EXPECT_EQ(importTensor(raw), importTensor(typed));

  // 16-bit floats stand in int32_data by their bits.
  raw = typed = tensorOf(Tensor::BFLOAT16, {2});
  raw.set_raw_data(rawOf<uint16_t>({0x3f80, 0xc000}));
  typed.add_int32_data(0x3f80);
  typed.add_int32_data(0xc000);
  EXPECT_EQ(values(raw), (std::vector<double>{1.0, -2.0}));
  EXPECT_EQ(importTensor(raw), importTensor(typed));
}

TEST_F(TensorTest, NarrowIntegersKeepTheirSignAndRange) {
  Tensor bytes = tensorOf(Tensor::INT8, {2});
  bytes.set_raw_data(std::string("\x80\x7f", 2));
  EXPECT_EQ(values(bytes), (std::vector<double>{-128, 127}));
  bytes = tensorOf(Tensor::UINT8, {2});
  bytes.add_int32_data(255);
  bytes.add_int32_data(0);
  EXPECT_EQ(values(bytes), (std::vector<double>{255, 0}));
}

TEST_F(TensorTest, ElementsOfLessThanAByteArePackedFromTheLowBits) {
  // An odd number: the last byte is half used.
  Tensor nibbles = tensorOf(Tensor::INT4, {3});
  nibbles.set_raw_data(std::string("\xe1\xf6", 2)); // 1, -2, 6, and a half that means nothing
  EXPECT_EQ(values(nibbles), (std::vector<double>{1, -2, 6}));
  Tensor crumbs = tensorOf(Tensor::UINT2, {5});
  crumbs.set_raw_data(std::string("\xe4\x02", 2));
  EXPECT_EQ(values(crumbs), (std::vector<double>{0, 1, 2, 3, 2}));
  nibbles.clear_raw_data();
  nibbles.add_int32_data(0xe1);
  nibbles.add_int32_data(0x06);
  EXPECT_EQ(values(nibbles), (std::vector<double>{1, -2, 6}));
  nibbles.add_int32_data(0);
  refuses(nibbles, "int32_data has 3 entries where its type takes 2");
}

TEST_F(TensorTest, AnyByteButZeroIsTrue) {
  Tensor truth = tensorOf(Tensor::BOOL, {3});
  truth.set_raw_data(std::string("\x00\x01\x80", 3));
  EXPECT_EQ(values(truth), (std::vector<double>{0, 1, 1}));
}

TEST_F(TensorTest, EightBitFloatsTakeTheirOwnTypes) {
  for (int32_t type : {Tensor::FLOAT8E4M3FN, Tensor::FLOAT8E4M3FNUZ, Tensor::FLOAT8E5M2, Tensor::FLOAT8E5M2FNUZ}) {
    Tensor tensor = tensorOf(type, {2});
    tensor.set_raw_data(std::string("\x00\x40", 2));
    std::vector<double> read = values(tensor);
    ASSERT_EQ(read.size(), 2u);
    EXPECT_EQ(read[0], 0.0);
    EXPECT_EQ(read[1], type == Tensor::FLOAT8E4M3FNUZ || type == Tensor::FLOAT8E5M2FNUZ ? 1.0 : 2.0);
  }
}

TEST_F(TensorTest, ScalarsAndTensorsWithoutElements) {
  Tensor scalar = tensorOf(Tensor::INT64, {});
  scalar.add_int64_data(-7);
  EXPECT_EQ(values(scalar), (std::vector<double>{-7}));
  Tensor nothing = tensorOf(Tensor::FLOAT, {4, 0, 2});
  EXPECT_EQ(values(nothing), std::vector<double>());
  nothing.set_raw_data("");
  EXPECT_EQ(values(nothing), std::vector<double>());
}

TEST_F(TensorTest, LargeTensorsStayInTheFile) {
  Tensor large = tensorOf(Tensor::FLOAT, {2, 1024});
  large.set_raw_data(rawOf<float>(std::vector<float>(2048, 3.0f)));
  auto place = mlir::dyn_cast_or_null<ExternalAttr>(importTensor(large));
  ASSERT_TRUE(place) << said;
  EXPECT_EQ(place.getFile().str(), "model.onnx");
  EXPECT_EQ(place.getLength(), 8192u);
  EXPECT_LE(place.getOffset() + place.getLength(), std::filesystem::file_size(folder / "model.onnx"));
  // The same in typed fields has no place in the file that could be mapped: it is kept by value, as a weight.
  large.clear_raw_data();
  for (int i = 0; i < 2048; ++i) {
    large.add_float_data(3.0f);
  }
  auto elements = mlir::dyn_cast_or_null<mlir::DenseElementsAttr>(importTensor(large));
  ASSERT_TRUE(elements) << said;
  EXPECT_TRUE(elements.isSplat());
}

TEST_F(TensorTest, SizesThatDoNotFitAreRefusedBeforeMemoryIsAskedFor) {
  Tensor tensor = tensorOf(Tensor::FLOAT, {1ll << 20, 1ll << 28});
  tensor.set_raw_data(std::string(4, '\0'));
  refuses(tensor, "raw_data has 4 bytes where its type takes 1125899906842624");
  refuses(tensorOf(Tensor::FLOAT, {1ll << 62, 1ll << 62, 1ll << 62}), "more than 72057594037927936 elements");
  refuses(tensorOf(Tensor::FLOAT, {INT64_MAX, 0}), "more than 72057594037927936 elements"); // of which the product is 0
  refuses(tensorOf(Tensor::FLOAT, {2, -3}), "extent -3 is negative");
  refuses(tensorOf(Tensor::FLOAT, {INT64_MIN}), "is negative");
  refuses(tensorOf(Tensor::FLOAT, std::vector<int64_t>(ImportLimits().rank + 1, 1)), "rank 65 is more than 64");
  tensor = tensorOf(Tensor::DOUBLE, {2});
  tensor.set_raw_data(std::string(15, '\0'));
  refuses(tensor, "raw_data has 15 bytes where its type takes 16");
  tensor.set_raw_data(std::string(17, '\0'));
  refuses(tensor, "raw_data has 17 bytes where its type takes 16");
  tensor = tensorOf(Tensor::FLOAT, {2048}); // large enough to stay in the file
  tensor.set_raw_data(std::string(8191, '\0'));
  refuses(tensor, "raw_data has 8191 bytes where its type takes 8192");
}

TEST_F(TensorTest, FieldsOfAnotherTypeAreRefused) {
  Tensor tensor = tensorOf(Tensor::FLOAT, {1});
  tensor.add_int64_data(1);
  refuses(tensor, "int64_data cannot hold elements of type float32");
  tensor = tensorOf(Tensor::FLOAT, {1});
  tensor.add_float_data(1);
  tensor.set_raw_data(std::string(4, '\0'));
  refuses(tensor, "has both raw_data and a typed data field");
  refuses(tensorOf(Tensor::FLOAT, {1}), "float_data has 0 entries where its type takes 1");
}

TEST_F(TensorTest, TypesThatAreNoNumbersAreRefusedByName) {
  refuses(tensorOf(Tensor::STRING, {1}), "elements of type string are not supported");
  refuses(tensorOf(Tensor::COMPLEX128, {1}), "elements of type complex128 are not supported");
  refuses(tensorOf(Tensor::UNDEFINED, {1}), "undefined is no element type");
  refuses(tensorOf(1000, {1}), "data type 1000 is no element type");
  refuses(tensorOf(-1, {1}), "data type -1 is no element type");
}

class SparseTest : public ImportTester {
protected:
  mlir::ModuleOp importSparse(const std::vector<int64_t> &dims, const std::vector<float> &held,
                              const std::vector<int64_t> &indexDims, const std::vector<int64_t> &indices) {
    ::onnx::ModelProto model = emptyModel();
    auto *sparse = model.mutable_graph()->add_sparse_initializer();
    *sparse->mutable_values() = tensorOf(Tensor::FLOAT, {static_cast<int64_t>(held.size())});
    for (float value : held) {
      sparse->mutable_values()->add_float_data(value);
    }
    *sparse->mutable_indices() = tensorOf(Tensor::INT64, indexDims);
    for (int64_t index : indices) {
      sparse->mutable_indices()->add_int64_data(index);
    }
    for (int64_t dim : dims) {
      sparse->add_dims(dim);
    }
    addNode(model.mutable_graph()->mutable_node(), "Identity", {"w"}, {"y"});
    model.mutable_graph()->add_output()->set_name("y");
    return import(model);
  }
};

TEST_F(SparseTest, LinearAndCoordinateIndicesBecomeDense) {
  for (bool linear : {true, false}) {
    mlir::ModuleOp module =
        linear ? importSparse({2, 3}, {5, 7}, {2}, {1, 5}) : importSparse({2, 3}, {5, 7}, {2, 2}, {0, 1, 1, 2});
    ASSERT_TRUE(module) << said;
    mlir::DenseElementsAttr elements;
    module.walk([&](kimi::onnx::ConstantOp op) { elements = mlir::cast<mlir::DenseElementsAttr>(op.getValue()); });
    ASSERT_TRUE(elements);
    std::vector<float> all(elements.getValues<float>().begin(), elements.getValues<float>().end());
    EXPECT_EQ(all, (std::vector<float>{0, 5, 0, 0, 0, 7}));
  }
}

TEST_F(SparseTest, IndicesOutsideAndSizesWithoutEndAreRefused) {
  EXPECT_FALSE(importSparse({2, 3}, {5}, {1}, {6}));
  EXPECT_NE(said.find("index 0 of the sparse tensor lies outside its shape"), std::string::npos) << said;
  EXPECT_FALSE(importSparse({2, 3}, {5}, {1, 2}, {0, -1}));
  EXPECT_NE(said.find("lies outside"), std::string::npos) << said;
  EXPECT_FALSE(importSparse({2, 3}, {5}, {1, 3}, {0, 0, 0}));
  EXPECT_NE(said.find("int64 indices [n] or [n, rank]"), std::string::npos) << said;
  EXPECT_FALSE(importSparse({1ll << 30, 1ll << 20}, {5}, {1}, {6}));
  EXPECT_NE(said.find("store it dense"), std::string::npos) << said;
}

} // namespace
