// Runs over several threads: coverage, atomicity, errors, concurrent launches.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "codegen/cpu/kernel.hpp"

namespace tessera::test {
namespace {

/// out[block] += block + 1, in every element of the block's piece of 16.
std::shared_ptr<const Program> per_block() {
  Kernel k("per_block");
  const Value out = k.pointer(Elem::I32), n = k.arg(k.t(Elem::I64));
  const Value i = k.block();
  const Value view = k.partition(k.tensor(out, {kDynamic}, {1}, {n}), {16});
  Operation* old = k.load(view, {i});
  k.store(k.addi(old->result(), k.spread(k.addi(i, k.i32(1)), {16})), view, {i}, old->result(1));
  return k.compile();
}

TEST(Threads, EveryBlockRunsExactlyOnceForAnyNumberOfThreads) {
  const auto program = per_block();
  for (const int threads : {1, 2, 3, 8, 33}) {
    for (const std::uint32_t blocks : {1U, 2U, 31U, 1000U}) {
      std::vector<std::int32_t> o(blocks * 16, 0);
      const std::uint64_t args[] = {slot(o.data()), slot(static_cast<std::int64_t>(o.size()))};
      RunOptions options;
      options.threads = threads;
      program->run({blocks}, args, options);
      for (std::size_t e = 0; e < o.size(); ++e)
        ASSERT_EQ(o[e], static_cast<std::int32_t>(e / 16 + 1)) << threads << ' ' << blocks;
    }
  }
}

TEST(Threads, AnEmptyGridRunsNothing) {
  std::vector<std::int32_t> o(16, 7);
  const std::uint64_t args[] = {slot(o.data()), slot(16)};
  per_block()->run({0, 1, 1}, args);
  EXPECT_EQ(o, std::vector<std::int32_t>(16, 7));
}

TEST(Threads, AtomicsOfAllBlocksAddUp) {
  Kernel k;
  const Value ints = k.pointer(Elem::I64), floats = k.pointer(Elem::F32);
  const Value bins = k.same(Op::AndI, {k.iota(64), k.i32(7, {64})});
  k.atomic(k.offsets(ints, bins), AtomicMode::Add, k.i64(1, {64}));
  k.atomic(k.offsets(floats, bins), AtomicMode::AddF, k.f32(0.5, {64}));
  const auto program = k.compile();
  std::vector<std::int64_t> i(8);
  std::vector<float> f(8);
  const std::uint64_t args[] = {slot(i.data()), slot(f.data())};
  RunOptions options;
  options.threads = 4;
  program->run({500}, args, options);
  for (int b = 0; b < 8; ++b) {
    EXPECT_EQ(i[static_cast<std::size_t>(b)], 4000);
    EXPECT_EQ(f[static_cast<std::size_t>(b)], 2000.0f);
  }
}

TEST(Threads, OneFailureEndsTheRunAndTheProgramStaysUsable) {
  Kernel k("picky");
  const Value out = k.pointer(Elem::I32), bad = k.arg(k.t(Elem::I32));
  const Value i = k.block();
  const Value fine = k.op(
      Op::CmpI, {i, bad}, k.t(Elem::I1),
      {{AttrName::comparison_predicate, ComparisonPredicate::NotEqual}, {AttrName::signedness, Signedness::Signed}});
  k.at(9).b.create(Op::Assert, {fine}, {}, {{AttrName::message, std::string("bad block")}});
  k.store_ptr(k.offsets(out, i), k.i32(1));
  const auto program = k.compile();
  RunOptions options;
  options.threads = 4;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::int32_t> o(2000);
    const std::uint64_t failing[] = {slot(o.data()), slot(100 + round)};
    const std::string text = message_of<DeviceError>([&] { program->run({2000}, failing, options); });
    ASSERT_NE(
        text.find("kernel picky: assertion failed in block (" + std::to_string(100 + round) + ", 0, 0): bad block"),
        std::string::npos)
        << text;
    const std::uint64_t passing[] = {slot(o.data()), slot(-1)};
    program->run({2000}, passing, options);
    ASSERT_EQ(o, std::vector<std::int32_t>(2000, 1));
  }
}

TEST(Threads, LaunchesFromSeveralThreadsAtOnce) {
  const auto program = per_block();
  std::vector<std::thread> callers;
  std::vector<int> wrong(6, 0);
  for (std::size_t c = 0; c < wrong.size(); ++c)
    callers.emplace_back([&, c] {
      for (int round = 0; round < 10; ++round) {
        std::vector<std::int32_t> o(200 * 16, 0);
        const std::uint64_t args[] = {slot(o.data()), slot(static_cast<std::int64_t>(o.size()))};
        RunOptions options;
        options.threads = 3;
        program->run({200}, args, options);
        for (std::size_t e = 0; e < o.size(); ++e) wrong[c] += o[e] != static_cast<std::int32_t>(e / 16 + 1);
      }
    });
  for (auto& t : callers) t.join();
  EXPECT_EQ(wrong, std::vector<int>(6, 0));
}

TEST(Threads, ResultsDoNotDependOnTheNumberOfThreads) {
  Kernel k;
  const Value out = k.pointer(Elem::F32), in = k.pointer(Elem::F32);
  const Value i = k.block();
  const Value x = k.load(k.partition(k.tensor(in, {64, 512}, {512, 1}), {1, 512}), {i, k.i32(0)})->result();
  const Value s = k.fold(Op::Reduce, x, 1, k.t(Elem::F32, {1}), FloatAttr{Elem::F32, 0}, Op::AddF);
  k.store(s, k.partition(k.tensor(out, {64}, {1}), {1}), {i});
  const auto program = k.compile();
  std::vector<float> xs(64 * 512), first(64), o(64);
  for (std::size_t e = 0; e < xs.size(); ++e) xs[e] = 1.0f / static_cast<float>(e % 977 + 1);
  for (const int threads : {1, 2, 5}) {
    const std::uint64_t args[] = {slot(o.data()), slot(xs.data())};
    RunOptions options;
    options.threads = threads;
    program->run({64}, args, options);
    if (threads == 1) first = o;
    EXPECT_EQ(std::memcmp(first.data(), o.data(), o.size() * sizeof(float)), 0);
  }
}

}  // namespace
}  // namespace tessera::test
