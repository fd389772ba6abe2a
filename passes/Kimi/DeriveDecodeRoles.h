//===- DeriveDecodeRoles.h - which argument is the token ids, which result the logits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_DERIVEDECODEROLES_H
#define KIMI_PASSES_KIMI_DERIVEDECODEROLES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>

namespace kimi {

/// What the arguments and results of a language model's function are for, from what is done with them.
struct Roles {
  std::optional<unsigned> tokenIds;
  /// The axis of the token ids along which the sequence runs.
  int64_t tokenAxis = 1;
  std::optional<unsigned> attentionMask;
  std::optional<unsigned> positionIds;
  /// Result index.
  std::optional<unsigned> logits;
  /// Rows of the table that is indexed by position, where there is one.
  std::optional<int64_t> maxContext;
};

/// Token ids are integers that look up rows of a table; position ids are other integers that are called so; a mask is
/// called attention_mask or spans [batch, past + tokens]. Logits are the float result with the token axis and as many
/// channels as the vocabulary.
Roles findRoles(mlir::func::FuncOp func);

/// Writes `kimi.role` on arguments and results.
void annotateRoles(mlir::func::FuncOp func, const Roles &roles);

} // namespace kimi

#endif // KIMI_PASSES_KIMI_DERIVEDECODEROLES_H
