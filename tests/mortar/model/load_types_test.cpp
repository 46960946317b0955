// Files whose weights are f32 or f16: the model computes what it does with the same weights rounded to bf16.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <span>

#include "mortar/engine/test_engine.hpp"
#include "tessera/base/float_types.hpp"

namespace mortar::test {
namespace THIS_FILE {

using nlohmann::json;

/// The tensors of model.safetensors, by name, as bytes; those of one type.
std::map<std::string, std::string> tensors_of(const Folder& folder, const std::string& type) {
  const TensorFile file(folder.path() / "model.safetensors");
  std::map<std::string, std::string> all;
  for (const FileTensor& t : file.tensors()) {
    if (name_of(t.type) != type) continue;
    std::string data(t.bytes, '\0');
    file.read(t.begin, std::as_writable_bytes(std::span(data)));
    all.emplace(t.name, std::move(data));
  }
  return all;
}

template <class To, class From>
std::string converted(const std::string& data) {
  std::string to;
  for (std::size_t i = 0; i < data.size(); i += sizeof(From)) {
    From value;
    std::memcpy(&value, &data[i], sizeof value);
    const To other(static_cast<float>(value));
    to.append(reinterpret_cast<const char*>(&other), sizeof other);
  }
  return to;
}

/// Replaces the data of some tensors, and keeps that of the others.
void write_tensors(const Folder& folder, const std::map<std::string, std::string>& changed, const char* type) {
  std::map<std::string, std::string> all;
  for (const char* kept : {"BF16", "F32", "F8_E4M3"}) all.merge(tensors_of(folder, kept));
  change_header(
      folder,
      [&](json& header) {
        for (const auto& [name, data] : changed) header.at(name)["dtype"] = type;
      },
      [&](const std::string& name, std::string& data) {
        const auto found = changed.find(name);
        data = found != changed.end() ? found->second : all.at(name);
      });
}

std::vector<float> logits(const Folder& folder, std::vector<std::string>* warnings = nullptr) {
  ModelOptions options;
  options.device = tessera::Device::cpu();
  options.max_context = 128;
  if (warnings != nullptr) options.warning = [warnings](const std::string& text) { warnings->push_back(text); };
  Engine engine(load(folder.path().string(), options), {});
  return engine.logits(some_ids(30, 7));
}

/// The bf16 tensors as T, with a bit below those of bf16, and the peer with these values rounded here.
template <class T>
void check(const char* model, const char* type) {
  const Folder folder(model), rounded(model);
  std::map<std::string, std::string> wide, narrow;
  for (const auto& [name, data] : tensors_of(folder, "BF16")) {
    std::string values = converted<T, tessera::bf16>(data);
    for (std::size_t i = 0; i < values.size(); i += sizeof(T)) values[i] = static_cast<char>(values[i] | 1);
    narrow[name] = converted<tessera::bf16, T>(values);
    wide[name] = std::move(values);
  }
  write_tensors(folder, wide, type);
  write_tensors(rounded, narrow, "BF16");
  std::vector<std::string> warnings;
  EXPECT_EQ(logits(folder, &warnings), logits(rounded)) << model << " in " << type;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find(type), std::string::npos) << warnings[0];
}

TEST(MortarLoadTypes, F32) {
  for (const char* model : {"dense-tied", "llama-tied", "fp8"}) check<float>(model, "F32");
}
TEST(MortarLoadTypes, F16) {
  for (const char* model : {"dense-tied", "fp8"}) check<tessera::f16>(model, "F16");
}

/// A file without ids of its end, in a folder whose tokenizer names it.
TEST(MortarLoad, TheEndIsTheTokenizersWhereNothingElseSaysIt) {
  Folder folder("dense-tied");
  change_config(folder, {{"eos_token_id", nullptr}});
  std::filesystem::remove(folder.path() / "generation_config.json");
  std::filesystem::remove(folder.path() / "tokenizer_config.json");
  const auto ends = [&] {
    ModelOptions options;
    options.device = tessera::Device::cpu();
    return load(folder.path().string(), options).generation.eos_ids;
  };
  EXPECT_TRUE(ends().empty());
  folder.write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path().string());
  ASSERT_TRUE(tokenizer.find("<|im_end|>").has_value());
  EXPECT_EQ(ends(), std::vector<std::int64_t>{*tokenizer.find("<|im_end|>")});
  change_config(folder, {{"eos_token_id", 5}});
  EXPECT_EQ(ends(), std::vector<std::int64_t>{5});
}

}  // namespace THIS_FILE
}  // namespace mortar::test
