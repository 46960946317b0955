// From the rows of an architecture's table to the tensors on the device.
#include "files/layout.hpp"

#include <span>

#include "files/json_file.hpp"
#include "tessera/base/format.hpp"

namespace mortar::files {
namespace {

using tessera::concat;
using Rows = std::span<const TensorRow>;

std::int64_t blocks(std::int64_t n) { return (n + kScaleBlock - 1) / kScaleBlock; }

/// How many of the first rows satisfy `same(row)`.
template <class Same>
std::size_t run_of(Rows rows, Same same) {
  std::size_t n = 1;
  while (n < rows.size() && same(rows[n])) ++n;
  return n;
}

class Builder {
 public:
  explicit Builder(const ModelSpec& spec) : spec_(spec) {}

  std::vector<WeightTensor> build() {
    for (Rows rest = spec_.tensors->rows; !rest.empty();) {
      const bool layers = rest[0].in_layers();
      const std::size_t n = run_of(rest, [&](const TensorRow& row) { return row.in_layers() == layers; });
      for (std::int64_t layer = 0; layer < (layers ? spec_.layers : 1); ++layer) add_layer(rest.first(n), layer);
      rest = rest.subspan(n);
    }
    return std::move(made_);
  }

 private:
  void add_layer(Rows rows, std::int64_t layer) {
    while (!rows.empty()) {
      const std::size_t n = run_of(rows, [&](const TensorRow& row) { return row.role == rows[0].role; });
      if (has_tensor(spec_, rows[0], layer)) add(rows.first(n), layer);
      rows = rows.subspan(n);
    }
  }

  /// The tensor that is made of the rows of one role, and that of its scales.
  void add(Rows rows, std::int64_t layer) {
    const TensorRow& first = rows[0];
    const std::int64_t columns = extent_of(spec_, first.columns);
    const std::string first_name = module_name(first, layer, 0);
    const bool linear = first.elements == Elements::Linear, fp8 = linear && spec_.is_fp8(first_name);
    WeightTensor weight{first.role,         layer, fp8 ? Stored::Fp8 : Stored::Bf16, 0, columns, first.is_vector(),
                        first.in_experts(), {}};
    WeightTensor scales{first.role, layer, Stored::Scales, 0, blocks(columns), false, first.in_experts(), {}};
    const std::int64_t experts = first.in_experts() ? extent_of(spec_, Extent::Experts) : 1;
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      for (const TensorRow& row : rows) {
        const std::string name = module_name(row, layer, expert);
        if (linear && spec_.is_fp8(name) != fp8)
          fail("config.json", "quantization_config.modules_to_not_convert",
               concat("both or neither of ", first_name, " and ", name), "one of them");
        const std::int64_t n = extent_of(spec_, row.rows);
        weight.parts.push_back({concat(name, kWeight), n});
        weight.rows += n;
        if (!fp8) continue;
        scales.parts.push_back({concat(name, kScales), blocks(n)});
        scales.rows += blocks(n);
      }
    }
    made_.push_back(std::move(weight));
    if (fp8) made_.push_back(std::move(scales));
  }

  const ModelSpec& spec_;
  std::vector<WeightTensor> made_;
};

}  // namespace

std::vector<WeightTensor> weight_tensors(const ModelSpec& spec) { return Builder(spec).build(); }

}  // namespace mortar::files
