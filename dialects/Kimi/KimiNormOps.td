//===- KimiNormOps.td - norms, softmax, activations -------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMINORMOPS
#define KIMI_DIALECTS_KIMI_KIMINORMOPS

include "dialects/Kimi/KimiDialect.td"

// The constraints that these ops share, and their ids: [N1] x holds floats, and has an axis where the op runs along one;
// [N2] the result has x's shape; [N3] and x's element type or f32; [N4] gamma and beta are [D] of floats; [N5] eps is finite and
// at least 0; [N6] the axis is one of x's.
class Kimi_SameShapeOp<string mnemonic> : Kimi_Op<mnemonic, [Pure,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>]> {
  let hasVerifier = 1;
}

def Kimi_LayerNormOp : Kimi_SameShapeOp<"layer_norm"> {
  let summary = "layer normalisation over the last axis";
  let description = [{
    x: [..., D], gamma: [D], beta: [D] (optional). y = (x - mean) * rsqrt(var + eps) * gamma + beta, with mean and
    (biased) variance over the last axis, in fp32. Ba, Kiros, Hinton 2016, eq. 4.
    Imported from: LayerNormalization-17, and its decomposed forms.

    Constraints: [N1] x is [..., D] of floats; [N2] y has x's shape; [N3] and x's element type or f32; [N4] gamma and
    beta are [D] of floats; [N5] eps is finite and at least 0.

    Example:
    ```mlir
    %y = kimi.layer_norm %x, %g, %b eps 1.0e-5
       : tensor<?x?x768xf32>, tensor<768xf32>, tensor<768xf32> -> tensor<?x?x768xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$gamma, Optional<AnyRankedTensor>:$beta, F32Attr:$eps);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $x `,` $gamma (`,` $beta^)? `eps` $eps attr-dict `:` type($x) `,` type($gamma) (`,` type($beta)^)? `->` type($result)
  }];
}

def Kimi_RmsNormOp : Kimi_SameShapeOp<"rms_norm"> {
  let summary = "root-mean-square normalisation over the last axis";
  let description = [{
    x: [..., D], gamma: [D]. r = x * rsqrt(mean(x^2) + eps) in fp32, r cast to x's type, then times gamma.
    Zhang, Sennrich 2019, eq. 4. Imported from: RMSNormalization-23, and its decomposed forms.

    Constraints: [N1] x is [..., D] of floats; [N2] y has x's shape; [N3] and the element type of x or gamma, or f32;
    [N4] gamma is [D] of floats; [N5] eps is finite and at least 0.

    Example: `%y = kimi.rms_norm %x, %g eps 1.0e-5 : tensor<?x?x256xf32>, tensor<256xf32> -> tensor<?x?x256xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$gamma, F32Attr:$eps);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x `,` $gamma `eps` $eps attr-dict `:` type($x) `,` type($gamma) `->` type($result)";
}

def Kimi_SoftmaxOp : Kimi_SameShapeOp<"softmax"> {
  let summary = "softmax along one axis";
  let description = [{
    y = exp(x - max(x)) / sum(exp(x - max(x))) along `axis`, in fp32; with `log`, y = (x - max(x)) - log(sum(exp(x - max(x)))).
    A row of only -inf gives NaN, as in ONNX. Imported from: Softmax-13, LogSoftmax-13.

    Constraints: [N1] x is of floats, of rank 1 or more; [N2] y has x's shape; [N3] and x's element type or f32; [N6] `axis`
    is an axis of x, counted from the front.

    Example: `%y = kimi.softmax %x axis 3 : tensor<?x12x?x?xf32> -> tensor<?x12x?x?xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$axis, UnitAttr:$log);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x `axis` $axis (`log` $log^)? attr-dict `:` type($x) `->` type($result)";
}

def Kimi_GeluOp : Kimi_SameShapeOp<"gelu"> {
  let summary = "Gaussian error linear unit";
  let description = [{
    Exact: y = x/2 * (1 + erf(x/sqrt(2))). With `tanh`: y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).
    Hendrycks, Gimpel 2016. The arithmetic is fp32. Imported from: Gelu-20, and its decomposed forms.

    Constraints: [N1] x is of floats; [N2] y has x's shape; [N3] and x's element type or f32.

    Example: `%y = kimi.gelu %x tanh : tensor<?x?x3072xf32> -> tensor<?x?x3072xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$x, UnitAttr:$tanh);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x (`tanh` $tanh^)? attr-dict `:` type($x) `->` type($result)";
}

#endif // KIMI_DIALECTS_KIMI_KIMINORMOPS
