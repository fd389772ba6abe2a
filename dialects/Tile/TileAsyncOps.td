//===- TileAsyncOps.td - roles, barriers, bulk copies, asynchronous products --===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `tile-warp-specialize` makes of a `tile.pipeline` for processors with a bulk copy engine and asynchronous matrix
// units (sm_90a). Schedules do not write these ops, and the CPU has no lowering for them.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_TILE_TILEASYNCOPS
#define KIMI_DIALECTS_TILE_TILEASYNCOPS

include "dialects/Tile/TileBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_RolesOp : Tile_Op<"roles", [NoRegionArguments, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "one thread fetches, the others compute";
  let description = [{
    The `producer` region is run by one thread of a warpgroup of its own, beside the kernel's `threads`, which run the
    `consumer` region. `registers` are those of a thread while it is in its region, the producer's first, or none where
    they stay as they are. Both regions see the values above them; they talk through barriers in shared memory. Nothing
    but the end of the kernel stands behind the op.

    Constraints: [O1] register counts are multiples of 8 in 24 to 256; [O2] the op stands at the top of a `tile.kernel`.

    Example: `tile.roles registers [40, 232] producer { ... } consumer { ... }`
  }];
  let arguments = (ins DenseI64ArrayAttr:$registers);
  let regions = (region SizedRegion<1>:$producer, SizedRegion<1>:$consumer);
  let assemblyFormat = "`registers` $registers `producer` $producer `consumer` $consumer attr-dict";
  let hasVerifier = 1;
}

def Tile_RoleEndOp : Tile_Op<"role_end", [Pure, Terminator, HasParent<"RolesOp">]> {
  let summary = "end of a role";
  let description = [{ Example: `tile.role_end`. }];
  let assemblyFormat = "attr-dict";
}

class Tile_BarrierOp<string mnemonic> : Tile_Op<"barrier_" # mnemonic, [MemoryEffects<[MemRead, MemWrite]>]>;

def Tile_BarrierInitOp : Tile_BarrierOp<"init"> {
  let summary = "make barriers ready for use";
  let description = [{
    Each element of `barriers` completes a phase after `arrivals` arrivals, and after the bytes have come that it was told
    to expect. The whole block runs the op and may use the barriers behind it.

    Constraints: [H1] barriers are a `memref<?xi64>` of static shape in shared memory; [H2] at least one arrival.

    Example: `tile.barrier_init %full arrivals 1 : memref<4xi64, #tile.space<shared>>`
  }];
  let arguments = (ins AnyMemRef:$barriers, I64Attr:$arrivals);
  let assemblyFormat = "$barriers `arrivals` $arrivals attr-dict `:` type($barriers)";
  let hasVerifier = 1;
}

def Tile_BarrierWaitOp : Tile_BarrierOp<"wait"> {
  let summary = "wait for a phase of a barrier";
  let description = [{
    Returns when the phase of `parity` is complete: 0 for the first, third, ... phase, 1 for the second, fourth, ... A
    fresh barrier counts as having completed a phase of parity 1. Constraint: [H1].

    Example: `tile.barrier_wait %full[%slot] parity %p : memref<4xi64, #tile.space<shared>>`
  }];
  let arguments = (ins AnyMemRef:$barriers, I32:$slot, I32:$parity);
  let assemblyFormat = "$barriers `[` $slot `]` `parity` $parity attr-dict `:` type($barriers)";
  let hasVerifier = 1;
}

def Tile_BarrierArriveOp : Tile_BarrierOp<"arrive"> {
  let summary = "arrive at a barrier";
  let description = [{
    One arrival for each warp that runs the op, all of its lanes together: for consumers. With `cluster`, at the barrier
    of each block of the cluster. Constraint: [H1].

    Example: `tile.barrier_arrive %empty[%slot] : memref<4xi64, #tile.space<shared>>`
  }];
  let arguments = (ins AnyMemRef:$barriers, I32:$slot, UnitAttr:$cluster);
  let assemblyFormat = "$barriers `[` $slot `]` (`cluster` $cluster^)? attr-dict `:` type($barriers)";
  let hasVerifier = 1;
}

def Tile_BarrierExpectOp : Tile_BarrierOp<"expect"> {
  let summary = "arrive at a barrier and announce bytes";
  let description = [{
    One arrival; the phase also waits for `bytes` that `tile.load_async` delivers. Constraints: [H1]; [H3] 1 to 2^20 - 1
    bytes.

    Example: `tile.barrier_expect %full[%slot] bytes 49152 : memref<4xi64, #tile.space<shared>>`
  }];
  let arguments = (ins AnyMemRef:$barriers, I32:$slot, I64Attr:$bytes);
  let assemblyFormat = "$barriers `[` $slot `]` `bytes` $bytes attr-dict `:` type($barriers)";
  let hasVerifier = 1;
}

def Tile_LoadAsyncOp : Tile_Op<"load_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "let the copy engine fetch a box of a buffer";
  let description = [{
    As `tile.load` with `pad` zero, by the bulk copy engine: the tile is there when `barriers[slot]` completes the phase
    whose expected bytes count it. The tile's stage is `tile[stage]` of a `memref<stages x rows x columns>`. With
    `multicast`, all blocks of the cluster run the op alike: each fetches its share of the rows, for all of them.

    Constraints: [N1] the tile is a shared `tile.alloc` of rank 3; [N2] the source is a kernel argument
    of rank 2 to 5; [N3] one offset for each dim of the source; [N4] `dims` are two dims of it, ascending, the last one
    the innermost, whose stride is 1; [N5] equal element types of 2 or 4 bytes; [H1].

    Example: `tile.load_async %a[%slot] from %x[%m, %k] dims [0, 1] barrier %full : memref<?x768xbf16>, memref<4x128x64xbf16, #tile.space<shared>>, memref<4xi64, #tile.space<shared>>`
  }];
  let arguments = (ins AnyMemRef:$tile, I32:$slot, AnyMemRef:$source, Variadic<Index>:$offsets, DenseI64ArrayAttr:$dims,
                   AnyMemRef:$barriers, UnitAttr:$multicast);
  let assemblyFormat = [{
    $tile `[` $slot `]` `from` $source `[` $offsets `]` `dims` $dims `barrier` $barriers (`multicast` $multicast^)? attr-dict
    `:` type($source) `,` type($tile) `,` type($barriers)
  }];
  let hasVerifier = 1;
}

def Tile_TensorMapOp : Tile_Op<"tensor_map", [Pure]> {
  let summary = "the address of a tensor map that the kernel is given";
  let description = [{
    One of those that the attribute `tile.tensor_maps` of the kernel lists; a generic pointer to a parameter.

    Constraint: [V1] the kernel lists it.

    Example: `%map = tile.tensor_map 0 : !llvm.ptr`
  }];
  let arguments = (ins I64Attr:$index);
  let results = (outs AnyType:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$index attr-dict `:` type($result)";
}

def Tile_MmaAsyncOp : Tile_Op<"mma_async", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "issue acc += a . b";
  let description = [{
    As `tile.mma`, without waiting: the op is one group, and no op may touch acc, or overwrite a or b, before a
    `tile.mma_wait` that covers it. a: a shared tile [M, K], or [K, M] with `transpose_a`, or a fragment [M, K] in the
    layout of accumulators; b: a shared tile [K, N], or [N, K] with `transpose_b`. A shared operand of rank 3 is the stage
    `slot` of it.

    Constraints: [Y1] acc is a rank 2 fp32 fragment; [Y2] a and b have one element type, bf16, f16 or f32 (taken as
    tf32); [Y3] b is a shared `tile.alloc`, a too, or a fragment without `transpose_a`; [Y4] the extents
    fit; [Y5] a slot for each operand of rank 3 and for no other.

    Example: `tile.mma_async %acc, %a[%slot], %b[%slot] transpose_b : memref<128x256xf32, #tile.space<fragment>>, memref<4x128x64xbf16, #tile.space<shared>>, memref<4x256x64xbf16, #tile.space<shared>>`
  }];
  let arguments = (ins AnyMemRef:$acc, AnyMemRef:$a, Optional<I32>:$a_slot, AnyMemRef:$b, Optional<I32>:$b_slot,
                   UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let assemblyFormat = [{
    $acc `,` $a (`[` $a_slot^ `]`)? `,` $b (`[` $b_slot^ `]`)? (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)?
    attr-dict `:` type($acc) `,` type($a) `,` type($b)
  }];
  let hasVerifier = 1;
}

def Tile_MmaWaitOp : Tile_Op<"mma_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "wait for asynchronous products";
  let description = [{
    Until at most `pending` of the groups that this thread issued are in flight. `fragments` are the accumulators and
    operands of the groups that end, which may be touched from here on.

    Constraint: [Y6] pending is 0 to 7.

    Example: `tile.mma_wait pending 0 %acc : memref<128x256xf32, #tile.space<fragment>>`
  }];
  let arguments = (ins I64Attr:$pending, Variadic<AnyMemRef>:$fragments);
  let assemblyFormat = "`pending` $pending ($fragments^ `:` type($fragments))? attr-dict";
  let hasVerifier = 1;
}

def Tile_AsyncFenceOp : Tile_Op<"async_fence", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "let the copy engine and the matrix units see what was stored";
  let description = [{
    Orders this thread's ordinary stores to shared memory before later reads of them by asynchronous ops, of other
    threads behind a barrier. Example: `tile.async_fence`.
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_TurnWaitOp : Tile_Op<"turn_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "wait for this warpgroup's turn";
  let description = [{
    The warpgroups of the consumers take turns in their order, the first one first: each waits for its turn, issues its
    products and passes the turn on. So one computes on what its products gave while the matrix units work for another
    (FlashAttention-3, arXiv:2407.08608, section 3.1). All of them run the op equally often, and a `tile.turn_pass` after
    each.

    Constraint: [W1] the op stands in the consumer region of a `tile.roles`.

    Example: `tile.turn_wait`
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Tile_TurnPassOp : Tile_Op<"turn_pass", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "let the next warpgroup have its turn";
  let description = [{
    See `tile.turn_wait`. Constraint: [W1].

    Example: `tile.turn_pass`
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_TILE_TILEASYNCOPS
