//===- HostScalars.cpp - the scalars and shapes of a host function
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Module/HostScalars.h"
#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kimi;

namespace {
/// The atom of a polynomial that is one atom, or null.
SymbolicDim::AtomRef soleAtom(const SymbolicDim &dim) {
  if (dim.terms().size() != 1) {
    return nullptr;
  }
  const auto &[monomial, coefficient] = *dim.terms().begin();
  if (coefficient != 1 || monomial.size() != 1 || monomial.begin()->second != 1) {
    return nullptr;
  }
  return dim.atom(monomial.begin()->first);
}

SymbolicDim lessThan(const SymbolicDim &a, const SymbolicDim &b) { return SymbolicDim::lt(a, b); }

/// Division as arith.divsi does it (towards zero), for a positive divisor.
SymbolicDim truncDiv(const SymbolicDim &a, const SymbolicDim &b) {
  SymbolicDim down = SymbolicDim::floorDiv(a, b);
  if (a.isKnownNonNegative()) {
    return down;
  }
  SymbolicDim up = SymbolicDim(0) - SymbolicDim::floorDiv(SymbolicDim(0) - a, b);
  return SymbolicDim::select(lessThan(a, 0), up, down);
}

SymbolicDim compare(arith::CmpIPredicate predicate, const SymbolicDim &a, const SymbolicDim &b) {
  using P = arith::CmpIPredicate;
  switch (predicate) {
  case P::eq:
    return SymbolicDim::eq(a, b);
  case P::ne:
    return SymbolicDim(1) - SymbolicDim::eq(a, b);
  case P::slt:
  case P::ult:
    return SymbolicDim::lt(a, b);
  case P::sle:
  case P::ule:
    return SymbolicDim::le(a, b);
  case P::sgt:
  case P::ugt:
    return SymbolicDim::lt(b, a);
  case P::sge:
  case P::uge:
    return SymbolicDim::le(b, a);
  }
  return SymbolicDim(0);
}
} // namespace

std::string kimi::plainSymbol(const SymbolicDim &dim) {
  SymbolicDim::AtomRef atom = soleAtom(dim);
  return atom && atom->kind == SymbolicDim::AtomKind::Symbol ? atom->name : std::string();
}

std::string kimi::dimName(DictionaryAttr attributes, int64_t axis) {
  auto dims = attributes ? attributes.getAs<ArrayAttr>("kimi.dims") : ArrayAttr();
  if (!dims || axis >= static_cast<int64_t>(dims.size())) {
    return {};
  }
  auto name = dyn_cast<StringAttr>(dims[axis]);
  return name ? name.str() : std::string();
}

HostScalars::HostScalars(func::FuncOp func) : func(func) {
  for (BlockArgument argument : func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type) {
      continue;
    }
    for (int64_t axis = 0; axis < type.getRank(); ++axis) {
      std::string name = dimName(func.getArgAttrDict(argument.getArgNumber()), axis);
      if (!type.isDynamicDim(axis) || name.empty()) {
        continue;
      }
      std::string symbol = plainSymbol(SymbolicDim::symbol(name));
      if (!symbol.empty()) {
        atoms.try_emplace(symbol, HostAtom{HostAtom::Kind::InputDim, argument.getArgNumber(), axis, {}});
      }
    }
  }
}

SymbolicDim HostScalars::runtime(const std::string &name, HostAtom atom) {
  // A named dim is never negative; what the host reads from an input or cannot compute may be.
  bool counts = atom.kind != HostAtom::Kind::InputValue && atom.kind != HostAtom::Kind::Opaque;
  SymbolicDim dim = counts ? SymbolicDim::opaque(name) : SymbolicDim::runtime(name);
  if (SymbolicDim::AtomRef sole = soleAtom(dim)) {
    atoms.try_emplace(sole->name, atom);
  }
  return dim;
}

const HostAtom *HostScalars::atom(const std::string &name) const {
  auto it = atoms.find(name);
  return it == atoms.end() ? nullptr : &it->second;
}

SymbolicDim HostScalars::capacity() { return runtime("$capacity", {HostAtom::Kind::Capacity, 0, 0, {}}); }

SymbolicDim HostScalars::argumentDim(BlockArgument argument, int64_t axis) {
  auto type = cast<RankedTensorType>(argument.getType());
  if (!type.isDynamicDim(axis)) {
    return type.getDimSize(axis);
  }
  unsigned number = argument.getArgNumber();
  std::string name = dimName(func.getArgAttrDict(number), axis);
  if (!name.empty()) {
    SymbolicDim dim = SymbolicDim::symbol(name);
    if (llvm::all_of(dim.leaves(), [&](const SymbolicDim::Leaf &leaf) { return atoms.count(leaf.name) != 0; })) {
      return dim;
    }
  }
  return runtime("$dim_" + std::to_string(number) + "_" + std::to_string(axis),
                 {HostAtom::Kind::InputDim, number, axis, {}});
}

bool HostScalars::isSoleAtom(const SymbolicDim &dim) { return soleAtom(dim) != nullptr; }

bool HostScalars::isComputable(const SymbolicDim &dim) const {
  return llvm::all_of(dim.leaves(), [&](const SymbolicDim::Leaf &leaf) {
    const HostAtom *known = atom(leaf.name);
    return known && known->kind != HostAtom::Kind::Opaque;
  });
}

SymbolicDim HostScalars::of(OpFoldResult scalar) {
  if (auto attribute = dyn_cast<Attribute>(scalar)) {
    return cast<IntegerAttr>(attribute).getInt();
  }
  return of(cast<Value>(scalar));
}

SymbolicDim HostScalars::of(Value scalar) {
  auto it = scalars.find(scalar);
  if (it != scalars.end()) {
    return it->second;
  }
  SymbolicDim dim = compute(scalar);
  scalars.try_emplace(scalar, dim);
  return dim;
}

SymbolicDim HostScalars::computeExtract(Value scalar) {
  auto extract = cast<tensor::ExtractOp>(scalar.getDefiningOp());
  Value source = extract.getTensor();
  SymbolicDim linear(0);
  SmallVector<SymbolicDim> extents = shape(source);
  for (auto [index, extent] : llvm::zip(extract.getIndices(), extents)) {
    linear = linear * extent + of(index);
  }
  while (isa_and_nonnull<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::CastOp>(source.getDefiningOp())) {
    source = source.getDefiningOp()->getOperand(0);
  }
  auto argument = dyn_cast<BlockArgument>(source);
  if (argument && argument.getOwner() == &func.getBody().front() && linear.isConstant()) {
    unsigned number = argument.getArgNumber();
    int64_t element = *linear.getConstant();
    return runtime("$value_" + std::to_string(number) + "_" + std::to_string(element),
                   {HostAtom::Kind::InputValue, number, element, {}});
  }
  return runtime("$opaque_" + std::to_string(opaqueCount++), {HostAtom::Kind::Opaque, 0, 0, scalar});
}

SymbolicDim HostScalars::compute(Value scalar) {
  APInt constant;
  if (matchPattern(scalar, m_ConstantInt(&constant))) {
    return constant.getBitWidth() == 1 ? static_cast<int64_t>(constant.getZExtValue()) : constant.getSExtValue();
  }
  Operation *op = scalar.getDefiningOp();
  auto a = [&] { return of(op->getOperand(0)); };
  auto b = [&] { return of(op->getOperand(1)); };
  bool isBool = scalar.getType().isInteger(1);
  if (op && scalar.getType().isIntOrIndex()) {
    if (isa<arith::AddIOp>(op)) {
      return a() + b();
    }
    if (isa<arith::SubIOp>(op)) {
      return a() - b();
    }
    if (isa<arith::MulIOp>(op) || (isBool && isa<arith::AndIOp>(op))) {
      return a() * b();
    }
    if (isBool && isa<arith::OrIOp>(op)) {
      return a() + b() - a() * b();
    }
    if (isBool && isa<arith::XOrIOp>(op)) {
      return a() + b() - SymbolicDim(2) * a() * b();
    }
    if (isa<arith::DivSIOp>(op)) {
      return truncDiv(a(), b());
    }
    if (isa<arith::DivUIOp, arith::FloorDivSIOp>(op)) {
      return SymbolicDim::floorDiv(a(), b());
    }
    if (isa<arith::CeilDivUIOp, arith::CeilDivSIOp>(op)) {
      return SymbolicDim::ceilDiv(a(), b());
    }
    if (isa<arith::RemUIOp>(op)) {
      return SymbolicDim::mod(a(), b());
    }
    if (isa<arith::RemSIOp>(op)) {
      return a().isKnownNonNegative() ? SymbolicDim::mod(a(), b()) : a() - b() * truncDiv(a(), b());
    }
    if (isa<arith::MinUIOp, arith::MinSIOp>(op)) {
      return SymbolicDim::min(a(), b());
    }
    if (isa<arith::MaxUIOp, arith::MaxSIOp>(op)) {
      return SymbolicDim::max(a(), b());
    }
    if (auto cmp = dyn_cast<arith::CmpIOp>(op)) {
      return compare(cmp.getPredicate(), a(), b());
    }
    if (isa<arith::SelectOp>(op)) {
      return SymbolicDim::select(a(), b(), of(op->getOperand(2)));
    }
    if (isa<arith::ExtSIOp>(op) && op->getOperand(0).getType().isInteger(1)) {
      return SymbolicDim(0) - a();
    }
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op) &&
        op->getOperand(0).getType().isIntOrIndex()) {
      return a();
    }
    if (auto dim = dyn_cast<tensor::DimOp>(op)) {
      if (std::optional<int64_t> axis = dim.getConstantIndex()) {
        SmallVector<SymbolicDim> extents = shape(dim.getSource());
        if (*axis >= 0 && *axis < static_cast<int64_t>(extents.size())) {
          return extents[*axis];
        }
      }
    }
    if (isa<StateLengthOp>(op)) {
      return runtime("$state_length", {HostAtom::Kind::StateLength, 0, 0, scalar});
    }
    if (isa<tensor::ExtractOp>(op)) {
      return computeExtract(scalar);
    }
  }
  return runtime("$opaque_" + std::to_string(opaqueCount++), {HostAtom::Kind::Opaque, 0, 0, scalar});
}

SmallVector<SymbolicDim> HostScalars::shape(Value tensor) {
  auto it = shapes.find(tensor);
  if (it == shapes.end()) {
    SmallVector<SymbolicDim> dims = computeShape(tensor);
    it = shapes.try_emplace(tensor, std::move(dims)).first;
  }
  return it->second;
}

SmallVector<SymbolicDim> HostScalars::computeShape(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<SymbolicDim> dims;
  // Static extents come from the type; `dynamic` is asked for the others.
  auto fill = [&](llvm::function_ref<SymbolicDim(int64_t)> dynamic) {
    for (int64_t axis = 0; axis < type.getRank(); ++axis) {
      dims.push_back(type.isDynamicDim(axis) ? dynamic(axis) : SymbolicDim(type.getDimSize(axis)));
    }
    return dims;
  };
  auto fromDynamic = [&](ValueRange sizes, unsigned skip) {
    unsigned next = skip;
    return fill([&](int64_t) { return of(sizes[next++]); });
  };
  auto fromResultDims = [&](Operation *op, ValueRange sizes) {
    unsigned skip = 0;
    for (Value result : op->getResults()) {
      if (result == tensor) {
        break;
      }
      skip += cast<RankedTensorType>(result.getType()).getNumDynamicDims();
    }
    return fromDynamic(sizes, skip);
  };
  auto opaque = [&](int64_t) {
    return runtime("$opaque_" + std::to_string(opaqueCount++), {HostAtom::Kind::Opaque, 0, 0, tensor});
  };
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    if (argument.getOwner() == &func.getBody().front()) {
      return fill([&](int64_t axis) { return argumentDim(argument, axis); });
    }
    return fill(opaque);
  }
  Operation *op = tensor.getDefiningOp();
  auto like = [&](Value source) { return fill([&](int64_t axis) { return shape(source)[axis]; }); };
  return llvm::TypeSwitch<Operation *, SmallVector<SymbolicDim>>(op)
      .Case<tensor::EmptyOp, tensor::SplatOp>([&](auto it) { return fromDynamic(it.getDynamicSizes(), 0); })
      .Case<tensor::GenerateOp>([&](auto it) { return fromDynamic(it.getDynamicExtents(), 0); })
      .Case<StateViewOp>([&](auto it) { return fromDynamic(it.getSizes(), 0); })
      .Case<DispatchOp, LoopsOp>([&](auto it) { return fromResultDims(it, it.getResultDims()); })
      .Case<tensor::CastOp>([&](auto it) { return like(it.getSource()); })
      .Case<tensor::InsertSliceOp>([&](auto it) { return like(it.getDest()); })
      .Case<linalg::LinalgOp>(
          [&](auto it) { return like(it.getDpsInitOperand(cast<OpResult>(tensor).getResultNumber())->get()); })
      .Case<tensor::ExtractSliceOp>([&](auto it) {
        SmallVector<OpFoldResult> sizes = it.getMixedSizes();
        llvm::SmallBitVector dropped = it.getDroppedDims();
        SmallVector<SymbolicDim> kept;
        for (auto [axis, size] : llvm::enumerate(sizes)) {
          if (!dropped.test(axis)) {
            kept.push_back(of(size));
          }
        }
        return fill([&](int64_t axis) { return kept[axis]; });
      })
      .Case<tensor::ExpandShapeOp>([&](auto it) {
        SmallVector<OpFoldResult> sizes = it.getMixedOutputShape();
        return fill([&](int64_t axis) { return of(sizes[axis]); });
      })
      .Case<tensor::CollapseShapeOp>([&](auto it) {
        SmallVector<ReassociationIndices> groups = it.getReassociationIndices();
        return fill([&](int64_t axis) {
          SymbolicDim product(1);
          for (int64_t source : groups[axis]) {
            product = product * shape(it.getSrc())[source];
          }
          return product;
        });
      })
      .Case<tensor::ConcatOp>([&](auto it) {
        int64_t along = it.getDim();
        return fill([&](int64_t axis) {
          SymbolicDim sum = shape(it.getInputs().front())[axis];
          if (axis == along) {
            for (Value input : it.getInputs().drop_front()) {
              sum = sum + shape(input)[axis];
            }
          }
          return sum;
        });
      })
      .Case<tensor::PadOp>([&](auto it) {
        SmallVector<OpFoldResult> low = it.getMixedLowPad(), high = it.getMixedHighPad();
        return fill([&](int64_t axis) { return of(low[axis]) + shape(it.getSource())[axis] + of(high[axis]); });
      })
      .Case<AttnResOp>([&](auto it) { return like(it.getSources().front()); })
      .Case<AttnResBankOp>([&](auto it) {
        bool statistics = cast<OpResult>(tensor).getResultNumber() < it.getStatistics().size();
        SmallVector<SymbolicDim> source = shape(it.getSources().front());
        return fill(
            [&](int64_t axis) { return statistics && axis + 1 == type.getRank() ? SymbolicDim(2) : source[axis]; });
      })
      .Case<AttnResMergeOp>([&](auto it) { return like(it.getP()); })
      .Case<RouterOp>([&](auto it) { return like(it.getLogits()); })
      .Case<SwigluOp, SituGluOp>([&](auto it) { return like(it.getGate()); })
      .Case<KdaGateOp>([&](auto it) { return like(it.getZ()); })
      .Case<FusedLinearOp, LinearOp, HeadLinearOp, LayerNormOp, RmsNormOp, SoftmaxOp, GeluOp, L2NormOp, GatedRmsNormOp,
            MoeOp, DequantizeOp>([&](auto it) { return like(it.getX()); })
      .Case<AttentionOp, MlaOp>([&](auto it) { return like(it.getQ()); }) // their last extents are static
      .Case<StateReadOp>([&](auto it) { return fromDynamic(it.getSizes(), 0); })
      .Case<CausalConvOp>([&](auto it) { return like(it.getX()); }) // the window's last extent is static
      .Case<DeltaRuleOp>([&](auto it) {
        SmallVector<SymbolicDim> q = shape(it.getQ());
        SymbolicDim width = shape(it.getV())[3];
        if (tensor == it.getResult()) {
          return fill([&](int64_t axis) { return axis == 3 ? width : q[axis]; });
        }
        return fill([&](int64_t axis) {
          return axis == 3 ? width + SymbolicDim(it.getNormalize() ? 1 : 0) : axis == 2 ? q[3] : q[axis];
        });
      })
      .Case<GreedyTokenOp>([&](auto it) { return like(it.getLogits()); })
      .Case<CacheAppendOp>([&](auto it) {
        int64_t grows = it.getState().getType().getGrows();
        return fill([&](int64_t axis) {
          SymbolicDim rows = shape(it.getRows())[axis];
          return axis == grows ? of(it.getPast()) + rows : rows;
        });
      })
      .Case<EmbeddingOp>([&](auto it) { return like(it.getIds()); })
      .Default([&](Operation *) { return fill(opaque); });
}

Value HostScalars::materializeAtom(OpBuilder &builder, Location loc, const SymbolicDim::Atom &atom,
                                   Written &written) const {
  using K = SymbolicDim::AtomKind;
  auto operand = [&](unsigned i) { return materialize(builder, loc, atom.operands[i], written); };
  auto toIndex = [&](Value value) {
    if (value.getType().isIndex()) {
      return value;
    }
    if (value.getType().isInteger(1)) {
      return arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(), value).getResult();
    }
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(), value).getResult();
  };
  auto cmp = [&](arith::CmpIPredicate predicate) {
    return toIndex(arith::CmpIOp::create(builder, loc, predicate, operand(0), operand(1)));
  };
  switch (atom.kind) {
  case K::Symbol:
  case K::Runtime: {
    const HostAtom *known = this->atom(atom.name);
    if (!known || (known->kind == HostAtom::Kind::Opaque && !known->value.getType().isIntOrIndex()) ||
        known->kind == HostAtom::Kind::Capacity) {
      return arith::ConstantIndexOp::create(builder, loc, 0);
    }
    Block &entry = const_cast<func::FuncOp &>(func).getBody().front();
    if (known->kind == HostAtom::Kind::InputDim) {
      return tensor::DimOp::create(builder, loc, entry.getArgument(known->argument), known->index);
    }
    if (known->kind == HostAtom::Kind::InputValue) {
      Value input = entry.getArgument(known->argument);
      auto type = cast<RankedTensorType>(input.getType());
      SmallVector<Value> indices;
      int64_t rest = known->index;
      for (int64_t axis = type.getRank() - 1; axis >= 0; --axis) {
        int64_t extent = type.isDynamicDim(axis) || axis == 0 ? rest + 1 : type.getDimSize(axis);
        indices.push_back(arith::ConstantIndexOp::create(builder, loc, rest % extent));
        rest /= extent;
      }
      std::reverse(indices.begin(), indices.end());
      return toIndex(tensor::ExtractOp::create(builder, loc, input, indices));
    }
    return toIndex(known->value);
  }
  case K::FloorDiv:
    return arith::FloorDivSIOp::create(builder, loc, operand(0), operand(1));
  case K::CeilDiv:
    return arith::CeilDivSIOp::create(builder, loc, operand(0), operand(1));
  case K::Mod:
    return arith::RemUIOp::create(builder, loc, operand(0), operand(1));
  case K::Product:
    return arith::MulIOp::create(builder, loc, operand(0), operand(1));
  case K::Min:
    return arith::MinSIOp::create(builder, loc, operand(0), operand(1));
  case K::Max:
    return arith::MaxSIOp::create(builder, loc, operand(0), operand(1));
  case K::Eq:
    return cmp(arith::CmpIPredicate::eq);
  case K::Lt:
    return cmp(arith::CmpIPredicate::slt);
  case K::Select: {
    Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
    Value cond = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, operand(0), zero);
    return arith::SelectOp::create(builder, loc, cond, operand(1), operand(2));
  }
  }
  return {};
}

void HostScalars::shareBefore(Operation *op) {
  if (!sharing || sharing->getBlock() != op->getBlock()) {
    shared = Written();
  }
  sharing = op;
}

Value HostScalars::materialize(OpBuilder &builder, Location loc, const SymbolicDim &dim) {
  bool isShared = sharing && builder.getInsertionBlock() == sharing->getBlock() &&
                  builder.getInsertionPoint() == Block::iterator(sharing);
  Written own;
  return materialize(builder, loc, dim, isShared ? shared : own);
}

Value HostScalars::materialize(OpBuilder &builder, Location loc, const SymbolicDim &dim, Written &written) const {
  if (auto it = written.dims.find(dim.str()); it != written.dims.end()) {
    return it->second;
  }
  Value sum;
  for (const auto &[monomial, coefficient] : dim.terms()) {
    Value product;
    for (const auto &[key, power] : monomial) {
      if (!written.atoms.count(key)) {
        Value value = materializeAtom(builder, loc, *dim.atom(key), written);
        written.atoms[key] = value;
      }
      for (int i = 0; i < power; ++i) {
        Value factor = written.atoms[key];
        product = product ? arith::MulIOp::create(builder, loc, product, factor).getResult() : factor;
      }
    }
    if (!product) {
      product = arith::ConstantIndexOp::create(builder, loc, coefficient);
    } else if (coefficient != 1) {
      Value scale = arith::ConstantIndexOp::create(builder, loc, coefficient);
      product = arith::MulIOp::create(builder, loc, product, scale);
    }
    sum = sum ? arith::AddIOp::create(builder, loc, sum, product).getResult() : product;
  }
  if (!sum) {
    sum = arith::ConstantIndexOp::create(builder, loc, 0);
  }
  written.dims[dim.str()] = sum;
  return sum;
}
