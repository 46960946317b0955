// Where the parts of a step are in its array, and what they hold.
#include "engine/packed_step.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace mortar {

using namespace tessera;

namespace {

/// Parts begin at multiples of 128 bytes.
constexpr std::int64_t kAlign = 32;

struct Layout {
  std::int64_t ids, positions, slots, lengths, table, tile_rows, tile_positions, last, options, end;
};
Layout layout_of(const StepShape& s) {
  Layout at{};
  std::int64_t next = kIdsBegin;
  const auto place = [&](std::int64_t& part, std::int64_t size) {
    part = next;
    next += ceil_div(std::max<std::int64_t>(size, 1), kAlign) * kAlign;
  };
  place(at.ids, s.tokens);
  place(at.positions, s.tokens);
  place(at.slots, s.tokens);
  place(at.lengths, s.rows);
  place(at.table, s.rows * s.pages);
  place(at.tile_rows, s.tiles);
  place(at.tile_positions, s.tiles);
  place(at.last, s.wanted);
  place(at.options, s.wanted * kSamplingFields);
  at.end = next;
  return at;
}

std::int64_t to_power_of_two(std::int64_t n, std::int64_t least = 1) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(n, least))));
}
std::int64_t to_multiple(std::int64_t n, std::int64_t of) { return ceil_div(n, of) * of; }

/// The extents of a step with `tokens` of prompts.
void round_up(StepShape& s, std::int64_t tokens, int rounding) {
  const auto few = [&](std::int64_t n) { return n < rounding ? to_power_of_two(n) : to_multiple(n, rounding); };
  s.rows = to_multiple(s.prompts, rounding) + to_multiple(s.answers, rounding);
  // A single token, or a few, are computed by kernels of their own.
  tokens = s.answers == 0 ? few(tokens) : to_multiple(tokens, rounding);
  s.answers = to_multiple(s.answers, rounding);
  s.tokens = tokens + s.answers;
  if (s.wanted > 0) s.wanted = few(s.wanted);
  s.pages = to_power_of_two(s.pages, kLeastPages);
}

}  // namespace

StepShape shape_of(std::span<const RowPlan> rows, std::size_t prompts, int query_tile, int rounding) {
  StepShape s;
  s.query_tile = query_tile;
  s.prompts = static_cast<std::int64_t>(prompts);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    s.pages = std::max(s.pages, static_cast<std::int64_t>(rows[r].pages.size()));
    s.wanted += rows[r].wants_token ? 1 : 0;
    if (r >= prompts) continue;
    s.prompt_pages = std::max(s.prompt_pages, to_power_of_two(std::ssize(rows[r].pages)));
    // A tile of queries belongs to one sequence: the next one begins at the next tile.
    s.tokens = ceil_div(s.tokens, std::int64_t{query_tile}) * query_tile + std::ssize(rows[r].ids);
  }
  s.tiles = ceil_div(s.tokens, std::int64_t{query_tile});
  s.rows = std::ssize(rows);
  s.answers = s.rows - s.prompts;
  if (prompts == 0) {
    s.rows = s.tokens = s.answers = s.wanted = to_power_of_two(s.rows);
    s.pages = to_power_of_two(s.pages, kLeastPages);
  } else if (rounding > 1) {
    round_up(s, s.tokens, rounding);
  } else {
    s.tokens += s.answers;
  }
  return s;
}

PackedStep::PackedStep(std::span<const RowPlan> rows, const StepShape& shape)
    : data_(static_cast<std::size_t>(packed_size(shape))) {
  const Layout at = layout_of(shape);
  const auto part = [&](std::int64_t begin) { return data_.begin() + begin; };
  std::fill_n(part(at.slots), shape.tokens, -1);
  for (std::int64_t i = 0; i < shape.wanted; ++i) {
    *part(at.options + i * kSamplingFields + kSlot) = -1;
    *part(at.options + i * kSamplingFields + kMask) = -1;
  }
  const std::int64_t tile = shape.query_tile;
  std::int64_t token = 0, wanted = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const RowPlan& row = rows[r];
    const auto n = std::ssize(row.ids), place = static_cast<std::int64_t>(r);
    const bool prompt = place < shape.prompts;
    const std::int64_t index = prompt ? place : shape.prompt_rows() + place - shape.prompts;
    if (place == shape.prompts) token = shape.first_answer();
    if (prompt) {
      token = ceil_div(token, tile) * tile;
      for (std::int64_t i = 0; i < n; i += tile) {
        *part(at.tile_rows + (token + i) / tile) = static_cast<i32>(index);
        *part(at.tile_positions + (token + i) / tile) = static_cast<i32>(row.first + i);
      }
    }
    row.ids.copy_to(part(at.ids + token));
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t position = row.first + i;
      *part(at.positions + token + i) = static_cast<i32>(position);
      if (row.stored) continue;  // its slot stays -1: nowhere
      *part(at.slots + token + i) =
          row.pages[static_cast<std::size_t>(position / kPage)] * kPage + static_cast<i32>(position % kPage);
    }
    *part(at.lengths + index) = static_cast<i32>(row.first + n);
    std::copy(row.pages.begin(), row.pages.end(), part(at.table + index * shape.pages));
    token += n;
    if (row.wants_token) {
      *part(at.last + wanted) = static_cast<i32>(token - 1);
      std::copy(row.sampling.begin(), row.sampling.end(), part(at.options + wanted * kSamplingFields));
      ++wanted;
    }
  }
}

std::int64_t packed_size(const StepShape& shape) { return layout_of(shape).end; }

StepViews views_of(const Tensor<i32, 1>& data, const StepShape& shape) {
  const Layout at = layout_of(shape);
  const auto line = [&](std::int64_t begin, std::int64_t n) { return data.slice<0>(begin, begin + n); };
  StepViews v;
  v.step.ids = line(at.ids, shape.tokens);
  v.step.positions = line(at.positions, shape.tokens);
  v.step.slots = line(at.slots, shape.tokens);
  v.step.lengths = line(at.lengths, shape.rows);
  v.step.table = line(at.table, shape.rows * shape.pages).reshape({shape.rows, shape.pages});
  v.step.answers = shape.answers;
  v.step.query_tile = shape.query_tile;
  v.step.prompts = shape.prompts;
  v.step.prompt_pages = shape.prompt_pages;
  v.step.tile_rows = line(at.tile_rows, shape.tiles);
  v.step.tile_positions = line(at.tile_positions, shape.tiles);
  v.last = line(at.last, shape.wanted);
  v.options = line(at.options, shape.wanted * kSamplingFields).reshape({shape.wanted, std::int64_t{kSamplingFields}});
  return v;
}

}  // namespace mortar
