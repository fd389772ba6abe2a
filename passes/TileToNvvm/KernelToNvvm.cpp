//===- KernelToNvvm.cpp - a tile.kernel as a CUDA kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "passes/TileToLlvm/KernelAbi.h"
#include "passes/TileToNvvm/Hopper.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_TILEKERNELTONVVM
#include "passes/TileToNvvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// CUDA's global memory, as LLVM numbers address spaces.
constexpr unsigned kGlobalSpace = 1;
/// A tensor map (CUtensorMap of the driver), bytes.
constexpr int64_t kTensorMapBytes = 128, kTensorMapAlignment = 64;

class KernelLowering {
public:
  KernelLowering(tile::KernelOp kernel, const LLVMTypeConverter &converter, bool overlap)
      : kernel(kernel), converter(converter), overlap(overlap), b(kernel), loc(kernel.getLoc()) {}

  LogicalResult run() {
    if (failed(checkSignature(kernel))) {
      return failure();
    }
    if (!kernel.getThreads()) {
      return kernel.emitError() << "kernel '" << kernel.getSymName()
                                << "' has no block size; run --tile-assign-threads first";
    }
    threads = *kernel.getThreads();
    tasks = kernel->hasAttr(kernel_attrs::kTasks);
    overlap &= !kernel->hasAttr(kernel_attrs::kPdl); // it waits already
    if (overlap) {
      kernel->setAttr(kernel_attrs::kPdl, b.getUnitAttr());
    }
    LLVM::LLVMFuncOp function = declare();
    replaceArguments(function);
    replaceBlockIds(function);
    if (tasks) {
      walk(function, point);
    }
    if (overlap) {
      waitForGrids(function);
    }
    kernel.erase();
    return success();
  }

private:
  /// The function with its parameters and attributes, and the kernel's body as it stands.
  LLVM::LLVMFuncOp declare() {
    Type word = b.getI64Type(), global = LLVM::LLVMPointerType::get(b.getContext(), kGlobalSpace);
    bool traced = !kernel->hasAttr(kernel_attrs::kUntraced);
    SmallVector<Type> inputs;
    SmallVector<std::tuple<unsigned, StringRef, Attribute>> values;
    for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
      if (isa<MemRefType>(type)) {
        // What another launch may still be writing is neither constant nor this kernel's alone.
        if (traced && !kernel.getArgAttr(index, kernel_attrs::kDependent)) {
          values.emplace_back(inputs.size(), LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
          if (!kernel.getArgAttr(index, kernel_attrs::kWritten)) {
            values.emplace_back(inputs.size(), LLVM::LLVMDialect::getReadonlyAttrName(), b.getUnitAttr());
          }
        }
        if (Attribute align = kernel.getArgAttr(index, tile::KernelOp::kAlignAttrName)) {
          values.emplace_back(inputs.size(), LLVM::LLVMDialect::getAlignAttrName(), align);
        }
        inputs.push_back(global);
        inputs.append(wordCount(type) - 1, word);
      } else {
        inputs.push_back(word);
      }
    }
    gridX = inputs.size();
    inputs.push_back(word);
    auto maps = kernel->getAttrOfType<ArrayAttr>(kernel_attrs::kTensorMaps);
    inputs.append(maps ? maps.size() : 0, LLVM::LLVMPointerType::get(b.getContext()));

    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), inputs);
    std::string symbol = kernel.getSymName().str();
    auto function = LLVM::LLVMFuncOp::create(b, loc, symbol, type);
    for (auto [index, name, value] : values) {
      function.setArgAttr(index, name, value);
    }
    for (size_t index = gridX + 1; index < inputs.size(); ++index) {
      Type bytes = LLVM::LLVMArrayType::get(b.getI8Type(), kTensorMapBytes);
      function.setArgAttr(index, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(bytes));
      function.setArgAttr(index, LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(kTensorMapAlignment));
      function.setArgAttr(index, NVVM::NVVMDialect::getGridConstantAttrName(), b.getUnitAttr());
    }
    function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
    function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(), b.getDenseI32ArrayAttr({static_cast<int32_t>(threads)}));
    if (auto blocks = kernel->getAttrOfType<IntegerAttr>(kernel_attrs::kBlocksPerSm)) {
      function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(blocks.getInt()));
    }
    for (StringRef name :
         {kernel_attrs::kTasks, kernel_attrs::kSharedBytes, kernel_attrs::kPdl, kernel_attrs::kTensorMaps}) {
      if (Attribute value = kernel->getAttr(name)) {
        function->setAttr(name, value);
      }
    }
    if (auto cluster = kernel->getAttrOfType<IntegerAttr>(kernel_attrs::kCluster)) {
      function->setAttr(NVVM::NVVMDialect::getClusterDimAttrName(),
                        b.getDenseI32ArrayAttr({static_cast<int32_t>(cluster.getInt()), 1, 1}));
    }
    function.getBody().takeBody(kernel.getBody());
    for (Type input : inputs) {
      function.getBody().addArgument(input, loc);
    }
    return function;
  }

  /// The kernel's arguments from the parameters, which stand behind them in the entry block for now.
  void replaceArguments(LLVM::LLVMFuncOp function) {
    Block *entry = &function.getBody().front();
    unsigned oldCount = kernel.getArgumentTypes().size();
    Type generic = LLVM::LLVMPointerType::get(b.getContext());
    b.setInsertionPointToStart(entry);
    unsigned next = oldCount;
    for (unsigned i = 0; i < oldCount; ++i) {
      BlockArgument old = entry->getArgument(i);
      unsigned count = wordCount(old.getType());
      if (auto memref = dyn_cast<MemRefType>(old.getType())) {
        SmallVector<Value> words(entry->getArguments().slice(next, count));
        words[0] = LLVM::AddrSpaceCastOp::create(b, loc, generic, words[0]);
        old.replaceAllUsesWith(rebuildMemRef(b, loc, converter, memref, words));
      } else {
        old.replaceAllUsesWith(arith::IndexCastOp::create(b, loc, b.getIndexType(), entry->getArgument(next)));
      }
      next += count;
    }
    entry->eraseArguments(0, oldCount);
  }

  Value widen(Value id) { return LLVM::ZExtOp::create(b, loc, b.getI64Type(), id); }

  /// This block's place in the grid along `dim`, or this task's.
  Value place(unsigned dim) {
    Type half = b.getI32Type();
    if (dim == 1) {
      return widen(NVVM::BlockIdYOp::create(b, loc, half));
    }
    if (dim == 2) {
      return widen(NVVM::BlockIdZOp::create(b, loc, half));
    }
    Value block = widen(NVVM::BlockIdXOp::create(b, loc, half));
    if (!tasks) {
      return block;
    }
    Value size = LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(threads));
    Value thread = widen(NVVM::ThreadIdXOp::create(b, loc, half));
    auto exact = LLVM::IntegerOverflowFlags::nsw | LLVM::IntegerOverflowFlags::nuw;
    Value first = LLVM::MulOp::create(b, loc, block, size, exact);
    return LLVM::AddOp::create(b, loc, first, thread, exact);
  }

  void replaceBlockIds(LLVM::LLVMFuncOp function) {
    b.setInsertionPointToStart(&function.getBody().front());
    Value ids[3];
    if (tasks) {
      ids[0] = point = place(0);
    }
    function.walk([&](Operation *op) {
      if (auto id = dyn_cast<tile::BlockIdOp>(op)) {
        Value &value = ids[id.getDim()];
        value = value ? value : place(id.getDim());
        OpBuilder at(id);
        Value index = arith::IndexCastOp::create(at, id.getLoc(), at.getIndexType(), value);
        id.replaceAllUsesWith(index);
        id.erase();
      } else if (auto map = dyn_cast<tile::TensorMapOp>(op)) {
        map.replaceAllUsesWith(function.getArgument(gridX + 1 + map.getIndex()));
        map.erase();
      } else if (auto ret = dyn_cast<tile::ReturnOp>(op)) {
        OpBuilder at(ret);
        LLVM::ReturnOp::create(at, ret.getLoc(), ValueRange());
        ret.erase();
      }
    });
  }

  /// Moves the arrays of a thread from `body`, which was split from `entry`, back: only there do they become registers.
  static void keepArrays(Block &entry, Block &body) {
    for (auto array : llvm::make_early_inc_range(body.getOps<LLVM::AllocaOp>())) {
      if (Operation *size = array.getArraySize().getDefiningOp(); size && size->getBlock() == &body) {
        size->moveBefore(&entry, entry.begin());
      }
      array->moveBefore(&entry, entry.end());
    }
  }

  /// A thread takes every so many-th task, from its `place` on, until it is past the end of the grid: where there are
  /// millions of tasks, starting a block for each 128 of them would take longer than they do.
  void walk(LLVM::LLVMFuncOp function, Value place) {
    Block *entry = &function.getBody().front();
    Block *body = entry->splitBlock(std::next(Block::iterator(place.getDefiningOp())));
    keepArrays(*entry, *body);
    b.setInsertionPointToEnd(entry);
    auto exact = LLVM::IntegerOverflowFlags::nsw | LLVM::IntegerOverflowFlags::nuw;
    Value size = LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(threads));
    Value blocks = widen(NVVM::GridDimXOp::create(b, loc, b.getI32Type()));
    Value stride = LLVM::MulOp::create(b, loc, blocks, size, exact);
    Block *header = new Block(), *next = new Block(), *exit = new Block();
    function.getBody().getBlocks().insert(body->getIterator(), header);
    function.getBody().push_back(next);
    function.getBody().push_back(exit);
    Value task = header->addArgument(b.getI64Type(), loc);
    place.replaceUsesWithIf(task, [&](OpOperand &use) { return use.getOwner()->getBlock() != entry; });
    LLVM::BrOp::create(b, loc, ValueRange{place}, header);
    for (Block &block : function.getBody()) {
      if (auto end = dyn_cast_or_null<LLVM::ReturnOp>(block.empty() ? nullptr : &block.back())) {
        b.setInsertionPoint(end);
        LLVM::BrOp::create(b, loc, ValueRange(), next);
        end.erase();
      }
    }
    b.setInsertionPointToEnd(header);
    Value inside = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ult, task, entry->getArgument(gridX));
    LLVM::CondBrOp::create(b, loc, inside, body, exit);
    b.setInsertionPointToEnd(next);
    Value following = LLVM::AddOp::create(b, loc, task, stride, exact);
    LLVM::BrOp::create(b, loc, ValueRange{following}, header);
    b.setInsertionPointToEnd(exit);
    LLVM::ReturnOp::create(b, loc, ValueRange());
  }

  /// Waits for the grids before this one ahead of everything that accesses global memory, then lets the next one in.
  void waitForGrids(LLVM::LLVMFuncOp function) {
    Block &entry = function.getBody().front();
    b.setInsertionPointToStart(&entry);
    bool apart = tasks; // a branch stands between the wait and what it protects
    for (Operation &op : entry) {
      // Ahead of the roles of a specialised kernel only barriers are initialised; the roles are branches.
      if (kernel->hasAttr(kernel_attrs::kConsumers) && isa<NVVM::Barrier0Op, NVVM::ClusterWaitOp>(op)) {
        b.setInsertionPointAfter(&op);
        apart = true;
        break;
      }
    }
    hopper::emitGridControl(b, loc, "griddepcontrol.wait; griddepcontrol.launch_dependents;");
    if (!apart) {
      // Loads of what no kernel in flight is said to write may move over anything but a branch.
      Block *body = entry.splitBlock(b.getInsertionPoint());
      keepArrays(entry, *body);
      Block *exit = new Block();
      function.getBody().push_back(exit);
      b.setInsertionPointToEnd(&entry);
      Value zero = LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(0));
      Value some = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, entry.getArgument(gridX), zero);
      LLVM::CondBrOp::create(b, loc, some, body, exit);
      b.setInsertionPointToEnd(exit);
      LLVM::ReturnOp::create(b, loc, ValueRange());
    }
  }

  tile::KernelOp kernel;
  const LLVMTypeConverter &converter;
  bool overlap;
  OpBuilder b;
  Location loc;
  int64_t threads = 0;
  bool tasks = false;
  unsigned gridX = 0;
  Value point; // of a task
};

struct TileKernelToNvvm : kimi::impl::TileKernelToNvvmBase<TileKernelToNvvm> {
  using TileKernelToNvvmBase::TileKernelToNvvmBase;

  void runOnOperation() override {
    LLVMTypeConverter converter(&getContext());
    for (tile::KernelOp kernel : llvm::make_early_inc_range(getOperation().getOps<tile::KernelOp>())) {
      if (failed(KernelLowering(kernel, converter, overlap).run())) {
        return signalPassFailure();
      }
    }
  }
};
} // namespace
