//===- CudaFixture.h - tests on the fake CUDA driver ------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TEST_UNIT_RUNTIME_CUDAFIXTURE_H
#define KIMI_TEST_UNIT_RUNTIME_CUDAFIXTURE_H

#include "FakeCuda.h"
#include "TestModule.h"

#include <gtest/gtest.h>

namespace kimi::test {

/// Makes the runtime open the fake driver. After each test everything must have been given back, and nothing been
/// misused.
class CudaFixture : public ::testing::Test {
protected:
  CudaFixture();
  void TearDown() override;

  /// A module and a session on the fake GPU.
  std::unique_ptr<Runner> open(const ModuleSpec &spec, kimi_session_options options = {});
  /// The error of loading `spec` and making a session for it.
  kimi_status openError(const ModuleSpec &spec, kimi_session_options options = {});

  FakeCuda &fake;
};

} // namespace kimi::test

#endif // KIMI_TEST_UNIT_RUNTIME_CUDAFIXTURE_H
