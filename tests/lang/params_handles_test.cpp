// Handles of parameters belong to their recording and to one kind of access. tests/reject/access.rows tests that a
// kernel cannot create one.
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/lang/lang.hpp"
#include "tessera/lang/trace.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace THIS_FILE {

std::string trace_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const TraceError& e) { return e.what(); }
  return "no error";
}
template <auto K>
std::string trace_error() {
  return trace_error([] { lang::trace<K>(); });
}

// The functions that handles call check the kind again.
TEST(Handles, GiveOnlyTheAccessThatIsDeclared) {
  using lang::ParamKind;
  lang::Recording r(
      "k",
      {{ParamKind::Mut, ElementType::f32, 1, {8}, {}, 0}, {ParamKind::In, ElementType::f32, 1, {lang::kDyn}, {}, 0}},
      {}, {});
  r.begin_body();
  static constexpr int tile[] = {8}, axis[] = {0};
  const SourceLocation here = SourceLocation::current();
  const ir::Value zero = lang::index_constant(0, here);
  const lang::Values first(&zero, 1);
  const auto loads = [&](lang::TensorRef x) {
    return std::vector<std::function<void()>>{
        [=] { (void)lang::load_tile(x, tile, first, {}, here); },
        [=] { (void)lang::load_region(x, tile, first, {}, here); },
        [=] { (void)lang::load_elements(x, first, {}, {}, here); },
        [=, &r] { (void)lang::load_like(x, r.piece(0), axis, lang::Regions::Agree, {}, here); }};
  };
  const std::string kind = "was used as a parameter of another kind";
  for (const auto& f : loads(r.tensor(0)))
    EXPECT_NE(trace_error(f).find("argument 1 (Mut<f32, 8>) " + kind), std::string::npos);
  for (const auto& f : loads(r.tensor(1))) EXPECT_EQ(trace_error(f), "no error");
  for (const int param : {0, 1}) {
    EXPECT_NE(trace_error([&] { lang::begin_tile_loop(r.tensor(param), tile, {}, here); }).find(kind),
              std::string::npos);
    EXPECT_NE(trace_error([&] {
                const ir::Value one = lang::splat({ElementType::f32, 0, nullptr}, 1.0, here);
                lang::accumulate(r.tensor(param), lang::AccOp::Add, true, first, {}, one, here);
              }).find(kind),
              std::string::npos);
  }
}

// Handles that outlive their kernel, or are used by another one.
std::optional<In<f32, dyn>> kept_in;
std::optional<Mut<f32, 8>> kept_mut;
std::optional<MutTiles<f32, 8>> kept_tiles;
std::optional<Piece<f32, 8>> kept_piece;
void keeps(Mut<f32, 8> y, In<f32, dyn> x) {
  kept_in = x;
  kept_mut = y;
  y.store(kept_in->load_like(*kept_mut));  // copies refer to the same tensor
}
void keeps_tiles(MutTiles<f32, 8> c) {
  kept_tiles = c;
  for (auto out : c) {
    kept_piece = out;
    out.store(zeros<f32, 8>());
  }
}
void reads_kept(Mut<f32, 8> y) { y.store(kept_in->load_at(shape<8>, 0)); }
void writes_kept(Mut<f32, 8> y) { kept_mut->store(y.load()); }
void schedules_kept(Mut<f32, 8> y) {
  for (auto out : *kept_tiles) out.store(y.load());
}
void writes_kept_piece(Mut<f32, 8> y) { kept_piece->store(y.load()); }
void after_its_iteration(MutTiles<f32, 8> c) {
  for (auto out : c) kept_piece = out, out.store(zeros<f32, 8>());
  kept_piece->store(zeros<f32, 8>());
}
void in_the_next_loop(MutTiles<f32, 8> c) {
  for (auto out : c) kept_piece = out, out.store(zeros<f32, 8>());
  for (auto out : c) kept_piece->store(out.load());
}
void a_copy_looped_over_inside(MutTiles<f32, 8> c) {
  auto same = c;
  for (auto out : c)
    for (auto again : same) again.store(out.load());
}
void a_copy_looped_over_afterwards(MutTiles<f32, 8> c) {
  auto same = c;
  for (auto out : c) out.store(zeros<f32, 8>());
  for (auto out : same) out.store(out.load() + 1.0f);
}

TEST(Handles, LiveInTheirRecording) {
  EXPECT_EQ(trace_error<keeps>(), "no error");
  EXPECT_EQ(trace_error<keeps_tiles>(), "no error");
  const std::string other = "in another kernel than its own";
  EXPECT_NE(trace_error<reads_kept>().find(other), std::string::npos);
  EXPECT_NE(trace_error<writes_kept>().find(other), std::string::npos);
  EXPECT_NE(trace_error<schedules_kept>().find(other), std::string::npos);
  EXPECT_NE(trace_error<writes_kept_piece>().find(other), std::string::npos);
  EXPECT_NE(trace_error([] { (void)kept_in->dim(0); }).find("outside a kernel"), std::string::npos);
  for (auto& f : {&trace_error<after_its_iteration>, &trace_error<in_the_next_loop>})
    EXPECT_NE(f().find("after its end"), std::string::npos);
  EXPECT_NE(trace_error<a_copy_looped_over_inside>().find("runs inside another loop"), std::string::npos);
  EXPECT_EQ(trace_error<a_copy_looped_over_afterwards>(), "no error");
}

void on_another_thread(Mut<f32, 8> y, In<f32, dyn> x) {
  std::string found;
  std::thread([&] { found = trace_error([&] { (void)x.load_at(shape<8>, 0); }); }).join();
  EXPECT_NE(found.find("outside a kernel"), std::string::npos) << found;
  y.store(x.load_at(shape<8>, 0));
}
TEST(Handles, LiveInTheirThread) { EXPECT_EQ(trace_error<on_another_thread>(), "no error"); }

void no_value(Mut<f32, 8> y) { y.store(Tile<f32, 8>(ir::Value{})); }
TEST(Handles, TilesAreCreatedFromValues) {
  EXPECT_NE(trace_error<no_value>().find("created without a value"), std::string::npos);
}

constexpr int kIndexLine = __LINE__ + 2;
void multiplies(Mut<f32, 8> y, Scalar<i32> k) {
  auto [i] = y.index();
  y.store(full<f32, 8>(cast<f32>((i + 1) * k)));
}

TEST(Handles, OperatorsAfterIndexHaveALineOfTheKernel) {
  const lang::Trace trace = lang::trace<multiplies>();
  int seen = 0;
  ir::walk(trace.module->functions[0]->body(), [&](ir::Operation& op) {
    if (op.op() != ir::Op::MulI) return;
    ++seen;
    EXPECT_EQ(op.loc.line, kIndexLine);
  });
  EXPECT_EQ(seen, 1);
}

/// The cache then has the code for all launches of a kernel, wherever they are.
TEST(Handles, TheLineOfTheLaunchIsNotRecorded) {
  const lang::Trace here = lang::trace<multiplies>();
  const lang::Trace there = lang::trace<multiplies>({}, SourceLocation{"other.cpp", "elsewhere", 7, 0});
  EXPECT_EQ(ir::write_bytecode(*here.module), ir::write_bytecode(*there.module));
  EXPECT_EQ(here.module->functions[0]->loc.line, kIndexLine);
}

}  // namespace THIS_FILE
}  // namespace tessera
