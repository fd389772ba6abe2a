//===- ChannelTrace.h - channels of heads, followed back to where they are computed
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_CHANNELTRACE_H
#define KIMI_PASSES_KIMI_CHANNELTRACE_H

#include "lib/Module/HostScalars.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace kimi {

/// Some channels of the heads of a tensor [batch, heads, tokens, channels], as they lie in `tensor`.
struct HeadChannels {
  mlir::Value tensor;
  /// Axes of `tensor`. `heads` is -1 where it is no axis of its own.
  int64_t batch = 0, heads = 1, tokens = 2, channels = 3;
  /// Channel d of head h is entry first + h * stride + d of axis `channels`; the stride is 0 where heads are an axis of
  /// their own or have the same channels.
  int64_t first = 0, stride = 0, count = 0;
  /// All heads have the same channels: a broadcast lies between them and `tensor`.
  bool shared = false;

  /// The axis of `source` that holds what axis `axis` of `tensor` does; null where the rows have no such axis.
  int64_t *sameAxis(HeadChannels &source, int64_t axis) const {
    return axis == batch      ? &source.batch
           : axis == tokens   ? &source.tokens
           : axis == channels ? &source.channels
           : axis == heads    ? &source.heads
                              : nullptr;
  }
};

/// Follows channels through what moves elements and does not change them: casts of extents, transposes, reshapes,
/// slices of channels, concats of channels, broadcasts over heads.
class ChannelTracer {
public:
  explicit ChannelTracer(HostScalars &scalars) : scalars(scalars) {}

  /// One op back; false where `rows` are computed by what cannot be followed.
  bool step(HeadChannels &rows);
  /// As far back as possible, or to the first tensor that all heads share where `toShared` is set.
  void trace(HeadChannels &rows, bool toShared = false);
  /// The parts of `rows` that a concat of channels joins, in order; `rows` alone where there is no such concat.
  llvm::SmallVector<HeadChannels> parts(HeadChannels rows);

private:
  bool through(HeadChannels &rows, mlir::linalg::TransposeOp op);
  bool through(HeadChannels &rows, mlir::tensor::ExpandShapeOp op);
  bool through(HeadChannels &rows, mlir::tensor::CollapseShapeOp op);
  bool through(HeadChannels &rows, mlir::tensor::ExtractSliceOp op);
  bool through(HeadChannels &rows, mlir::tensor::ConcatOp op);
  bool through(HeadChannels &rows, mlir::linalg::GenericOp op);

  HostScalars &scalars;
};

} // namespace kimi

#endif // KIMI_PASSES_KIMI_CHANNELTRACE_H
