//===- TokenizerFilesTest.cpp - kinds of tokenizer.json, and files that must be refused
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/ByteAlphabet.h"
#include "runtime/text/Tokenizer.h"
#include "runtime/text/Utf8.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace kimi::text;
using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

namespace {
/// 256 bytes (id = byte), then "ab" = 256, "abc" = 257, " a" = 258.
Json small() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string name;
    appendUtf8(characterOfByte(static_cast<uint8_t>(byte)), name);
    vocab[name] = byte;
  }
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  vocab["\xC4\xA0"
        "a"] = 258;
  Json model = {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "ab c", "\xC4\xA0 a"}}};
  return {{"added_tokens", Json::array()},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"model", model}};
}

Json addedToken(const char *content, int64_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json split(const char *regex, const char *behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", invert}};
}

Json sequence(std::initializer_list<Json> parts, bool prefixSpace = false) {
  Json list = Json(parts);
  list.push_back({{"type", "ByteLevel"}, {"add_prefix_space", prefixSpace}, {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", list}};
}

Ids encode(const Json &json, std::string_view text) {
  std::string error;
  Ids ids;
  auto tokenizer = Tokenizer::fromJson(json.dump(), error);
  EXPECT_TRUE(tokenizer && tokenizer->encode(text, ids, error)) << error;
  return ids;
}

void expectRefused(const std::string &json, const std::string &part) {
  std::string error;
  EXPECT_FALSE(Tokenizer::fromJson(json, error)) << "accepted; wanted: " << part;
  EXPECT_NE(error.find(part), std::string::npos) << error;
}
void expectRefused(const Json &json, const std::string &part) { expectRefused(json.dump(), part); }

TEST(TokenizerJson, MergesByRank) {
  EXPECT_EQ(encode(small(), "abc"), Ids({257}));
  EXPECT_EQ(encode(small(), "ab"), Ids({256}));
  EXPECT_EQ(encode(small(), " abc"), Ids({' ', 257})); // "a b" comes before "_ a".
  EXPECT_EQ(encode(small(), " ac"), Ids({258, 'c'}));
  Json pairs = small();
  pairs["model"]["merges"] = Json::array({{"a", "b"}, {"ab", "c"}});
  EXPECT_EQ(encode(pairs, "abc"), Ids({257}));
}

TEST(TokenizerJson, IgnoreMergesTakesWholePieces) {
  Json json = small();
  json["model"]["merges"] = Json::array();
  EXPECT_EQ(encode(json, "abc"), Ids({'a', 'b', 'c'}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(encode(json, "abc"), Ids({257}));
}

TEST(TokenizerJson, AddedTokens) {
  Json json = small();
  json["added_tokens"] = {addedToken("<s>", 300), addedToken("<s>>", 301)};
  EXPECT_EQ(encode(json, "<s>a<s>>"), Ids({300, 'a', 301}));
  json["added_tokens"][0]["lstrip"] = true;
  json["added_tokens"][0]["rstrip"] = true;
  EXPECT_EQ(encode(json, "a \n<s>\tb"), Ids({'a', 300, 'b'}));
  Json word = small();
  word["added_tokens"] = {addedToken("ab", 256)};
  word["added_tokens"][0]["single_word"] = true;
  EXPECT_EQ(encode(word, "ab xabc"), Ids({256, ' ', 'x', 257}));
}

TEST(TokenizerJson, PrefixSpace) {
  Json json = small();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(encode(json, "ac"), Ids({258, 'c'}));
  EXPECT_EQ(encode(json, " ac"), Ids({258, 'c'}));
  EXPECT_EQ(encode(json, ""), Ids());
}

TEST(TokenizerJson, SplitBehaviors) {
  auto with = [&](const char *behavior, bool invert = false) {
    Json json = small();
    json["pre_tokenizer"] = sequence({split("b", behavior, invert)});
    return encode(json, "abcabbc");
  };
  EXPECT_EQ(with("Isolated"), Ids({'a', 'b', 'c', 'a', 'b', 'b', 'c'}));
  EXPECT_EQ(with("Removed"), Ids({'a', 'c', 'a', 'c'}));
  EXPECT_EQ(with("Removed", true), Ids({'b', 'b', 'b'}));
  EXPECT_EQ(with("MergedWithPrevious"), Ids({256, 'c', 256, 'b', 'c'}));
  EXPECT_EQ(with("MergedWithNext"), Ids({'a', 'b', 'c', 'a', 'b', 'b', 'c'}));
  Json literal = small();
  literal["pre_tokenizer"] = sequence({{{"type", "Split"}, {"pattern", {{"String", "."}}}, {"behavior", "Removed"}}});
  EXPECT_EQ(encode(literal, "ab.c"), Ids({256, 'c'}));
  Json digits = small();
  digits["pre_tokenizer"] = sequence({{{"type", "Digits"}, {"individual_digits", true}}}, true);
  EXPECT_EQ(encode(digits, "a1"), Ids({258, ' ', '1'}));
}

TEST(TokenizerJson, RefusesUnknownKinds) {
  Json json = small();
  json["pre_tokenizer"] = {{"type", "Metaspace"}};
  expectRefused(json, "pre-tokenizer type 'Metaspace'");
  json = small();
  json["pre_tokenizer"] = nullptr;
  expectRefused(json, "no ByteLevel step");
  json = small();
  json["normalizer"] = {{"type", "NFC"}};
  expectRefused(json, "normalizer 'NFC'");
  json = small();
  json["post_processor"] = {{"type", "TemplateProcessing"}};
  expectRefused(json, "post-processor 'TemplateProcessing'");
  json = small();
  json["model"]["type"] = "Unigram";
  expectRefused(json, "model type 'Unigram'");
  json = small();
  json["model"]["byte_fallback"] = true;
  expectRefused(json, "byte_fallback");
  json = small();
  json["model"]["dropout"] = 0.1;
  expectRefused(json, "dropout");
  json = small();
  json["pre_tokenizer"] = sequence({split("(", "Isolated")});
  expectRefused(json, "does not compile");
  json["pre_tokenizer"] = sequence({split("a", "Sideways")});
  expectRefused(json, "behavior 'Sideways'");
}

TEST(TokenizerJson, RefusesDamage) {
  std::string good = small().dump();
  expectRefused(std::string(), "bad JSON");
  expectRefused(good.substr(0, good.size() / 2), "bad JSON");
  expectRefused(std::string(1 << 20, '['), "bad JSON");
  expectRefused(std::string("[]"), "ByteLevel");
  expectRefused(std::string("{\"model\": {\"vocab\": {}, \"model\": 1, \"vocab\": {}}}"), "given twice");
  Json json = small();
  json["model"]["vocab"]["ab"] = -1;
  expectRefused(json, "outside 0..");
  json["model"]["vocab"]["ab"] = uint64_t(1) << 63;
  expectRefused(json, "no integer");
  json["model"]["vocab"]["ab"] = 1000000000000;
  expectRefused(json, "outside 0..");
  json["model"]["vocab"]["ab"] = 97;
  expectRefused(json, "belongs to two tokens");
  json = small();
  json["model"]["vocab"].erase("a");
  json["model"]["merges"] = Json::array();
  expectRefused(json, "no token for byte 97");
  json = small();
  json["model"]["merges"] = {"a b", "a b"};
  expectRefused(json, "given before");
  json["model"]["merges"] = {"a c"};
  expectRefused(json, "the result is not in the vocabulary");
  json["model"]["merges"] = {"abc"};
  expectRefused(json, "two tokens with a space");
  json["model"]["merges"] = {7};
  expectRefused(json, "neither a string nor a pair");
  json = small();
  json["added_tokens"] = {addedToken("", 300)};
  expectRefused(json, "0 bytes");
  json["added_tokens"] = {addedToken("<s>", 97)};
  expectRefused(json, "disagree about id 97");
  json["added_tokens"] = {addedToken("<s>", 300), addedToken("<t>", 300)};
  expectRefused(json, "given twice");
  Json deep = {{"type", "ByteLevel"}};
  for (int i = 0; i < 20; ++i) {
    deep = {{"type", "Sequence"}, {"pretokenizers", {deep}}};
  }
  json = small();
  json["pre_tokenizer"] = deep;
  expectRefused(json, "nested too deep");
}

TEST(TokenizerJson, RunawayRegexIsAnError) {
  Json json = small();
  json["pre_tokenizer"] = sequence({split("(a+a+)+$", "Isolated")});
  std::string error;
  auto tokenizer = Tokenizer::fromJson(json.dump(), error);
  ASSERT_TRUE(tokenizer) << error;
  Ids ids;
  EXPECT_FALSE(tokenizer->encode(std::string(64, 'a') + "b", ids, error));
  EXPECT_NE(error.find("regular expression"), std::string::npos) << error;
}

TEST(TokenizerFolder, MissingFiles) {
  std::string error;
  EXPECT_FALSE(Tokenizer::load("/nonexistent/folder", error));
  EXPECT_NE(error.find("no such file"), std::string::npos) << error;
  EXPECT_FALSE(Tokenizer::load("/", error));
  EXPECT_NE(error.find("neither tokenizer.json nor vocab.json"), std::string::npos) << error;
}

TEST(MergesText, LinesAndComments) {
  Json vocab = small()["model"]["vocab"];
  vocab["##"] = 259;
  std::string error;
  auto tokenizer = Tokenizer::fromVocabAndMerges(vocab.dump(), "#version: 0.2\r\n# #\r\n\na b\n", error);
  ASSERT_TRUE(tokenizer) << error;
  Ids ids;
  ASSERT_TRUE(tokenizer->encode("##ab", ids, error)) << error;
  EXPECT_EQ(ids, Ids({259, 256}));
  EXPECT_FALSE(Tokenizer::fromVocabAndMerges(vocab.dump(), "a b c\n", error));
  EXPECT_FALSE(Tokenizer::fromVocabAndMerges("[1]", "", error));
}
} // namespace
