//===- AllocationTest.cpp ---------------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// ThreadSanitizer brings operators of its own that cannot be replaced.
#if defined(__SANITIZE_THREAD__)
#define KIMI_COUNT_ALLOCATIONS 0
#elif defined(__has_feature)
#define KIMI_COUNT_ALLOCATIONS !__has_feature(thread_sanitizer)
#else
#define KIMI_COUNT_ALLOCATIONS 1
#endif

#if KIMI_COUNT_ALLOCATIONS
#include "TestModule.h"

#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>

using namespace kimi;
using namespace kimi::test;

static std::atomic<int64_t> allocations{0};

void *operator new(size_t size) {
  ++allocations;
  if (void *memory = std::malloc(size ? size : 1)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {

TEST(Allocation, AStepAllocatesNothingOnceItsShapesAreKnown) {
  Runner runner;
  ASSERT_EQ(runner.load(build(twoLaunchModule())), KIMI_OK) << lastError();
  ASSERT_EQ(runner.open(), KIMI_OK) << lastError();
  std::vector<float> x(600), z(600);
  auto run = [&](int64_t rows) {
    kimi_tensor inputs[] = {tensor(x, {rows, 3}), tensor(x, {rows, 3})}, output = tensor(z, {rows, 3});
    int64_t before = allocations;
    EXPECT_EQ(kimi_session_run(runner.session, 0, inputs, 2, &output, 1), KIMI_OK) << lastError();
    return allocations - before;
  };
  run(200);
  EXPECT_EQ(run(200), 0);
  EXPECT_EQ(run(100), 0); // other shapes need new values, in the same memory
}

} // namespace

#endif // KIMI_COUNT_ALLOCATIONS
