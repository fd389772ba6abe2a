//===- PlanTables.cpp - the tables that the entries of a module share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Module/PlanTables.h"
#include "dialects/Kimi/Shapes.h"
#include "lib/Module/HostScalars.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace kimi;

PlanTables::PlanTables(ModuleOp module) : symbols(module) {
  init.name = "init";
  initProgram = std::make_unique<ScalarProgram>(init, [](const std::string &) { return std::nullopt; });
}

std::optional<fb::DType> PlanTables::dtype(Type shaped) {
  Type type = cast<ShapedType>(shaped).getElementType();
  if (type.isF32()) {
    return fb::DType::F32;
  }
  if (type.isF16()) {
    return fb::DType::F16;
  }
  if (type.isBF16()) {
    return fb::DType::BF16;
  }
  if (type.isF64()) {
    return fb::DType::F64;
  }
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer) {
    return std::nullopt;
  }
  bool isUnsigned = integer.isUnsigned();
  switch (integer.getWidth()) {
  case 1:
    return fb::DType::Bool;
  case 8:
    return isUnsigned ? fb::DType::U8 : fb::DType::I8;
  case 16:
    return isUnsigned ? fb::DType::U16 : fb::DType::I16;
  case 32:
    return isUnsigned ? fb::DType::U32 : fb::DType::I32;
  case 64:
    return isUnsigned ? fb::DType::U64 : fb::DType::I64;
  }
  return std::nullopt;
}

int64_t PlanTables::elementSize(Type shaped) {
  return (cast<ShapedType>(shaped).getElementType().getIntOrFloatBitWidth() + 7) / 8;
}

int32_t PlanTables::symbol(const std::string &name) {
  auto [it, inserted] = symbolIndex.try_emplace(name, static_cast<int32_t>(plan.symbols.size()));
  if (inserted) {
    plan.symbols.push_back(name);
  }
  return it->second;
}

int32_t PlanTables::kernel(StringRef name) {
  auto [it, inserted] = kernelIndex.try_emplace(name.str(), static_cast<int32_t>(plan.kernels.size()));
  if (inserted) {
    plan.kernels.emplace_back();
    plan.kernels.back().name = plan.kernels.back().symbol = name.str();
  }
  return it->second;
}

/// The bytes of small floats as a file holds them: 4-bit ones two to a byte, the first in the low half.
static std::string packedContents(DenseElementsAttr elements) {
  bool half = elements.getElementType().getIntOrFloatBitWidth() == 4;
  std::string bytes;
  for (auto [i, value] : llvm::enumerate(elements.getValues<APFloat>())) {
    auto code = static_cast<unsigned>(value.bitcastToAPInt().getZExtValue());
    if (half && i % 2 == 1) {
      bytes.back() = static_cast<char>(static_cast<unsigned char>(bytes.back()) | code << 4);
    } else {
      bytes.push_back(static_cast<char>(code));
    }
  }
  return bytes;
}

FailureOr<int32_t> PlanTables::weight(WeightRefOp ref) {
  std::string name = ref.getWeight().str();
  auto known = weightIndex.find(name);
  if (known != weightIndex.end()) {
    return known->second;
  }
  auto op = symbols.lookup<WeightOp>(name);
  if (!op) {
    return ref.emitError() << "weight '" << name << "' is not in the module";
  }
  auto type = cast<RankedTensorType>(op.getType());
  RankedTensorType packed = packedBytes(type);
  std::optional<fb::DType> element = packed ? fb::DType::U8 : dtype(type);
  if (!element) {
    return op.emitError() << "weight '" << name << "' holds " << type.getElementType() << ", which a module cannot";
  }
  plan::Weight weight;
  weight.name = name;
  weight.dtype = *element;
  ArrayRef<int64_t> dims = packed ? packed.getShape() : type.getShape();
  weight.dims.assign(dims.begin(), dims.end());
  if (auto external = dyn_cast<ExternalAttr>(op.getSource())) {
    weight.file = external.getFile().str();
    weight.offset = external.getOffset();
    weight.length = external.getLength();
  } else if (auto elements = dyn_cast<DenseElementsAttr>(op.getSource())) {
    size_t size = elementSize(type);
    if (element == fb::DType::Bool) { // packed in the attribute, a byte each in memory
      for (bool value : elements.getValues<bool>()) {
        weight.bytes.push_back(value ? 1 : 0);
      }
    } else if (packed) {
      weight.bytes = packedContents(elements);
    } else {
      ArrayRef<char> raw = elements.getRawData();
      weight.bytes.assign(raw.begin(), raw.end());
      for (int64_t i = 1; elements.isSplat() && i < type.getNumElements(); ++i) {
        weight.bytes.append(raw.data(), size);
      }
    }
    size_t needed = packed ? static_cast<size_t>(packed.getNumElements()) : size * type.getNumElements();
    if (weight.bytes.size() != needed) {
      return op.emitError() << "weight '" << name << "' holds " << weight.bytes.size() << " bytes, its type " << type
                            << " needs " << needed;
    }
  } else if (auto resource = dyn_cast<DenseResourceElementsAttr>(op.getSource())) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob) {
      return op.emitError() << "weight '" << name << "' names a resource that is not there";
    }
    weight.bytes.assign(blob->getData().begin(), blob->getData().end());
  } else {
    return op.emitError() << "weight '" << name << "' has a source that a module cannot hold";
  }
  int32_t index = static_cast<int32_t>(plan.weights.size());
  plan.weights.push_back(std::move(weight));
  weightIndex.emplace(name, index);
  return index;
}

FailureOr<int32_t> PlanTables::state(func::FuncOp func, BlockArgument argument, DictionaryAttr attributes) {
  auto type = cast<StateType>(argument.getType());
  auto text = [&](StringRef key) {
    auto value = attributes ? attributes.getAs<StringAttr>(key) : StringAttr();
    return value ? value.str() : std::string();
  };
  plan::State state;
  state.name = text("kimi.name");
  if (state.name.empty()) {
    state.name = "state" + std::to_string(argument.getArgNumber());
  }
  std::optional<fb::DType> element = dtype(type.getShape());
  if (!element) {
    return func.emitError() << "state '" << state.name << "' holds " << type.getShape().getElementType()
                            << ", which a module cannot";
  }
  state.dtype = *element;
  for (int64_t extent : type.getShape().getShape()) {
    state.dims.push_back(ShapedType::isDynamic(extent) ? -1 : extent);
  }
  state.grows = static_cast<int32_t>(type.getGrows());
  state.input = text("kimi.input");
  state.output = text("kimi.output");
  auto [it, inserted] = stateIndex.try_emplace(state.name, static_cast<int32_t>(plan.states.size()));
  if (inserted) {
    plan.states.push_back(state);
  } else if (plan.states[it->second].dims != state.dims || plan.states[it->second].grows != state.grows ||
             plan.states[it->second].dtype != state.dtype) {
    return func.emitError() << "state '" << state.name << "' has another type in another entry";
  }
  return it->second;
}

FailureOr<plan::Port> PlanTables::port(func::FuncOp func, Type type, DictionaryAttr attributes, const char *kind,
                                       size_t index) {
  plan::Port port;
  auto name = attributes ? attributes.getAs<StringAttr>("kimi.name") : StringAttr();
  port.name = name && !name.empty() ? name.str() : kind + std::to_string(index);
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto integer = tensor ? dyn_cast<IntegerType>(tensor.getElementType()) : IntegerType();
  if (integer && attributes && attributes.contains("kimi.unsigned")) {
    // Integers are signless within the graph; the port says how they are read.
    tensor = cast<RankedTensorType>(
        tensor.clone(IntegerType::get(integer.getContext(), integer.getWidth(), IntegerType::Unsigned)));
  }
  std::optional<fb::DType> element = tensor ? dtype(tensor) : std::nullopt;
  if (!element) {
    return func.emitError() << kind << " '" << port.name << "' is a " << type << "; only tensors of numbers can be "
                            << "passed to a module";
  }
  port.dtype = *element;
  for (int64_t axis = 0; axis < tensor.getRank(); ++axis) {
    if (!tensor.isDynamicDim(axis)) {
      port.dims.emplace_back(tensor.getDimSize(axis), -1);
      continue;
    }
    std::string dim = dimName(attributes, axis);
    port.dims.emplace_back(-1, dim.empty() ? -1 : symbol(dim));
  }
  if (auto role = attributes ? attributes.getAs<StringAttr>("kimi.role") : StringAttr()) {
    port.role = llvm::StringSwitch<fb::Role>(role.getValue())
                    .Case("token_ids", fb::Role::TokenIds)
                    .Case("attention_mask", fb::Role::AttentionMask)
                    .Case("position_ids", fb::Role::PositionIds)
                    .Case("logits", fb::Role::Logits)
                    .Case("next_token", fb::Role::NextToken)
                    .Default(fb::Role::None);
  }
  return port;
}

int32_t PlanTables::initBuffer(fb::Buffer buffer) {
  auto key = std::make_pair(static_cast<int>(buffer.kind()), buffer.index());
  auto [it, inserted] = initBuffers.try_emplace(key, static_cast<int32_t>(init.buffers.size()));
  if (inserted) {
    init.buffers.push_back(buffer);
  }
  return it->second;
}

LogicalResult kimi::bakeWeights(ModuleOp module, plan::Plan &plan, const std::string &modelDir) {
  for (plan::Weight &weight : plan.weights) {
    if (weight.file.empty()) {
      continue;
    }
    llvm::SmallString<256> path(modelDir);
    llvm::sys::path::append(path, weight.file);
    auto bytes = llvm::MemoryBuffer::getFileSlice(path, weight.length, weight.offset, /*IsVolatile=*/false);
    if (!bytes || (*bytes)->getBufferSize() != weight.length) {
      return module.emitError() << "weight '" << weight.name << "': cannot read " << weight.length << " bytes at "
                                << weight.offset << " of '" << path
                                << "': " << (bytes ? std::string("the file is too short") : bytes.getError().message());
    }
    weight.bytes = (*bytes)->getBuffer().str();
    weight.file.clear();
    weight.offset = weight.length = 0;
  }
  return success();
}
