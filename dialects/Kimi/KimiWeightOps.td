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
    The weight as a tensor; no copy is made. A weight of 4-bit or E8M0 floats can also be read as its bytes: the same
    shape with the last extent in bytes, elements i8. The low half of a byte is the first of its two elements.

    Constraints: [R1] the symbol is a `kimi.weight`; [R2] the result has the weight's type, or that of its bytes (4-bit
    floats of an even last extent, f8E8M0FNU).

    Example:
    ```mlir
    %w = kimi.weight_ref @wte : tensor<50257x768xf32>
    %codes = kimi.weight_ref @experts : tensor<896x3072x1792xi8>  // of kimi.weight @experts : tensor<896x3072x3584xf4E2M1FN>
    ```
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

def Kimi_DequantizeOp : Kimi_Op<"dequantize", [Pure,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let summary = "small floats times the scale of their block";
  let description = [{
    x: [...] of f4E2M1FN (values 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives), scale: x's shape with the extent K of `axis`
    divided by `block`. y[.., i, ..] = x[.., i, ..] * scale[.., i div block, ..], in fp32, rounded once. With scales of
    f8E8M0FNU (2^(code - 127), code 255 is NaN) and blocks of 32 this is MXFP4: OCP Microscaling Formats 1.0, section 6.3.
    The weight stays packed in the module; whoever reads the result dequantises there.
    Imported from: DequantizeLinear-23 and later of FLOAT4E2M1.

    Constraints: [U1] x is of f4E2M1FN, scale of floats; [U2] axis is one of x's; [U3] block is at least 1 and divides the
    extent of the axis; [U4] scale has the shape above; [U5] y has x's shape, of floats of 16 bits or more.

    Example:
    ```mlir
    %y = kimi.dequantize %w, %s axis 1 block 32
       : tensor<3072x3584xf4E2M1FN>, tensor<3072x112xf8E8M0FNU> -> tensor<3072x3584xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, I64Attr:$axis, I64Attr:$block);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $x `,` $scale `axis` $axis `block` $block attr-dict `:` type($x) `,` type($scale) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // KIMI_DIALECTS_KIMI_KIMIWEIGHTOPS
