//===- RaiseMla.cpp - --kimi-raise-mla
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Kimi/ChannelTrace.h"
#include "passes/Kimi/LoadTime.h"
#include "passes/Kimi/Passes.h"
#include "llvm/ADT/SetVector.h"

namespace kimi {
#define GEN_PASS_DEF_RAISEMLA
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

RankedTensorType tensorOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// What an attention is made of, where it is one over latents.
struct Latents {
  HeadChannels keys, values; // columns of the projections of the latent
  LinearOp ofKeys, ofValues;
  std::optional<HeadChannels> shared;
  bool sharedFirst = false; // among the channels of a key
  int64_t heads = 0;
};

class MlaRaiser {
public:
  explicit MlaRaiser(func::FuncOp func) : scalars(func), tracer(scalars) {}

  /// True where `op` became a kimi.mla.
  bool raise(AttentionOp op);

private:
  std::optional<Latents> match(AttentionOp op, Value keys, Value values);
  bool takeProjection(HeadChannels &rows, LinearOp &linear, int64_t heads);
  Operation *otherUser(const Latents &latents, AttentionOp op);
  bool explain(AttentionOp op);
  Value sharedRows(OpBuilder &b, const HeadChannels &rows);
  std::pair<Value, bool> matrix(OpBuilder &b, const Latents &latents);
  Value columns(OpBuilder &b, LinearOp linear, const HeadChannels &rows, int64_t heads);
  Value queries(OpBuilder &b, AttentionOp op, const Latents &latents);

  static bool refuse(AttentionOp op, const Twine &why) {
    op.emitRemark() << "latent attention stays expanded: " << why;
    return false;
  }

  HostScalars scalars;
  ChannelTracer tracer;
};

/// Whether `rows` are columns of a projection [B, S, K] -> [B, S, columns], evenly spaced by heads.
bool MlaRaiser::takeProjection(HeadChannels &rows, LinearOp &linear, int64_t heads) {
  tracer.trace(rows);
  linear = rows.tensor.getDefiningOp<LinearOp>();
  if (!linear || rows.shared || rows.heads >= 0 || tensorOf(rows.tensor).getRank() != 3 || rows.batch != 0 ||
      rows.tokens != 1 || rows.channels != 2) {
    return false;
  }
  if (rows.stride == 0) {
    rows.stride = rows.count;
  }
  return heads == 1 || rows.stride >= rows.count;
}

std::optional<Latents> MlaRaiser::match(AttentionOp op, Value keys, Value values) {
  RankedTensorType k = tensorOf(keys), v = tensorOf(values);
  int64_t heads = k.getDimSize(1);
  if (ShapedType::isDynamic(heads) || heads != tensorOf(op.getQ()).getDimSize(1) || heads != v.getDimSize(1) ||
      k.isDynamicDim(3) || v.isDynamicDim(3)) {
    return std::nullopt;
  }
  Latents found;
  found.heads = heads;
  HeadChannels all;
  all.tensor = values;
  all.count = v.getDimSize(3);
  found.values = all;
  if (!takeProjection(found.values, found.ofValues, heads)) {
    return std::nullopt;
  }
  all.tensor = keys;
  all.count = k.getDimSize(3);
  SmallVector<HeadChannels> parts = tracer.parts(all);
  if (parts.empty() || parts.size() > 2) {
    return std::nullopt;
  }
  for (auto [index, part] : llvm::enumerate(parts)) {
    HeadChannels own = part;
    LinearOp linear;
    if (!found.ofKeys && takeProjection(own, linear, heads) && linear.getX() == found.ofValues.getX()) {
      found.keys = own;
      found.ofKeys = linear;
      found.sharedFirst = index == 1;
      continue;
    }
    if (heads != 1) { // one head needs no broadcast
      tracer.trace(part, /*toShared=*/true);
    }
    if (found.shared || (heads != 1 && !part.shared)) {
      return std::nullopt;
    }
    // Where a row a token, [B, S, ..], is behind it, that one.
    auto isRow = [](const HeadChannels &rows) {
      return tensorOf(rows.tensor).getRank() == 3 && rows.batch == 0 && rows.tokens == 1;
    };
    for (HeadChannels next = part; !isRow(next) && tracer.step(next) && (heads == 1 || next.stride == 0);) {
      part = isRow(next) ? next : part;
    }
    found.shared = part;
  }
  if (!found.ofKeys) {
    return std::nullopt;
  }
  // Any projection that serves keys and values looks like one of latents. It is one where it saves rows: with a shared
  // part always, without one where the latent is a good deal narrower than what is made from it.
  constexpr int64_t kNarrower = 4;
  int64_t rank = tensorOf(found.ofKeys.getX()).getShape().back();
  int64_t made = heads * (found.keys.count + found.values.count);
  bool saves = found.shared ? rank < made + (heads - 1) * found.shared->count : kNarrower * rank <= made;
  return ShapedType::isDynamic(rank) || !saves ? std::nullopt : std::optional(found);
}

/// A user of the projected keys and values, or of views and copies of them, beside `op`; null where there is none.
Operation *MlaRaiser::otherUser(const Latents &latents, AttentionOp op) {
  llvm::SetVector<Value> open;
  open.insert(latents.ofKeys->getResult(0));
  open.insert(latents.ofValues->getResult(0));
  for (size_t next = 0; next < open.size(); ++next) {
    for (OpOperand &use : open[next].getUses()) {
      Operation *user = use.getOwner();
      if (user == op || isa<tensor::DimOp>(user)) {
        continue;
      }
      bool moves = isa<tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp,
                       tensor::ConcatOp, linalg::TransposeOp>(user);
      if (!moves) {
        return user;
      }
      open.insert(user->getResult(0));
    }
  }
  return nullptr;
}

/// A remark where `op` is latent attention but for a cache of expanded rows in front of its keys.
bool MlaRaiser::explain(AttentionOp op) {
  auto newRows = [&](Value rows, tensor::ConcatOp &concat) -> Value {
    while (auto cast = rows.getDefiningOp<tensor::CastOp>()) {
      rows = cast.getSource();
    }
    concat = rows.getDefiningOp<tensor::ConcatOp>();
    return concat && concat.getDim() == 2 && concat.getInputs().size() == 2 ? concat.getInputs()[1] : Value();
  };
  tensor::ConcatOp ofKeys, ofValues;
  Value keys = newRows(op.getK(), ofKeys), values = newRows(op.getV(), ofValues);
  if (!keys || !values || !match(op, keys, values)) {
    return false;
  }
  std::string name = "its inputs";
  if (auto argument = dyn_cast<BlockArgument>(ofKeys.getInputs()[0])) {
    if (auto func = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())) {
      auto given = func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "kimi.name");
      name = "'" + (given ? given.str() : "arg" + std::to_string(argument.getArgNumber())) + "'";
    }
  }
  return refuse(op, "its cache of expanded keys and values is an input of the graph (" + name +
                        "), whose interface cannot change; export the model without a cache, or with one of latents");
}

bool MlaRaiser::raise(AttentionOp op) {
  std::optional<Latents> latents = match(op, op.getK(), op.getV());
  if (!latents) {
    return explain(op);
  }
  for (LinearOp linear : {latents->ofKeys, latents->ofValues}) {
    if (linear.getBias()) {
      return refuse(op, "the projection of its latents has a bias");
    }
    if (!tensorOf(linear.getW()).hasStaticShape()) {
      return refuse(op, "the extents of kv_b are not known at compile time");
    }
    if (!isLoadTimeValue(linear.getW())) {
      return refuse(op, "kv_b is computed at run time, not a weight");
    }
    if (tensorOf(linear.getResult()).getElementType() != tensorOf(linear.getX()).getElementType()) {
      return refuse(op, "its keys and values have another element type than its latents");
    }
  }
  if (Operation *user = otherUser(*latents, op)) {
    return refuse(op, "its expanded keys or values are used by '" + user->getName().getStringRef() + "' as well");
  }
  Value latent = latents->ofKeys.getX();
  if (latents->shared && tensorOf(latents->shared->tensor).getElementType() != tensorOf(latent).getElementType()) {
    return refuse(op, "the shared part of its keys has another element type than its latents");
  }
  OpBuilder b(op);
  Value shared = latents->shared ? sharedRows(b, *latents->shared) : Value();
  if (latents->shared && !shared) {
    return refuse(op, "the shared part of its keys is no row a token");
  }
  auto [kvB, transpose] = matrix(b, *latents);
  auto fresh = MlaOp::create(b, op.getLoc(), op.getType(), queries(b, op, *latents), latent, kvB, shared, op.getMask(),
                             op.getCausal(), op.getScale(), op.getSoftcap(), transpose);
  op.getResult().replaceAllUsesWith(fresh.getResult());
  return true;
}

/// The shared part [B, S, P].
Value MlaRaiser::sharedRows(OpBuilder &b, const HeadChannels &rows) {
  Location loc = rows.tensor.getLoc();
  Value value = rows.tensor;
  RankedTensorType type = tensorOf(value);
  SmallVector<int64_t> order = {rows.batch, rows.tokens};
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    if (axis != rows.batch && axis != rows.tokens && axis != rows.channels) {
      if (type.getDimSize(axis) != 1) {
        return {};
      }
      order.push_back(axis);
    }
  }
  order.push_back(rows.channels);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, value);
  if (rows.first != 0 || rows.count != type.getDimSize(rows.channels)) {
    SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0)), steps(sizes.size(), b.getIndexAttr(1));
    offsets[rows.channels] = b.getIndexAttr(rows.first);
    sizes[rows.channels] = b.getIndexAttr(rows.count);
    value = tensor::ExtractSliceOp::create(b, loc, value, offsets, sizes, steps);
  }
  if (!llvm::is_sorted(order)) {
    SmallVector<OpFoldResult> moved;
    for (int64_t axis : order) {
      moved.push_back(sizes[axis]);
    }
    Value init = tensor::EmptyOp::create(b, loc, moved, type.getElementType());
    value = linalg::TransposeOp::create(b, loc, value, init, order)->getResult(0);
  }
  if (order.size() > 3) {
    SmallVector<ReassociationIndices> groups = {{0}, {1}, {}};
    for (int64_t axis = 2; axis < static_cast<int64_t>(order.size()); ++axis) {
      groups.back().push_back(axis);
    }
    value = tensor::CollapseShapeOp::create(b, loc, value, groups);
  }
  return value;
}

/// kv_b with columns [keys | values] a head, and whether it is transposed: that of the graph where it has them so, else
/// a copy, made when weights are loaded.
std::pair<Value, bool> MlaRaiser::matrix(OpBuilder &b, const Latents &latents) {
  const HeadChannels &k = latents.keys, &v = latents.values;
  LinearOp linear = latents.ofKeys;
  int64_t columnsOfAll = tensorOf(linear.getResult()).getDimSize(2), width = k.count + v.count;
  if (linear == latents.ofValues && k.first == 0 && v.first == k.count && columnsOfAll == latents.heads * width &&
      (latents.heads == 1 || (k.stride == width && v.stride == width))) {
    return {linear.getW(), linear.getTranspose()};
  }
  Location loc = linear.getLoc();
  Value keys = columns(b, linear, k, latents.heads), values = columns(b, latents.ofValues, v, latents.heads);
  Value joined = tensor::ConcatOp::create(b, loc, 2, ValueRange{keys, values});
  return {tensor::CollapseShapeOp::create(b, loc, joined, SmallVector<ReassociationIndices>{{0}, {1, 2}}), false};
}

/// The columns `rows` of a projection's matrix, [R, heads, count].
Value MlaRaiser::columns(OpBuilder &b, LinearOp linear, const HeadChannels &rows, int64_t heads) {
  Location loc = linear.getLoc();
  Value w = linear.getW();
  if (linear.getTranspose()) {
    RankedTensorType type = tensorOf(w);
    Value init = tensor::EmptyOp::create(b, loc, {type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
    w = linalg::TransposeOp::create(b, loc, w, init, ArrayRef<int64_t>{1, 0})->getResult(0);
  }
  int64_t rank = tensorOf(w).getDimSize(0);
  // One slice a head: heads may be spaced so that the last ends with the matrix.
  SmallVector<Value> pieces;
  for (int64_t head = 0; head < heads; ++head) {
    SmallVector<OpFoldResult> offsets = {b.getIndexAttr(0), b.getIndexAttr(rows.first + head * rows.stride)};
    SmallVector<OpFoldResult> sizes = {b.getIndexAttr(rank), b.getIndexAttr(rows.count)};
    SmallVector<OpFoldResult> steps(2, b.getIndexAttr(1));
    Value piece = tensor::ExtractSliceOp::create(b, loc, w, offsets, sizes, steps);
    auto type = RankedTensorType::get({rank, 1, rows.count}, tensorOf(w).getElementType());
    pieces.push_back(
        tensor::ExpandShapeOp::create(b, loc, type, piece, SmallVector<ReassociationIndices>{{0}, {1, 2}}));
  }
  return pieces.size() == 1 ? pieces.front() : tensor::ConcatOp::create(b, loc, 1, pieces).getResult();
}

/// The queries with the channels that meet the shared part last.
Value MlaRaiser::queries(OpBuilder &b, AttentionOp op, const Latents &latents) {
  if (!latents.shared || !latents.sharedFirst) {
    return op.getQ();
  }
  Location loc = op.getLoc();
  auto part = [&](int64_t first, int64_t count) -> Value {
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, op.getQ());
    SmallVector<OpFoldResult> offsets(4, b.getIndexAttr(0)), steps(4, b.getIndexAttr(1));
    offsets[3] = b.getIndexAttr(first);
    sizes[3] = b.getIndexAttr(count);
    return tensor::ExtractSliceOp::create(b, loc, op.getQ(), offsets, sizes, steps);
  };
  int64_t shared = latents.shared->count;
  return tensor::ConcatOp::create(b, loc, 3, ValueRange{part(shared, latents.keys.count), part(0, shared)});
}

/// `x` as [B, S, K], where an axis of extent 1 is all that it has beside these, or a view that only splits rows lies
/// between; null otherwise. `groups`: the axes of x that each row axis stands for.
Value latentRows(OpBuilder &b, Value x, SmallVector<ReassociationIndices, 4> &groups) {
  RankedTensorType type = tensorOf(x);
  auto view = x.getDefiningOp<tensor::ExpandShapeOp>();
  if (view && tensorOf(view.getSrc()).getRank() == 3 && view.getReassociationIndices().back().size() == 1) {
    groups = view.getReassociationIndices();
    return view.getSrc();
  }
  if (type.getRank() != 4 || type.getDimSize(1) != 1) { // a cache of one head of latents
    return {};
  }
  groups = SmallVector<ReassociationIndices, 4>{{0, 1}, {2}, {3}};
  return tensor::CollapseShapeOp::create(b, x.getLoc(), x, groups);
}

/// A projection of rows in more axes than [B, S, K] as one of [B, S, K] and a view, which is one of the moves that are
/// followed.
void flatten(LinearOp op) {
  OpBuilder b(op);
  SmallVector<ReassociationIndices, 4> groups;
  Value rows = latentRows(b, op.getX(), groups);
  if (!rows) {
    return;
  }
  Location loc = op.getLoc();
  RankedTensorType type = tensorOf(op.getResult());
  SmallVector<int64_t> shape(tensorOf(rows).getShape());
  shape.back() = type.getShape().back();
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, op.getX());
  sizes.back() = b.getIndexAttr(shape.back());
  auto linear = LinearOp::create(b, loc, RankedTensorType::get(shape, type.getElementType()), rows, op.getW(),
                                 op.getBias(), op.getTranspose());
  op.getResult().replaceAllUsesWith(
      tensor::ExpandShapeOp::create(b, loc, type, linear.getResult(), groups, sizes).getResult());
  op.erase();
}

struct RaiseMlaPass : kimi::impl::RaiseMlaBase<RaiseMlaPass> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      SmallVector<AttentionOp> ops, raised;
      func.walk([&](AttentionOp op) { ops.push_back(op); });
      if (ops.empty()) {
        continue;
      }
      func.walk([](LinearOp op) {
        if (!tensorOf(op.getResult()).isDynamicDim(tensorOf(op.getResult()).getRank() - 1)) {
          flatten(op);
        }
      });
      MlaRaiser raiser(func);
      llvm::copy_if(ops, std::back_inserter(raised), [&](AttentionOp op) { return raiser.raise(op); });
      for (AttentionOp op : raised) {
        op.erase();
        ++numRaised;
      }
    }
  }
};

} // namespace
