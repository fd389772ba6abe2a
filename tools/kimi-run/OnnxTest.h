//===- OnnxTest.h - folders in the test layout of ONNX
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_ONNXTEST_H
#define KIMI_TOOLS_KIMIRUN_ONNXTEST_H

#include "tools/kimi-run/OpenModel.h"
#include <functional>

namespace kimi::run {

/// How a folder's model.onnx becomes a module; the tests put their own here.
using OpenFunction = std::function<Status(const Options &, std::ostream &log, std::unique_ptr<Model> &)>;

/// Runs each folder of --onnx-test: model.onnx (or the module that --module names), and test_data_set_<n> with
/// input_<i>.pb and output_<i>.pb. Tensors with a name go to the port of that name, others to the port at that place;
/// outputs that a set does not give are not looked at. One line a data set goes to `out`, and "N passed, N failed" at
/// the end. Mismatch where a value differs, Failure where something could not be run, else Ok.
Exit runOnnxTests(const Options &options, std::ostream &out, std::ostream &log, const OpenFunction &open = openModel);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_ONNXTEST_H
