//===- MoeProducts.cpp - products of rows with the matrices of their experts
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/MoeProducts.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/PackedFloats.h"
#include "passes/KimiToTile/MoeKernel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kimi;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

ExpertMatrices::ExpertMatrices(ArrayRef<Value> matrices, ArrayRef<Value> scales)
    : matrices(matrices), scales(scales), width(typeOf(matrices[0]).getDimSize(1)),
      depth(typeOf(matrices[0]).getDimSize(2)) {}

namespace {
/// A block: a tile of rows, all of one expert, by some of the columns. Blocks of one tile of rows lie beside each
/// other: they share it, and their expert's matrices fit the cache.
class ProductKernel : protected MoeKernel {
public:
  ProductKernel(HostContext &context, const MoeProblem &problem, const ExpertRows &rows, Value rowsOf,
                const ExpertMatrices &product, int64_t tileRows)
      : MoeKernel(context, problem), context(context), rows(rows), product(product), rowsOf(rowsOf),
        tileRows(tileRows) {}
  virtual ~ProductKernel() = default;

  FailureOr<KernelWriter::Variant> build(const Twine &name, const SymbolicDim &guard) {
    SmallVector<Value> inputs{rowsOf, rows.expertOf};
    if (!addMatrices(inputs) || !import(inputs)) {
      return failure();
    }
    bool apart = splitsColumns(); // columns of even and of odd number
    int64_t parts = apart ? 2 : 1, width = product.width / parts;
    Value out = apart ? result(rows.rows, {2, width}, p.element) : result(rows.rows, {width}, p.element);
    int64_t columnTiles = llvm::divideCeil(width, columns);
    Value block = blockId(0), perTile = writer.constant(columnTiles * parts);
    Value tile = arith::DivUIOp::create(b, loc, block, perTile),
          inTile = arith::RemUIOp::create(b, loc, block, perTile);
    row = times(tile, tileRows);
    part = arith::DivUIOp::create(b, loc, inTile, writer.constant(columnTiles));
    column = times(arith::RemUIOp::create(b, loc, inTile, writer.constant(columnTiles)), columns);
    Value found = read(buffers[1], tile);
    isUsed = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, found, zero);
    expert = arith::MaxSIOp::create(b, loc, found, zero);
    SmallVector<Value> sums;
    for (size_t i = 0; i < product.matrices.size(); ++i) {
      sums.push_back(t.fragment(tileRows, columns));
      t.fill(sums.back(), 0.0f);
    }
    multiply(sums);
    if (sums.size() == 2) {
      t.map(sums, sums[0], [&](ValueRange e) { return activation(e[0], e[1]); });
    }
    if (apart) {
      t.store(sums[0], out, {row, part, column}, {0, 2});
    } else {
      t.store(sums[0], out, {row, column}, {0, 1});
    }
    return KernelWriter::Variant{writer.finish((p.stem + name).str()), guard, rows.tiles * (columnTiles * parts)};
  }

  Value dispatch(ArrayRef<KernelWriter::Variant> variants) {
    int64_t matrices = product.matrices.size();
    return writer.dispatch(variants, 2 * product.depth * matrices).getResult(0);
  }

protected:
  /// Adds the matrices to the kernel's `inputs`; false, with an error and no kernel, where they cannot be had.
  virtual bool addMatrices(SmallVectorImpl<Value> &inputs) = 0;
  virtual bool splitsColumns() const { return false; }
  /// Adds the products of the block's rows with its columns to `sums`; nothing where no expert has the tile.
  virtual void multiply(ArrayRef<Value> sums) = 0;

  /// `extent` steps, or none for a tile that no expert has.
  Value end(int64_t extent) { return arith::SelectOp::create(b, loc, isUsed, writer.constant(extent), zero); }

  Value activation(Value gate, Value up) {
    MoeOp op = p.op;
    return op.getActivation() == ExpertKind::swiglu ? emitSwiglu(b, loc, gate, up)
                                                    : emitSituGlu(b, loc, gate, up, *op.getBeta(), op.getLinearBeta());
  }

  HostContext &context;
  const ExpertRows &rows;
  const ExpertMatrices &product;
  Value rowsOf;
  int64_t tileRows, columns = 0; // of a block
  Type operand;                  // what is multiplied
  Value row, column, part, expert, isUsed;
};

/// Matrices of floats, which pass through shared memory as they are.
class FloatProductKernel : public ProductKernel {
public:
  FloatProductKernel(HostContext &context, const GpuArch &arch, const MoeProblem &problem, const ExpertRows &rows,
                     Value rowsOf, const ExpertMatrices &product, int64_t tileRows)
      : ProductKernel(context, problem, rows, rowsOf, product, tileRows) {
    operand = p.element;
    for (Value matrix : product.matrices) {
      operand = typeOf(matrix).getElementType() == operand ? operand : Type(b.getF32Type());
    }
    int64_t elementSize = operand.getIntOrFloatBitWidth() / 8, matrices = product.matrices.size();
    s = chooseExpertTile(arch, {product.width, product.depth, elementSize}, tileRows, matrices);
    columns = s.columns;
    LinearTile all = s; // what blocks share an SM by
    all.columns *= matrices;
    writer.setThreads(s.threads, all.blocksPerSm(arch, elementSize));
  }

private:
  bool addMatrices(SmallVectorImpl<Value> &inputs) override {
    inputs.append(product.matrices.begin(), product.matrices.end());
    return true;
  }

  void multiply(ArrayRef<Value> sums) override {
    SmallVector<Value> tiles{t.shared(tileRows, s.depth, operand)};
    for (size_t i = 0; i < sums.size(); ++i) {
      tiles.push_back(t.shared(columns, s.depth, operand));
    }
    t.pipeline(
        zero, end(product.depth), writer.constant(s.depth), tiles, s.stages,
        [&](Value k) {
          t.load(tiles[0], buffers[0], {row, k}, {0, 1});
          for (size_t i = 0; i < sums.size(); ++i) {
            t.load(tiles[1 + i], buffers[2 + i], {expert, column, k}, {1, 2});
          }
        },
        [&](Value) {
          for (size_t i = 0; i < sums.size(); ++i) {
            t.multiplyTransposed(sums[i], tiles[0], tiles[1 + i]);
          }
        });
  }

  LinearTile s{};
};

/// MXFP4 matrices: bytes go to registers, from there as numbers to shared memory, the low halves of bytes, which are
/// the elements of even number, and the high ones in tiles of their own. Other blocks of the SM compute while one
/// loads.
class PackedProductKernel : public ProductKernel {
public:
  PackedProductKernel(HostContext &context, const GpuArch &arch, const MoeProblem &problem, const ExpertRows &rows,
                      Value rowsOf, const ExpertMatrices &product, int64_t tileRows)
      : ProductKernel(context, problem, rows, rowsOf, product, tileRows) {
    // A scale is too large for f16, whose products are taken in fp32 then.
    operand = p.element.isBF16() ? p.element : Type(b.getF32Type());
    constexpr int64_t threads = 128;
    columns = 64;
    int64_t matrices = product.matrices.size(), elementSize = operand.getIntOrFloatBitWidth() / 8;
    int64_t bytes = 2 * kGroups * kGroupBytes * (tileRows + matrices * columns) * elementSize;
    writer.setThreads(threads, arch.blocksPerSm(threads, bytes, matrices * tileRows * columns / threads));
  }

private:
  static constexpr int64_t kGroups = 4;      // of elements with a scale each, in a step
  static constexpr int64_t kGroupBytes = 16; // of a group

  bool splitsColumns() const override { return product.matrices.size() == 2; }

  /// Of a matrix [E, N, K] the bytes as [E, N, groups, 16] and the scales as [E, N, groups], with N as [N / 2, 2] where
  /// columns are split.
  bool addMatrices(SmallVectorImpl<Value> &inputs) override {
    OpBuilder at(p.op);
    for (auto [matrix, scale] : llvm::zip_equal(product.matrices, product.scales)) {
      Value codes = bytesOf(at, MoeOp(p.op).getLoc(), matrix), scales = bytesOf(at, MoeOp(p.op).getLoc(), scale);
      if (!codes || !scales) {
        MoeOp(p.op).emitError() << "packed experts that are no weights of the module";
        writer.abandon();
        return false;
      }
      inputs.push_back(viewed(at, codes, /*byGroups=*/true));
      inputs.push_back(viewed(at, scales, /*byGroups=*/false));
    }
    return true;
  }

  Value viewed(OpBuilder &at, Value tensor, bool byGroups) {
    SmallVector<int64_t> shape{p.experts};
    SmallVector<ReassociationIndices> groups{{0}};
    auto extents = [&](ArrayRef<int64_t> list) {
      groups.emplace_back();
      for (int64_t extent : list) {
        groups.back().push_back(shape.size());
        shape.push_back(extent);
      }
    };
    int64_t last = typeOf(tensor).getDimSize(2);
    extents(splitsColumns() ? SmallVector<int64_t>{product.width / 2, 2} : SmallVector<int64_t>{product.width});
    extents(byGroups ? SmallVector<int64_t>{last / kGroupBytes, kGroupBytes} : SmallVector<int64_t>{last});
    auto type = RankedTensorType::get(shape, typeOf(tensor).getElementType());
    return type == tensor.getType()
               ? tensor
               : tensor::ExpandShapeOp::create(at, MoeOp(p.op).getLoc(), type, tensor, groups).getResult();
  }

  void multiply(ArrayRef<Value> sums) override {
    Type byte = b.getI8Type();
    buildLoop(b, loc, zero, end(product.depth / (2 * kGroupBytes)), writer.constant(kGroups), [&](Value first) {
      SmallVector<Value> even, odd, codes, factors;
      for (int64_t g = 0; g < kGroups; ++g) {
        Value group = add(first, writer.constant(g)), k = times(group, kGroupBytes);
        even.push_back(t.shared(tileRows, kGroupBytes, operand));
        odd.push_back(t.shared(tileRows, kGroupBytes, operand));
        t.load(even.back(), buffers[0], {row, zero, k}, {0, 2});
        t.load(odd.back(), buffers[0], {row, writer.constant(1), k}, {0, 2});
        for (size_t i = 0; i < sums.size(); ++i) {
          codes.push_back(t.fragment(columns, kGroupBytes, byte));
          factors.push_back(t.fragment(columns, 1, byte));
          if (splitsColumns()) {
            t.load(codes.back(), buffers[2 + 2 * i], {expert, column, part, group, zero}, {1, 4});
            t.load(factors.back(), buffers[3 + 2 * i], {expert, column, part, group}, {1, 3});
          } else {
            t.load(codes.back(), buffers[2 + 2 * i], {expert, column, group, zero}, {1, 3});
            t.load(factors.back(), buffers[3 + 2 * i], {expert, column, group}, {1, 2});
          }
        }
      }
      SmallVector<Value> low, high;
      for (auto [code, factor] : llvm::zip_equal(codes, factors)) {
        Value scale = t.fragment(columns, 1);
        t.map({factor}, scale, [&](ValueRange e) { return emitE8M0(b, loc, e[0]); });
        low.push_back(numbers(code, scale, /*high=*/false));
        high.push_back(numbers(code, scale, /*high=*/true));
      }
      for (int64_t g = 0; g < kGroups; ++g) {
        for (auto [i, sum] : llvm::enumerate(sums)) {
          t.multiplyTransposed(sum, even[g], low[g * sums.size() + i]);
          t.multiplyTransposed(sum, odd[g], high[g * sums.size() + i]);
        }
      }
    });
  }

  Value numbers(Value codes, Value scale, bool high) {
    Value tile = t.shared(columns, kGroupBytes, operand);
    t.map({codes, scale}, tile, [&](ValueRange e) {
      Value number = arith::MulFOp::create(b, loc, emitE2M1Half(b, loc, e[0], high), e[1]);
      return castFloat(b, loc, number, operand);
    });
    return tile;
  }
};
} // namespace

FailureOr<Value> kimi::buildExpertProduct(HostContext &context, const GpuArch &arch, const MoeProblem &problem,
                                          const ExpertRows &rows, Value rowsOf, const ExpertMatrices &product,
                                          StringRef part) {
  SmallVector<KernelWriter::Variant> variants;
  std::unique_ptr<ProductKernel> kernel;
  for (int64_t tileRows : {ExpertRows::kFew, ExpertRows::kMany}) {
    bool isFew = tileRows == ExpertRows::kFew;
    if (rows.isFew.is(isFew ? 0 : 1)) {
      continue;
    }
    if (product.scales.empty()) {
      kernel = std::make_unique<FloatProductKernel>(context, arch, problem, rows, rowsOf, product, tileRows);
    } else {
      kernel = std::make_unique<PackedProductKernel>(context, arch, problem, rows, rowsOf, product, tileRows);
    }
    FailureOr<KernelWriter::Variant> variant =
        kernel->build(part + (isFew ? "_few" : ""), isFew ? rows.isFew : SymbolicDim(1));
    if (failed(variant)) {
      return failure();
    }
    variants.push_back(*variant);
  }
  return kernel->dispatch(variants);
}
