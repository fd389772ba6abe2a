//===- TileOps.cpp - verifiers and syntax of the tile ops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The constraint ids in the messages are those of the op descriptions in TileDialect.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kimi::tile;

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), buildType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &p) {
  function_interface_impl::printFunctionOp(p, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addRegion();
}

static MemRefType memrefOf(Value value) { return dyn_cast<MemRefType>(value.getType()); }

static bool isStrided(MemRefType type) {
  int64_t offset;
  SmallVector<int64_t> strides;
  return succeeded(type.getStridesAndOffset(strides, offset));
}

LogicalResult KernelOp::verify() {
  if (isExternal()) {
    return emitOpError("[K1] '") << getSymName() << "' has no body";
  }
  if (!getResultTypes().empty()) {
    return emitOpError("[K2] '") << getSymName() << "' returns values; a kernel writes its results to buffers";
  }
  for (auto [i, type] : llvm::enumerate(getArgumentTypes())) {
    auto memref = dyn_cast<MemRefType>(type);
    if (!memref && !type.isIndex()) {
      return emitOpError("[K3] '") << getSymName() << "': argument " << i << " is " << type
                                   << "; a kernel takes memrefs and index values";
    }
    int64_t offset;
    SmallVector<int64_t> strides;
    if (memref &&
        (failed(memref.getStridesAndOffset(strides, offset)) || (offset != 0 && !ShapedType::isDynamic(offset)))) {
      return emitOpError("[K4] '") << getSymName() << "': argument " << i << " is " << memref
                                   << "; its layout must be strided with offset 0 or ?";
    }
    if (Attribute align = getArgAttr(i, kAlignAttrName)) {
      auto bytes = dyn_cast<IntegerAttr>(align);
      if (!memref || !bytes || !bytes.getType().isInteger(64) || !llvm::isPowerOf2_64(bytes.getInt())) {
        return emitOpError("[K6] '") << getSymName() << "': argument " << i << " has " << kAlignAttrName << " = "
                                     << align << "; the alignment of a buffer is a power of two (i64)";
      }
    }
  }
  if (std::optional<uint64_t> count = getThreads(); count && (*count % 32 != 0 || *count == 0 || *count > 1024)) {
    return emitOpError("[K5] '") << getSymName() << "' has " << static_cast<int64_t>(*count)
                                 << " threads; a block has a multiple of 32, at most 1024";
  }
  return success();
}

LogicalResult BlockIdOp::verify() {
  if (getDim() > 2) {
    return emitOpError("[B1] dim is ") << static_cast<int64_t>(getDim()) << "; a grid has dims 0, 1 and 2";
  }
  return success();
}

LogicalResult AllocOp::verify() {
  auto type = memrefOf(getResult());
  if (!type || !type.hasStaticShape()) {
    return emitOpError("[A1] has type ") << getResult().getType() << "; the shape of a tile must be static";
  }
  if (!type.getLayout().isIdentity()) {
    return emitOpError("[A2] has type ") << type << "; a tile is row-major without gaps";
  }
  if (!isa_and_nonnull<SpaceKindAttr>(type.getMemorySpace())) {
    return emitOpError("[A3] has type ") << type << "; a tile lives in #tile.space<shared> or #tile.space<fragment>";
  }
  if (LayoutAttr layout = getLayoutAttr()) {
    if (cast<SpaceKindAttr>(type.getMemorySpace()).getValue() != SpaceKind::fragment ||
        !layout.covers(type.getShape())) {
      return emitOpError("[A4] has type ")
             << type << " and " << layout << "; a layout belongs to a fragment and names each of its elements";
    }
    auto kernel = (*this)->getParentOfType<KernelOp>();
    if (kernel && kernel.getThreads() && static_cast<int64_t>(*kernel.getThreads()) != layout.threadCount()) {
      return emitOpError("[A5] has a layout of ")
             << layout.threadCount() << " threads; kernel '" << kernel.getSymName() << "' has " << *kernel.getThreads();
    }
  }
  return success();
}

/// The constraints of copies between `tile` and a box of `buffer`; `what` names the buffer.
static LogicalResult verifyCopy(Operation *op, Value tile, Value buffer, StringRef what, size_t offsets,
                                ArrayRef<int64_t> dims) {
  auto tileType = memrefOf(tile), bufferType = memrefOf(buffer);
  if (!tileType || !tileType.hasStaticShape()) {
    return op->emitOpError("[C1] has a tile of type ") << tile.getType() << "; its shape must be static";
  }
  if (!bufferType || !isStrided(tileType) || !isStrided(bufferType)) {
    return op->emitOpError("[C2] needs strided layouts; tile and ")
           << what << " are " << tile.getType() << " and " << buffer.getType();
  }
  if (static_cast<int64_t>(offsets) != bufferType.getRank()) {
    return op->emitOpError("[C3] has ") << offsets << " offsets for a " << what << " of rank " << bufferType.getRank();
  }
  if (static_cast<int64_t>(dims.size()) != tileType.getRank()) {
    return op->emitOpError("[C4] has ") << dims.size() << " dims for a tile of rank " << tileType.getRank();
  }
  llvm::SmallBitVector seen(bufferType.getRank());
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= bufferType.getRank()) {
      return op->emitOpError("[C5] dim ") << dim << " is no dim of a " << what << " of rank " << bufferType.getRank();
    }
    if (seen.test(dim)) {
      return op->emitOpError("[C6] dim ") << dim << " is named twice";
    }
    seen.set(dim);
  }
  Type from = tileType.getElementType(), to = bufferType.getElementType();
  if (from != to && !(isa<FloatType>(from) && isa<FloatType>(to))) {
    return op->emitOpError("[C7] cannot convert between ")
           << from << " and " << to << "; only floating point types differ";
  }
  return success();
}

LogicalResult LoadOp::verify() {
  return verifyCopy(*this, getTile(), getSource(), "source", getOffsets().size(), getDims());
}

LogicalResult StoreOp::verify() {
  return verifyCopy(*this, getTile(), getDest(), "destination", getOffsets().size(), getDims());
}

LogicalResult FillOp::verify() {
  auto type = memrefOf(getTile());
  if (!type || !type.hasStaticShape() || !isStrided(type)) {
    return emitOpError("[F1] has a tile of type ") << getTile().getType() << "; its shape must be static";
  }
  if (type.getElementType() != getValue().getType()) {
    return emitOpError("[F2] fills a tile of ") << type.getElementType() << " with " << getValue().getType();
  }
  return success();
}

LogicalResult MmaOp::verify() {
  auto acc = memrefOf(getAcc()), a = memrefOf(getA()), b = memrefOf(getB());
  for (MemRefType type : {acc, a, b}) {
    if (!type || !type.hasStaticShape() || !isStrided(type) || !isa<FloatType>(type.getElementType())) {
      return emitOpError("[M1] works on floating point memrefs of static shape and strided layout; acc, a and b are ")
             << getAcc().getType() << ", " << getA().getType() << " and " << getB().getType();
    }
  }
  if (getTransposeB() && getPanels()) {
    return emitOpError("[M2] is both transpose_b and panels");
  }
  int64_t bRank = getPanels() ? 3 : 2;
  if (acc.getRank() != 2 || a.getRank() != 2 || b.getRank() != bRank) {
    return emitOpError("[M3] needs acc and a of rank 2 and b of rank ")
           << bRank << "; they have ranks " << acc.getRank() << ", " << a.getRank() << " and " << b.getRank();
  }
  int64_t offset;
  SmallVector<int64_t> strides;
  (void)acc.getStridesAndOffset(strides, offset); // strided by M1
  if (!acc.getElementType().isF32() || strides[1] != 1) {
    return emitOpError("[M4] accumulates in fp32 rows of unit stride; acc is ") << acc;
  }
  ArrayRef<int64_t> shape = b.getShape();
  int64_t k = getPanels() ? shape[1] : shape[getTransposeB() ? 1 : 0];
  int64_t n = getPanels() ? shape[0] * shape[2] : shape[getTransposeB() ? 0 : 1];
  if (acc.getDimSize(0) != a.getDimSize(0) || acc.getDimSize(1) != n || a.getDimSize(1) != k) {
    return emitOpError("[M5] has shapes that do not fit: acc ")
           << acc.getDimSize(0) << "x" << acc.getDimSize(1) << ", a " << a.getDimSize(0) << "x" << a.getDimSize(1)
           << ", b " << k << "x" << n << " (k x n)";
  }
  return success();
}

LogicalResult MapOp::verify() {
  auto out = memrefOf(getOut());
  if (!out || !out.hasStaticShape() || !isStrided(out)) {
    return emitOpError("[P1] has an output of type ") << getOut().getType() << "; its shape must be static";
  }
  Block &body = getBody().front();
  if (body.getNumArguments() != getInputs().size()) {
    return emitOpError("[P2] has ") << getInputs().size() << " inputs and a region of " << body.getNumArguments()
                                    << " arguments";
  }
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    auto type = memrefOf(input);
    bool fits = type && type.hasStaticShape() && isStrided(type) && type.getRank() == out.getRank();
    for (int64_t d = 0; fits && d < out.getRank(); ++d) {
      fits = type.getDimSize(d) == out.getDimSize(d) || type.getDimSize(d) == 1;
    }
    if (!fits) {
      return emitOpError("[P3] input ") << i << " is " << input.getType()
                                        << "; each of its extents must be 1 or that of " << out;
    }
    if (body.getArgument(i).getType() != type.getElementType()) {
      return emitOpError("[P4] input ") << i << " holds " << type.getElementType() << ", region argument " << i
                                        << " is " << body.getArgument(i).getType();
    }
  }
  auto yield = dyn_cast_or_null<YieldOp>(body.empty() ? nullptr : &body.back());
  if (!yield || yield.getValue().getType() != out.getElementType()) {
    return emitOpError("[P5] must end in a tile.yield of one ") << out.getElementType();
  }
  for (Operation &op : body.without_terminator()) {
    if (auto element = dyn_cast<ElementIndexOp>(op)) {
      if (element.getDim() >= static_cast<uint64_t>(out.getRank())) {
        return element.emitOpError("[E1] dim is ")
               << static_cast<int64_t>(element.getDim()) << "; the map has rank " << out.getRank();
      }
      continue;
    }
    if (!OpTrait::hasElementwiseMappableTraits(&op) && !op.hasTrait<OpTrait::ConstantLike>()) {
      return op.emitOpError("[P6] cannot stand in a tile.map, whose region holds elementwise arith and math ops, "
                            "constants and tile.element_index");
    }
  }
  return success();
}

LogicalResult ReduceOp::verify() {
  auto in = memrefOf(getInput()), out = memrefOf(getOut());
  for (MemRefType type : {in, out}) {
    if (!type || !type.hasStaticShape() || !isStrided(type) || !type.getElementType().isF32()) {
      return emitOpError("[R1] reduces fp32 tiles of static shape; input and output are ")
             << getInput().getType() << " and " << getOut().getType();
    }
  }
  if (getAxis() >= static_cast<uint64_t>(in.getRank())) {
    return emitOpError("[R2] axis is ") << static_cast<int64_t>(getAxis()) << "; the input has rank " << in.getRank();
  }
  SmallVector<int64_t> expected(in.getShape());
  expected[getAxis()] = 1;
  if (out.getShape() != ArrayRef<int64_t>(expected)) {
    return emitOpError("[R3] reduces ") << in << " along axis " << getAxis() << " into " << out
                                        << "; the output keeps every extent but that of the axis, which is 1";
  }
  return success();
}

LogicalResult SharedAccessOp::verify() {
  for (ArrayRef<int64_t> list : {getReads(), getWrites()}) {
    if (list.size() % 2 != 0 || llvm::any_of(list, [](int64_t value) { return value < 0; })) {
      return emitOpError("[S1] needs pairs of an offset and a length");
    }
  }
  return success();
}

#define GET_OP_CLASSES
#include "dialects/Tile/TileOps.cpp.inc"
