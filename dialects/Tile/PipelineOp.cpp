//===- PipelineOp.cpp - syntax and verifier of tile.pipeline
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace kimi::tile;

void PipelineOp::build(OpBuilder &builder, OperationState &state, Value lower, Value upper, Value step,
                       ValueRange buffers, int64_t stages, function_ref<void(OpBuilder &, Location, Value)> loads,
                       function_ref<void(OpBuilder &, Location, Value)> compute) {
  state.addOperands({lower, upper, step});
  state.addOperands(buffers);
  state.addAttribute(getStagesAttrName(state.name), builder.getI64IntegerAttr(stages));
  OpBuilder::InsertionGuard guard(builder);
  for (auto body : {loads, compute}) {
    Block *block = builder.createBlock(state.addRegion(), {}, {builder.getIndexType()}, {state.location});
    body(builder, state.location, block->getArgument(0));
  }
}

ParseResult PipelineOp::parse(OpAsmParser &parser, OperationState &result) {
  Type index = parser.getBuilder().getIndexType();
  OpAsmParser::Argument variable;
  variable.type = index;
  OpAsmParser::UnresolvedOperand lower, upper, step;
  int64_t stages;
  SmallVector<OpAsmParser::UnresolvedOperand> buffers;
  SmallVector<Type> types;
  SMLoc buffersAt;
  if (parser.parseArgument(variable) || parser.parseEqual() || parser.parseOperand(lower) ||
      parser.parseKeyword("to") || parser.parseOperand(upper) || parser.parseKeyword("step") ||
      parser.parseOperand(step) || parser.parseKeyword("stages") || parser.parseInteger(stages) ||
      parser.parseKeyword("buffers") || parser.parseLParen() || parser.getCurrentLocation(&buffersAt) ||
      parser.parseOperandList(buffers) || parser.parseColonTypeList(types) || parser.parseRParen()) {
    return failure();
  }
  result.addAttribute(getStagesAttrName(result.name), parser.getBuilder().getI64IntegerAttr(stages));
  for (OpAsmParser::UnresolvedOperand &operand : {std::ref(lower), std::ref(upper), std::ref(step)}) {
    if (parser.resolveOperand(operand, index, result.operands)) {
      return failure();
    }
  }
  if (parser.resolveOperands(buffers, types, buffersAt, result.operands) ||
      parser.parseRegion(*result.addRegion(), {variable}) || parser.parseKeyword("compute") ||
      parser.parseRegion(*result.addRegion(), {variable}) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes)) {
    return failure();
  }
  for (std::unique_ptr<Region> &region : result.regions) {
    if (region->empty()) { // `{}`
      region->emplaceBlock().addArgument(index, result.location);
    }
  }
  return success();
}

void PipelineOp::print(OpAsmPrinter &p) {
  p << " " << getLoads().getArgument(0) << " = " << getLower() << " to " << getUpper() << " step " << getStep()
    << " stages " << getStages() << " buffers(" << getBuffers() << " : " << getBuffers().getTypes() << ") ";
  p.printRegion(getLoads(), /*printEntryBlockArgs=*/false);
  p << " compute ";
  p.shadowRegionArgs(getCompute(), getLoads().getArguments());
  p.printRegion(getCompute(), /*printEntryBlockArgs=*/false);
  p.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {getStagesAttrName()});
}

LogicalResult PipelineOp::verify() {
  if (getStages() < 1 || getStages() > 8) {
    return emitOpError("[T1] has ") << static_cast<int64_t>(getStages())
                                    << " stages; 1 to 8 copies of the buffers are kept";
  }
  llvm::SmallPtrSet<Operation *, 4> buffers;
  for (auto [i, buffer] : llvm::enumerate(getBuffers())) {
    auto alloc = buffer.getDefiningOp<AllocOp>();
    auto space =
        alloc ? dyn_cast_or_null<SpaceKindAttr>(cast<MemRefType>(buffer.getType()).getMemorySpace()) : SpaceKindAttr();
    if (!space || space.getValue() != SpaceKind::shared || !buffers.insert(alloc).second) {
      return emitOpError("[T2] has a buffer ") << i << " of type " << buffer.getType()
                                               << "; buffers are shared tiles made by tile.alloc, each named once";
    }
  }
  for (Region *region : {&getLoads(), &getCompute()}) {
    if (region->getNumArguments() != 1 || !region->getArgument(0).getType().isIndex()) {
      return emitOpError("[T3] has a region whose arguments are not one index, the loop's");
    }
  }
  llvm::SmallPtrSet<Operation *, 4> filled;
  for (Operation &op : getLoads().front()) {
    if (auto load = dyn_cast<LoadOp>(op)) {
      Operation *buffer = load.getTile().getDefiningOp();
      if (!buffers.contains(buffer)) {
        return load.emitOpError("[T4] fills a tile that is no buffer of the pipeline");
      }
      if (!filled.insert(buffer).second) {
        return load.emitOpError("[T5] fills a buffer of the pipeline a second time");
      }
    } else if (!isMemoryEffectFree(&op) || op.getNumRegions() != 0) {
      return op.emitOpError("[T4] cannot stand in the load region of a tile.pipeline, which holds tile.load and scalar "
                            "arithmetic");
    }
  }
  if (filled.size() != buffers.size()) {
    return emitOpError("[T5] fills ") << filled.size() << " of its " << buffers.size() << " buffers";
  }
  return success();
}
