//===- KimiWeightOps.td - weights are symbols ------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMIWEIGHTOPS
#define KIMI_DIALECTS_KIMI_KIMIWEIGHTOPS

include "dialects/Kimi/KimiDialect.td"

def Kimi_WeightOp : Kimi_Op<"weight", [Symbol]> {
  let summary = "a weight: a type and where its bytes are";
  let description = [{
    `source` is `#kimi.external<...>` (bytes of a file, little-endian, row-major) or an elements attribute for values
    that were written inline in the model file in another encoding. Weights are never folded. In a file booleans take a
    byte each and 4-bit elements half a byte.

    Constraints: [W1] the type has a static shape and integer or float elements; [W2] the source has exactly the bytes of
    the type; [W3] the source is one of the two kinds; [W4] inline elements have the weight's type.

    Example: `kimi.weight @wte : tensor<50257x768xf32> from #kimi.external<"model.onnx.data", 0, 154389504>`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type, AnyAttr:$source);
  let assemblyFormat = "$sym_name `:` $type `from` $source attr-dict";
  let hasVerifier = 1;
}

def Kimi_WeightRefOp : Kimi_Op<"weight_ref", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the value of a weight";
  let description = [{
    The weight as a tensor; no copy is made.

    Constraints: [R1] the symbol is a `kimi.weight`; [R2] the result has the weight's type.

    Example: `%w = kimi.weight_ref @wte : tensor<50257x768xf32>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$weight);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$weight `:` type($result) attr-dict";
}

def Kimi_PackWeightOp : Kimi_Op<"pack_weight", [Pure]> {
  let summary = "a weight matrix in the panel layout of the matrix kernels";
  let description = [{
    From `w`: [K, N] (or [N, K] with `transpose`) to [ceil(N/panel), K, panel]: column j of the matrix is lane j mod
    panel of panel j div panel; lanes past N are zero. Run once when weights are loaded (the module's `init` entry),
    never in a step. Numeric effect: exact.

    Constraints: [P1] w is a matrix; [P2] panel is at least 1; [P3] the result has the shape above; [P4] and w's element
    type.

    Example: `%p = kimi.pack_weight %w panel 16 : tensor<768x2304xf32> -> tensor<144x768x16xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$w, I64Attr:$panel, UnitAttr:$transpose);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$w (`transpose` $transpose^)? `panel` $panel attr-dict `:` type($w) `->` type($result)";
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_KIMI_KIMIWEIGHTOPS
