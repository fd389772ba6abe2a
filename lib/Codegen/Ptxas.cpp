//===- Ptxas.cpp - NVIDIA's assembler as a process
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/Ptxas.h"
#include "lib/Codegen/ToolRun.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"

using namespace kimi;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

static llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

static std::string inFolder(llvm::StringRef folder, const llvm::Twine &name) {
  llvm::SmallString<128> result(folder);
  path::append(result, name);
  return result.str().str();
}

llvm::Expected<std::optional<std::string>> kimi::findPtxas(llvm::StringRef given) {
  std::string wanted = given.str();
  llvm::StringRef source = "--ptxas";
  if (wanted.empty()) {
    if (std::optional<std::string> value = llvm::sys::Process::GetEnv("KIMI_PTXAS"); value && !value->empty()) {
      wanted = *value;
      source = "KIMI_PTXAS";
    }
  }
  if (wanted == "none") {
    return std::nullopt;
  }
  if (!wanted.empty()) {
    if (!fs::can_execute(wanted)) {
      return error(source + " names '" + wanted + "', which is not a program");
    }
    return wanted;
  }
  if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("ptxas")) {
    return *found;
  }
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (std::optional<std::string> root = llvm::sys::Process::GetEnv(variable)) {
      std::string program = inFolder(inFolder(*root, "bin"), "ptxas");
      if (fs::can_execute(program)) {
        return program;
      }
    }
  }
  std::string usual = "/usr/local/cuda/bin/ptxas";
  return fs::can_execute(usual) ? std::optional<std::string>(usual) : std::nullopt;
}

void kimi::parsePtxasLog(llvm::StringRef log, PtxasResult &result) {
  // "Compiling entry function 'k' for 'sm_90'" (or "Function properties for k"), then the numbers of k.
  llvm::Regex entry("Compiling entry function '([^']+)'");
  llvm::Regex spills("([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  llvm::Regex registers("Used ([0-9]+) registers");
  llvm::Regex barriers("used ([0-9]+) barriers");
  llvm::Regex shared("([0-9]+) bytes smem");
  llvm::Regex constant("([0-9]+) bytes cmem\\[0\\]");
  llvm::Regex numbered("\\(C[0-9]+\\)[ ]*(.*)");
  llvm::Regex inFunction("function[s]? '([^']+)'");
  llvm::SmallVector<llvm::StringRef> match;
  auto read = [&](llvm::Regex &pattern, llvm::StringRef line, unsigned group, int64_t &value) {
    if (pattern.match(line, &match)) {
      match[group].getAsInteger(10, value);
    }
  };
  KernelUsage *usage = nullptr;
  while (!log.empty()) {
    auto [line, rest] = log.split('\n');
    log = rest;
    size_t warning = line.find("warning");
    bool isNote = numbered.match(line, &match);
    if (warning != llvm::StringRef::npos || isNote) {
      PtxasRemark remark;
      llvm::StringRef text = isNote ? match[1] : line.substr(warning + 7).ltrim(" :");
      remark.text = text.trim().str();
      if (inFunction.match(line, &match)) {
        remark.kernel = match[1].str();
      }
      result.remarks.push_back(remark);
      continue;
    }
    if (entry.match(line, &match)) {
      result.usage.push_back({match[1].str()});
      usage = &result.usage.back();
      continue;
    }
    if (!usage) {
      continue;
    }
    read(spills, line, 1, usage->stack);
    read(spills, line, 2, usage->spillStores);
    read(spills, line, 3, usage->spillLoads);
    read(registers, line, 1, usage->registers);
    read(barriers, line, 1, usage->barriers);
    read(shared, line, 1, usage->shared);
    read(constant, line, 1, usage->constant);
  }
}

/// The kernel that holds line `number` (from 1) of `ptx`; empty where it is outside of all.
static llvm::StringRef kernelAt(llvm::StringRef ptx, unsigned number) {
  llvm::StringRef kernel;
  for (unsigned line = 1; line <= number && !ptx.empty(); ++line) {
    auto [text, rest] = ptx.split('\n');
    ptx = rest;
    size_t mark = text.find(".entry ");
    if (mark != llvm::StringRef::npos) {
      kernel = text.substr(mark + 7).take_until([](char c) { return c == '(' || c == ' '; });
    }
  }
  return kernel;
}

/// What ptxas complains about, without the name of the temporary file, with the name of the kernel.
static std::string describeFailure(llvm::StringRef log, llvm::StringRef ptx) {
  llvm::Regex located("line ([0-9]+); *(.*)");
  llvm::SmallVector<llvm::StringRef> match;
  std::string text;
  while (!log.empty()) {
    auto [line, rest] = log.split('\n');
    log = rest;
    if (line.trim().empty() || line.contains("ptxas info")) {
      continue;
    }
    text += text.empty() ? "" : "; ";
    if (located.match(line, &match)) {
      unsigned number = 0;
      match[1].getAsInteger(10, number);
      llvm::StringRef kernel = kernelAt(ptx, number);
      text += kernel.empty() ? "" : ("kernel '" + kernel + "', ").str();
      text += ("line " + match[1] + ": " + match[2]).str();
    } else {
      text += line.trim();
    }
    if (text.size() > 2000) {
      return text + " ...";
    }
  }
  return text.empty() ? "no reason given" : text;
}

llvm::Expected<PtxasResult> kimi::runPtxas(llvm::StringRef ptxas, llvm::StringRef ptx, llvm::StringRef arch) {
  llvm::Expected<ToolRun> files = ToolRun::create("kimi-ptxas");
  if (!files) {
    return files.takeError();
  }
  if (llvm::Error problem = files->write("kernels.ptx", ptx)) {
    return problem;
  }
  ToolRun::Outcome outcome = files->run(
      ptxas, {("-arch=" + arch).str(), "-O3", "-v", "-o", files->path("kernels.cubin"), files->path("kernels.ptx")});
  std::string said = outcome.output + outcome.log;
  if (!outcome.succeeded) {
    return error("'" + ptxas + "' refuses the kernels: " + describeFailure(said, ptx));
  }
  llvm::Expected<std::string> bytes = files->read("kernels.cubin");
  if (!bytes) {
    return error("'" + ptxas + "' wrote no cubin: " + llvm::toString(bytes.takeError()));
  }
  PtxasResult result;
  result.cubin = std::move(*bytes);
  parsePtxasLog(said, result);
  return result;
}
