//===- CudaTest.cpp - modules on a GPU, as far as a fake driver shows -------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "CudaFixture.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

using namespace kimi;
using namespace kimi::test;

namespace {

class Cuda : public CudaFixture {
protected:
  void expectError(const std::string &part) { EXPECT_NE(lastError().find(part), std::string::npos) << lastError(); }

  /// Runs twoLaunchModule once on n x m elements and checks the result.
  void runTwo(Runner &runner, int64_t n, int64_t m) {
    std::vector<float> x(static_cast<size_t>(n * m)), y(x), z(x);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(i);
      y[i] = static_cast<float>(2 * i + 1);
    }
    ASSERT_EQ(runner.run("main", {tensor(x, {n, m}), tensor(y, {n, m})}, {tensor(z, {n, m})}), KIMI_OK) << lastError();
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(z[i], (x[i] + y[i]) * 3) << i;
    }
  }
};

TEST_F(Cuda, GridsAreBlocks) {
  auto runner = open(cudaModule());
  runTwo(*runner, 70, 3);
  ASSERT_EQ(fake.launches.size(), 2u);
  const FakeCuda::Launch &rows = fake.launches[0], &points = fake.launches[1];
  EXPECT_EQ(rows.kernel, "add_rows");
  EXPECT_EQ(rows.grid[0], 70u); // a block a grid point
  EXPECT_EQ(rows.block, 64u);
  EXPECT_EQ(points.kernel, "scale");
  EXPECT_EQ(points.grid[0], 2u); // a thread a grid point: 64 of them and 6
  EXPECT_EQ(points.grid[1], 3u);
  EXPECT_EQ(points.gridExtent, 70);
  EXPECT_FALSE(points.pdl);
}

TEST_F(Cuda, FewBlocksWalkOverManyTasks) {
  ModuleSpec module = cudaModule();
  module.kernels[Scale].walks = true;
  auto runner = open(module);
  runTwo(*runner, 70, 3);
  EXPECT_EQ(fake.launches[1].grid[0], 2u);
  constexpr int64_t most = 4096, tasks = 64 * (most + 10);
  std::vector<float> x(tasks), y(tasks), z(tasks);
  ASSERT_EQ(runner->run("main", {tensor(x, {tasks, 1}), tensor(y, {tasks, 1})}, {tensor(z, {tasks, 1})}), KIMI_OK)
      << lastError();
  EXPECT_EQ(fake.launches[3].kernel, "scale");
  EXPECT_EQ(fake.launches[3].grid[0], static_cast<unsigned>(most));
  EXPECT_EQ(fake.launches[3].gridExtent, tasks);
}

TEST_F(Cuda, DynamicShapesThroughTheArena) {
  auto runner = open(cudaModule());
  for (int64_t n : {1, 5, 200, 7}) {
    runTwo(*runner, n, 4);
  }
  kimi_memory memory;
  ASSERT_EQ(kimi_session_memory(runner->session, &memory), KIMI_OK);
  EXPECT_GE(memory.arena_bytes, 200u * 4 * 4);
  fake.launches.clear();
  runTwo(*runner, 0, 4); // empty grids are not launched
  EXPECT_TRUE(fake.launches.empty());
}

TEST_F(Cuda, InitFillsDerivedBuffersFromUploadedWeights) {
  auto runner = open(cudaModule(derivedModule()));
  std::vector<float> out(4);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(runner->run("main", {}, {tensor(out, {2, 2})}), KIMI_OK) << lastError();
    EXPECT_EQ(out, (std::vector<float>{2, 4, 6, 8}));
  }
  EXPECT_EQ(fake.live()["device memory"], 2); // derived buffers and the output: the weight went after `init`
}

TEST_F(Cuda, WeightsOfInitAndOfOthersLieApart) {
  ModuleSpec module = derivedModule(); // its weight is read by `init` alone
  std::vector<float> kept = {5, 6, 7, 8}, copied(4), out(4);
  module.weights.push_back({"kept", {2, 2}, "", 0, kept});
  EntrySpec &entry = module.entries[1];
  int32_t zero = entry.constant(0), one = entry.constant(1), two = entry.constant(2);
  entry.outputs.push_back({"copy", fb::DType::F32, {fb::Dim(2, -1), fb::Dim(2, -1)}, {two, two}});
  int32_t weight = entry.buffer(fb::BufferKind::Weight, 1), copy = entry.buffer(fb::BufferKind::Output, 1);
  entry.launches.push_back(
      {{fb::Variant(Scale, -1, two, two, one)},
       {{weight, zero, {two, two}, {two, one}}, {copy, zero, {two, two}, {two, one}, true}, {-1, one}}});
  auto runner = open(cudaModule(module));
  ASSERT_EQ(runner->run("main", {}, {tensor(out, {2, 2}), tensor(copied, {2, 2})}), KIMI_OK) << lastError();
  EXPECT_EQ(out, (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(copied, kept);
}

TEST_F(Cuda, LargeWeightsComeInPieces) {
  constexpr int64_t rows = 300, columns = 20000; // 24 MB: more than a piece
  ModuleSpec module = derivedModule();
  module.weights[0].dims = {rows, columns};
  module.weights[0].values.resize(rows * columns);
  for (size_t i = 0; i < module.weights[0].values.size(); ++i) {
    module.weights[0].values[i] = static_cast<float>(i % 1021);
  }
  std::vector<float> small = {5, 6, 7};
  module.weights.push_back({"v", {3}, "", 0, small});
  EntrySpec entry{"main"};
  int32_t r = entry.constant(rows), c = entry.constant(columns), zero = entry.constant(0), one = entry.constant(1);
  int32_t three = entry.constant(3);
  auto dim = [](int64_t extent) { return fb::Dim(extent, -1); };
  entry.outputs = {{"sum", fb::DType::F32, {dim(1), dim(columns)}, {one, c}},
                   {"copy", fb::DType::F32, {dim(1), dim(3)}, {one, three}}};
  int32_t w = entry.buffer(fb::BufferKind::Weight, 0), v = entry.buffer(fb::BufferKind::Weight, 1);
  int32_t sum = entry.buffer(fb::BufferKind::Output, 0), copy = entry.buffer(fb::BufferKind::Output, 1);
  entry.launches = {
      {{fb::Variant(SumRows, -1, one, c, one)}, {{w, zero, {r, c}, {c, one}}, {sum, zero, {one, c}, {c, one}, true}}},
      {{fb::Variant(Scale, -1, one, three, one)},
       {{v, zero, {one, three}, {three, one}}, {copy, zero, {one, three}, {three, one}, true}, {-1, one}}}};
  module.entries = {entry};
  module.derived = {};
  auto runner = open(cudaModule(module));
  std::vector<float> got(columns), copied(3);
  ASSERT_EQ(runner->run("main", {}, {tensor(got, {1, columns}), tensor(copied, {1, 3})}), KIMI_OK) << lastError();
  for (int64_t j = 0; j < columns; ++j) {
    float want = 0;
    for (int64_t i = 0; i < rows; ++i) {
      want += module.weights[0].values[static_cast<size_t>(i * columns + j)];
    }
    ASSERT_EQ(got[static_cast<size_t>(j)], want) << j;
  }
  EXPECT_EQ(copied, small);
  EXPECT_GE(fake.calls["cuMemcpyHtoDAsync"], 2);
}

TEST_F(Cuda, StatesGrowAndForget) {
  auto runner = open(cudaModule(stateModule(/*total=*/true)), sized(6));
  std::vector<float> sum(2);
  auto step = [&](std::vector<float> rows) {
    ASSERT_EQ(runner->run("step", {tensor(rows, {int64_t(rows.size() / 2), 2})}, {tensor(sum, {1, 2})}), KIMI_OK)
        << lastError();
  };
  step({1, 2, 3, 4});
  EXPECT_EQ(sum, (std::vector<float>{1, 2}));
  step({10, 20});
  EXPECT_EQ(sum, (std::vector<float>{11, 22}));
  EXPECT_EQ(kimi_session_length(runner->session), 3);
  ASSERT_EQ(kimi_session_reset(runner->session), KIMI_OK);
  step({5, 6});
  EXPECT_EQ(sum, (std::vector<float>{5, 6}));
}

TEST_F(Cuda, UnwantedOutputsAreNotCopied) {
  auto runner = open(cudaModule());
  std::vector<float> x(6, 1), none;
  kimi_tensor out = tensor(none, {2, 3});
  out.data = nullptr;
  ASSERT_EQ(runner->run("main", {tensor(x, {2, 3}), tensor(x, {2, 3})}, {out}), KIMI_OK) << lastError();
  EXPECT_EQ(fake.calls["cuMemcpyDtoHAsync"], 0);
  EXPECT_EQ(fake.launches.size(), 2u);
}

TEST_F(Cuda, TwoSessionsShareTheWeights) {
  auto runner = open(cudaModule(derivedModule()));
  int copies = fake.calls["cuMemcpyHtoDAsync"];
  kimi_session *second = nullptr;
  ASSERT_EQ(kimi_session_create(runner->module, nullptr, &second), KIMI_OK) << lastError();
  EXPECT_EQ(fake.calls["cuMemcpyHtoDAsync"], copies);
  kimi_session_free(second);
}

TEST_F(Cuda, PtxWhereTheCubinIsRefused) {
  fake.refusesCubins = true;
  testing::internal::CaptureStderr();
  auto runner = open(cudaModule());
  std::string remark = testing::internal::GetCapturedStderr();
  EXPECT_NE(remark.find("remark: the cubin for"), std::string::npos) << remark;
  EXPECT_NE(remark.find("its PTX is compiled instead"), std::string::npos) << remark;
  runTwo(*runner, 3, 3);
  EXPECT_EQ(fake.calls["cuModuleLoadDataEx"], 2);
}

TEST_F(Cuda, ArchitecturesThatFit) {
  struct Case {
    const char *cubin, *ptx;
    int major, minor, loads; // loads: images that the driver was given; 0: none fits
  };
  const Case cases[] = {
      {"sm_80", "sm_80", 8, 0, 1},      {"sm_80", "sm_80", 8, 6, 1},     {"sm_80", "sm_80", 9, 0, 1},
      {"sm_86", "sm_86", 8, 0, 0},      {"sm_90", "sm_90", 10, 0, 1},    {"sm_90a", "sm_90a", 10, 0, 0},
      {"sm_90a", "sm_90a", 9, 0, 1},    {"sm_x", "sm_", 9, 0, 0},        {"sm_90a", "sm_80", 8, 9, 1},
      {"sm_100f", "sm_100f", 10, 3, 1}, {"sm_100f", "sm_100f", 12, 0, 0}};
  for (const Case &it : cases) {
    ModuleSpec module = cudaModule();
    module.target = std::string("cuda:") + it.cubin;
    module.images[0].target = module.target;
    module.images[1].target = std::string("cuda:ptx:") + it.ptx;
    fake.major = it.major;
    fake.minor = it.minor;
    fake.calls.clear();
    EXPECT_EQ(openError(module), it.loads ? KIMI_OK : KIMI_UNSUPPORTED) << it.cubin << " on " << it.major << it.minor;
    EXPECT_EQ(fake.calls["cuModuleLoadDataEx"], it.loads) << it.cubin << " on " << it.major << "." << it.minor;
    if (!it.loads) {
      expectError("compile with --target=cuda:sm_" + std::to_string(it.major) + std::to_string(it.minor));
    }
  }
}

TEST_F(Cuda, ErrorsOfLoadingSayWhatToDo) {
  ModuleSpec module = cudaModule();
  fake.refusesCubins = true;
  module.images.pop_back();
  EXPECT_EQ(openError(module), KIMI_UNSUPPORTED);
  expectError("cubin for 'sm_90a': the driver does not load it: CUDA_ERROR_NO_BINARY_FOR_GPU");
  expectError("a line from the assembler)");
  fake.refusesCubins = false;

  EXPECT_EQ(openError(cudaModule(), onDevice("cuda:1")), KIMI_UNSUPPORTED);
  expectError("there is no device cuda:1; the driver shows 1");
  EXPECT_EQ(openError(cudaModule(), onDevice("cpu")), KIMI_UNSUPPORTED);
  expectError("compiled for 'cuda:sm_90a' and cannot run on 'cpu'");
  EXPECT_EQ(openError(twoLaunchModule(), onDevice("cuda")), KIMI_UNSUPPORTED);
  expectError("--target=cuda:");
  EXPECT_EQ(openError(cudaModule(), onDevice("gpu")), KIMI_INVALID_ARGUMENT);
  expectError("there is no device 'gpu'");
  EXPECT_EQ(openError(cudaModule(), onDevice("cuda:-1")), KIMI_INVALID_ARGUMENT);

  module = cudaModule();
  module.kernels[AddRows].symbol = "absent";
  EXPECT_EQ(openError(module), KIMI_BAD_FILE);
  expectError("kernel 'absent': the code has no symbol 'absent'");

  module = cudaModule();
  module.entries[0].launches[0].args.pop_back();
  EXPECT_EQ(openError(module), KIMI_BAD_FILE);
  expectError("kernel 'add_rows': the plan gives it 11 parameters, the code takes more");

  module = cudaModule();
  module.kernels[AddRows].threads = 1024;
  fake.maxThreads = 512;
  EXPECT_EQ(openError(module), KIMI_UNSUPPORTED);
  expectError("kernel 'add_rows': has blocks of 1024 threads, but its registers allow 512");
  fake.maxThreads = 1024;

  module.kernels[AddRows].sharedBytes = 240000;
  EXPECT_EQ(openError(module), KIMI_UNSUPPORTED);
  expectError("kernel 'add_rows': needs 240000 bytes of shared memory");
}

TEST_F(Cuda, SharedMemoryAndProgrammaticLaunch) {
  ModuleSpec module = cudaModule();
  module.kernels[AddRows].sharedBytes = 100000;
  module.kernels[AddRows].pdl = true;
  auto runner = open(module);
  runTwo(*runner, 2, 2);
  EXPECT_EQ(fake.calls["cuFuncSetAttribute"], 1);
  EXPECT_EQ(fake.launches[0].sharedBytes, 100000u);
  EXPECT_TRUE(fake.launches[0].pdl);
  EXPECT_FALSE(fake.launches[1].pdl);
}

TEST_F(Cuda, OutOfMemorySaysForWhat) {
  fake.memory = 1 << 20;
  ModuleSpec module = derivedModule();
  module.derived[0].second = {300000};
  EXPECT_EQ(openError(cudaModule(module)), KIMI_OUT_OF_MEMORY);
  expectError("device cuda:0 (Fake GPU): no 1.1 MiB for packed weights:");
  expectError("of 1.0 MiB are free");

  EXPECT_EQ(openError(cudaModule(stateModule()), sized(1 << 20)), KIMI_OUT_OF_MEMORY);
  expectError("no 8.0 MiB for the states");
  expectError("lower --max-seq");

  auto runner = open(cudaModule());
  std::vector<float> x(100000, 1);
  kimi_tensor in = tensor(x, {100000, 1}), out = in;
  EXPECT_EQ(runner->run("main", {in, in}, {out}), KIMI_OUT_OF_MEMORY);
  expectError("for entry 'main': input 'y'");
  runTwo(*runner, 3, 3); // the session lives on
}

TEST_F(Cuda, GridsAreLimited) {
  auto runner = open(cudaModule());
  std::vector<float> x(70000, 1);
  kimi_tensor wide = tensor(x, {1, 70000}), out = wide;
  EXPECT_EQ(runner->run("main", {wide, wide}, {out}), KIMI_UNSUPPORTED);
  expectError("entry 'main': launch 1 ('step'): kernel 'scale': a grid of 1 x 70000 x 1 blocks");
  EXPECT_TRUE(fake.launches.empty());
}

TEST_F(Cuda, ALaunchThatFailsIsNamed) {
  fake.failing = "cuLaunchKernelEx";
  fake.failingCall = 1;
  fake.failure = 1;
  auto runner = open(cudaModule());
  std::vector<float> x(4, 1), z(4);
  EXPECT_EQ(runner->run("main", {tensor(x, {2, 2}), tensor(x, {2, 2})}, {tensor(z, {2, 2})}), KIMI_RUNTIME_ERROR);
  expectError("entry 'main': launch 1 ('step'): kernel 'scale': CUDA_ERROR_INVALID_VALUE");
}

TEST_F(Cuda, AKernelThatFailsIsNamedWhereAsked) {
  fake.brokenKernel = "add_rows";
  std::vector<float> x(4, 1), z(4);
  auto fails = [&](kimi_session_options options, const char *reason) {
    auto runner = open(cudaModule(), options);
    EXPECT_EQ(runner->run("main", {tensor(x, {2, 2}), tensor(x, {2, 2})}, {tensor(z, {2, 2})}), KIMI_RUNTIME_ERROR);
    expectError(reason);
  };
  fails({}, "entry 'main': one of its kernels failed: CUDA_ERROR_LAUNCH_FAILED");
  fails({}, "--check-launches");
  kimi_session_options checked = {};
  checked.check_launches = 1;
  fails(checked, "entry 'main': launch 0 ('step'): kernel 'add_rows': CUDA_ERROR");
}

TEST_F(Cuda, TensorMapsDescribeViews) {
  ModuleSpec module = cudaModule();
  module.kernels[AddRows].maps = {{/*arg=*/0, /*dims=*/{0, 1}, /*box=*/{64, 32}, /*swizzle=*/128},
                                  {/*arg=*/2, /*dims=*/{1}, /*box=*/{16}}};
  EXPECT_EQ(openError(module), KIMI_BAD_FILE); // the code takes none
  expectError("the plan gives it 18 parameters, the code takes 16");
  // A kernel of the same shape that takes two.
  module.kernels[AddRows].symbol = "add_rows_mapped";
  auto runner = open(module);
  runTwo(*runner, 6, 8);
  ASSERT_EQ(fake.launches[0].maps.size(), 2u);
  const std::vector<uint64_t> &whole = fake.launches[0].maps[0], &row = fake.launches[0].maps[1];
  EXPECT_EQ(whole[0], static_cast<uint64_t>(fake.launches[0].words[0]));
  EXPECT_EQ(whole[1], 2u | 3u << 8 | 2u << 16); // rank 2, swizzle 128, 32-bit
  EXPECT_EQ(whole[2], 8u);                      // innermost first
  EXPECT_EQ(whole[3], 6u);
  EXPECT_EQ(whole[8], 32u); // bytes between rows
  EXPECT_EQ(whole[12], 32u | uint64_t(64) << 32);
  EXPECT_EQ(row[0], static_cast<uint64_t>(fake.launches[0].words[10]));
  EXPECT_EQ(row[1] & 0xff, 1u);
  int encoded = fake.calls["cuTensorMapEncodeTiled"];
  runTwo(*runner, 6, 8);
  EXPECT_EQ(fake.calls["cuTensorMapEncodeTiled"], encoded); // nothing has changed
  runTwo(*runner, 7, 8);
  EXPECT_GT(fake.calls["cuTensorMapEncodeTiled"], encoded);
  std::vector<float> x(6, 1), z(6);
  EXPECT_EQ(runner->run("main", {tensor(x, {2, 3}), tensor(x, {2, 3})}, {tensor(z, {2, 3})}), KIMI_UNSUPPORTED);
  expectError("kernel 'add_rows_mapped': tensor map 0: the rows of axis 0 are 12 bytes apart");
}

TEST_F(Cuda, Devices) {
  fake.devices = 2;
  kimi_device_info devices[3];
  int32_t count = 0;
  ASSERT_EQ(kimi_devices(devices, 3, &count), KIMI_OK);
  ASSERT_EQ(count, 3);
  EXPECT_STREQ(devices[0].id, "cpu");
  EXPECT_GT(devices[0].cores, 0);
  EXPECT_STREQ(devices[2].id, "cuda:1");
  EXPECT_STREQ(devices[2].name, "Fake GPU");
  EXPECT_STREQ(devices[2].arch, "sm_90");
  EXPECT_STREQ(devices[2].driver, "CUDA 12.4");
  EXPECT_EQ(devices[2].memory_bytes, 1u << 30);
  ASSERT_EQ(kimi_devices(nullptr, 0, &count), KIMI_OK);
  EXPECT_EQ(count, 3);
  fake.devices = 0;
  ASSERT_EQ(kimi_devices(devices, 3, &count), KIMI_OK);
  EXPECT_EQ(count, 1);
  expectError("shows no GPU");
}

TEST_F(Cuda, NoDriver) {
  setenv("KIMI_CUDA_DRIVER", "/nonexistent/libcuda.so.1", 1);
  EXPECT_EQ(openError(cudaModule()), KIMI_UNSUPPORTED);
  expectError("no CUDA driver: /nonexistent/libcuda.so.1");
  expectError("--target=cpu");
  int32_t count = 0;
  kimi_device_info device;
  EXPECT_EQ(kimi_devices(&device, 1, &count), KIMI_OK);
  EXPECT_EQ(count, 1);
  expectError("no CUDA driver");
  setenv("KIMI_CUDA_DRIVER", KIMI_TEST_KERNELS, 1); // a library, but no driver
  EXPECT_EQ(openError(cudaModule()), KIMI_UNSUPPORTED);
  expectError("is no CUDA driver");
}

/// Drivers that cannot be used: copies of the fake one, since a driver that was opened stays.
TEST_F(Cuda, DriversThatAreTooOldOrFindNothing) {
  TemporaryFolder folder;
  auto openCopy = [&](const char *name, auto change) {
    std::string path = folder.path(name);
    std::filesystem::copy_file(KIMI_FAKE_CUDA, path);
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    FakeCuda &copy = *reinterpret_cast<FakeCuda *(*)()>(dlsym(library, "fakeCuda"))();
    ASSERT_NE(&copy, &fake);
    change(copy);
    setenv("KIMI_CUDA_DRIVER", path.c_str(), 1);
    EXPECT_EQ(openError(cudaModule()), KIMI_UNSUPPORTED);
  };
  openCopy("old.so", [](FakeCuda &copy) { copy.version = 11080; });
  expectError("the CUDA driver is too old: it speaks CUDA 11.8, 12.0 (driver 525) is the oldest that is supported");
  openCopy("none.so", [](FakeCuda &copy) {
    copy.failing = "cuInit";
    copy.failure = 100;
  });
  expectError("the CUDA driver cannot start: CUDA_ERROR_NO_DEVICE");
  expectError("CUDA_VISIBLE_DEVICES");
  openCopy("torn.so", [](FakeCuda &copy) {
    copy.failing = "cuInit";
    copy.failure = 803;
  });
  expectError("restart the machine");
}

} // namespace
