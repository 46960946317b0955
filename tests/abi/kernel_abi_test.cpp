// The ABI as bytes and back, what names of code depend on, and which ABIs no launch can use.
#include "tessera/abi/kernel_abi.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera {
namespace {

using calling::KernelAbi;

KernelAbi sample() {
  KernelAbi a;
  a.entry = "softmax";
  a.num_args = 7;
  a.watched = {{3, 0, 4}};
  a.launch_flags = true;
  a.checks = {{"m must be positive", {"kernel.cpp", "softmax", 12, 3}}, {"", {}}};
  a.programmatic_launch = true;
  a.early_reads = {5, 0};
  a.early_alone = 1;
  a.pieces = 4;
  a.grid = {true, {1, 8}, {2, std::int64_t{1} << 40}};
  a.persistent_blocks = 264;
  return a;
}

/// Another value of each field. True: a launch passes or means something else with it.
struct Change {
  const char* name;
  bool call;
  std::function<void(KernelAbi&)> apply;
};
std::vector<Change> changes() {
  return {
      {"num_args", true, [](KernelAbi& a) { ++a.num_args; }},
      {"watched", true,
       [](KernelAbi& a) {
         a.watched.push_back({1, 1, 2});
       }},
      {"watched argument", true, [](KernelAbi& a) { a.watched[0].arg = 2; }},
      {"watched access", true, [](KernelAbi& a) { a.watched[0].access = 1; }},
      {"watched element", true, [](KernelAbi& a) { a.watched[0].element_bytes = 2; }},
      {"launch_flags", true, [](KernelAbi& a) { a.launch_flags = false, a.early_reads = {}, a.early_alone = 0; }},
      {"early_reads", true, [](KernelAbi& a) { std::swap(a.early_reads[0], a.early_reads[1]); }},
      {"early_alone", true, [](KernelAbi& a) { a.early_alone = 0; }},
      {"pieces", true, [](KernelAbi& a) { a.pieces = 8; }},
      {"grid", true, [](KernelAbi& a) { a.grid.used = false; }},
      {"grid x", true, [](KernelAbi& a) { a.grid.x.argument = -1; }},
      {"grid y", true, [](KernelAbi& a) { a.grid.y.extent = 1; }},
      {"number of checks", true, [](KernelAbi& a) { a.checks.pop_back(); }},
      {"text of a check", false, [](KernelAbi& a) { a.checks[1].message = "n must be odd"; }},
      {"place of a check", false, [](KernelAbi& a) { a.checks[0].where.line = 13; }},
      {"entry", false, [](KernelAbi& a) { a.entry = "other"; }},
      {"programmatic_launch", false, [](KernelAbi& a) { a.programmatic_launch = false; }},
      {"persistent_blocks", false, [](KernelAbi& a) { a.persistent_blocks = 132; }},
  };
}

std::vector<std::byte> bytes_of(const KernelAbi& a) {
  BytesOut out;
  calling::write(out, a);
  return out.take();
}

/// Texts of locations are compared as pointers by operator==.
bool same(KernelAbi a, KernelAbi b) {
  if (a.checks.size() != b.checks.size()) return false;
  for (std::size_t i = 0; i < a.checks.size(); ++i) {
    if (std::string(a.checks[i].where.file) != b.checks[i].where.file ||
        std::string(a.checks[i].where.function) != b.checks[i].where.function)
      return false;
    a.checks[i].where.file = b.checks[i].where.file;
    a.checks[i].where.function = b.checks[i].where.function;
  }
  return a == b;
}

TEST(KernelAbi, EveryFieldGoesThroughBytes) {
  const auto goes_through = [](const KernelAbi& a) {
    const std::vector<std::byte> bytes = bytes_of(a);
    BytesIn in(bytes);
    KernelAbi read;
    return calling::read(in, read) && in.ended_well() && same(read, a);
  };
  EXPECT_TRUE(goes_through(sample()));
  KernelAbi plain;
  plain.entry = "f";
  EXPECT_TRUE(goes_through(plain));
  for (const Change& c : changes()) {
    KernelAbi a = sample();
    c.apply(a);
    ASSERT_FALSE(same(a, sample())) << c.name;
    EXPECT_NE(bytes_of(a), bytes_of(sample())) << c.name;
    EXPECT_TRUE(goes_through(a)) << c.name;
  }
}

TEST(KernelAbi, ACallIsNamedByWhatALaunchPasses) {
  for (const Change& c : changes()) {
    KernelAbi a = sample();
    c.apply(a);
    EXPECT_EQ(calling::call_bytes(a) != calling::call_bytes(sample()), c.call) << c.name;
  }
}

TEST(KernelAbi, ImplicitArguments) {
  KernelAbi a;
  EXPECT_EQ(calling::implicit_arguments(a), 0u);
  a.launch_flags = true;
  EXPECT_EQ(calling::implicit_arguments(a), 1u);
  a.checks.resize(3);
  EXPECT_EQ(calling::implicit_arguments(a), 2u) << "one error record for all checks";
  a.watched.resize(2);
  EXPECT_EQ(calling::implicit_arguments(a), 4u) << "a shadow for each watched argument";
}

TEST(KernelAbi, WhatNoLaunchCanUse) {
  const std::pair<std::function<void(KernelAbi&)>, const char*> kWrong[] = {
      {[](KernelAbi& a) { a.entry.clear(); }, "expected the name of an entry, found none"},
      {[](KernelAbi& a) { a.num_args = -1; }, "expected 0 to 500 arguments, found -1"},
      {[](KernelAbi& a) { a.num_args = 500; }, "expected 0 to 500 arguments, found 501"},
      {[](KernelAbi& a) { a.watched[0].arg = 7; },
       "expected a watched argument of its 7 arguments, numbered from 0, found argument 7"},
      {[](KernelAbi& a) { a.watched[0].access = -1; },
       "expected an access and a size for each watched argument, found -1 and 4"},
      {[](KernelAbi& a) { a.watched[0].element_bytes = 0; },
       "expected an access and a size for each watched argument, found 0 and 0"},
      {[](KernelAbi& a) { a.early_reads.assign(31, 0); }, "expected at most 30 early reads, found 31"},
      {[](KernelAbi& a) { a.launch_flags = false; }, "expected launch flags for its early reads, found none"},
      {[](KernelAbi& a) { a.early_alone = 3; }, "expected at most its 2 early reads to be read alone, found 3"},
      {[](KernelAbi& a) { a.early_alone = -1; }, "expected at most its 2 early reads to be read alone, found -1"},
      {[](KernelAbi& a) { a.early_reads[1] = 7; },
       "expected early reads of its 7 arguments, numbered from 0, found argument 7"},
      {[](KernelAbi& a) { a.early_reads[1] = -1; },
       "expected early reads of its 7 arguments, numbered from 0, found argument -1"},
      {[](KernelAbi& a) { a.grid.x.argument = -2; },
       "expected an axis of the grid of its 7 arguments, numbered from 0, found argument -2"},
      {[](KernelAbi& a) { a.grid.y.argument = 7; },
       "expected an axis of the grid of its 7 arguments, numbered from 0, found argument 7"},
      {[](KernelAbi& a) { a.grid.y.extent = 0; }, "expected an axis of the grid with an extent of at least 1, found 0"},
      {[](KernelAbi& a) { a.pieces = 0; }, "expected a block of at least 1 piece, found 0"},
      {[](KernelAbi& a) { a.persistent_blocks = 0; }, "expected 1 to 2147483647 blocks that fill the device, found 0"},
  };
  EXPECT_EQ(calling::fault_of(sample()), "");
  for (const auto& [change, fault] : kWrong) {
    KernelAbi a = sample();
    change(a);
    EXPECT_EQ(calling::fault_of(a), fault);
    const std::vector<std::byte> bytes = bytes_of(a);
    BytesIn in(bytes);
    KernelAbi read;
    EXPECT_FALSE(calling::read(in, read)) << fault;
  }
}

/// What is read from any bytes can be launched, and written again it is read as the same.
TEST(KernelAbi, NoBytesAreTooWrong) {
  const std::vector<std::byte> right = bytes_of(sample());
  for (std::size_t size = 0; size < right.size(); ++size) {
    const auto cut = std::span<const std::byte>(right).first(size);
    BytesIn in(cut);
    KernelAbi read;
    EXPECT_FALSE(calling::read(in, read)) << size << " of " << right.size() << " bytes";
  }
  std::mt19937 random(1);
  int read_well = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> wrong = right;
    for (int n = 0; n < 1 + i % 3; ++n) wrong[random() % wrong.size()] = static_cast<std::byte>(random());
    BytesIn in(wrong);
    KernelAbi first, second;
    if (!calling::read(in, first)) continue;
    ++read_well;
    ASSERT_EQ(calling::fault_of(first), "");
    const std::vector<std::byte> again = bytes_of(first);
    BytesIn in_again(again);
    ASSERT_TRUE(calling::read(in_again, second));
    ASSERT_TRUE(same(first, second));
  }
  EXPECT_GT(read_well, 100) << "many changes are of numbers that may have any value";
}

}  // namespace
}  // namespace tessera
