// From the rows of an architecture's table to the tensors on the device.
#include "files/layout.hpp"

#include <span>

#include "files/json_file.hpp"
#include "files/shard.hpp"
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
  Builder(const ModelSpec& spec, const Ranks& ranks) : spec_(spec), ranks_(ranks) {}

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
    const Shard shard = part_of(spec_, first, ranks_);
    const std::int64_t columns = shard.columns.size();
    const Range experts = first.in_experts() ? shard.experts : Range{0, 1};
    const std::string first_name = module_name(first, layer, 0);
    const bool linear = first.elements == Elements::Linear, fp8 = linear && spec_.is_fp8(first_name);
    WeightTensor weight{
        first.role,     layer, fp8 ? Stored::Fp8 : Stored::Bf16, 0, columns, first.is_vector(), first.in_experts(),
        experts.size(), {}};
    WeightTensor scales{
        first.role,     layer, Stored::Scales, 0, scales_of(shard).columns.size(), false, first.in_experts(),
        experts.size(), {}};
    std::int64_t of_weight = 0, of_scales = 0;  // rows of one expert, and of the experts before it, on one device
    for (const TensorRow& row : rows) {
      of_weight += extent_of(spec_, row.rows);
      of_scales += blocks(extent_of(spec_, row.rows));
    }
    of_weight *= experts.begin, of_scales *= experts.begin;
    for (std::int64_t expert = experts.begin; expert < experts.end; ++expert) {
      for (const TensorRow& row : rows) {
        const std::string name = module_name(row, layer, expert);
        if (linear && spec_.is_fp8(name) != fp8)
          fail("config.json", "quantization_config.modules_to_not_convert",
               concat("both or neither of ", first_name, " and ", name), "one of them");
        const Shard has = part_of(spec_, row, ranks_);
        const std::int64_t n = extent_of(spec_, row.rows), k = extent_of(spec_, row.columns);
        add_part(weight, concat(name, kWeight), has, n, k, of_weight);
        if (fp8) add_part(scales, concat(name, kScales), scales_of(has), blocks(n), blocks(k), of_scales);
      }
    }
    made_.push_back(std::move(weight));
    if (fp8) made_.push_back(std::move(scales));
  }

  /// `whole`: the rows before it in the whole model's tensor, to which its own are added.
  static void add_part(WeightTensor& to, std::string name, const Shard& has, std::int64_t file_rows,
                       std::int64_t file_columns, std::int64_t& whole) {
    to.parts.push_back({std::move(name), has.rows.size(), has.rows.begin, has.columns.begin, file_rows, file_columns,
                        whole + has.rows.begin});
    to.rows += has.rows.size();
    whole += file_rows;
  }

  const ModelSpec& spec_;
  Ranks ranks_;
  std::vector<WeightTensor> made_;
};

}  // namespace

std::vector<WeightTensor> weight_tensors(const ModelSpec& spec, const Ranks& ranks) {
  return Builder(spec, ranks).build();
}

}  // namespace mortar::files
