//===- MoeProducts.cpp - products of rows with the matrices of their experts
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/MoeProducts.h"
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
    addMatrices(inputs);
    if (!import(inputs)) {
      return failure();
    }
    Value out = result(rows.rows, {product.width}, p.element);
    int64_t columnTiles = llvm::divideCeil(product.width, columns);
    Value block = blockId(0), perTile = writer.constant(columnTiles);
    Value tile = arith::DivUIOp::create(b, loc, block, perTile);
    row = times(tile, tileRows);
    column = times(arith::RemUIOp::create(b, loc, block, perTile), columns);
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
    t.store(sums[0], out, {row, column}, {0, 1});
    return KernelWriter::Variant{writer.finish((p.stem + name).str()), guard, rows.tiles * columnTiles};
  }

  Value dispatch(ArrayRef<KernelWriter::Variant> variants) {
    int64_t matrices = product.matrices.size();
    return writer.dispatch(variants, 2 * product.depth * matrices).getResult(0);
  }

protected:
  /// Adds the matrices to the kernel's `inputs`.
  virtual void addMatrices(SmallVectorImpl<Value> &inputs) = 0;
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
  Value row, column, expert, isUsed;
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
  void addMatrices(SmallVectorImpl<Value> &inputs) override {
    inputs.append(product.matrices.begin(), product.matrices.end());
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

/// MXFP4 matrices: bytes go to registers, from there as numbers to shared memory. The bytes of a step are loaded while
/// the one before is computed.
class PackedProductKernel : public ProductKernel {
public:
  PackedProductKernel(HostContext &context, const GpuArch &arch, const MoeProblem &problem, const ExpertRows &rows,
                      Value rowsOf, const ExpertMatrices &product, int64_t tileRows)
      : ProductKernel(context, problem, rows, rowsOf, product, tileRows) {
    // A scale may be too large for f16, whose products are taken in fp32 then.
    operand = p.element.isBF16() ? p.element : Type(b.getF32Type());
    columns = kColumns;
    int64_t matrices = product.matrices.size(), elementSize = operand.getIntOrFloatBitWidth() / 8;
    int64_t bytes = kDepth * (kStages * tileRows + matrices * columns) * elementSize;
    int64_t loaded = 2 * matrices * columns * kDepth / 2 / 4; // words of this step and the next
    writer.setThreads(kThreads, arch.blocksPerSm(kThreads, bytes, (matrices * tileRows * columns + loaded) / kThreads));
  }

private:
  static constexpr int64_t kThreads = 128, kColumns = 64, kDepth = 128, kStages = 3;
  static constexpr int64_t kGroup = 32; // elements with one scale

  void addMatrices(SmallVectorImpl<Value> &inputs) override {
    OpBuilder at(p.op);
    for (auto [matrix, scale] : llvm::zip_equal(product.matrices, product.scales)) {
      Location where = MoeOp(p.op).getLoc();
      inputs.append({bytesOf(at, where, matrix), bytesOf(at, where, scale)}); // weights, so they are there
    }
  }

  void multiply(ArrayRef<Value> sums) override {
    Type byte = b.getI8Type();
    struct Bytes {
      Value codes, scales, nextCodes, nextScales, numbers;
    };
    SmallVector<Bytes> list(sums.size());
    auto load = [&](Value first) { // the bytes from there on: a whole number of vectors from the start of a row
      Value group = arith::DivUIOp::create(b, loc, first, writer.constant(kGroup / 2));
      for (auto [i, bytes] : llvm::enumerate(list)) {
        t.load(bytes.nextCodes, buffers[2 + 2 * i], {expert, column, first}, {1, 2});
        t.load(bytes.nextScales, buffers[3 + 2 * i], {expert, column, group}, {1, 2});
      }
    };
    for (Bytes &bytes : list) {
      for (Value *codes : {&bytes.codes, &bytes.nextCodes}) {
        *codes = t.fragment(columns, kDepth / 2, byte);
      }
      for (Value *scales : {&bytes.scales, &bytes.nextScales}) {
        *scales = t.fragment(columns, kDepth / kGroup, byte);
      }
      bytes.numbers = t.shared(columns, kDepth, operand);
    }
    Value rowTile = t.shared(tileRows, kDepth, operand), step = writer.constant(kDepth / 2);
    load(zero);
    t.pipeline(
        zero, end(product.depth / 2), step, {rowTile}, kStages,
        [&](Value first) { t.load(rowTile, buffers[0], {row, times(first, 2)}, {0, 1}); },
        [&](Value first) {
          auto same = [](ValueRange e) { return e[0]; };
          for (Bytes &bytes : list) {
            t.map({bytes.nextCodes}, bytes.codes, same);
            t.map({bytes.nextScales}, bytes.scales, same);
          }
          load(add(first, step)); // zeros behind the last
          for (Bytes &bytes : list) {
            t.dequantize(bytes.codes, bytes.scales, bytes.numbers);
          }
          for (auto [sum, bytes] : llvm::zip_equal(sums, list)) {
            t.multiplyTransposed(sum, rowTile, bytes.numbers);
          }
        });
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
