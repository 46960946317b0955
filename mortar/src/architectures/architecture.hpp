// An architecture is data: a file of this folder reads its config.json into a ModelSpec and has the table of its
// tensors (docs/mortar/architectures.md).
#pragma once
#include "files/json_file.hpp"
#include "mortar/config.hpp"

namespace mortar::architectures {

struct Architecture {
  const char* name;        ///< of config.json's architectures: "Qwen3ForCausalLM"
  const char* model_type;  ///< "qwen3"
  /// The fields of config.json as a spec, all but its `architecture`. Throws ModelError.
  ModelSpec (*read)(const files::Fields& config);
};

extern const Architecture kQwen3, kQwen3Moe, kLlama;
inline constexpr const Architecture* kArchitectures[] = {&kQwen3, &kQwen3Moe, &kLlama};

}  // namespace mortar::architectures
