// The arrays of a step: rounded extents hold the same rows as exact ones.
#include "engine/packed_step.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "tessera/tessera.hpp"

namespace mortar {
namespace THIS_FILE {

using tessera::i32;

/// Rows of a step, with the tokens and pages that they refer to.
struct Rows {
  std::vector<std::vector<TokenId>> ids;
  std::vector<std::vector<PageId>> pages;
  std::vector<RowPlan> plans;
  std::size_t prompts = 0;
};

Rows random_rows(std::mt19937& random, std::size_t prompts, std::size_t answers) {
  Rows rows;
  rows.prompts = prompts;
  rows.ids.resize(prompts + answers);
  rows.pages.resize(prompts + answers);
  for (std::size_t r = 0; r < prompts + answers; ++r) {
    RowPlan plan;
    plan.first = static_cast<std::int64_t>(random() % 300);
    rows.ids[r].resize(r < prompts ? 1 + random() % 150 : 1);
    for (TokenId& id : rows.ids[r]) id = static_cast<TokenId>(random() % 1000);
    rows.pages[r].resize(static_cast<std::size_t>((plan.first + std::ssize(rows.ids[r]) + kPage - 1) / kPage));
    for (PageId& page : rows.pages[r]) page = static_cast<PageId>(1 + random() % 1000);
    plan.wants_token = r >= prompts || random() % 2 == 0;
    plan.stored = random() % 4 == 0;
    for (std::size_t i = 0; i < plan.sampling.size(); ++i) plan.sampling[i] = static_cast<i32>(random() % 1000);
    plan.ids = rows.ids[r];
    plan.pages = rows.pages[r];
    rows.plans.push_back(plan);
  }
  return rows;
}

/// What the device sees of a step, on the host.
struct Seen {
  StepShape shape;
  std::vector<i32> ids, positions, slots, table, lengths, tile_rows, tile_positions, last, options;
};
Seen seen(const Rows& rows, int query_tile, int rounding) {
  Seen s;
  s.shape = shape_of(rows.plans, rows.prompts, query_tile, rounding);
  const PackedStep packed(rows.plans, s.shape);
  const auto data = tessera::from(std::span(packed.data()), {std::ssize(packed.data())}).sync();
  const StepViews v = views_of(data, s.shape);
  const auto read = [](const auto& view) { return tessera::host(view).sync(); };
  s.ids = read(v.step.ids);
  s.positions = read(v.step.positions);
  s.slots = read(v.step.slots);
  s.table = read(v.step.table);
  s.lengths = read(v.step.lengths);
  if (s.shape.tiles > 0) {
    s.tile_rows = read(v.step.tile_rows);
    s.tile_positions = read(v.step.tile_positions);
  }
  if (s.shape.wanted > 0) {
    s.last = read(v.last);
    s.options = read(v.options);
  }
  return s;
}

/// Checks that each row is where the kernels look for it, and that the rest does nothing.
void expect_holds(const Rows& rows, const Seen& s) {
  const auto at = [](const std::vector<i32>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
  std::vector<bool> used(s.ids.size()), used_rows(s.lengths.size());
  std::int64_t token = 0, wanted = 0;
  for (std::size_t r = 0; r < rows.plans.size(); ++r) {
    const RowPlan& row = rows.plans[r];
    const bool prompt = r < rows.prompts;
    const auto n = std::ssize(row.ids), order = static_cast<std::int64_t>(r);
    const std::int64_t index = prompt ? order : s.shape.prompt_rows() + order - static_cast<std::int64_t>(rows.prompts);
    const std::int64_t tile = s.shape.query_tile;
    token = prompt ? (token + tile - 1) / tile * tile
                   : s.shape.first_answer() + order - static_cast<std::int64_t>(rows.prompts);
    for (std::int64_t i = 0; i < n; ++i) {
      used[static_cast<std::size_t>(token + i)] = true;
      const std::int64_t position = row.first + i;
      EXPECT_EQ(at(s.ids, token + i), row.ids[static_cast<std::size_t>(i)]);
      EXPECT_EQ(at(s.positions, token + i), position);
      const auto page = static_cast<std::size_t>(position / kPage);
      EXPECT_EQ(at(s.slots, token + i), row.stored ? -1 : row.pages[page] * kPage + position % kPage);
      if (!prompt) continue;
      EXPECT_EQ(at(s.tile_rows, (token + i) / tile), index);
      EXPECT_EQ(at(s.tile_positions, (token + i) / tile), row.first + i / tile * tile);
    }
    EXPECT_EQ(at(s.lengths, index), row.first + n);
    used_rows[static_cast<std::size_t>(index)] = true;
    for (std::size_t p = 0; p < row.pages.size(); ++p)
      EXPECT_EQ(at(s.table, index * s.shape.pages + static_cast<std::int64_t>(p)), row.pages[p]);
    token += n;
    if (!row.wants_token) continue;
    EXPECT_EQ(at(s.last, wanted), token - 1);
    for (std::int64_t f = 0; f < kSamplingFields; ++f)
      EXPECT_EQ(at(s.options, wanted * kSamplingFields + f), row.sampling[static_cast<std::size_t>(f)]);
    ++wanted;
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) { EXPECT_EQ(s.slots[i], -1) << "nothing is written for token " << i; }
  }
  for (std::size_t r = 0; r < used_rows.size(); ++r) {
    if (!used_rows[r]) { EXPECT_EQ(s.lengths[r], 0) << "row " << r; }
  }
  for (; wanted < s.shape.wanted; ++wanted) {
    EXPECT_EQ(at(s.options, wanted * kSamplingFields + kSlot), -1) << "no marks are changed";
    EXPECT_EQ(at(s.options, wanted * kSamplingFields + kMask), -1);
    EXPECT_LT(at(s.last, wanted), s.shape.tokens);
  }
}

TEST(PackedStep, HoldsItsRows) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t prompts = random() % 4, answers = prompts == 0 ? 1 + random() % 40 : random() % 40;
    const Rows rows = random_rows(random, prompts, answers);
    for (const int query_tile : {kSmallQueryTile, kQueryTile})
      for (const int rounding : {1, kGpuRounding}) expect_holds(rows, seen(rows, query_tile, rounding));
  }
}

TEST(PackedStep, ExtentsOfStepsWithPromptsAreRoundedUp) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const Rows rows = random_rows(random, 1 + random() % 4, random() % 40);
    const StepShape exact = shape_of(rows.plans, rows.prompts, kQueryTile);
    const StepShape s = shape_of(rows.plans, rows.prompts, kQueryTile, kGpuRounding);
    const auto is_rounded = [](std::int64_t n) {
      return n % kGpuRounding == 0 || (n < kGpuRounding && (n & (n - 1)) == 0);
    };
    EXPECT_TRUE(is_rounded(s.tokens)) << s.tokens;
    EXPECT_TRUE(is_rounded(s.wanted)) << s.wanted;
    EXPECT_EQ(s.answers % kGpuRounding, 0);
    EXPECT_EQ(s.rows % kGpuRounding, 0);
    EXPECT_EQ(s.pages & (s.pages - 1), 0);
    std::size_t most = 1;
    for (std::size_t r = 0; r < static_cast<std::size_t>(s.prompts); ++r) most = std::max(most, rows.pages[r].size());
    EXPECT_EQ(s.prompt_pages, static_cast<std::int64_t>(std::bit_ceil(most)));
    // Never by more than the rounding of each part.
    EXPECT_LT(s.tokens, exact.tokens + 2 * kGpuRounding);
    EXPECT_GE(s.tokens, exact.tokens);
    EXPECT_LT(s.wanted, exact.wanted + kGpuRounding);
    EXPECT_EQ(s.tiles, exact.tiles);
  }
  // A token alone keeps the kernels of one row.
  const Rows one = random_rows(random, 1, 0);
  RowPlan single = one.plans[0];
  single.ids = single.ids.subrange(0, 1);
  EXPECT_EQ(shape_of(std::span(&single, 1), 1, kQueryTile, kGpuRounding).tokens, 1);
}

}  // namespace THIS_FILE
}  // namespace mortar
