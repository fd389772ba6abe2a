//===- ChunkDeltaRule.cpp - --kimi-chunk-delta-rule: matrix products over chunks of tokens
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/Passes.h"
#include "passes/Kimi/Reference.h"
#include <limits>

namespace kimi {
#define GEN_PASS_DEF_CHUNKDELTARULE
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// exp of less than this is 0 in fp32: a gate below it forgets everything, and sums of such gates stay finite.
constexpr double kForgets = -104.0;
/// Rows of a sub-chunk: within one, exponents are taken pair by pair.
constexpr int64_t kSubChunk = 16;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Builds the chunkwise form of one delta rule (the names are those of the pass's description). Tensors of the state
/// are [batch, head, chunk, row, ..], those of the queries [batch, head, member, chunk, row, ..].
class Chunker {
public:
  Chunker(OpBuilder &b, DeltaRuleOp op, int64_t chunk)
      : b(b), loc(op.getLoc()), code(b, op.getLoc()), op(op), chunk(chunk), sub(std::min(chunk, kSubChunk)) {
    SmallVector<OpFoldResult> q = code.sizes(op.getQ()), v = code.sizes(op.getV());
    batch = q[0];
    heads = b.getIndexAttr(op.getStateHeads());
    members = op.getResultHeads() / op.getStateHeads();
    depth = q[3];
    width = v[3];
    tokens = getValueOrCreateConstantIndexOp(b, loc, q[2]);
    if (std::optional<int64_t> known = getConstantIntValue(q[2])) {
      chunks = b.getIndexAttr(llvm::divideCeil(*known, chunk));
    } else {
      chunks = arith::CeilDivSIOp::create(b, loc, tokens, index(b, chunk)).getResult();
    }
  }

  /// The result and the final state.
  std::pair<Value, Value> build() {
    keys = gather(op.getK(), false, 0.0);
    Value values = gather(op.getV(), false, 0.0);
    if (op.getDecay()) {
      channelDecay = typeOf(op.getDecay()).getRank() == 4;
      sums = cumulate(clamped(gather(op.getDecay(), false, 0.0)));
    }
    Value writeGate = op.getBeta() ? op.getBeta() : op.getWrite(),
          eraseGate = op.getBeta() ? op.getBeta() : op.getErase();
    if (writeGate) {
      values = gated(values, gather(writeGate, false, 0.0));
    }
    Value u = values, w;
    if (op.erases()) {
      Value erased = gated(keys, gather(eraseGate, false, 0.0));
      Value inverse = invert(named(scores(erased, false, false), "A"));
      u = named(product(inverse, values, width), "U");
      w = named(product(inverse, faded(erased, false), depth), "W");
    }
    auto [starts, fresh, last] = scan(u, w);
    Value queries = gather(op.getQ(), true, 0.0);
    Value attended = named(scores(queries, true, true), "P");
    Value out = output(faded(queries, true), starts, attended, fresh);
    return {unchunked(out), last};
  }

private:
  static Value index(OpBuilder &b, int64_t value) {
    return arith::ConstantIndexOp::create(b, b.getUnknownLoc(), value);
  }
  static Value mul(OpBuilder &b, Location l, Value x, Value y) { return arith::MulFOp::create(b, l, x, y); }
  static Value add(OpBuilder &b, Location l, Value x, Value y) { return arith::AddFOp::create(b, l, x, y); }
  static Value number(OpBuilder &b, Location l, double x) {
    return arith::ConstantOp::create(b, l, b.getF32FloatAttr(static_cast<float>(x)));
  }
  Value named(Value value, StringRef step) {
    value.getDefiningOp()->setAttr("kimi.step", b.getStringAttr(step));
    return value;
  }
  OpFoldResult fixed(int64_t value) { return b.getIndexAttr(value); }

  /// [batch, head, (member,) chunk, extents..].
  SmallVector<OpFoldResult> sizes(bool query, ArrayRef<OpFoldResult> inner) {
    SmallVector<OpFoldResult> all{batch, heads};
    if (query) {
      all.push_back(fixed(members));
    }
    all.push_back(chunks);
    all.append(inner.begin(), inner.end());
    return all;
  }
  /// Loops over leading dims that a tensor of the state shares with one of the queries: all but the member.
  SmallVector<int64_t> leading(bool query, bool ofQuery) {
    return !query    ? SmallVector<int64_t>{0, 1, 2}
           : ofQuery ? SmallVector<int64_t>{0, 1, 2, 3}
                     : SmallVector<int64_t>{0, 1, 3};
  }
  AffineMap map(unsigned loops, ArrayRef<int64_t> lead, ArrayRef<AffineExpr> inner) {
    SmallVector<AffineExpr> exprs;
    for (int64_t dim : lead) {
      exprs.push_back(b.getAffineDimExpr(dim));
    }
    exprs.append(inner.begin(), inner.end());
    return AffineMap::get(loops, 0, exprs, b.getContext());
  }
  AffineExpr dim(int64_t position) { return b.getAffineDimExpr(position); }

  /// Tokens of `source` [batch, heads, token(, channel)] by chunk and row, of the head that each state (or query)
  /// reads; `past` beyond the last token.
  Value gather(Value source, bool query, double past) {
    RankedTensorType type = typeOf(source);
    SmallVector<OpFoldResult> inner{fixed(chunk)};
    bool channels = type.getRank() == 4;
    if (channels) {
      inner.push_back(code.sizes(source)[3]);
    }
    int64_t all = query ? op.getResultHeads() : op.getStateHeads(), share = all / type.getDimSize(1);
    return code.map(sizes(query, inner), b.getF32Type(), {}, [&](OpBuilder &nb, Location l, ValueRange) {
      Value head = linalg::IndexOp::create(nb, l, 1);
      if (query && members > 1) {
        head = arith::MulIOp::create(nb, l, head, arith::ConstantIndexOp::create(nb, l, members));
        head = arith::AddIOp::create(nb, l, head, linalg::IndexOp::create(nb, l, 2));
      }
      if (share > 1) {
        head = arith::DivUIOp::create(nb, l, head, arith::ConstantIndexOp::create(nb, l, share));
      }
      uint64_t at = query ? 3 : 2;
      Value first = arith::MulIOp::create(nb, l, linalg::IndexOp::create(nb, l, at),
                                          arith::ConstantIndexOp::create(nb, l, chunk));
      Value token = arith::AddIOp::create(nb, l, first, linalg::IndexOp::create(nb, l, at + 1));
      Value isToken = arith::CmpIOp::create(nb, l, arith::CmpIPredicate::ult, token, tokens);
      Value one = arith::ConstantIndexOp::create(nb, l, 1);
      Value inside = arith::MinUIOp::create(nb, l, token, arith::SubIOp::create(nb, l, tokens, one));
      SmallVector<Value> position{linalg::IndexOp::create(nb, l, 0), head, inside};
      if (channels) {
        position.push_back(linalg::IndexOp::create(nb, l, at + 2));
      }
      Value element = castFloat(nb, l, tensor::ExtractOp::create(nb, l, source, position), nb.getF32Type());
      return arith::SelectOp::create(nb, l, isToken, element, number(nb, l, past)).getResult();
    });
  }

  Value clamped(Value gates) {
    SmallVector<OpFoldResult> all = code.sizes(gates);
    return code.map(all, b.getF32Type(), {{gates, code.identity(all.size())}},
                    [](OpBuilder &nb, Location l, ValueRange e) -> Value {
                      return arith::MaximumFOp::create(nb, l, e[0], number(nb, l, kForgets));
                    });
  }

  /// x times a gate of the row or of the channel.
  Value gated(Value x, Value gate) {
    SmallVector<OpFoldResult> all = code.sizes(x);
    AffineMap whole = code.identity(all.size());
    return code.map(all, b.getF32Type(), {{x, whole}, {gate, whole.getMajorSubMap(typeOf(gate).getRank())}},
                    [](OpBuilder &nb, Location l, ValueRange e) { return mul(nb, l, e[0], e[1]); });
  }

  /// G: the sum of the gates of a chunk up to each row.
  Value cumulate(Value gates) {
    RankedTensorType type = typeOf(gates);
    return loops(
        "G", {gates}, {type}, {batch, heads, chunks}, [&](OpBuilder &nb, Location l, ValueRange args, ValueRange at) {
          Value zero = index(nb, 0), one = index(nb, 1);
          Value channels = channelDecay ? memref::DimOp::create(nb, l, args[0], 4).getResult() : one;
          each(nb, l, zero, channels, [&](Value channel) {
            auto place = [&](Value row) {
              SmallVector<Value> position(at);
              position.push_back(row);
              if (channelDecay) {
                position.push_back(channel);
              }
              return position;
            };
            auto loop = scf::ForOp::create(nb, l, zero, index(nb, chunk), one, ValueRange{number(nb, l, 0.0)});
            OpBuilder::InsertionGuard guard(nb);
            nb.setInsertionPointToStart(loop.getBody());
            SmallVector<Value> position = place(loop.getInductionVar());
            Value total = add(nb, l, loop.getRegionIterArg(0), memref::LoadOp::create(nb, l, args[0], position));
            memref::StoreOp::create(nb, l, total, args[1], position);
            scf::YieldOp::create(nb, l, total);
          });
        })[0];
  }

  /// x * exp(G), by row.
  Value faded(Value x, bool query) {
    if (!sums) {
      return x;
    }
    SmallVector<OpFoldResult> all = code.sizes(x);
    unsigned rank = all.size();
    SmallVector<AffineExpr> inner{dim(rank - 2)};
    if (channelDecay) {
      inner.push_back(dim(rank - 1));
    }
    return code.map(all, b.getF32Type(), {{x, code.identity(rank)}, {sums, map(rank, leading(query, false), inner)}},
                    [](OpBuilder &nb, Location l, ValueRange e) -> Value {
                      return mul(nb, l, e[0], math::ExpOp::create(nb, l, e[1]));
                    });
  }

  /// sum_d x_i[d] k_j[d] exp(G_i[d] - G_j[d]) for j < i (j <= i where `inclusive`), else 0. No exponent is positive.
  Value scores(Value x, bool query, bool inclusive) {
    auto isUsed = [inclusive](OpBuilder &nb, Location l, Value i, Value j) -> Value {
      return arith::CmpIOp::create(nb, l, inclusive ? arith::CmpIPredicate::ule : arith::CmpIPredicate::ult, j, i);
    };
    auto fade = [](OpBuilder &nb, Location l, Value used, Value later, Value earlier) -> Value {
      Value none = number(nb, l, -std::numeric_limits<double>::infinity());
      Value exponent = arith::SubFOp::create(nb, l, later, earlier);
      return math::ExpOp::create(nb, l, arith::SelectOp::create(nb, l, used, exponent, none));
    };
    if (channelDecay) {
      return channelScores(x, query, isUsed, fade);
    }
    Value products = contract(sizes(query, {fixed(chunk), fixed(chunk)}), x, keys, query);
    SmallVector<OpFoldResult> all = code.sizes(products);
    unsigned rank = all.size();
    SmallVector<TensorCode::Operand> operands{{products, code.identity(rank)}};
    if (sums) {
      operands.push_back({sums, map(rank, leading(query, false), {dim(rank - 2)})});
      operands.push_back({sums, map(rank, leading(query, false), {dim(rank - 1)})});
    }
    return code.map(all, b.getF32Type(), operands, [&](OpBuilder &nb, Location l, ValueRange e) -> Value {
      Value used = isUsed(nb, l, linalg::IndexOp::create(nb, l, rank - 2), linalg::IndexOp::create(nb, l, rank - 1));
      Value value = e.size() == 3 ? mul(nb, l, e[0], fade(nb, l, used, e[1], e[2])) : e[0];
      return arith::SelectOp::create(nb, l, used, value, number(nb, l, 0.0));
    });
  }

  /// sum_d x[.., i, d] y[.., j, d].
  Value contract(ArrayRef<OpFoldResult> all, Value x, Value y, bool query) {
    unsigned rank = all.size();
    return code.reduce(
        all, 1, 0.0,
        {{x, map(rank + 1, leading(query, true), {dim(rank - 2), dim(rank)})},
         {y, map(rank + 1, leading(query, false), {dim(rank - 1), dim(rank)})}},
        [](OpBuilder &nb, Location l, ValueRange e) { return add(nb, l, e[2], mul(nb, l, e[0], e[1])); });
  }

  /// The keys of earlier sub-chunks measured from the first row of each sub-chunk: [.., sub-chunk, row, channel].
  template <typename Fade>
  Value anchoredKeys(Fade fade) {
    if (anchored) {
      return anchored;
    }
    SmallVector<OpFoldResult> all = sizes(false, {fixed(chunk / sub), fixed(chunk), depth});
    anchored = code.map(all, b.getF32Type(),
                        {{keys, map(6, {0, 1, 2}, {dim(4), dim(5)})},
                         {sums, map(6, {0, 1, 2}, {dim(3) * sub, dim(5)})},
                         {sums, map(6, {0, 1, 2}, {dim(4), dim(5)})}},
                        [&](OpBuilder &nb, Location l, ValueRange e) -> Value {
                          Value first = arith::MulIOp::create(nb, l, linalg::IndexOp::create(nb, l, 3), index(nb, sub));
                          Value earlier = arith::CmpIOp::create(nb, l, arith::CmpIPredicate::ult,
                                                                linalg::IndexOp::create(nb, l, 4), first);
                          return mul(nb, l, e[0], fade(nb, l, earlier, e[1], e[2]));
                        });
    return anchored;
  }

  template <typename Used, typename Fade>
  Value channelScores(Value x, bool query, Used isUsed, Fade fade) {
    // Pairs within a sub-chunk, exponent by exponent.
    int64_t blocks = chunk / sub;
    SmallVector<OpFoldResult> pairs = sizes(query, {fixed(blocks), fixed(sub), fixed(sub)});
    unsigned rank = pairs.size(), r = rank - 3, i = rank - 2, j = rank - 1, d = rank;
    AffineExpr row = dim(r) * sub + dim(i), column = dim(r) * sub + dim(j);
    Value within =
        code.reduce(pairs, 1, 0.0,
                    {{x, map(rank + 1, leading(query, true), {row, dim(d)})},
                     {keys, map(rank + 1, leading(query, false), {column, dim(d)})},
                     {sums, map(rank + 1, leading(query, false), {row, dim(d)})},
                     {sums, map(rank + 1, leading(query, false), {column, dim(d)})}},
                    [&](OpBuilder &nb, Location l, ValueRange e) -> Value {
                      Value used = isUsed(nb, l, linalg::IndexOp::create(nb, l, i), linalg::IndexOp::create(nb, l, j));
                      Value term = mul(nb, l, mul(nb, l, e[0], e[1]), fade(nb, l, used, e[2], e[3]));
                      return add(nb, l, e[4], term);
                    });
    named(within, "within");
    SmallVector<OpFoldResult> all = sizes(query, {fixed(chunk), fixed(chunk)});
    unsigned full = all.size();
    AffineMap place =
        map(full, leading(query, true), {dim(full - 2).floorDiv(sub), dim(full - 2) % sub, dim(full - 1) % sub});
    if (blocks == 1) {
      return code.map(all, b.getF32Type(), {{within, place}}, [](OpBuilder &, Location, ValueRange e) { return e[0]; });
    }
    // Earlier sub-chunks: both factors are measured from the first row of the later one, its anchor.
    Value rows =
        code.map(code.sizes(x), b.getF32Type(),
                 {{x, code.identity(full)},
                  {sums, map(full, leading(query, false), {dim(full - 2), dim(full - 1)})},
                  {sums, map(full, leading(query, false), {dim(full - 2).floorDiv(sub) * sub, dim(full - 1)})}},
                 [](OpBuilder &nb, Location l, ValueRange e) -> Value {
                   return mul(nb, l, e[0], math::ExpOp::create(nb, l, arith::SubFOp::create(nb, l, e[1], e[2])));
                 });
    Value columns = anchoredKeys(fade);
    Value across = code.reduce(
        all, 1, 0.0,
        {{rows, map(full + 1, leading(query, true), {dim(full - 2), dim(full)})},
         {columns, map(full + 1, leading(query, false), {dim(full - 2).floorDiv(sub), dim(full - 1), dim(full)})}},
        [](OpBuilder &nb, Location l, ValueRange e) { return add(nb, l, e[2], mul(nb, l, e[0], e[1])); });
    named(across, "across");
    return code.map(all, b.getF32Type(), {{across, code.identity(full)}, {within, place}},
                    [&](OpBuilder &nb, Location l, ValueRange e) -> Value {
                      Value size = index(nb, sub);
                      Value row = arith::DivUIOp::create(nb, l, linalg::IndexOp::create(nb, l, full - 2), size);
                      Value column = arith::DivUIOp::create(nb, l, linalg::IndexOp::create(nb, l, full - 1), size);
                      Value same = arith::CmpIOp::create(nb, l, arith::CmpIPredicate::eq, row, column);
                      return arith::SelectOp::create(nb, l, same, e[1], e[0]);
                    });
  }

  /// T = (I + A)^-1, row by row: T_i = I_i - sum_{j<i} A_ij T_j.
  Value invert(Value a) {
    return loops(
        "T", {a}, {typeOf(a)}, {batch, heads, chunks}, [&](OpBuilder &nb, Location l, ValueRange args, ValueRange at) {
          Value zero = index(nb, 0), one = index(nb, 1), size = index(nb, chunk);
          auto place = [&](Value i, Value j) {
            SmallVector<Value> position(at);
            position.append({i, j});
            return position;
          };
          each(nb, l, zero, size, [&](Value i) {
            each(nb, l, zero, size, [&](Value j) {
              Value diagonal = arith::CmpIOp::create(nb, l, arith::CmpIPredicate::eq, i, j);
              Value start = arith::SelectOp::create(nb, l, diagonal, number(nb, l, 1.0), number(nb, l, 0.0));
              auto loop = scf::ForOp::create(nb, l, zero, i, one, ValueRange{start});
              {
                OpBuilder::InsertionGuard guard(nb);
                nb.setInsertionPointToStart(loop.getBody());
                Value m = loop.getInductionVar();
                Value term = mul(nb, l, memref::LoadOp::create(nb, l, args[0], place(i, m)),
                                 memref::LoadOp::create(nb, l, args[1], place(m, j)));
                scf::YieldOp::create(nb, l, arith::SubFOp::create(nb, l, loop.getRegionIterArg(0), term).getResult());
              }
              memref::StoreOp::create(nb, l, loop.getResult(0), args[1], place(i, j));
            });
          });
        })[0];
  }

  /// t [.., C, C] times x [.., C, channels].
  Value product(Value t, Value x, OpFoldResult channels) {
    return code.reduce(
        sizes(false, {fixed(chunk), channels}), 1, 0.0,
        {{t, map(6, {0, 1, 2}, {dim(3), dim(5)})}, {x, map(6, {0, 1, 2}, {dim(5), dim(4)})}},
        [](OpBuilder &nb, Location l, ValueRange e) { return add(nb, l, e[2], mul(nb, l, e[0], e[1])); });
  }

  /// Chunk by chunk: V' = U - W S; S <- Diag(exp(G_C)) S + (K exp(G_C - G))^T V'. Gives S before each chunk, V', and S
  /// after the last. A task has one column of S.
  std::tuple<Value, Value, Value> scan(Value u, Value w) {
    SmallVector<OpFoldResult> all = code.sizes(u);
    auto type = [&](ArrayRef<OpFoldResult> extents) {
      SmallVector<int64_t> shape;
      for (OpFoldResult extent : extents) {
        shape.push_back(getConstantIntValue(extent).value_or(ShapedType::kDynamic));
      }
      return RankedTensorType::get(shape, b.getF32Type());
    };
    SmallVector<Value> inputs{u, keys};
    unsigned wAt = inputs.size();
    if (w) {
      inputs.push_back(w);
    }
    unsigned sumsAt = inputs.size();
    if (sums) {
      inputs.push_back(sums);
    }
    unsigned initialAt = inputs.size();
    if (op.getInitial()) {
      inputs.push_back(op.getInitial());
    }
    unsigned outputs = inputs.size();
    RankedTensorType starts = type({batch, heads, chunks, depth, width}), last = type({batch, heads, depth, width});
    SmallVector<Value> results = loops(
        "scan", inputs, {starts, type(all), last}, {batch, heads, width},
        [&](OpBuilder &nb, Location l, ValueRange args, ValueRange at) {
          Value zero = index(nb, 0), rows = index(nb, chunk), column = at[2];
          Value channels = memref::DimOp::create(nb, l, args[1], 4), count = memref::DimOp::create(nb, l, args[0], 2);
          Value lastRow = index(nb, chunk - 1), final = args[outputs + 2];
          auto load = [&](Value buffer, ValueRange position) -> Value {
            return memref::LoadOp::create(nb, l, buffer, position);
          };
          auto gate = [&](Value n, Value row, Value d) {
            SmallVector<Value> position{at[0], at[1], n, row};
            if (channelDecay) {
              position.push_back(d);
            }
            return load(args[sumsAt], position);
          };
          each(nb, l, zero, channels, [&](Value d) {
            Value start = op.getInitial() ? load(args[initialAt], {at[0], at[1], d, column}) : number(nb, l, 0.0);
            memref::StoreOp::create(nb, l, start, final, ValueRange{at[0], at[1], d, column});
          });
          each(nb, l, zero, count, [&](Value n) {
            each(nb, l, zero, channels, [&](Value d) {
              memref::StoreOp::create(nb, l, load(final, {at[0], at[1], d, column}), args[outputs],
                                      ValueRange{at[0], at[1], n, d, column});
            });
            each(nb, l, zero, rows, [&](Value row) {
              Value fresh = load(args[0], {at[0], at[1], n, row, column});
              if (w) {
                Value found = sum(nb, l, channels, [&](Value d) {
                  return mul(nb, l, load(args[wAt], {at[0], at[1], n, row, d}), load(final, {at[0], at[1], d, column}));
                });
                fresh = arith::SubFOp::create(nb, l, fresh, found);
              }
              memref::StoreOp::create(nb, l, fresh, args[outputs + 1], ValueRange{at[0], at[1], n, row, column});
            });
            each(nb, l, zero, channels, [&](Value d) {
              Value whole = sums ? gate(n, lastRow, d) : Value();
              Value added = sum(nb, l, rows, [&](Value row) {
                Value key = load(args[1], {at[0], at[1], n, row, d});
                if (sums) {
                  Value exponent = arith::SubFOp::create(nb, l, whole, gate(n, row, d));
                  key = mul(nb, l, key, math::ExpOp::create(nb, l, exponent));
                }
                return mul(nb, l, key, load(args[outputs + 1], {at[0], at[1], n, row, column}));
              });
              Value old = load(final, {at[0], at[1], d, column});
              if (sums) {
                old = mul(nb, l, old, math::ExpOp::create(nb, l, whole));
              }
              memref::StoreOp::create(nb, l, add(nb, l, old, added), final, ValueRange{at[0], at[1], d, column});
            });
          });
        });
    return {results[0], results[1], results[2]};
  }

  /// scale * ((Q exp(G)) S + P V').
  Value output(Value queries, Value starts, Value attended, Value fresh) {
    SmallVector<OpFoldResult> all = sizes(true, {fixed(chunk), width});
    auto accumulate = [](OpBuilder &nb, Location l, ValueRange e) { return add(nb, l, e[2], mul(nb, l, e[0], e[1])); };
    Value before = code.reduce(
        all, 1, 0.0, {{queries, map(7, {0, 1, 2, 3}, {dim(4), dim(6)})}, {starts, map(7, {0, 1, 3}, {dim(6), dim(5)})}},
        accumulate);
    Value inside = code.reduce(
        all, 1, 0.0, {{attended, map(7, {0, 1, 2, 3}, {dim(4), dim(6)})}, {fresh, map(7, {0, 1, 3}, {dim(6), dim(5)})}},
        accumulate);
    AffineMap whole = code.identity(6);
    Value scale = code.constant(op.getScale().convertToDouble());
    return code.map(all, b.getF32Type(), {{before, whole}, {inside, whole}},
                    [&](OpBuilder &nb, Location l, ValueRange e) { return mul(nb, l, add(nb, l, e[0], e[1]), scale); });
  }

  /// [batch, head, member, chunk, row, channel] as the op's result.
  Value unchunked(Value out) {
    SmallVector<OpFoldResult> q = code.sizes(op.getQ());
    SmallVector<OpFoldResult> all{batch, fixed(op.getResultHeads()), q[2], width};
    Value result =
        code.map(all, typeOf(op.getResult()).getElementType(), {}, [&](OpBuilder &nb, Location l, ValueRange) -> Value {
          Value head = linalg::IndexOp::create(nb, l, 1), token = linalg::IndexOp::create(nb, l, 2);
          Value group = index(nb, members), size = index(nb, chunk);
          SmallVector<Value> position{
              linalg::IndexOp::create(nb, l, 0),          arith::DivUIOp::create(nb, l, head, group),
              arith::RemUIOp::create(nb, l, head, group), arith::DivUIOp::create(nb, l, token, size),
              arith::RemUIOp::create(nb, l, token, size), linalg::IndexOp::create(nb, l, 3)};
          return tensor::ExtractOp::create(nb, l, out, position);
        });
    return code.castTo(result, op.getResult().getType());
  }

  static void each(OpBuilder &nb, Location l, Value from, Value to, llvm::function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(nb, l, from, to, index(nb, 1));
    OpBuilder::InsertionGuard guard(nb);
    nb.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }
  static Value sum(OpBuilder &nb, Location l, Value extent, llvm::function_ref<Value(Value)> term) {
    auto loop = scf::ForOp::create(nb, l, index(nb, 0), extent, index(nb, 1), ValueRange{number(nb, l, 0.0)});
    OpBuilder::InsertionGuard guard(nb);
    nb.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(nb, l, add(nb, l, loop.getRegionIterArg(0), term(loop.getInductionVar())));
    return loop.getResult(0);
  }

  /// A kimi.loops named `step` with a task for each point of `tasks`: `body` gets the buffers of the inputs and
  /// results, and the point.
  SmallVector<Value> loops(StringRef step, ArrayRef<Value> inputs, ArrayRef<RankedTensorType> types,
                           ArrayRef<OpFoldResult> tasks,
                           llvm::function_ref<void(OpBuilder &, Location, ValueRange, ValueRange)> body) {
    SmallVector<Value> dims, extents;
    SmallVector<Type> arguments;
    for (Value input : inputs) {
      arguments.push_back(MemRefType::get(typeOf(input).getShape(), typeOf(input).getElementType()));
    }
    Value rows = index(b, 1);
    for (OpFoldResult task : tasks) {
      extents.push_back(getValueOrCreateConstantIndexOp(b, loc, task));
      rows = arith::MulIOp::create(b, loc, rows, extents.back());
    }
    for (RankedTensorType type : types) {
      arguments.push_back(MemRefType::get(type.getShape(), type.getElementType()));
      for (int64_t axis : {0, 2}) { // batch and chunks: channels are static
        if (type.isDynamicDim(axis)) {
          dims.push_back(getValueOrCreateConstantIndexOp(b, loc, axis == 0 ? batch : chunks));
        }
      }
    }
    arguments.push_back(b.getIndexType());
    SmallVector<Type> results(types.begin(), types.end());
    auto op = LoopsOp::create(b, loc, results, inputs, ValueRange(), dims, rows);
    op->setAttr("kimi.name", b.getStringAttr("delta_" + step.lower()));
    op->setAttr("kimi.step", b.getStringAttr(step));
    OpBuilder::InsertionGuard guard(b);
    Block *block = b.createBlock(&op.getBody(), {}, arguments, SmallVector<Location>(arguments.size(), loc));
    SmallVector<Value> at(tasks.size());
    Value rest = block->getArguments().back();
    for (size_t axis = tasks.size(); axis-- > 0;) {
      std::optional<int64_t> known = getConstantIntValue(tasks[axis]);
      Value extent = known ? index(b, *known) : extents[axis];
      at[axis] = axis == 0 ? rest : arith::RemUIOp::create(b, loc, rest, extent).getResult();
      rest = axis == 0 ? rest : arith::DivUIOp::create(b, loc, rest, extent).getResult();
    }
    body(b, loc, block->getArguments().drop_back(), at);
    YieldOp::create(b, loc, ValueRange());
    return SmallVector<Value>(op.getResults());
  }

  OpBuilder &b;
  Location loc;
  TensorCode code;
  DeltaRuleOp op;
  int64_t chunk, sub, members;
  OpFoldResult batch, heads, chunks, depth, width;
  Value tokens, keys, sums, anchored;
  bool channelDecay = false;
};

struct ChunkDeltaRulePass : kimi::impl::ChunkDeltaRuleBase<ChunkDeltaRulePass> {
  using ChunkDeltaRuleBase::ChunkDeltaRuleBase;

  void runOnOperation() override {
    if (chunk != 16 && chunk != 32 && chunk != 64) {
      getOperation()->emitError() << "kimi-chunk-delta-rule: chunk is " << chunk.getValue()
                                  << "; expected 16, 32 or 64";
      return signalPassFailure();
    }
    SmallVector<DeltaRuleOp> ops;
    getOperation()->walk([&](DeltaRuleOp op) { ops.push_back(op); });
    for (DeltaRuleOp op : ops) {
      if (std::string why = whyNot(op); !why.empty()) {
        op.emitRemark() << "stays a recurrence: " << why;
        continue;
      }
      OpBuilder b(op);
      auto [result, state] = Chunker(b, op, chunk).build();
      Type stateType = op.getState().getType();
      if (state.getType() != stateType) {
        state = tensor::CastOp::create(b, op.getLoc(), stateType, state);
      }
      op.getResult().replaceAllUsesWith(result);
      op.getState().replaceAllUsesWith(state);
      op.erase();
      ++numChunked;
    }
  }

  static std::string whyNot(DeltaRuleOp op) {
    if (op.getNormalize()) {
      return "there is no chunkwise form of the sum of the keys";
    }
    for (Value value : {op.getQ(), op.getV()}) {
      if (typeOf(value).isDynamicDim(3)) {
        return "the number of channels of a head is not known";
      }
    }
    if (typeOf(op.getQ()).getDimSize(2) == 1) {
      return "it has one token";
    }
    return "";
  }
};
} // namespace
