//===- OnnxDialect.td - the file level: one op per ONNX node --------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_ONNX_ONNXDIALECT
#define KIMI_DIALECTS_ONNX_ONNXDIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def OnnxDialect : Dialect {
  let name = "onnx";
  let cppNamespace = "::kimi::onnx";
  let summary = "A one-to-one copy of an ONNX graph";
  let description = [{
    One `onnx.node` per node of the file; node and value names are locations; the opset of each domain is on the
    module. A graph is a `func.func` whose arguments and results carry `onnx.name` and `onnx.dims`.
    `onnx.name` is the port's name, `onnx.dims` has an extent (i64) or a name (string; "" if it has none, an expression
    such as "past + seq" is allowed) for every dim, and is absent where the rank is unknown.
    The module carries `onnx.opsets = {"ai.onnx" = 20 : i64, "com.microsoft" = 1 : i64}` and `onnx.ir_version`.

    Constraints on these attributes:
    - (D1) `onnx.opsets` is a dictionary of i64, `onnx.ir_version` an i64, both on a module.
    - (D2) `onnx.name` is a string.
    - (D3) `onnx.dims` is an array of strings and i64 with one entry per dim of a ranked tensor.
    - (D4) no other attribute of this dialect is put on a module, argument or result.
  }];
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let useDefaultTypePrinterParser = 0;
}

class Onnx_Op<string mnemonic, list<Trait> traits = []> : Op<OnnxDialect, mnemonic, traits>;

def Onnx_NoneOp : Onnx_Op<"none", [Pure]> {
  let summary = "an absent optional input";
  let description = [{ Stands for the empty name in a node's input list. Example: `%0 = onnx.none`. }];
  let results = (outs NoneType:$result);
  let assemblyFormat = "attr-dict";
}

def Onnx_ConstantOp : Onnx_Op<"constant", [Pure, ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a small constant of the file";
  let description = [{
    Constant nodes and initializers of at most 4096 bytes, or of at most 1024 integers or booleans; larger ones are
    `kimi.weight` symbols.
    Example: `%0 = onnx.constant dense<[1, -1]> : tensor<2xi64>`.
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$value attr-dict";
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value), [{
    build($_builder, $_state, value.getShapedType(), value);
  }]>];
}

def Onnx_NodeOp : Onnx_Op<"node", [Pure]> {
  let summary = "one node of an ONNX graph";
  let description = [{
    `op_type` and `domain` name the operator, `version` the opset of its domain, `attrs` its attributes
    (INT -> i64, FLOAT -> f32, STRING -> string, INTS/FLOATS -> `array<i64>`/`array<f32>`, STRINGS -> array of strings,
    TENSOR -> elements attribute). Graph attributes are regions, in the order of `region_names`, each ended by
    `onnx.yield`. An absent optional input is the result of `onnx.none`. Result types are what `value_info` and shape
    inference know: `tensor<*xf32>` where the rank is unknown, `tensor<*xnone>`-free: an unknown element type is `none`.

    Constraints:
    - (N1) `op_type` is not empty and `version` is at least 1.
    - (N2) there is one name in `region_names` per region; names differ from each other and from those in `attrs`.
    - (N3) operands, results and region arguments are tensors or `none`.
    - (N4) every attribute in `attrs` is of a kind listed above, or a type.
    - (N5) a region has one block, ended by `onnx.yield`.

    Example:
    ```mlir
    %0 = onnx.node "Softmax"(%x) {attrs = {axis = -1 : i64}, version = 13 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$op_type, DefaultValuedStrAttr<StrAttr, "">:$domain, I64Attr:$version,
                   DictionaryAttr:$attrs, OptionalAttr<StrArrayAttr>:$region_names, Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region VariadicRegion<AnyRegion>:$bodies);
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The input at `index`, or null where it is absent or past the end of the list.
    ::mlir::Value getInput(unsigned index);
    /// The attribute `name`, or null.
    ::mlir::Attribute getOnnxAttr(::llvm::StringRef name) { return getAttrs().get(name); }
    /// Typed attribute readers with the operator's default.
    int64_t getInt(::llvm::StringRef name, int64_t fallback);
    double getFloat(::llvm::StringRef name, double fallback);
    ::llvm::StringRef getString(::llvm::StringRef name, ::llvm::StringRef fallback);
    /// The integers of attribute `name`; nullopt where it is absent.
    std::optional<::llvm::SmallVector<int64_t>> getInts(::llvm::StringRef name);
    /// True for an operator of the default domain with this name.
    bool is(::llvm::StringRef opType) { return getDomain().empty() && getOpType() == opType; }
    /// The node's own name in the file (from its location), for messages.
    std::string getNodeName();
  }];
}

def Onnx_YieldOp : Onnx_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"NodeOp">]> {
  let summary = "the results of a subgraph";
  let description = [{ Ends a region of `onnx.node`. Example: `onnx.yield %a, %b : tensor<f32>, tensor<?xf32>`. }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // KIMI_DIALECTS_ONNX_ONNXDIALECT
