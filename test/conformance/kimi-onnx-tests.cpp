//===- kimi-onnx-tests.cpp - the suite of ONNX's node tests in one process
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpenInProcess.h"
#include "Suite.h"
#include "kimi/kimi.h"
#include "lib/Support/Exhaustion.h"
#include <CLI/CLI.hpp>
#include <iostream>

using namespace kimi;

static const char kOverview[] =
    "Does what kimi-run --onnx-test does on the CPU, for many folders at a time and with the compiler in the same "
    "process: compiles each folder's model.onnx, runs its data sets, and prints two lines of JSON a folder, as it "
    "begins "
    "and as it ends. For scripts/onnx-node-tests.py.";
static const char kFooter[] =
    "Other options are those of kimi-run with --onnx-test (--rtol, --atol, --rnorm, --precision, --reference, --cpu,\n"
    "--weights); --threads is 1 unless given. A fatal error or a crash ends the process: the folders that began and "
    "did\n"
    "not end were in flight.\n\n"
    "Exit status: 0 every folder has been run, whatever became of it; 1 it could not be; 2 the command line is wrong.";

/// What has no meaning here, or nothing.
static const char *refused(const run::Options &options) {
  if (options.onnxTests.empty()) {
    return "no folder: give --onnx-test DIR...";
  }
  if (!options.device.empty() && options.device != "cpu") {
    return "--device: tests run on the CPU";
  }
  bool other = !options.json.empty() || !options.cache.empty() || !options.testModule.empty();
  return other ? "--json, --cache and --module are kimi-run's alone" : nullptr;
}

int main(int argc, char **argv) {
  reportExhaustion("kimi-onnx-tests");
  int jobs = 0;
  CLI::App app(kOverview, "kimi-onnx-tests");
  app.footer(kFooter);
  app.allow_extras();
  app.add_option("--jobs", jobs, "folders at a time (one a core that this process may use)")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return static_cast<int>(app.exit(error) == 0 ? run::Exit::Ok : run::Exit::Usage);
  }

  std::vector<std::string> words = app.remaining();
  std::vector<const char *> others = {"kimi-onnx-tests"};
  for (const std::string &word : words) {
    others.push_back(word.c_str());
  }
  run::Exit code = run::Exit::Ok;
  std::optional<run::Options> options =
      run::parseOptions(static_cast<int>(others.size()), others.data(), std::cout, std::cerr, code);
  if (!options) {
    return static_cast<int>(code);
  }
  if (const char *why = refused(*options)) {
    std::cerr << "kimi-onnx-tests: error: " << why << "\n";
    return static_cast<int>(run::Exit::Usage);
  }
  if (options->threads == 0) {
    options->threads = 1;
  }
  if (jobs == 0) {
    kimi_device_info cpu;
    int32_t count = 0;
    jobs = kimi_devices(&cpu, 1, &count) == KIMI_OK && count > 0 ? std::max(1, cpu.cores) : 1;
  }
  conformance::InProcessOpener opener;
  if (Status s = opener.start()) {
    std::cerr << "kimi-onnx-tests: error: " << s.message() << "\n";
    return static_cast<int>(run::Exit::Failure);
  }
  run::OpenFunction open = [&](const run::Options &one, std::ostream &, std::unique_ptr<run::Model> &model) {
    return opener.open(one, model);
  };
  bool all = conformance::Suite(*options, open, std::cout).run(static_cast<unsigned>(jobs));
  return static_cast<int>(all ? run::Exit::Ok : run::Exit::Failure);
}
