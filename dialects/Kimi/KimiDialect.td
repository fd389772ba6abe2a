//===- KimiDialect.td - the graph level: what is computed -----------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMIDIALECT
#define KIMI_DIALECTS_KIMI_KIMIDIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def KimiDialect : Dialect {
  let name = "kimi";
  let cppNamespace = "::kimi";
  let summary = "Token mixers, norms and projections of language models, and the state they keep";
  let description = [{
    The graph level. Ordinary tensor work is upstream `linalg`/`tensor`/`arith`/`math`; this dialect holds what upstream
    lacks: token mixers and their state, norms, linear layers with fused prologue and epilogue, weights as symbols, and
    the launch of a kernel.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class Kimi_Op<string mnemonic, list<Trait> traits = []> : Op<KimiDialect, mnemonic, traits>;

def Kimi_External : AttrDef<KimiDialect, "External"> {
  let mnemonic = "external";
  let summary = "bytes of a file beside the model";
  let description = [{
    `length` bytes from `offset` of `file`, a path beneath the model's folder. The compiler maps them; it never copies
    them into the IR. Example: `#kimi.external<"model.onnx.data", 4096, 1024>`.
  }];
  let parameters = (ins "::mlir::StringAttr":$file, "uint64_t":$offset, "uint64_t":$length);
  let assemblyFormat = "`<` $file `,` $offset `,` $length `>`";
}

def Kimi_StateType : TypeDef<KimiDialect, "State"> {
  let mnemonic = "state";
  let summary = "what a token mixer keeps between steps";
  let description = [{
    A buffer that lives across runs of an entry and is updated in place. `shape` is its logical tensor type. `grows` is
    the axis that holds one row per token (the buffer has the capacity of `--max-seq` there, the logical extent is the
    number of tokens seen), or -1 for a state of fixed size. The layout is row-major in the order of the shape, so
    key-major and value-major states are different types.

    Constraints: [S1] `grows` is an axis of the shape, or -1; [S2] the growing axis has a dynamic extent.

    Example: `!kimi.state<tensor<?x12x?x64xf32>, 2>` is a KV cache of 12 heads.
  }];
  let parameters = (ins "::mlir::RankedTensorType":$shape, "int64_t":$grows);
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` $shape `,` $grows `>`";
}

#endif // KIMI_DIALECTS_KIMI_KIMIDIALECT
