// What a spec says of a layer and of a module, and reading generation_config.json.
#include "mortar/config.hpp"

#include <algorithm>

#include "files/json_file.hpp"
#include "text/read_text.hpp"

namespace mortar {

using files::Fields;

bool ModelSpec::has_experts(std::int64_t layer) const {
  if (!mlp.experts || (layer + 1) % mlp.experts->sparse_step != 0) return false;
  const auto& dense = mlp.experts->dense_layers;
  return std::find(dense.begin(), dense.end(), layer) == dense.end();
}

bool ModelSpec::is_fp8(std::string_view module) const {
  if (!fp8) return false;
  // As in Hugging Face's FP8 quantizer: a name excludes the module, what it contains, and modules that end with it.
  return std::none_of(fp8->excluded.begin(), fp8->excluded.end(), [&](const std::string& name) {
    if (name.empty() || name.size() > module.size()) return false;
    const std::size_t rest = module.size() - name.size();
    if (rest == 0) return module == name;
    return (module.starts_with(name) && module[name.size()] == '.') ||
           (module.ends_with(name) && module[rest - 1] == '.');
  });
}

GenerationConfig parse_generation_config(std::string_view text, const std::string& file, const ModelSpec& model) {
  const auto json = files::parse_object(text, file);
  const Fields f(json, file);
  GenerationConfig g;
  g.sample = f.flag_or("do_sample", false);
  g.temperature = f.number_or("temperature", 0, 100, 1);
  g.top_k = std::max<std::int64_t>(0, f.integer_or("top_k", -1, INT32_MAX, 0));  // -1, as 0: all tokens
  g.top_p = f.number_or("top_p", 0, 1, 1);
  g.min_p = f.number_or("min_p", 0, 1, 0);
  g.repetition_penalty = f.number_or("repetition_penalty", 0.01, 100, 1);
  g.presence_penalty = f.number_or("presence_penalty", -100, 100, 0);
  g.eos_ids = f.integers("eos_token_id", 0, model.vocabulary - 1);
  if (g.eos_ids.empty()) g.eos_ids = model.eos_ids;
  return g;
}

std::optional<std::string> read_eos_token(const std::filesystem::path& folder) {
  const std::string file = (folder / "tokenizer_config.json").string();
  const std::optional<std::string> text = text::read_text_if_there(file);
  if (!text) return std::nullopt;
  const auto json = files::parse_object(*text, file);
  const auto token = json.find("eos_token");
  if (token == json.end() || token->is_null()) return std::nullopt;
  if (token->is_string()) return token->get<std::string>();
  if (token->is_object() && token->contains("content") && token->at("content").is_string())
    return token->at("content").get<std::string>();
  files::fail(file, "eos_token", "a text, or an object with the text content", files::shown(*token));
}

GenerationConfig read_generation_config(const std::filesystem::path& folder, const ModelSpec& model) {
  const auto file = folder / "generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {.eos_ids = model.eos_ids};
  return parse_generation_config(text::read_text(file.string(), files::kMaxBytes), file.string(), model);
}

}  // namespace mortar
