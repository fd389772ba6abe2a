//===- CudaFixture.cpp - tests on the fake CUDA driver ----------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "CudaFixture.h"

#include <cstdlib>
#include <dlfcn.h>

namespace kimi::test {

static FakeCuda &findFake() {
  setenv("KIMI_CUDA_DRIVER", KIMI_FAKE_CUDA, 1);
  void *library = dlopen(KIMI_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  auto *find = library ? reinterpret_cast<FakeCuda *(*)()>(dlsym(library, "fakeCuda")) : nullptr;
  if (!find) {
    std::fprintf(stderr, "the fake driver cannot be loaded: %s\n", dlerror());
    std::abort();
  }
  return *find();
}

CudaFixture::CudaFixture() : fake(findFake()) { fake.reset(); }

void CudaFixture::TearDown() {
  unsetenv("KIMI_CUDA_DRIVER");
  EXPECT_TRUE(fake.misuse.empty()) << fake.misuse.size() << ", first: " << fake.misuse.front();
  std::map<std::string, int> live = fake.live();
  EXPECT_TRUE(live.empty()) << live.begin()->second << " " << live.begin()->first << " were not given back";
}

std::unique_ptr<Runner> CudaFixture::open(const ModuleSpec &spec, kimi_session_options options) {
  auto runner = std::make_unique<Runner>();
  EXPECT_EQ(runner->load(build(spec)), KIMI_OK) << lastError();
  EXPECT_EQ(runner->open(options), KIMI_OK) << lastError();
  return runner;
}

kimi_status CudaFixture::openError(const ModuleSpec &spec, kimi_session_options options) {
  Runner runner;
  EXPECT_EQ(runner.load(build(spec)), KIMI_OK) << lastError();
  return runner.open(options);
}

} // namespace kimi::test
