//===- IdentityViews.h - views that change nothing
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_IDENTITYVIEWS_H
#define KIMI_PASSES_KIMI_IDENTITYVIEWS_H

#include "mlir/IR/PatternMatch.h"

namespace kimi {

/// Patterns that drop slices of everything whose extents are dynamic, and concatenations of one tensor. (Upstream's
/// canonicalisers drop those of static extents, and reshapes and transpositions that cancel.) They insert no op.
void populateIdentityViewPatterns(mlir::RewritePatternSet &patterns);

} // namespace kimi

#endif // KIMI_PASSES_KIMI_IDENTITYVIEWS_H
