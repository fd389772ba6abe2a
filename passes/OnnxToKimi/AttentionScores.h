//===- AttentionScores.h - the scores of an Attention node as a result
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_ATTENTIONSCORES_H
#define KIMI_PASSES_ONNXTOKIMI_ATTENTIONSCORES_H

#include "passes/OnnxToKimi/BuildContext.h"

namespace kimi::onnx {

/// What Attention's qk_matmul_output holds, by qk_matmul_output_mode.
enum class ScoreMode : int64_t { Product = 0, Capped = 1, Masked = 2, Probabilities = 3 };

/// Scores [B, Hq, T, S] of q [B, Hq, T, D] and k [B, Hkv, S, D], of q's element type; computed in fp32:
///   Product         scale * q k^T
///   Capped          the same, softcap * tanh(s / softcap) where softcap > 0
///   Masked          the same, plus `mask` (floats), or -inf where `mask` (truth values) is false
///   Probabilities   softmax of that over S; zeros where a row sees no key
/// `mask` broadcasts to [B, Hq, T, S]. They are computed beside kimi.attention, which never holds them.
Tensor attentionScores(BuildContext &c, const Tensor &q, const Tensor &k, const std::optional<Tensor> &mask,
                       double scale, double softcap, ScoreMode mode);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_ATTENTIONSCORES_H
