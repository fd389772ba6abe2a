//===- TokenizerTest.cpp - encodings with known answers, and round trips
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Tokenizer.h"
#include <chrono>
#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>

using namespace kimi::text;
using Ids = std::vector<int32_t>;

namespace {
Ids encode(const Tokenizer &tokenizer, std::string_view text) {
  Ids ids;
  std::string error;
  EXPECT_TRUE(tokenizer.encode(text, ids, error)) << error;
  return ids;
}

void expectRoundTrip(const Tokenizer &tokenizer, const std::string &text) {
  Ids ids = encode(tokenizer, text);
  EXPECT_EQ(tokenizer.decode(ids), text);
  EXPECT_LE(ids.size(), text.size());
  for (int32_t id : ids) {
    EXPECT_TRUE(id >= 0 && id < tokenizer.size());
  }
}

const std::string varied[] = {
    "",
    " ",
    "\n\n\n",
    "   spaces   in runs    ",
    "tabs\t\tand\r\nline ends\n",
    "I'm sure they've said it's what we'd do; you'll see. DON'T'S",
    "3.14159 1,000,000 2nd x86-64",
    "caf\xC3\xA9 na\xC3\xAFve \xC3\x9C"
    "ber \xC4\xB0stanbul",
    "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C \xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4 "
    "\xE3\x81\xAB\xE3\x81\xBB\xE3\x82\x93",
    "\xF0\x9F\x98\x80\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7 "
    "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA",
    std::string("zero\0byte\x01\x02\x1B[0m\x7F", 16),
    "non-breaking\xC2\xA0space \xE2\x80\xA8line\xE3\x80\x80wide",
    "a<|endoftext|>b <|endoftext|",
    "\xFF\xFE broken \xC3 \xE2\x82 \xF0\x9F\x98 \xED\xA0\x80 \xC0\x80 end\xF0",
};

class Gpt2 : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    std::string folder = KIMI_SHARED_DIR "/tokenizers/gpt2";
    if (std::filesystem::exists(folder)) {
      std::string error;
      tokenizer = Tokenizer::load(folder, error);
      ASSERT_TRUE(tokenizer) << error;
    }
  }
  void SetUp() override {
    if (!tokenizer) {
      GTEST_SKIP() << "no GPT-2 vocabulary in " KIMI_SHARED_DIR "/tokenizers/gpt2";
    }
  }
  static std::unique_ptr<Tokenizer> tokenizer;
};
std::unique_ptr<Tokenizer> Gpt2::tokenizer;

TEST_F(Gpt2, KnownEncodings) {
  EXPECT_EQ(tokenizer->size(), 50257);
  EXPECT_EQ(encode(*tokenizer, "Hello world"), Ids({15496, 995}));
  EXPECT_EQ(encode(*tokenizer, " the"), Ids({262}));
  EXPECT_EQ(encode(*tokenizer, "Hello, my dog is cute"), Ids({15496, 11, 616, 3290, 318, 13779}));
  EXPECT_EQ(encode(*tokenizer, "Hello, I'm a language model,"), Ids({15496, 11, 314, 1101, 257, 3303, 2746, 11}));
  EXPECT_EQ(encode(*tokenizer, "The quick brown fox jumps over the lazy dog."),
            Ids({464, 2068, 7586, 21831, 18045, 625, 262, 16931, 3290, 13}));
  EXPECT_EQ(encode(*tokenizer, "\n"), Ids({198}));
  EXPECT_EQ(encode(*tokenizer, "\n\n"), Ids({628}));
  EXPECT_EQ(encode(*tokenizer, "   "), Ids({220, 220, 220}));
  EXPECT_EQ(encode(*tokenizer, "a  b"), Ids({64, 220, 275}));
  EXPECT_EQ(encode(*tokenizer, "<|endoftext|>"), Ids({50256}));
  EXPECT_EQ(encode(*tokenizer, "x<|endoftext|>y"), Ids({87, 50256, 88}));
  EXPECT_TRUE(tokenizer->isSpecial(50256));
  EXPECT_FALSE(tokenizer->isSpecial(50255));
  EXPECT_EQ(tokenizer->find("<|endoftext|>"), 50256);
}

TEST_F(Gpt2, RoundTrips) {
  for (const std::string &text : varied) {
    expectRoundTrip(*tokenizer, text);
  }
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::string bytes(random() % 300, '\0');
    for (char &c : bytes) {
      c = static_cast<char>(random() % (trial % 2 ? 256 : 128));
    }
    expectRoundTrip(*tokenizer, bytes);
  }
}

TEST_F(Gpt2, LongRunsAreNotQuadratic) {
  auto start = std::chrono::steady_clock::now();
  expectRoundTrip(*tokenizer, std::string(1 << 20, 'a'));
  expectRoundTrip(*tokenizer, std::string(1 << 20, ' ') + "x");
  expectRoundTrip(*tokenizer, std::string(1 << 20, '\xFF'));
  std::string words;
  while (words.size() < (1 << 20)) {
    words += "some words \xE2\x80\xA6 ";
  }
  expectRoundTrip(*tokenizer, words);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(MiniTokenizer, AgreesWithGolden) {
  std::string folder = KIMI_MODELS_DIR "/gpt2/mini", error;
  auto tokenizer = Tokenizer::load(folder, error);
  ASSERT_TRUE(tokenizer) << error;
  EXPECT_EQ(tokenizer->size(), 1024);
  auto text = readFile(folder + "/golden.json", 1 << 20, error);
  ASSERT_TRUE(text) << error;
  nlohmann::json golden = nlohmann::json::parse(*text);
  ASSERT_GE(golden["prompts"].size(), 3u);
  for (const auto &prompt : golden["prompts"]) {
    EXPECT_EQ(encode(*tokenizer, prompt["prompt"].get<std::string>()), prompt["ids"].get<Ids>());
    EXPECT_EQ(tokenizer->decode(prompt["greedy_ids"].get<Ids>()), prompt["greedy_text"].get<std::string>());
  }
  for (const std::string &sample : varied) {
    expectRoundTrip(*tokenizer, sample);
  }
  EXPECT_EQ(findEndIds(folder, tokenizer.get()), std::vector<int64_t>({0}));
}

TEST(MiniTokenizer, JsonAndPlainFilesAgree) {
  std::string folder = KIMI_MODELS_DIR "/gpt2/mini", error;
  auto json = Tokenizer::load(folder, error);
  ASSERT_TRUE(json) << error;
  auto vocab = readFile(folder + "/vocab.json", 1 << 20, error),
       merges = readFile(folder + "/merges.txt", 1 << 20, error);
  ASSERT_TRUE(vocab && merges) << error;
  auto plain = Tokenizer::fromVocabAndMerges(*vocab, *merges, error);
  ASSERT_TRUE(plain) << error;
  for (const std::string &sample : varied) {
    EXPECT_EQ(encode(*json, sample), encode(*plain, sample));
  }
}

TEST(MiniTokenizer, DamagedFilesAreErrorsOrTokenizers) {
  std::string error;
  auto text = readFile(KIMI_MODELS_DIR "/gpt2/mini/tokenizer.json", 1 << 20, error);
  ASSERT_TRUE(text) << error;
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    std::string damaged = *text;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      // Most of the file is vocabulary; every other edit falls on the head, where the kinds are.
      size_t at = random() % (random() % 2 ? damaged.size() : 1500);
      switch (random() % 3) {
      case 0:
        damaged[at] = static_cast<char>(random());
        break;
      case 1:
        damaged.erase(at, random() % 40);
        break;
      default:
        damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 40));
      }
    }
    auto tokenizer = Tokenizer::fromJson(damaged, error);
    if (!tokenizer) {
      EXPECT_FALSE(error.empty());
      continue;
    }
    for (const std::string &sample : varied) {
      Ids ids;
      if (tokenizer->encode(sample, ids, error)) {
        tokenizer->decode(ids);
      }
    }
  }
}
} // namespace
