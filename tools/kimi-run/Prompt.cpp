//===- Prompt.cpp - the tokens that a text begins with
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Prompt.h"
#include "runtime/text/Utf8.h"
#include "tools/kimi-run/Arrays.h"
#include <charconv>
#include <filesystem>

namespace kimi::run {

static Status readTokenArray(const std::string &path, int64_t &batch, std::vector<int64_t> &ids) {
  NamedTensors arrays;
  if (Status s = readArrays(path, arrays)) {
    return s;
  }
  const HostTensor &array = arrays[0].second;
  if (isFloat(array.dtype) || array.dtype == KIMI_BOOL || array.dims.empty() || array.dims.size() > 2) {
    return invalidArgument(path + " holds " + kimi_dtype_name(array.dtype) + " " + shapeText(array.dims) +
                           "; tokens are integers [n] or [batch, n]");
  }
  batch = array.dims.size() == 2 ? array.dims[0] : 1;
  for (int64_t i = 0; i < array.count(); ++i) {
    ids.push_back(array.integerAt(i));
  }
  return {};
}

Status readTokens(const std::string &text, int64_t &batch, std::vector<int64_t> &ids) {
  batch = 1;
  ids.clear();
  if (std::filesystem::path(text).extension() == ".npy") {
    return readTokenArray(text, batch, ids);
  }
  size_t columns = 0; // of the sequences that are complete
  const char *at = text.data(), *end = at + text.size();
  for (bool more = true; more;) {
    int64_t id = 0;
    std::from_chars_result read = std::from_chars(at, end, id);
    if (read.ec != std::errc() || (read.ptr != end && *read.ptr != ',' && *read.ptr != ';')) {
      return invalidArgument("'" + text + "' is no list of tokens: numbers are separated by commas, sequences by ;");
    }
    ids.push_back(id);
    more = read.ptr != end;
    bool isLast = !more || *read.ptr == ';';
    if (isLast && batch == 1) {
      columns = ids.size();
    }
    if (isLast && ids.size() != columns * static_cast<size_t>(batch)) {
      return invalidArgument("the sequences of a prompt have the same number of tokens: the first one has " +
                             std::to_string(columns));
    }
    batch += more && isLast ? 1 : 0;
    at = read.ptr + (more ? 1 : 0);
  }
  return {};
}

static Status readText(const Options &options, const std::string &where, Prompt &out) {
  std::string error;
  out.tokenizer = text::Tokenizer::load(where, error);
  if (!out.tokenizer) {
    return {KIMI_BAD_FILE, "no tokenizer: " + error + "; name another folder with --tokenizer"};
  }
  std::string prompt = options.prompt.value_or("");
  if (!options.promptFile.empty()) {
    std::optional<std::string> file = text::readFile(options.promptFile, uint64_t(1) << 30, error);
    if (!file) {
      return {KIMI_NOT_FOUND, error};
    }
    prompt = std::move(*file);
  }
  std::vector<int32_t> ids;
  if (!out.tokenizer->encode(prompt, ids, error)) {
    return {KIMI_RUNTIME_ERROR, error};
  }
  out.ids.assign(ids.begin(), ids.end());
  return {};
}

Status readPrompt(const Options &options, const std::string &folder, Prompt &out) {
  std::string where = options.tokenizer.empty() ? folder : options.tokenizer;
  Status status = options.promptTokens.empty() ? readText(options, where, out)
                                               : readTokens(options.promptTokens, out.batch, out.ids);
  if (status) {
    return status;
  }
  if (out.ids.empty()) {
    return invalidArgument("the prompt is empty: a model needs at least one token to continue");
  }
  std::error_code code;
  std::filesystem::path path(where);
  out.endIds = text::findEndIds(std::filesystem::is_directory(path, code) ? where : path.parent_path().string(),
                                out.tokenizer.get());
  return {};
}

} // namespace kimi::run
