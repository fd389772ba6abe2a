//===- Reference.h - the kimi ops as plain fp32 tensor loops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_REFERENCE_H
#define KIMI_PASSES_KIMI_REFERENCE_H

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/IR/PatternMatch.h"

namespace kimi {

/// Patterns that lower kimi ops to linalg.generic in fp32. Each family can be asked for alone.
void populateReferenceAttentionPatterns(mlir::RewritePatternSet &patterns);
/// delta_rule (to kimi.loops), causal_conv.
void populateReferenceDeltaPatterns(mlir::RewritePatternSet &patterns);
/// layer_norm, rms_norm, softmax.
void populateReferenceNormPatterns(mlir::RewritePatternSet &patterns);
/// linear, head_linear, fused_linear.
void populateReferenceLinearPatterns(mlir::RewritePatternSet &patterns);
/// greedy_token.
void populateReferenceTokenPatterns(mlir::RewritePatternSet &patterns);
/// gelu, embedding: elementwise, so that they can be fused afterwards.
void populateReferenceElementwisePatterns(mlir::RewritePatternSet &patterns);
/// swiglu, situ_glu, kda_gate: elementwise, too.
void populateReferenceGluPatterns(mlir::RewritePatternSet &patterns);
/// l2_norm, gated_rms_norm.
void populateReferenceHeadNormPatterns(mlir::RewritePatternSet &patterns);
/// attn_res, attn_res_bank, attn_res_merge.
void populateReferenceDepthPatterns(mlir::RewritePatternSet &patterns);
/// router.
void populateReferenceRouterPatterns(mlir::RewritePatternSet &patterns);
/// moe, dequantize.
void populateReferenceExpertPatterns(mlir::RewritePatternSet &patterns);

/// All of the above.
void populateReferencePatterns(mlir::RewritePatternSet &patterns);

/// x/2 * (1 + erf(x/sqrt(2))), or its tanh form, of a scalar f32.
mlir::Value emitGelu(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, bool tanh);

/// gate * sigmoid(gate) * up, of scalars f32.
mlir::Value emitSwiglu(mlir::OpBuilder &b, mlir::Location loc, mlir::Value gate, mlir::Value up);
/// beta * tanh(gate/beta) * sigmoid(gate) times linearBeta * tanh(up/linearBeta) (without it: times up), of scalars
/// f32.
mlir::Value emitSituGlu(mlir::OpBuilder &b, mlir::Location loc, mlir::Value gate, mlir::Value up,
                        const llvm::APFloat &beta, const std::optional<llvm::APFloat> &linearBeta);
/// 1 / (1 + exp(-x)) of a scalar f32.
mlir::Value emitSigmoid(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);

/// Minus the place `index` of an element `value` of a row, as f32, where it is the row's `maximum`; -inf elsewhere. The
/// largest of them is minus the first place of the maximum.
mlir::Value emitMinusIndexOfMaximum(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, mlir::Value maximum,
                                    mlir::Value index);
/// The token, of integer type `type`, that a row with this maximum and minus this place names: -1 where the maximum is
/// NaN or infinite.
mlir::Value emitToken(mlir::OpBuilder &b, mlir::Location loc, mlir::Value maximum, mlir::Value minusIndex,
                      mlir::Type type);

/// The scalar float `value` as float type `type`; the value itself where it has that type already.
mlir::Value castFloat(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, mlir::Type type);

/// Writes tensor programs: builds linalg.generic ops whose scalar code reads fp32.
class TensorCode {
public:
  /// An operand and the map from the loops to its dims.
  struct Operand {
    mlir::Value tensor;
    mlir::AffineMap map;
  };
  /// Gets the elements of the operands (floats widened to f32; other types as they are), gives the result's element.
  using Body = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;

  TensorCode(mlir::OpBuilder &b, mlir::Location loc) : b(b), loc(loc) {}

  /// A tensor of element type `element`, one element per loop (all parallel, extents `sizes`). A float that the body
  /// gives is rounded to `element`.
  mlir::Value map(llvm::ArrayRef<mlir::OpFoldResult> sizes, mlir::Type element, llvm::ArrayRef<Operand> operands,
                  Body body);
  /// An fp32 tensor over the first `sizes.size()` loops, reduced over the `reductions` loops that follow, starting from
  /// `initial`. The body gets the operands' elements and, last, what was accumulated so far.
  mlir::Value reduce(llvm::ArrayRef<mlir::OpFoldResult> sizes, unsigned reductions, double initial,
                     llvm::ArrayRef<Operand> operands, Body body);

  /// The map of `loops` loops to those of `dims`; -1 reads position 0.
  mlir::AffineMap loops(unsigned loops, llvm::ArrayRef<int64_t> dims);
  /// The map of `loops` loops to the first `count` of them, which may be none.
  mlir::AffineMap leading(unsigned loops, unsigned count);
  mlir::AffineMap identity(unsigned loops) { return b.getMultiDimIdentityMap(loops); }
  /// The extents of `tensor`.
  llvm::SmallVector<mlir::OpFoldResult> sizes(mlir::Value tensor);
  /// The f32 constant `value`.
  mlir::Value constant(double value);
  /// The extent `size` as f32.
  mlir::Value asFloat(mlir::OpFoldResult size);
  /// The fp32 `tensor` rounded to elements of type `element`; itself where that is f32.
  mlir::Value round(mlir::Value tensor, llvm::ArrayRef<mlir::OpFoldResult> sizes, mlir::Type element);
  /// `tensor` as `type`, whose static extents are known to hold.
  mlir::Value castTo(mlir::Value tensor, mlir::Type type);

  mlir::OpBuilder &b;
  mlir::Location loc;
};

/// softmax of `x` along `axis` in fp32 (with `log`, its logarithm), of elements `element`.
mlir::Value emitSoftmax(TensorCode &code, mlir::Value x, int64_t axis, bool log, mlir::Type element);

/// x, normalised over its last dim in fp32 (an fp32 tensor of x's shape), times gamma, plus beta (both optional).
/// `roundTo`: for rms, the type to which x * rsqrt(..) is rounded before gamma (null: none).
mlir::Value emitNorm(TensorCode &code, NormKind kind, mlir::Value x, mlir::Value gamma, mlir::Value beta,
                     mlir::FloatAttr eps, mlir::Type roundTo, mlir::Type element);

} // namespace kimi

#endif // KIMI_PASSES_KIMI_REFERENCE_H
