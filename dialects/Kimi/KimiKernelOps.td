//===- KimiKernelOps.td - from graph to kernels -----------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMIKERNELOPS
#define KIMI_DIALECTS_KIMI_KIMIKERNELOPS

include "dialects/Kimi/KimiLinearOps.td"

def Kimi_LoopsOp : Kimi_Op<"loops", [Pure, AttrSizedOperandSegments, SingleBlock,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "an algorithm as plain loops over buffers";
  let description = [{
    For ops that no `linalg.generic` says: top-k, cumulative sums, scatter. The body sees every input and every result
    as a memref (block arguments: inputs, then results, then one index per `scalars`), writes each result element at
    least once, and ends in `kimi.yield`. `result_dims` gives the dynamic extents of the results, in order. Without
    `rows` the body runs once, as one task. With `rows` it runs once for each row in [0, rows) (an extra, last, index
    argument is the row), tasks in parallel; different rows must write different elements.

    Constraints: [K1] the body has one argument for each input, result and scalar, and the row where there is `rows`;
    [K2] the arguments of tensors are memrefs of the same shape and element type; [K3] the others are index; [K4] it ends
    in a `kimi.yield` of nothing; [K5] `dims` has one value for each dynamic extent of the results.

    Example:
    ```mlir
    %y = kimi.loops ins(%x : tensor<?x4xf32>) dims(%n) rows(%n) -> tensor<?x4xf32> {
    ^bb0(%in: memref<?x4xf32>, %out: memref<?x4xf32>, %row: index):
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %sum = scf.for %j = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> f32 {
        %v = memref.load %in[%row, %j] : memref<?x4xf32>
        %next = arith.addf %acc, %v : f32
        memref.store %next, %out[%row, %j] : memref<?x4xf32>
        scf.yield %next : f32
      }
      kimi.yield
    }
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, Variadic<Index>:$scalars, Variadic<Index>:$result_dims,
                   Optional<Index>:$rows);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let assemblyFormat = [{
    (`ins` `(` $inputs^ `:` type($inputs) `)`)? (`scalars` `(` $scalars^ `)`)? (`dims` `(` $result_dims^ `)`)?
    (`rows` `(` $rows^ `)`)? attr-dict `->` type($results) $body
  }];
}

def Kimi_DispatchOp : Kimi_Op<"dispatch", [AttrSizedOperandSegments,
    MemoryEffects<[MemRead, MemWrite]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "launch one of several variants of a kernel";
  let description = [{
    `kernels` lists `tile.kernel` symbols with the same arguments: inputs, then results (as buffers), then scalars.
    Variant i is launched if guard i holds and none before it did; there is one guard fewer than there are variants (the
    last needs none). `grid` holds three extents for each variant. `result_dims` gives the dynamic extents of the
    results, in order. `states` are buffers written in place, passed after the inputs.

    Constraints: [D1] there is a kernel; [D2] one guard fewer than kernels; [D3] three grid extents for each kernel;
    [D4] `dims` has one value for each dynamic extent of the results; [D5] each kernel is a function of the module; [D6] it
    has an argument for each input, state, result and scalar.

    Example:
    ```mlir
    %y = kimi.dispatch [@linear_m1, @linear] guards(%one) grid(%n, %c1, %c1, %m, %n, %c1)
        ins(%x, %w : tensor<?x?x768xf32>, tensor<144x768x16xf32>) dims(%b, %t) scalars(%m) -> tensor<?x?x2304xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefArrayAttr:$kernels, Variadic<I1>:$guards, Variadic<Index>:$grid,
                   Variadic<AnyRankedTensor>:$inputs, Variadic<Kimi_StateType>:$states,
                   Variadic<Index>:$result_dims, Variadic<Index>:$scalars);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $kernels (`guards` `(` $guards^ `)`)? `grid` `(` $grid `)` (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    (`states` `(` $states^ `:` qualified(type($states)) `)`)? (`dims` `(` $result_dims^ `)`)? (`scalars` `(` $scalars^ `)`)?
    attr-dict (`->` type($results)^)?
  }];
}

def Kimi_StateViewOp : Kimi_Op<"state_view", [Pure]> {
  let summary = "the buffer of a state as a tensor, no copy";
  let description = [{
    What becomes of the result of `kimi.cache_append` once its copy is a dispatch: `sizes` gives the dynamic extents of
    the result, in order (the batch, and the rows of the growing axis). Reads what the dispatches before its users wrote.
    Built by --kimi-outline-generic.

    - [V1] the result has the state's elements, and its shape but for the axis that grows
    - [V2] `sizes` has one extent for each dynamic dim of the result

    Example: `%k = kimi.state_view %cache sizes(%b, %len) : !kimi.state<tensor<?x12x?x64xf32>, 2> -> tensor<?x12x?x64xf32>`
  }];
  let arguments = (ins Kimi_StateType:$state, Variadic<Index>:$sizes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$state (`sizes` `(` $sizes^ `)`)? attr-dict `:` type($state) `->` type($result)";
  let hasVerifier = 1;
}

def Kimi_RequireKind : I32EnumAttr<"RequireKind", "how two extents must compare", [
    I32EnumAttrCase<"equal", 0>, I32EnumAttrCase<"broadcast", 1>, I32EnumAttrCase<"at_most", 2>]> {
  let cppNamespace = "::kimi";
}

def Kimi_RequireOp : Kimi_Op<"require", [MemoryEffects<[MemWrite]>]> {
  let summary = "how two extents must compare in each call";
  let description = [{
    What a graph takes for granted of the extents of its inputs, and what does not follow from their names: the two sides
    of a contraction are `equal`; operands that are `broadcast` against each other are equal, or one of them is 1; what is
    scattered is `at_most` as large as where it goes. The host looks at it before anything runs; where it does not hold,
    `message` is the error. Built by --onnx-require-extents and --onnx-to-kimi.

    - [RQ1] the message is not empty

    Example: `kimi.require %k equal %m, "node 'scores': k and m must be equal"`
  }];
  let arguments = (ins Index:$left, Index:$right, Kimi_RequireKind:$kind, StrAttr:$message);
  let assemblyFormat = "$left $kind $right `,` $message attr-dict";
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_KIMI_KIMIKERNELOPS
