//===- TokenizerFiles.cpp - tokenizer.json, vocab.json and merges.txt
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Tokenizer.h"
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace kimi::text {

using Json = nlohmann::json;

static constexpr uint64_t maxFileBytes = uint64_t(256) << 20;

std::optional<std::string> readFile(const std::string &path, uint64_t limit, std::string &error) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) {
    error = path + ": no such file";
    return std::nullopt;
  }
  uint64_t size = std::filesystem::file_size(path, code);
  if (code || size > limit) {
    error = path + ": " + (code ? code.message() : "larger than " + std::to_string(limit) + " bytes");
    return std::nullopt;
  }
  std::string out(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(out.data(), static_cast<std::streamsize>(size))) {
    error = path + ": cannot be read";
    return std::nullopt;
  }
  return out;
}

/// Parses JSON; a key given twice in one object is an error (the parser itself would keep the last one silently).
static std::optional<Json> parse(std::string_view text, std::string &error) {
  std::vector<std::unordered_set<std::string>> keys;
  std::string twice;
  auto watch = [&](int, Json::parse_event_t event, Json &value) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end && !keys.empty()) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key && !keys.empty()) {
      const auto &key = value.get_ref<const std::string &>();
      if (!keys.back().insert(key).second && twice.empty()) {
        twice = key;
      }
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, watch);
  } catch (const Json::exception &e) {
    error = std::string("bad JSON: ") + e.what();
    return std::nullopt;
  }
  if (!twice.empty()) {
    error = "the key '" + twice.substr(0, 40) + "' is given twice";
    return std::nullopt;
  }
  return json;
}

static const Json *member(const Json &object, const char *key) {
  if (!object.is_object()) {
    return nullptr;
  }
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

static std::string textOf(const Json &object, const char *key) {
  const Json *value = member(object, key);
  return value && value->is_string() ? value->get<std::string>() : std::string();
}

static bool flagOf(const Json &object, const char *key, bool otherwise = false) {
  const Json *value = member(object, key);
  return value && value->is_boolean() ? value->get<bool>() : otherwise;
}

static std::optional<int64_t> integerOf(const Json &value) {
  if (value.is_number_unsigned()) {
    uint64_t number = value.get<uint64_t>();
    return number > uint64_t(INT64_MAX) ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(number));
  }
  return value.is_number_integer() ? std::optional<int64_t>(value.get<int64_t>()) : std::nullopt;
}

static bool readVocabulary(const Json *vocab, Bpe &bpe, std::string &error) {
  if (!vocab || !vocab->is_object()) {
    error = "the vocabulary is not an object of token: id";
    return false;
  }
  for (const auto &[token, value] : vocab->items()) {
    std::optional<int64_t> id = integerOf(value);
    if (!id) {
      error = "token '" + token.substr(0, 40) + "' has an id that is no integer";
      return false;
    }
    if (!bpe.addToken(token, *id, error)) {
      return false;
    }
  }
  return true;
}

/// One merge written as "left right".
static bool addWrittenMerge(std::string_view line, Bpe &bpe, std::string &error) {
  size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    error = "a merge is not two tokens with a space between them: '" + std::string(line.substr(0, 40)) + "'";
    return false;
  }
  return bpe.addMerge(line.substr(0, space), line.substr(space + 1), error);
}

static bool readMerges(const Json *merges, Bpe &bpe, std::string &error) {
  if (!merges || !merges->is_array()) {
    error = "model.merges is not an array";
    return false;
  }
  for (const Json &merge : *merges) {
    bool ok = false;
    if (merge.is_string()) {
      ok = addWrittenMerge(merge.get_ref<const std::string &>(), bpe, error);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      ok = bpe.addMerge(merge[0].get_ref<const std::string &>(), merge[1].get_ref<const std::string &>(), error);
    } else {
      error = "a merge is neither a string nor a pair of strings";
    }
    if (!ok) {
      return false;
    }
  }
  return true;
}

static bool readModel(const Json *model, Bpe &bpe, std::string &error) {
  std::string type = model ? textOf(*model, "type") : "";
  if (!model || (type != "BPE" && !type.empty())) {
    error = "model type '" + type + "' is not supported; BPE is";
    return false;
  }
  for (const char *key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!textOf(*model, key).empty()) {
      error = std::string("model.") + key + " is not supported";
      return false;
    }
  }
  if (flagOf(*model, "byte_fallback")) {
    error = "model.byte_fallback is not supported; byte-level vocabularies are";
    return false;
  }
  const Json *dropout = member(*model, "dropout");
  if (dropout && !(dropout->is_number() && dropout->get<double>() == 0)) {
    error = "model.dropout is not supported: it would make encodings random";
    return false;
  }
  return readVocabulary(member(*model, "vocab"), bpe, error) && readMerges(member(*model, "merges"), bpe, error) &&
         bpe.finish(flagOf(*model, "ignore_merges"), error);
}

namespace {
/// Reads the `pre_tokenizer` tree into a flat list of steps.
class PreTokenizerReader {
public:
  PreTokenizerReader(PreTokenizer &out, std::string &error) : out(out), error(error) {}

  bool read(const Json &node, int depth) {
    std::string type = textOf(node, "type");
    if (depth > 8 || out.size() > 64) {
      return fail("the pre-tokenizer is nested too deep or has too many steps");
    }
    if (type == "Sequence") {
      const Json *parts = member(node, "pretokenizers");
      if (!parts || !parts->is_array()) {
        return fail("a pre-tokenizer Sequence has no list 'pretokenizers'");
      }
      for (const Json &part : *parts) {
        if (!read(part, depth + 1)) {
          return false;
        }
      }
      return true;
    }
    if (byteLevel) {
      return fail("pre-tokenizer " + type + " after ByteLevel is not supported");
    }
    if (type == "ByteLevel") {
      byteLevel = true;
      return add(flagOf(node, "use_regex", true) ? PreTokenizer::gpt2Pattern() : nullptr, SplitStep::Isolated, false,
                 flagOf(node, "add_prefix_space", true));
    }
    if (type == "Digits") {
      return add(flagOf(node, "individual_digits") ? "\\p{N}" : "\\p{N}+", SplitStep::Isolated, false, false);
    }
    if (type == "Split") {
      return readSplit(node);
    }
    return fail("pre-tokenizer type '" + type.substr(0, 40) +
                "' is not supported; ByteLevel, Split, Digits and Sequence are");
  }

  bool byteLevel = false;

private:
  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }

  bool add(const char *pattern, SplitStep::Behavior behavior, bool invert, bool prefix) {
    SplitStep step{nullptr, behavior, invert, prefix};
    if (pattern && !(step.regex = Regex::compile(pattern, error))) {
      return false;
    }
    out.add(std::move(step));
    return true;
  }

  bool readSplit(const Json &node) {
    static constexpr std::pair<const char *, SplitStep::Behavior> behaviors[] = {
        {"Isolated", SplitStep::Isolated},
        {"Removed", SplitStep::Removed},
        {"MergedWithPrevious", SplitStep::MergedWithPrevious},
        {"MergedWithNext", SplitStep::MergedWithNext},
        {"Contiguous", SplitStep::Contiguous}};
    const Json *pattern = member(node, "pattern");
    std::string regex = pattern ? textOf(*pattern, "Regex") : "", literal = pattern ? textOf(*pattern, "String") : "";
    if (regex.empty() == literal.empty()) {
      return fail("a pre-tokenizer Split needs a pattern, either Regex or String");
    }
    if (regex.empty()) {
      for (char c : literal) { // \Q..\E would not survive an \E within.
        regex +=
            static_cast<unsigned char>(c) < 0x80 && !isalnum(static_cast<unsigned char>(c)) && c != '\0' ? "\\" : "";
        regex += c;
      }
    }
    std::string behavior = textOf(node, "behavior");
    for (const auto &[name, value] : behaviors) {
      if (behavior == name) {
        return regex.find('\0') == std::string::npos ? add(regex.c_str(), value, flagOf(node, "invert"), false)
                                                     : fail("a pre-tokenizer pattern holds a zero byte");
      }
    }
    return fail("pre-tokenizer Split with behavior '" + behavior.substr(0, 40) + "' is not supported");
  }

  PreTokenizer &out;
  std::string &error;
};
} // namespace

static bool readAddedTokens(const Json *list, Tokenizer &tokenizer, std::string &error) {
  if (!list) {
    return true;
  }
  if (!list->is_array()) {
    error = "added_tokens is not an array";
    return false;
  }
  for (const Json &entry : *list) {
    const Json *value = member(entry, "id");
    std::optional<int64_t> id = value ? integerOf(*value) : std::nullopt;
    AddedToken token;
    token.content = textOf(entry, "content");
    if (!id) {
      error = "added token '" + token.content.substr(0, 40) + "' has no integer id";
      return false;
    }
    token.id = *id;
    token.special = flagOf(entry, "special");
    token.singleWord = flagOf(entry, "single_word");
    token.stripLeft = flagOf(entry, "lstrip");
    token.stripRight = flagOf(entry, "rstrip");
    int32_t same = tokenizer.bpe.find(token.content);
    if (same >= 0 ? same != *id : !tokenizer.bpe.bytes(*id).empty()) {
      error = "added token '" + token.content.substr(0, 40) + "' and the vocabulary disagree about id " +
              std::to_string(*id);
      return false;
    }
    if (!tokenizer.added.add(std::move(token), error)) {
      return false;
    }
  }
  return true;
}

/// Kinds that leave ids and text as they are: absent, ByteLevel, or a Sequence of these.
static bool isNeutral(const Json *node, const char *listKey, int depth = 0) {
  if (!node || textOf(*node, "type") == "ByteLevel") {
    return true;
  }
  const Json *list = member(*node, listKey);
  if (textOf(*node, "type") != "Sequence" || !list || !list->is_array() || depth > 8) {
    return false;
  }
  for (const Json &part : *list) {
    if (!isNeutral(&part, listKey, depth + 1)) {
      return false;
    }
  }
  return true;
}

std::unique_ptr<Tokenizer> Tokenizer::fromJson(std::string_view text, std::string &error) {
  std::optional<Json> json = parse(text, error);
  if (!json) {
    return nullptr;
  }
  auto refuse = [&](const char *what, const Json *node, const char *accepted) {
    error = std::string(what) + " '" + textOf(*node, "type").substr(0, 40) + "' is not supported; " + accepted;
    return nullptr;
  };
  if (const Json *node = member(*json, "normalizer");
      node && (textOf(*node, "type") == "ByteLevel" || !isNeutral(node, "normalizers"))) {
    return refuse("normalizer", node, "only tokenizers without one are");
  }
  if (const Json *node = member(*json, "post_processor"); !isNeutral(node, "processors")) {
    return refuse("post-processor", node, "ByteLevel is");
  }
  if (const Json *node = member(*json, "decoder"); !isNeutral(node, "decoders")) {
    return refuse("decoder", node, "ByteLevel is");
  }
  auto tokenizer = std::make_unique<Tokenizer>();
  const Json *pre = member(*json, "pre_tokenizer");
  PreTokenizerReader reader(tokenizer->preTokenizer, error);
  if (pre && !reader.read(*pre, 0)) {
    return nullptr;
  }
  if (!reader.byteLevel) {
    error = "the pre-tokenizer has no ByteLevel step; only byte-level tokenizers are supported";
    return nullptr;
  }
  if (!readModel(member(*json, "model"), tokenizer->bpe, error) ||
      !readAddedTokens(member(*json, "added_tokens"), *tokenizer, error)) {
    return nullptr;
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> Tokenizer::fromVocabAndMerges(std::string_view vocab, std::string_view merges,
                                                         std::string &error) {
  std::optional<Json> json = parse(vocab, error);
  auto tokenizer = std::make_unique<Tokenizer>();
  if (!json || !readVocabulary(&*json, tokenizer->bpe, error)) {
    return nullptr;
  }
  while (!merges.empty()) {
    size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    if (!line.empty() && line.back() == '\r') {
      line.remove_suffix(1);
    }
    if (line.empty() || line.substr(0, 8) == "#version") {
      continue;
    }
    if (!addWrittenMerge(line, tokenizer->bpe, error)) {
      return nullptr;
    }
  }
  SplitStep step;
  step.regex = Regex::compile(PreTokenizer::gpt2Pattern(), error);
  if (!step.regex || !tokenizer->bpe.finish(false, error)) {
    return nullptr;
  }
  tokenizer->preTokenizer.add(std::move(step));
  AddedToken end;
  end.content = "<|endoftext|>";
  end.id = tokenizer->bpe.find(end.content);
  end.special = true;
  if (end.id >= 0 && !tokenizer->added.add(std::move(end), error)) {
    return nullptr;
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> Tokenizer::load(const std::string &path, std::string &error) {
  namespace fs = std::filesystem;
  std::error_code code;
  std::string file = path;
  if (fs::is_directory(path, code)) {
    file = (fs::path(path) / "tokenizer.json").string();
    if (!fs::exists(file, code)) {
      std::string vocabPath = (fs::path(path) / "vocab.json").string();
      std::string mergesPath = (fs::path(path) / "merges.txt").string();
      if (!fs::exists(vocabPath, code) || !fs::exists(mergesPath, code)) {
        error = path + ": holds neither tokenizer.json nor vocab.json and merges.txt";
        return nullptr;
      }
      std::optional<std::string> vocab = readFile(vocabPath, maxFileBytes, error);
      std::optional<std::string> merges = vocab ? readFile(mergesPath, maxFileBytes, error) : std::nullopt;
      if (!merges) {
        return nullptr;
      }
      auto tokenizer = fromVocabAndMerges(*vocab, *merges, error);
      error = tokenizer ? error : path + ": " + error;
      return tokenizer;
    }
  }
  std::optional<std::string> text = readFile(file, maxFileBytes, error);
  if (!text) {
    return nullptr;
  }
  auto tokenizer = fromJson(*text, error);
  error = tokenizer ? error : file + ": " + error;
  return tokenizer;
}

std::vector<int64_t> findEndIds(const std::string &folder, const Tokenizer *tokenizer) {
  auto open = [&](const char *name) -> std::optional<Json> {
    std::string ignored;
    std::optional<std::string> text = readFile((std::filesystem::path(folder) / name).string(), maxFileBytes, ignored);
    return text ? parse(*text, ignored) : std::nullopt;
  };
  std::vector<int64_t> ids;
  for (const char *name : {"config.json", "generation_config.json"}) {
    std::optional<Json> json = open(name);
    const Json *value = json ? member(*json, "eos_token_id") : nullptr;
    if (!value) {
      continue;
    }
    for (const Json &entry : value->is_array() ? *value : Json::array({*value})) {
      if (std::optional<int64_t> id = integerOf(entry)) {
        ids.push_back(*id);
      }
    }
    if (!ids.empty()) {
      return ids;
    }
  }
  if (!tokenizer) {
    return ids;
  }
  std::string token = "<|endoftext|>";
  if (std::optional<Json> json = open("tokenizer_config.json")) {
    const Json *value = member(*json, "eos_token");
    std::string named = value && value->is_object() ? textOf(*value, "content") : textOf(*json, "eos_token");
    token = named.empty() ? token : named;
  }
  if (int64_t id = tokenizer->find(token); id >= 0) {
    ids.push_back(id);
  }
  return ids;
}

} // namespace kimi::text
