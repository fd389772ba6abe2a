//===- LowerMma.cpp - tile.mma as a register-blocked microkernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The accumulators of a block of rows x columns stay in registers over the sum: for each k, the block reads its columns
// of b as vectors and each element of its column of a once, broadcast. 6 rows x 2 vectors of 8 lanes fill the 16
// registers of AVX2, 12 x 2 of 16 lanes the 32 of AVX-512. With few rows there are too few accumulators to hide the
// latency of a fused multiply-add, so several k ("phases") get accumulators of their own.
//
// b is read as it lies when its columns are vectors (row-major or in panels). A transposed b is packed to panels first,
// or, for few rows, taken as dot products along k.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/TileToLlvm/VectorEmitter.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kimi;

namespace {
constexpr int64_t kColumnVectors = 2; ///< vectors of b that a block spans
constexpr int64_t kMinChains = 8;     ///< accumulators that hide the latency of a fused multiply-add
constexpr int64_t kDepthBlock = 256;  ///< k per pass over a wide b, so that its columns stay in the first-level cache
constexpr int64_t kDotRows = 3;       ///< up to so many rows, a transposed b is taken as dot products

int64_t maxRows(unsigned lanes) { return lanes >= 16 ? 12 : 6; }

class MmaLowering {
public:
  MmaLowering(VectorEmitter &e, tile::MmaOp op)
      : e(e), acc(e.flatten(op.getAcc())), a(e.flatten(op.getA())), b(e.flatten(op.getB())) {
    auto accShape = cast<MemRefType>(op.getAcc().getType()).getShape();
    m = accShape[0];
    n = accShape[1];
    k = cast<MemRefType>(op.getA().getType()).getDimSize(1);
    if (op.getPanels()) {
      panel = cast<MemRefType>(op.getB().getType()).getDimSize(2);
      depthStride = b.strides[1];
      columnStride = b.strides[2];
    } else {
      depthStride = b.strides[op.getTransposeB() ? 1 : 0];
      columnStride = b.strides[op.getTransposeB() ? 0 : 1];
    }
  }

  void lower(llvm::function_ref<Value(int64_t)> scratch) {
    bool alongDepth = isOne(depthStride) && !isOne(columnStride);
    if (alongDepth && m <= kDotRows && k % e.lanes == 0 && a.staticStride(1) == 1) {
      return dotProducts();
    }
    if (!isOne(columnStride)) {
      pack(scratch, alongDepth && panel == 0);
    }
    int64_t depth = m > maxRows(e.lanes) ? kDepthBlock : k;
    int64_t whole = k / depth * depth;
    if (whole == depth) {
      columns(e.index(0), depth);
    } else {
      e.loop(e.index(0), e.index(whole), depth, [&](Value at) { columns(at, depth); });
    }
    if (whole < k) {
      columns(e.index(whole), k - whole);
    }
  }

private:
  static bool isOne(OpFoldResult stride) { return getConstantIntValue(stride) == 1; }

  /// Where column j of b begins (at k = 0).
  Value column(Value j) {
    if (panel == 0) {
      return e.mul(j, e.materialize(columnStride));
    }
    Value size = e.index(panel);
    Value which = e.b.createOrFold<arith::DivUIOp>(e.loc, j, size);
    Value lane = e.b.createOrFold<arith::RemUIOp>(e.loc, j, size);
    return e.add(e.mul(which, e.materialize(b.strides[0])), e.mul(lane, e.materialize(columnStride)));
  }

  /// The widths of the vectors that `count` columns from a multiple of a block on are made of.
  SmallVector<unsigned> widths(int64_t count) {
    int64_t widest = panel == 0 ? e.lanes : std::min<int64_t>(e.lanes, panel & -panel);
    SmallVector<unsigned> result;
    for (; count > 0; count -= std::min(count, widest)) {
      result.push_back(std::min(count, widest));
    }
    return result;
  }

  void columns(Value depthFrom, int64_t depth) {
    int64_t block = kColumnVectors * widths(e.lanes)[0];
    int64_t whole = n / block * block;
    if (whole > 0) {
      e.loop(e.index(0), e.index(whole), block, [&](Value j) { rows(j, widths(block), depthFrom, depth); });
    }
    if (whole < n) {
      rows(e.index(whole), widths(n - whole), depthFrom, depth);
    }
  }

  /// All rows of a block of columns, in blocks of nearly equal height.
  void rows(Value j, ArrayRef<unsigned> vectors, Value depthFrom, int64_t depth) {
    int64_t blocks = llvm::divideCeil(m, maxRows(e.lanes));
    int64_t low = m / blocks, tall = m % blocks * (low + 1);
    auto run = [&](int64_t from, int64_t to, int64_t height) {
      if (to - from == height) {
        microkernel(e.index(from), height, j, vectors, depthFrom, depth);
      } else if (from < to) {
        e.loop(e.index(from), e.index(to), height,
               [&](Value i) { microkernel(i, height, j, vectors, depthFrom, depth); });
      }
    };
    run(0, tall, low + 1);
    run(tall, m, low);
  }

  void microkernel(Value i, int64_t height, Value j, ArrayRef<unsigned> vectors, Value depthFrom, int64_t depth) {
    int64_t perPhase = height * vectors.size();
    int64_t phases = 1;
    while (phases * perPhase < kMinChains && phases < 8) {
      phases *= 2;
    }
    int64_t unroll = std::max<int64_t>(phases, perPhase > 16 ? 2 : 4);

    SmallVector<Value> accPositions, columnStarts;
    Value accRow = e.mul(i, e.materialize(acc.strides[0]));
    Value offset = e.index(0);
    for (unsigned width : vectors) {
      accPositions.push_back(e.add(e.add(accRow, j), offset));
      columnStarts.push_back(panel == 0 || panel % (kColumnVectors * vectors[0]) == 0
                                 ? e.add(column(j), e.mul(offset, e.materialize(columnStride)))
                                 : column(e.add(j, offset)));
      offset = e.add(offset, e.index(width));
    }
    auto accAt = [&](int64_t r, size_t v) {
      return e.add(accPositions[v], e.mul(e.index(r), e.materialize(acc.strides[0])));
    };
    Type f32 = e.b.getF32Type();
    SmallVector<Value> sums;
    for (int64_t p = 0; p < phases; ++p) {
      for (int64_t r = 0; r < height; ++r) {
        for (auto [v, width] : llvm::enumerate(vectors)) {
          sums.push_back(p == 0 ? e.load(acc, accAt(r, v), width) : e.constant(f32, 0.0, width));
        }
      }
    }

    Value aRow = e.mul(i, e.materialize(a.strides[0]));
    // One step: k = at + u.
    auto step = [&](Value at, int64_t u, MutableArrayRef<Value> live) {
      Value bDepth = e.mul(at, e.materialize(depthStride));
      Value bStep = e.mul(e.index(u), e.materialize(depthStride));
      SmallVector<Value> bVectors;
      for (auto [v, width] : llvm::enumerate(vectors)) {
        Value position = e.add(e.add(columnStarts[v], bDepth), bStep);
        bVectors.push_back(e.convert(e.load(b, position, width), f32));
      }
      Value aDepth = e.add(aRow, e.mul(at, e.materialize(a.strides[1])));
      Value aStep = e.mul(e.index(u), e.materialize(a.strides[1]));
      for (int64_t r = 0; r < height; ++r) {
        Value within = e.add(e.mul(e.index(r), e.materialize(a.strides[0])), aStep);
        Value element = e.convert(e.load(a, e.add(aDepth, within), 0), f32);
        for (auto [v, width] : llvm::enumerate(vectors)) {
          Value &sum = live[((u % phases) * height + r) * vectors.size() + v];
          sum = vector::FMAOp::create(e.b, e.loc, e.splat(element, width), bVectors[v], sum);
        }
      }
    };
    int64_t whole = depth / unroll * unroll;
    if (whole > 0) {
      sums = e.loop(depthFrom, e.add(depthFrom, e.index(whole)), unroll, sums, [&](Value at, ValueRange carried) {
        SmallVector<Value> live(carried);
        for (int64_t u = 0; u < unroll; ++u) {
          step(at, u, live);
        }
        return live;
      });
    }
    Value rest = e.add(depthFrom, e.index(whole));
    for (int64_t u = 0; u < depth - whole; ++u) {
      step(rest, u, sums);
    }
    for (int64_t half = phases / 2; half >= 1; half /= 2) {
      for (int64_t s = 0; s < half * perPhase; ++s) {
        sums[s] = e.combine(tile::ReduceKind::add, sums[s], sums[s + half * perPhase]);
      }
    }
    for (int64_t r = 0; r < height; ++r) {
      for (size_t v = 0; v < vectors.size(); ++v) {
        e.store(sums[r * vectors.size() + v], acc, accAt(r, v));
      }
    }
  }

  /// acc[i, j] += sum over k of a[i, k] * b[k, j], with vectors along k.
  void dotProducts() {
    Type f32 = e.b.getF32Type();
    int64_t group = e.lanes, whole = n / group * group;
    auto sumOf = [&](Value i, Value j, int64_t count) {
      Value aRow = e.mul(i, e.materialize(a.strides[0]));
      SmallVector<Value> starts;
      for (int64_t c = 0; c < count; ++c) {
        starts.push_back(e.mul(e.add(j, e.index(c)), e.materialize(columnStride)));
      }
      SmallVector<Value> init(count, e.constant(f32, 0.0, e.lanes));
      return e.loop(e.index(0), e.index(k), e.lanes, init, [&](Value at, ValueRange carried) {
        Value av = e.convert(e.load(a, e.add(aRow, at), e.lanes), f32);
        SmallVector<Value> next;
        for (int64_t c = 0; c < count; ++c) {
          Value bv = e.convert(e.load(b, e.add(starts[c], at), e.lanes), f32);
          next.push_back(vector::FMAOp::create(e.b, e.loc, av, bv, carried[c]));
        }
        return next;
      });
    };
    auto addTo = [&](Value i, Value j, Value sum, unsigned width) {
      Value position = e.add(e.mul(i, e.materialize(acc.strides[0])), j);
      e.store(e.combine(tile::ReduceKind::add, e.load(acc, position, width), sum), acc, position);
    };
    e.loop(e.index(0), e.index(whole), group, [&](Value j) {
      e.loop(e.index(0), e.index(m), 1, [&](Value i) { addTo(i, j, e.horizontalSums(sumOf(i, j, group)), group); });
    });
    e.loop(e.index(whole), e.index(n), 1, [&](Value j) {
      e.loop(e.index(0), e.index(m), 1,
             [&](Value i) { addTo(i, j, e.horizontal(tile::ReduceKind::add, sumOf(i, j, 1)[0]), 0); });
    });
  }

  /// Copies b to panels of fp32 and makes it the b of this lowering.
  void pack(llvm::function_ref<Value(int64_t)> scratch, bool alongDepth) {
    Type f32 = e.b.getF32Type();
    int64_t width = kColumnVectors * e.lanes, panels = llvm::divideCeil(n, width);
    FlatBuffer packed;
    packed.flat = scratch(panels * width * k);
    packed.element = f32;
    packed.strides = {e.b.getIndexAttr(k * width), e.b.getIndexAttr(width), e.b.getIndexAttr(1)};
    auto target = [&](Value j, Value at) {
      Value which = e.b.createOrFold<arith::DivUIOp>(e.loc, j, e.index(width));
      Value lane = e.b.createOrFold<arith::RemUIOp>(e.loc, j, e.index(width));
      return e.add(e.add(e.mul(which, e.index(k * width)), e.mul(at, e.index(width))), lane);
    };
    auto source = [&](Value j, Value at) { return e.add(column(j), e.mul(at, e.materialize(depthStride))); };
    auto elements = [&](Value jFrom, Value jTo, Value from, Value to) {
      e.loop(jFrom, jTo, 1, [&](Value j) {
        e.loop(from, to, 1,
               [&](Value at) { e.store(e.convert(e.load(b, source(j, at), 0), f32), packed, target(j, at)); });
      });
    };
    int64_t wholeColumns = alongDepth ? n / e.lanes * e.lanes : 0, wholeDepth = k / e.lanes * e.lanes;
    e.loop(e.index(0), e.index(wholeColumns), e.lanes, [&](Value j) {
      e.loop(e.index(0), e.index(wholeDepth), e.lanes, [&](Value at) {
        SmallVector<Value> rows;
        for (unsigned c = 0; c < e.lanes; ++c) {
          rows.push_back(e.convert(e.load(b, source(e.add(j, e.index(c)), at), e.lanes), f32));
        }
        for (auto [d, row] : llvm::enumerate(e.transpose(rows))) {
          e.store(row, packed, e.add(target(j, at), e.index(d * width)));
        }
      });
    });
    elements(e.index(0), e.index(wholeColumns), e.index(wholeDepth), e.index(k));
    elements(e.index(wholeColumns), e.index(n), e.index(0), e.index(k));

    b = packed;
    panel = width;
    depthStride = b.strides[1];
    columnStride = b.strides[2];
  }

  VectorEmitter &e;
  FlatBuffer acc, a, b;
  int64_t m, n, k;
  int64_t panel = 0; ///< columns of a panel of b; 0: b has two dims
  OpFoldResult depthStride, columnStride;
};
} // namespace

void kimi::lowerMma(VectorEmitter &e, tile::MmaOp op, llvm::function_ref<Value(int64_t)> pack) {
  MmaLowering(e, op).lower(pack);
}
