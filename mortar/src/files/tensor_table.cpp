// Shapes and names of the tensors of a table.
#include "files/tensor_table.hpp"

#include <algorithm>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"

namespace mortar::files {
namespace {

void replace(std::string& text, std::string_view placeholder, std::int64_t number) {
  if (const std::size_t at = text.find(placeholder); at != text.npos)
    text.replace(at, placeholder.size(), std::to_string(number));
}

}  // namespace

std::int64_t extent_of(const ModelSpec& spec, Extent extent) {
  const AttentionSpec& a = spec.attention;
  switch (extent) {
    case Extent::One: return 1;
    case Extent::Vocabulary: return spec.vocabulary;
    case Extent::Hidden: return spec.hidden;
    case Extent::HeadDim: return a.head_dim;
    case Extent::Queries: return a.heads * a.head_dim;
    case Extent::Keys: return a.kv_heads * a.head_dim;
    case Extent::Intermediate: return spec.mlp.intermediate;
    case Extent::Experts: return spec.mlp.experts ? spec.mlp.experts->count : 0;
    case Extent::ExpertIntermediate: return spec.mlp.experts ? spec.mlp.experts->intermediate : 0;
  }
  return 0;
}

const TensorRow& TensorTable::of(Role role) const {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const TensorRow& row) { return row.role == role; });
  if (found == rows.end())
    throw ModelError(tessera::concat("the architecture's table: expected a tensor with role ", static_cast<int>(role),
                                     ", found none"));
  return *found;
}

bool has_tensor(const ModelSpec& spec, const TensorRow& row, std::int64_t layer) {
  switch (row.where) {
    case Where::Always: return true;
    case Where::DenseLayers: return !spec.has_experts(layer);
    case Where::ExpertLayers: return spec.has_experts(layer);
    case Where::Untied: return !spec.tied;
  }
  return false;
}

std::string module_name(const TensorRow& row, std::int64_t layer, std::int64_t expert) {
  std::string name(row.name);
  replace(name, "{layer}", layer);
  replace(name, "{expert}", expert);
  return name;
}

std::uint64_t least_tensors(const ModelSpec& spec) {
  std::int64_t least = 0;
  for (const TensorRow& row : spec.tensors->rows) {
    const std::int64_t layers = row.in_layers() ? spec.layers : 1;
    const std::int64_t each = row.in_experts() ? extent_of(spec, Extent::Experts) : 1;
    for (std::int64_t layer = 0; layer < layers; ++layer)
      if (has_tensor(spec, row, layer)) least += each;
  }
  return static_cast<std::uint64_t>(least);
}

}  // namespace mortar::files
