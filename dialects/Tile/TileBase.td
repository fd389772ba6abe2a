//===- TileBase.td - the tile dialect and its attributes --------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_TILE_TILEBASE
#define KIMI_DIALECTS_TILE_TILEBASE

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def TileDialect : Dialect {
  let name = "tile";
  let cppNamespace = "::kimi::tile";
  let summary = "How one thread block computes its part of a kernel";
  let description = [{
    One `tile.kernel` is one block's program: a grid, static tile shapes, explicit buffers and whole-tile ops, no thread
    ids. Buffers are memrefs: kernel arguments live in global memory (default memory space), tiles in
    `#tile.space<shared>` (visible to the whole block; a stack buffer on the CPU) or `#tile.space<fragment>` (registers
    of the block; a stack buffer that stays in the first-level cache on the CPU). Loops and scalar arithmetic are
    upstream `scf` and `arith`. A kernel for which no schedule exists holds upstream `scf`/`memref`/`linalg` loops instead.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<TileDialect, mnemonic, traits>;

def Tile_SpaceKind : I32EnumAttr<"SpaceKind", "where a tile lives", [
    I32EnumAttrCase<"shared", 0>, I32EnumAttrCase<"fragment", 1>]> {
  let cppNamespace = "::kimi::tile";
  let genSpecializedAttr = 0;
}
def Tile_SpaceAttr : EnumAttr<TileDialect, Tile_SpaceKind, "space"> {
  let assemblyFormat = "`<` $value `>`";
}
def Tile_ReduceKind : I32EnumAttr<"ReduceKind", "how a reduction combines", [
    I32EnumAttrCase<"add", 0>, I32EnumAttrCase<"max", 1>]> {
  let cppNamespace = "::kimi::tile";
}

def Tile_LayoutAttr : AttrDef<TileDialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "which thread of a block holds which element of a fragment";
  let description = [{
    Three lists of modes, fastest first: those of a thread's registers, of the 32 lanes of a warp, and of the warps. A
    mode `extent:stride at dim` is one digit of a mixed-radix number (register, lane or warp id); the element it stands
    for has, along `dim`, the coordinate

        coordinate[dim] = sum over the modes of that dim of digit * stride.

    A mode with stride 0 (`extent:0`) is a replication: threads that differ in that digit hold the same elements.
    Extents need not be powers of two; the product of the lane extents is 32, that of the warp extents the number of
    warps of the block. Along each dim the modes form a complete mixed-radix system, so that every element is held
    exactly once up to replication.

    Constraints: [L1] extents are positive, strides and dims not negative; [L2] 32 lanes, at most 32 warps, at most 1024
    registers; [L3] registers are not replicated; [L4] along each dim the strides, sorted, are 1, then each the product
    of stride and extent before it.

    Example: the accumulators of `mma.sync.m16n8`, 64x64 in four warps of 16 rows:
    ```mlir
    #tile.layout<registers [2:1 at 1, 2:8 at 0, 8:8 at 1], lanes [4:2 at 1, 8:1 at 0], warps [4:16 at 0]>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"LayoutMode">:$registers, ArrayRefParameter<"LayoutMode">:$lanes,
                    ArrayRefParameter<"LayoutMode">:$warps);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Values a thread holds.
    int64_t registerCount() const { return extentOf(getRegisters()); }
    int64_t warpCount() const { return extentOf(getWarps()); }
    /// Threads of a block: 32 a warp.
    int64_t threadCount() const { return 32 * warpCount(); }
    /// What register `index` adds to the coordinates of its thread.
    ::llvm::SmallVector<int64_t> registerOffset(int64_t index, unsigned rank) const {
      return coordinatesOf(getRegisters(), index, rank);
    }
    /// The element that a register of a thread holds.
    ::llvm::SmallVector<int64_t> coordinates(int64_t reg, int64_t lane, int64_t warp, unsigned rank) const;
    /// Whether the elements of a tile of `shape` are exactly those the layout names.
    bool covers(::llvm::ArrayRef<int64_t> shape) const;
    /// The layout of what a reduction along `axis` leaves (extent 1 there): registers drop out, threads replicate.
    LayoutAttr slice(int64_t axis) const;
    /// Whether every thread holds the same elements in both layouts, in whatever registers.
    bool sameElements(LayoutAttr other) const;
    /// How many threads hold each element.
    int64_t replication() const;
  }];
}

#endif // KIMI_DIALECTS_TILE_TILEBASE
