//===- FakeCuda.h - a CUDA driver without a GPU -----------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TEST_UNIT_RUNTIME_FAKECUDA_H
#define KIMI_TEST_UNIT_RUNTIME_FAKECUDA_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// What tests ask of, and tell, the library in FakeCuda.cpp: a stand-in for libcuda.so.1. Device memory is host memory;
/// a cubin is a shared object of kernels as on a CPU, each with a constant `<name>_parameters` (its words) and, where
/// it does a grid point a thread, `<name>_tasks`. PTX is any text: it stands for the kernels of TestKernels.c.
/// Streams run what is in them when somebody waits, so that what is freed or overwritten too early shows.
struct FakeCuda {
  virtual ~FakeCuda() = default;

  /// A kernel that ran, in the order of running.
  struct Launch {
    std::string kernel;
    unsigned grid[3], block, sharedBytes;
    bool pdl, fromGraph;
    std::vector<int64_t> words;
    int64_t gridExtent;
    std::vector<std::vector<uint64_t>> maps; // see cuTensorMapEncodeTiled of the fake
  };
  std::vector<Launch> launches;
  std::map<std::string, int> calls; // by the name of the function

  // What it pretends to be.
  int version = 12040, devices = 1, major = 9, minor = 0, maxThreads = 1024;
  uint64_t memory = 1 << 30;
  bool refusesCubins = false;
  std::string brokenKernel; // fails when it runs

  /// The function, which of its calls (from 0), and the result it then gives without doing anything.
  std::string failing;
  int failingCall = 0, failure = 0;

  /// Objects and memory that were made and not given back, by what they are.
  virtual std::map<std::string, int> live() const; // virtual: the code is in the library
  /// What was done wrong: unknown handles, calls without a context, memory that is not the device's.
  std::vector<std::string> misuse;

  /// As it was when it was loaded. Only while nothing is live.
  virtual void reset();
};

/// The library's own: look `fakeCuda` up in it.
extern "C" FakeCuda *fakeCuda();

#endif // KIMI_TEST_UNIT_RUNTIME_FAKECUDA_H
