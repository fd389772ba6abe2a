//===- RunModuleTest.cpp - kernels, plan and runtime together, against plain sums
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "dialects/Tile/TileDialect.h"
#include "include/kimi/kimi.h"
#include "lib/Codegen/CompileKernels.h"
#include "lib/Module/BuildModule.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "llvm/Support/FileSystem.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mlir;
using namespace kimi;

namespace {
/// Compiles a module of kimi ops to a .kmod and runs its entries.
class Compiled {
public:
  /// `weights`: the bytes of w.bin, which the module's weights may name. `before`: passes on the graph.
  Compiled(const std::string &text, const std::vector<float> &weights = {}, const std::string &before = "") {
    static bool registered = [] {
      registerKimiPasses();
      registerTransformsPasses();
      return true;
    }();
    (void)registered;
    DialectRegistry registry;
    registerAllDialects(registry);
    registerAllExtensions(registry);
    registry.insert<KimiDialect, tile::TileDialect>();
    MLIRContext context(registry);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    PassManager pm(&context);
    std::string pipeline = before + (before.empty() ? "" : ",") +
                           "kimi-schedule-linear,kimi-schedule-attention,kimi-schedule-greedy-token,canonicalize,cse,"
                           "kimi-generalize-tensor-ops,kimi-materialize-views,kimi-outline-generic,canonicalize,cse";
    if (!module || failed(parsePassPipeline(pipeline, pm)) || failed(pm.run(*module))) {
      return;
    }
    auto image = compileKernels(*module, CpuTargetOptions());
    auto target = resolveCpuTarget(CpuTargetOptions());
    if (failed(image) || !target) {
      return;
    }
    ModuleOptions options;
    options.target = target->name();
    options.images = {{options.target, *image}};
    auto bytes = buildModule(*module, options);
    if (failed(bytes)) {
      return;
    }
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("kimi-run", folder));
    std::ofstream((folder + "/w.bin").str(), std::ios::binary)
        .write(reinterpret_cast<const char *>(weights.data()), weights.size() * sizeof(float));
    std::string path = (folder + "/m.kmod").str();
    std::ofstream(path, std::ios::binary) << *bytes;
    kimi_session_options sessionOptions{};
    sessionOptions.threads = 2;
    sessionOptions.max_seq = 256;
    sessionOptions.batch = 1;
    bool loaded = kimi_module_load(path.c_str(), nullptr, &handle) == KIMI_OK &&
                  kimi_session_create(handle, &sessionOptions, &session) == KIMI_OK;
    EXPECT_TRUE(loaded) << kimi_last_error();
  }
  ~Compiled() {
    kimi_session_free(session);
    kimi_module_free(handle);
    llvm::sys::fs::remove_directories(folder);
  }

  template <typename T = float>
  std::vector<T> run(const char *entry, std::vector<kimi_tensor> inputs, size_t size) {
    kimi_tensor output{};
    int32_t index = session ? kimi_module_find_entry(handle, entry) : -1;
    EXPECT_GE(index, 0);
    if (index < 0 || kimi_session_output_shapes(session, index, inputs.data(), inputs.size(), &output, 1) != KIMI_OK) {
      ADD_FAILURE() << kimi_last_error();
      return std::vector<T>(size);
    }
    size_t count = 1;
    for (int32_t axis = 0; axis < output.rank; ++axis) {
      count *= output.dims[axis];
    }
    EXPECT_EQ(count, size);
    std::vector<T> values(count, T(-77));
    output.data = values.data();
    EXPECT_EQ(kimi_session_run(session, index, inputs.data(), inputs.size(), &output, 1), KIMI_OK) << kimi_last_error();
    values.resize(size);
    return values;
  }

private:
  llvm::SmallString<128> folder;
  kimi_module *handle = nullptr;
  kimi_session *session = nullptr;
};

std::vector<float> draw(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float &value : values) {
    value = uniform(random);
  }
  return values;
}

kimi_tensor tensor(std::vector<float> &values, std::vector<int64_t> dims) {
  kimi_tensor out{};
  out.dtype = KIMI_F32;
  out.rank = static_cast<int32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), out.dims);
  out.data = values.data();
  return out;
}

void expectClose(const std::vector<float> &actual, const std::vector<double> &expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    worst = std::max(worst, std::isnan(actual[i]) ? 1e9 : std::abs(actual[i] - expected[i]));
  }
  EXPECT_LT(worst, 2e-5);
}

/// |actual - expected| / |expected| is above what fp32 gives, and at most 1e-2.
void expectNarrow(const std::vector<float> &actual, const std::vector<double> &expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double distance = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    distance += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(distance / norm), 1e-2);
  EXPECT_GE(std::sqrt(distance / norm), 1e-5);
}

const char *const narrowTypes[] = {"kimi-narrow-precision{type=bf16}", "kimi-narrow-precision{type=fp16}"};

/// o = softmax(causal(q.k * scale)) v on [B, T, 3, H, D] projections.
std::vector<double> attention(const std::vector<float> &x, int64_t B, int64_t T, int64_t H, int64_t D, bool causal) {
  std::vector<double> out(B * T * H * D);
  auto at = [&](int64_t b, int64_t t, int64_t part, int64_t h, int64_t d) {
    return double(x[(((b * T + t) * 3 + part) * H + h) * D + d]);
  };
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t i = 0; i < T; ++i) {
        int64_t seen = causal ? i + 1 : T;
        std::vector<double> p(seen);
        double top = -1e300, sum = 0;
        for (int64_t j = 0; j < seen; ++j) {
          for (int64_t d = 0; d < D; ++d) {
            p[j] += at(b, i, 0, h, d) * at(b, j, 1, h, d);
          }
          top = std::max(top, p[j] *= 1 / std::sqrt(double(D)));
        }
        for (double &value : p) {
          sum += value = std::exp(value - top);
        }
        for (int64_t j = 0; j < seen; ++j) {
          for (int64_t d = 0; d < D; ++d) {
            out[((b * T + i) * H + h) * D + d] += p[j] / sum * at(b, j, 2, h, d);
          }
        }
      }
    }
  }
  return out;
}

std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

const char *attentionModule = R"(
func.func @main(%x: tensor<?x?x$X$xf32> {kimi.dims = ["b", "t", ""]}) -> tensor<?x?x$W$xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x$X$xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x$X$xf32>
  %x5 = tensor.expand_shape %x [[0], [1], [2, 3, 4]] output_shape [%b, %s, 3, $H$, $D$] : tensor<?x?x$X$xf32> into tensor<?x?x3x$H$x$D$xf32>
  %q1 = tensor.extract_slice %x5[0, 0, 0, 0, 0] [%b, %s, 1, $H$, $D$] [1, 1, 1, 1, 1] : tensor<?x?x3x$H$x$D$xf32> to tensor<?x?x$H$x$D$xf32>
  %k1 = tensor.extract_slice %x5[0, 0, 1, 0, 0] [%b, %s, 1, $H$, $D$] [1, 1, 1, 1, 1] : tensor<?x?x3x$H$x$D$xf32> to tensor<?x?x$H$x$D$xf32>
  %v1 = tensor.extract_slice %x5[0, 0, 2, 0, 0] [%b, %s, 1, $H$, $D$] [1, 1, 1, 1, 1] : tensor<?x?x3x$H$x$D$xf32> to tensor<?x?x$H$x$D$xf32>
  %e = tensor.empty(%b, %s) : tensor<?x$H$x?x$D$xf32>
  %q = linalg.transpose ins(%q1 : tensor<?x?x$H$x$D$xf32>) outs(%e : tensor<?x$H$x?x$D$xf32>) permutation = [0, 2, 1, 3]
  %k = linalg.transpose ins(%k1 : tensor<?x?x$H$x$D$xf32>) outs(%e : tensor<?x$H$x?x$D$xf32>) permutation = [0, 2, 1, 3]
  %v = linalg.transpose ins(%v1 : tensor<?x?x$H$x$D$xf32>) outs(%e : tensor<?x$H$x?x$D$xf32>) permutation = [0, 2, 1, 3]
  $MASK$
  %o = kimi.attention %q, %k, %v $KIND$ scale $SCALE$ : tensor<?x$H$x?x$D$xf32>, tensor<?x$H$x?x$D$xf32>, tensor<?x$H$x?x$D$xf32> -> tensor<?x$H$x?x$D$xf32>
  %e2 = tensor.empty(%b, %s) : tensor<?x?x$H$x$D$xf32>
  %t = linalg.transpose ins(%o : tensor<?x$H$x?x$D$xf32>) outs(%e2 : tensor<?x?x$H$x$D$xf32>) permutation = [0, 2, 1, 3]
  %y = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<?x?x$H$x$D$xf32> into tensor<?x?x$W$xf32>
  return %y : tensor<?x?x$W$xf32>
}
)";

/// The causal triangle as a boolean mask.
const char *triangle = R"(%em = tensor.empty(%s, %s) : tensor<1x1x?x?xi1>
  %m = linalg.generic {indexing_maps = [affine_map<(a, b, i, j) -> (a, b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%em : tensor<1x1x?x?xi1>) {
  ^bb0(%old: i1):
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %seen = arith.cmpi sle, %j, %i : index
    linalg.yield %seen : i1
  } -> tensor<1x1x?x?xi1>)";

struct Heads {
  int64_t heads, channels;
};
class Attention : public ::testing::TestWithParam<Heads> {};

TEST_P(Attention, MatchesDoubleSums) {
  auto [H, D] = GetParam();
  std::string text = replaceAll(attentionModule, "$H$", std::to_string(H));
  text = replaceAll(text, "$D$", std::to_string(D));
  text = replaceAll(text, "$X$", std::to_string(3 * H * D));
  text = replaceAll(text, "$W$", std::to_string(H * D));
  text = replaceAll(text, "$SCALE$", std::to_string(1 / std::sqrt(double(D))));
  for (int form = 0; form < 3; ++form) {
    std::string variant = replaceAll(text, "$MASK$", form == 2 ? triangle : "");
    variant = replaceAll(variant, "$KIND$", form == 0 ? "" : form == 1 ? "causal" : "mask %m : tensor<1x1x?x?xi1>");
    Compiled compiled(variant);
    for (int64_t T : {1, 2, 64, 131}) {
      std::vector<float> x = draw(2 * T * 3 * H * D, 5 + T);
      expectClose(compiled.run("main", {tensor(x, {2, T, 3 * H * D})}, 2 * T * H * D),
                  attention(x, 2, T, H, D, form != 0));
    }
    for (const char *type : narrowTypes) {
      Compiled narrow(variant, {}, type);
      for (int64_t T : {1, 67}) {
        std::vector<float> x = draw(2 * T * 3 * H * D, 5 + T);
        expectNarrow(narrow.run("main", {tensor(x, {2, T, 3 * H * D})}, 2 * T * H * D),
                     attention(x, 2, T, H, D, form != 0));
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Heads, Attention,
                         ::testing::Values(Heads{1, 64}, Heads{3, 16}, Heads{2, 128}, Heads{1, 192}, Heads{1, 256}));

struct Shape {
  int64_t k, n;
  const char *norm;
  bool transpose;
};
class Linear : public ::testing::TestWithParam<Shape> {};

TEST_P(Linear, MatchesDoubleSums) {
  auto [K, N, norm, transpose] = GetParam();
  std::string normText = norm;
  bool layer = normText == "layer", any = !normText.empty();
  std::string weightShape = transpose ? "$N$x$K$" : "$K$x$N$";
  std::string text = R"(
kimi.weight @w : tensor<$S$xf32> from #kimi.external<"w.bin", 0, $WB$>
kimi.weight @g : tensor<$K$xf32> from #kimi.external<"w.bin", $WB$, $KB$>
kimi.weight @b : tensor<$N$xf32> from #kimi.external<"w.bin", $GE$, $NB$>
func.func @main(%x: tensor<?x?x$K$xf32> {kimi.dims = ["b", "t", ""]}, %r: tensor<?x?x$N$xf32> {kimi.dims = ["b", "t", 1]}) -> tensor<?x?x$N$xf32> {
  %w = kimi.weight_ref @w : tensor<$S$xf32>
  %g = kimi.weight_ref @g : tensor<$K$xf32>
  %b = kimi.weight_ref @b : tensor<$N$xf32>
  %y = kimi.fused_linear %x, %w$TR$$NORM$ extras(%b, %r) maps [affine_map<(b, t, n) -> (n)>, affine_map<(b, t, n) -> (b, t, n)>]
    : (tensor<?x?x$K$xf32>, tensor<$S$xf32>$NT$, tensor<$N$xf32>, tensor<?x?x$N$xf32>) -> tensor<?x?x$N$xf32> {
  ^bb0(%acc: f32, %bias: f32, %res: f32):
    %0 = arith.addf %acc, %bias : f32
    %1 = math.tanh %0 : f32
    %2 = arith.addf %1, %res : f32
    kimi.yield %2 : f32
  }
  return %y : tensor<?x?x$N$xf32>
})";
  text = replaceAll(text, "$S$", weightShape);
  text = replaceAll(text, "$TR$", transpose ? " transpose" : "");
  text = replaceAll(text, "$NORM$", layer ? " norm layer(%g, %g) eps 1.0e-5" : any ? " norm rms(%g) eps 1.0e-5" : "");
  text = replaceAll(text, "$NT$", layer ? ", tensor<$K$xf32>, tensor<$K$xf32>" : any ? ", tensor<$K$xf32>" : "");
  text = replaceAll(text, "$WB$", std::to_string(4 * K * N));
  text = replaceAll(text, "$GE$", std::to_string(4 * (K * N + K)));
  text = replaceAll(text, "$KB$", std::to_string(4 * K));
  text = replaceAll(text, "$NB$", std::to_string(4 * N));
  text = replaceAll(text, "$K$", std::to_string(K));
  text = replaceAll(text, "$N$", std::to_string(N));
  std::vector<float> weights = draw(K * N + K + N, 3);
  for (int64_t i = 0; i < K * N; ++i) {
    weights[i] /= std::sqrt(float(K));
  }
  Compiled compiled(text, weights), brain(text, weights, narrowTypes[0]), half(text, weights, narrowTypes[1]);
  for (int64_t M : {1, 3, 4, 5, 48, 101}) {
    std::vector<float> x = draw(M * K, M), r = draw(M * N, M + 1);
    std::vector<double> expected(M * N);
    for (int64_t m = 0; m < M; ++m) {
      double mean = 0, square = 0;
      for (int64_t k = 0; k < K; ++k) {
        mean += x[m * K + k] / double(K);
      }
      mean = layer ? mean : 0;
      for (int64_t k = 0; k < K; ++k) {
        square += (x[m * K + k] - mean) * (x[m * K + k] - mean) / double(K);
      }
      for (int64_t n = 0; n < N; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < K; ++k) {
          double value = x[m * K + k];
          if (any) {
            value = (value - mean) / std::sqrt(square + 1e-5) * weights[K * N + k] + (layer ? weights[K * N + k] : 0);
          }
          sum += value * weights[transpose ? n * K + k : k * N + n];
        }
        expected[m * N + n] = std::tanh(sum + weights[K * N + K + n]) + r[m * N + n];
      }
    }
    expectClose(compiled.run("main", {tensor(x, {1, M, K}), tensor(r, {1, M, N})}, M * N), expected);
    expectNarrow(brain.run("main", {tensor(x, {1, M, K}), tensor(r, {1, M, N})}, M * N), expected);
    expectNarrow(half.run("main", {tensor(x, {1, M, K}), tensor(r, {1, M, N})}, M * N), expected);
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, Linear,
                         ::testing::Values(Shape{96, 200, "layer", false}, Shape{64, 7, "", true},
                                           Shape{130, 144, "rms", false}, Shape{3072, 48, "", false}));

class Greedy : public ::testing::TestWithParam<int64_t> {};

TEST_P(Greedy, LowestIndexOfTheMaximum) {
  int64_t V = GetParam();
  std::string text = replaceAll(R"(
func.func @main(%l: tensor<?x1x$V$xf32> {kimi.dims = ["b", 1, $V$]}) -> tensor<?x1xi64> {
  %t = kimi.greedy_token %l : tensor<?x1x$V$xf32> -> tensor<?x1xi64>
  return %t : tensor<?x1xi64>
})",
                                "$V$", std::to_string(V));
  Compiled kernels(text), reference(text, {}, "kimi-lower-to-reference");
  constexpr int64_t rows = 8;
  float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> logits = draw(rows * V, 9);
  std::vector<int64_t> expected;
  for (int64_t row = 0; row < rows; ++row) {
    auto begin = logits.begin() + row * V, end = begin + V;
    switch (row) {
    case 1: // ties, far apart
      begin[V - 1] = begin[V / 3] = 5;
      break;
    case 2: // all are equal
      std::fill(begin, end, -3.0f);
      break;
    case 3: // the last of them
      begin[V - 1] = 7;
      break;
    case 4: // nothing is allowed
      std::fill(begin, end, -infinity);
      break;
    case 5:
      begin[V / 2] = NAN;
      break;
    case 6:
      begin[V / 2] = infinity;
      break;
    case 7: // one is allowed
      std::fill(begin, end, -infinity);
      begin[V / 2] = -1e30f;
      break;
    }
    expected.push_back(row >= 4 && row <= 6 ? -1 : std::max_element(begin, end) - begin);
  }
  EXPECT_EQ(kernels.run<int64_t>("main", {tensor(logits, {rows, 1, V})}, rows), expected);
  EXPECT_EQ(reference.run<int64_t>("main", {tensor(logits, {rows, 1, V})}, rows), expected);
}
INSTANTIATE_TEST_SUITE_P(Vocabularies, Greedy, ::testing::Values(1, 7, 1024, 1025, 50257));

TEST(State, AppendsInPlace) {
  Compiled compiled(R"(
func.func @decode(%x: tensor<?x2x?x4xf32> {kimi.dims = ["b", 2, "t", 4]}, %k: !kimi.state<tensor<?x2x?x4xf32>, 2> {kimi.name = "k"}) -> tensor<?x2x?x4xf32> attributes {kimi.step_dim = array<i64: 0, 2>} {
  %past = kimi.state_length %k : !kimi.state<tensor<?x2x?x4xf32>, 2>
  %a = kimi.cache_append %k, %x at %past : !kimi.state<tensor<?x2x?x4xf32>, 2>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %a : tensor<?x2x?x4xf32>
})");
  std::vector<float> first = draw(2 * 3 * 4, 1), second = draw(2 * 4, 2);
  compiled.run("decode", {tensor(first, {1, 2, 3, 4})}, 24);
  std::vector<double> expected;
  for (int head = 0; head < 2; ++head) {
    expected.insert(expected.end(), first.begin() + head * 12, first.begin() + head * 12 + 12);
    expected.insert(expected.end(), second.begin() + head * 4, second.begin() + head * 4 + 4);
  }
  expectClose(compiled.run("decode", {tensor(second, {1, 2, 1, 4})}, 32), expected);
}
} // namespace
