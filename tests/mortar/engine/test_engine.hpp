// Engines over the models of tests/mortar/data, on the CPU unless a test names another device.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "mortar/files/model_files.hpp"
#include "mortar/mortar.hpp"

namespace mortar::test {

inline Model load_test_model(const std::string& name, std::int64_t max_context = 256, std::int64_t max_batch = 1,
                             tessera::Device device = tessera::Device::cpu(), KvType kv_type = KvType::Bf16) {
  ModelOptions options;
  options.device = device;
  options.max_context = max_context;
  options.max_batch = max_batch;
  options.kv_type = kv_type;
  return load(test_model(name).string(), options);
}

/// The answer of one sequence, as its function saw it.
struct Heard {
  std::vector<TokenId> ids;
  std::string text;
  std::optional<FinishReason> finish;
  std::vector<Token> tokens;
  OnToken listener() {
    return [this](const Token& token) {
      ids.push_back(token.id);
      for (const AnswerText& part : token.text) text += part.text;
      if (token.finish) finish = token.finish;
      tokens.push_back(token);
    };
  }
};

/// Ids of ordinary tokens.
inline std::vector<TokenId> some_ids(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> ids(count);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % 340);
  return ids;
}
/// A request whose answer has max_tokens tokens.
inline Request some_request(std::size_t prompt, std::int64_t max_tokens, std::uint32_t seed = 1) {
  Request r;
  r.ids = some_ids(prompt, seed);
  r.max_tokens = max_tokens;
  r.ignore_eos = true;
  r.sampling.seed = seed;
  return r;
}

inline Heard answer(Engine& engine, Request request) {
  Heard heard;
  engine.submit(std::move(request), heard.listener());
  engine.run();
  return heard;
}

/// The root mean square of the differences of two lists, relative to that of `exact`.
inline double relative_error(const std::vector<float>& x, const std::vector<float>& exact) {
  EXPECT_EQ(x.size(), exact.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(static_cast<double>(x[i]) - exact[i], 2);
    norm += std::pow(exact[i], 2.0);
  }
  return std::sqrt(error / norm);
}

}  // namespace mortar::test
