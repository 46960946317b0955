// Handles of parameters that a kernel makes by hand out of the names behind its own: they give no access that the
// kernel does not declare.
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/lang/lang.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

lang::TensorRef named(std::uint32_t recording, std::uint32_t number) { return {recording, number}; }

void reads_what_others_write(Mut<f32, 8> y) {
  const In<f32, dyn> x(named(y.ref().recording, 0));
  y.store(x.load_at(shape<8>, 0));
}
void tiles_of_a_mut(Mut<f32, 8> y) {
  const In<f32, dyn> x(named(y.ref().recording, 0));
  y.store(x.tiles(shape<8>).load(0));
}
void region_of_a_mut(Mut<f32, 8> y) {
  const In<f32, dyn> x(named(y.ref().recording, 0));
  y.store(x.load_like(y));
}
void gathers_from_a_mut(Mut<f32, 8> y) {
  const In<f32, dyn> x(named(y.ref().recording, 0));
  y.store(x.gather(iota<i32, 8>(axis<0>)));
}
void writes_an_in(In<f32, dyn>, Mut<f32, 8> y) {
  for (auto piece : MutTiles<f32, 8>(named(y.ref().recording, 0))) piece.store(zeros<f32, 8>());
}
void adds_into_an_in(In<f32, dyn>, Mut<f32, 8> y) { Acc<f32, dyn>(named(y.ref().recording, 0)).add(0, 1.0f); }
void deals_a_mut(Mut<f32, 8> y) {
  for (auto piece : MutTiles<f32, 8>(named(y.ref().recording, 0))) piece.store(zeros<f32, 8>());
}
void no_such_tensor(Mut<f32, 8> y) { y.store(In<f32, dyn>(named(y.ref().recording, 9)).load_at(shape<8>, 0)); }
void no_such_piece(Mut<f32, 8> y) { Mut<f32, 8>(lang::PieceRef{y.ref().recording, 9}).store(zeros<f32, 8>()); }
void no_value(Mut<f32, 8> y) { y.store(Tile<f32, 8>(ir::Value{})); }

void declared(Mut<f32, 8> y, In<f32, dyn> x) {
  const In<f32, dyn> same(named(y.ref().recording, 1));
  y.store(x.load_like(y) + same.load_like(y));
}

template <auto K>
std::string trace_error() {
  try {
    lang::trace<K>();
  } catch (const TraceError& e) { return e.what(); }
  return "no error";
}

TEST(Handles, GiveOnlyTheAccessThatIsDeclared) {
  const std::string kind = "was used as a parameter of another kind";
  EXPECT_NE(trace_error<reads_what_others_write>().find("argument 1 (Mut<f32, 8>) " + kind), std::string::npos);
  EXPECT_NE(trace_error<tiles_of_a_mut>().find(kind), std::string::npos);
  EXPECT_NE(trace_error<region_of_a_mut>().find(kind), std::string::npos);
  EXPECT_NE(trace_error<gathers_from_a_mut>().find(kind), std::string::npos);
  EXPECT_NE(trace_error<writes_an_in>().find("argument 1 (In<f32, dyn>) " + kind), std::string::npos);
  EXPECT_NE(trace_error<adds_into_an_in>().find("argument 1 (In<f32, dyn>) " + kind), std::string::npos);
  EXPECT_NE(trace_error<deals_a_mut>().find(kind), std::string::npos);
  EXPECT_EQ(trace_error<declared>(), "no error");
}

TEST(Handles, NameWhatExists) {
  EXPECT_NE(trace_error<no_such_tensor>().find("no parameter of this kernel"), std::string::npos);
  EXPECT_NE(trace_error<no_such_piece>().find("this kernel does not have"), std::string::npos);
  EXPECT_NE(trace_error<no_value>().find("made of no value"), std::string::npos);
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

}  // namespace
}  // namespace tessera
