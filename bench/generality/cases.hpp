// The table of cases: one function per source file. Every kernel is written as a newcomer writes it from the guide: one
// obvious piece, no hints, nothing of unsafe_.
#pragma once
#include "work.hpp"

namespace generality {

/// A row of the table: a case at its sizes for a GPU and at small ones, separated by semicolons. The first full sizes
/// are the regular ones; the others are two more shapes of comparable work, of which extents are not multiples of
/// tiles. The first small sizes have the divisibility of the first full ones, so that the same specialization is
/// compiled; the others are not divisible.
struct Entry {
  const char* name;
  const char* family;  ///< what the kernel does, in one word: whole families are left out where choices are validated
  const char* full;
  const char* small;
  Plan (*plan)(const Args&);
  Prepared (*prepare)(const Args&);
};

template <Plan (*P)(const Args&)>
constexpr Entry entry(const char* name, const char* family, const char* full, const char* small) {
  return {name, family, full, small, P, [](const Args& args) { return P(args).ready(args).prepared; }};
}

std::vector<Entry> product_entries();
std::vector<Entry> library_product_entries();
std::vector<Entry> attention_entries();
std::vector<Entry> vector_entries();
std::vector<Entry> row_entries();
std::vector<Entry> library_row_entries();
std::vector<Entry> row_loss_entries();
std::vector<Entry> row_gradient_entries();
std::vector<Entry> column_entries();
std::vector<Entry> elementwise_entries();
std::vector<Entry> activation_entries();
std::vector<Entry> number_entries();
std::vector<Entry> training_entries();
std::vector<Entry> move_entries();
std::vector<Entry> lookup_entries();
std::vector<Entry> image_entries();
std::vector<Entry> window_entries();
std::vector<Entry> pool_entries();
std::vector<Entry> shared_entries();
std::vector<Entry> time_entries();
std::vector<Entry> science_entries();
std::vector<Entry> signal_entries();
std::vector<Entry> network_entries();
std::vector<Entry> table_entries();
std::vector<Entry> transformer_entries();
std::vector<Entry> vision_entries();
std::vector<Entry> dataset_entries();
std::vector<Entry> physics_entries();
std::vector<Entry> unpacked_entries();
std::vector<Entry> first_axis_entries();
std::vector<Entry> draw_entries();
std::vector<Entry> axis_scan_entries();
std::vector<Entry> ragged_entries();
std::vector<Entry> system_entries();
std::vector<Entry> filter_entries();
std::vector<Entry> stride_entries();
std::vector<Entry> operand_entries();
std::vector<Entry> uneven_entries();
std::vector<Entry> two_pass_entries();
std::vector<Entry> wide_attention_entries();
std::vector<Entry> attention_gradient_entries();
std::vector<Entry> transcendental_entries();
std::vector<Entry> library_layer_entries();
std::vector<Entry> library_gradient_entries();

}  // namespace generality
