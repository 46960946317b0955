// Mortar: the files of a checkpoint other than the tokenizer.
#include <cmath>

#include "fuzz/fuzz.hpp"
#include "mortar/checkpoint.hpp"
#include "mortar/config.hpp"
#include "mortar/plan.hpp"

namespace tessera::fuzz {
namespace {

const std::string kDenseConfig = R"({"architectures":["Qwen3ForCausalLM"],"attention_bias":false,"bos_token_id":1,
"eos_token_id":[2,1],"head_dim":32,"hidden_act":"silu","hidden_size":64,"intermediate_size":96,
"layer_types":["full_attention"],"max_position_embeddings":1024,"model_type":"qwen3","num_attention_heads":4,
"num_hidden_layers":1,"num_key_value_heads":2,"rms_norm_eps":1e-06,
"rope_parameters":{"rope_theta":1000000.0,"rope_type":"default"},"tie_word_embeddings":true,"dtype":"bfloat16",
"use_sliding_window":false,"vocab_size":384})";
const std::string kExpertConfig = R"({"architectures":["Qwen3MoeForCausalLM"],"decoder_sparse_step":1,"eos_token_id":2,
"head_dim":128,"hidden_size":128,"intermediate_size":256,"max_position_embeddings":1024,"mlp_only_layers":[0],
"model_type":"qwen3_moe","moe_intermediate_size":128,"norm_topk_prob":true,"num_attention_heads":2,"num_experts":4,
"num_experts_per_tok":2,"num_hidden_layers":2,"num_key_value_heads":1,"rms_norm_eps":1e-06,"quantization_config":{
"activation_scheme":"dynamic","fmt":"e4m3","modules_to_not_convert":["lm_head"],"quant_method":"fp8",
"weight_block_size":[128,128]},"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":256},
"rope_theta":1000000,"tie_word_embeddings":false,"torch_dtype":"bfloat16","vocab_size":384})";

const std::string kLlamaConfig = R"({"architectures":["LlamaForCausalLM"],"eos_token_id":[2,1],"hidden_size":64,
"intermediate_size":96,"max_position_embeddings":1024,"mlp_bias":false,"model_type":"llama","num_attention_heads":4,
"num_hidden_layers":1,"num_key_value_heads":2,"pretraining_tp":1,"rms_norm_eps":1e-05,"rope_scaling":{"factor":8.0,
"high_freq_factor":4.0,"low_freq_factor":1.0,"original_max_position_embeddings":256,"rope_type":"llama3"},
"rope_theta":500000.0,"tie_word_embeddings":true,"torch_dtype":"bfloat16","vocab_size":384})";

std::string with_length(const std::string& header, const std::string& data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i) & 0xFF);
  return file + header + data;
}

/// What mortar_safetensors requires of a file's tensors.
void require_covered(std::span<const mortar::FileTensor> tensors, std::uint64_t data_begin, std::uint64_t size) {
  std::uint64_t end = data_begin;
  for (const mortar::FileTensor& t : tensors) {
    FUZZ_REQUIRE(t.begin == end && t.bytes <= size - end);
    end += t.bytes;
    bool none = false;
    for (const std::int64_t extent : t.shape) {
      FUZZ_REQUIRE(extent >= 0);
      none = none || extent == 0;
    }
    FUZZ_REQUIRE(none == (t.bytes == 0));
    for (const std::int64_t extent : t.shape) FUZZ_REQUIRE(none || static_cast<std::uint64_t>(extent) <= 2 * t.bytes);
  }
  FUZZ_REQUIRE(end == size);
}

}  // namespace

/// The first byte: whether the length of the header is corrected to where its last } is.
void fuzz_mortar_safetensors(Bytes bytes) {
  if (bytes.empty()) return;
  std::string file = string_of(bytes.subspan(1));
  const std::size_t last = file.rfind('}');
  if ((std::to_integer<int>(bytes[0]) & 1) != 0 && last != file.npos && last >= 8)
    file = with_length(file.substr(8, last - 7), file.substr(last + 1));
  const std::string path = write_file("model.safetensors", bytes_of(file));
  accepted([&] {
    const mortar::TensorFile read(path);
    FUZZ_REQUIRE(read.size() == file.size());
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
    require_covered(read.tensors(), 8 + length, file.size());
    for (const mortar::FileTensor& t : read.tensors()) {
      std::vector<std::byte> data(t.bytes);
      read.read(t.begin, data);
      FUZZ_REQUIRE(text_of(data) == std::string_view(file).substr(t.begin, t.bytes));
    }
  });
}
Seeds seeds_mortar_safetensors() {
  const std::string pair = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[8,11]}}  )";
  const std::string none = R"({"x":{"dtype":"F4","shape":[2,0],"data_offsets":[0,0]}})";
  return {'\0' + with_length(pair, "01234567abc"), '\1' + with_length(pair, "01234567abc"),
          '\0' + with_length(none, ""), '\0' + with_length("{}", "")};
}

void fuzz_mortar_config(Bytes bytes) {
  accepted([&] {
    const mortar::ModelSpec c = mortar::parse_config(text_of(bytes), "config.json");
    FUZZ_REQUIRE(c.vocabulary > 0 && c.hidden > 0 && c.layers > 0 && c.attention.kv_heads > 0 &&
                 c.attention.heads % c.attention.kv_heads == 0);
    FUZZ_REQUIRE(c.attention.head_dim > 0 && c.attention.head_dim % 2 == 0 && c.max_context > 0);
    for (const std::int64_t id : c.eos_ids) FUZZ_REQUIRE(id >= 0 && id < c.vocabulary);
    const mortar::RopeAngles angles = mortar::rope_angles(c);
    FUZZ_REQUIRE(angles.inverse_frequencies.size() == static_cast<std::size_t>(c.attention.head_dim / 2));
    for (const float f : angles.inverse_frequencies) FUZZ_REQUIRE(std::isfinite(f) && f >= 0);
    FUZZ_REQUIRE(std::isfinite(angles.attention_factor));
    FUZZ_REQUIRE(!c.mlp.experts || (c.mlp.experts->per_token >= 1 && c.mlp.experts->per_token <= c.mlp.experts->count));
    if (c.layers * (c.mlp.experts ? c.mlp.experts->count : 1) > 2048) return;  // the list of tensors would be long
    accepted([&] {
      const mortar::ModelSize size = mortar::model_size(c);
      FUZZ_REQUIRE(size.parameters > 0 && size.active_parameters > 0 && size.active_parameters <= size.parameters);
      FUZZ_REQUIRE(size.bytes_per_step > 0 && size.bytes_per_step <= size.bytes.total());
      mortar::PlanRequest request;
      request.memory = {std::int64_t{1} << 34, std::int64_t{1} << 35};
      const mortar::MemoryPlan plan = mortar::estimate_memory(c, request);
      FUZZ_REQUIRE(plan.total() >= size.bytes.total() && plan.largest_context >= 0 && plan.largest_batch >= 0);
    });
  });
}
Seeds seeds_mortar_config() { return {kDenseConfig, kExpertConfig, kLlamaConfig}; }

void fuzz_mortar_generation(Bytes bytes) {
  static const mortar::ModelSpec model = mortar::parse_config(kDenseConfig, "config.json");
  accepted([&] {
    const mortar::GenerationConfig g = mortar::parse_generation_config(text_of(bytes), "generation_config.json", model);
    FUZZ_REQUIRE(g.temperature >= 0 && g.top_k >= 0 && g.top_p >= 0 && g.top_p <= 1 && g.min_p >= 0 && g.min_p <= 1);
    FUZZ_REQUIRE(g.repetition_penalty > 0 && std::isfinite(g.presence_penalty));
    for (const std::int64_t id : g.eos_ids) FUZZ_REQUIRE(id >= 0 && id < model.vocabulary);
  });
}
Seeds seeds_mortar_generation() {
  return {R"({"bos_token_id":1,"do_sample":true,"eos_token_id":[2,1],"pad_token_id":1,"temperature":0.6,"top_k":20,)"
          R"("top_p":0.95,"min_p":0.0,"repetition_penalty":1.05,"presence_penalty":1.5})"};
}

/// An index beside two shards: what is accepted has all tensors of both or one of them.
void fuzz_mortar_index(Bytes bytes) {
  static const bool written = [] {
    std::filesystem::create_directory(folder() + "/checkpoint");
    write_file("checkpoint/a.safetensors",
               bytes_of(with_length(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x")));
    write_file("checkpoint/b.safetensors",
               bytes_of(with_length(R"({"y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "y")));
    return true;
  }();
  FUZZ_REQUIRE(written);
  write_file("checkpoint/model.safetensors.index.json", bytes);
  accepted([&] {
    const mortar::Checkpoint checkpoint(folder() + "/checkpoint");
    FUZZ_REQUIRE(checkpoint.size() == checkpoint.files().size() && checkpoint.size() >= 1 && checkpoint.size() <= 2);
    FUZZ_REQUIRE(checkpoint.find("x") != nullptr || checkpoint.find("y") != nullptr);
  });
}
Seeds seeds_mortar_index() {
  return {R"({"metadata":{"total_size":2},"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})",
          R"({"weight_map":{"y":"b.safetensors"}})"};
}

}  // namespace tessera::fuzz
