// Recording kernels: every kernel of the API page gives verified IR; order tokens, guards, specialization, labels,
// errors.
#include <algorithm>
#include <string>

#include "api/kernels.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/lang/trace.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace THIS_FILE {

using namespace api_kernels;

std::string problems(const ir::Module& module) {
  std::string text;
  for (const auto& d : ir::verify(module)) text += d.message + "\n";
  return text.empty() ? text : text + ir::print(module);
}

int count(const ir::Module& m, ir::Op op) {
  int n = 0;
  ir::walk(m.functions[0]->body(), [&](ir::Operation& o) { n += o.op() == op ? 1 : 0; });
  return n;
}
std::vector<ir::Operation*> all(const ir::Module& m, ir::Op op) {
  std::vector<ir::Operation*> found;
  ir::walk(m.functions[0]->body(), [&](ir::Operation& o) {
    if (o.op() == op) found.push_back(&o);
  });
  return found;
}

/// Whether `token` waits for `origin` through joins, branches and loops.
bool waits_for(ir::Value token, const ir::Operation* origin, int depth = 0) {
  if (!token || depth > 50) return false;
  const ir::Operation* def = token.def();
  if (def == nullptr) {
    // A loop's argument: its initial value, or the value that the body yields.
    ir::Operation* loop = token.argument_block()->parent();
    if (loop == nullptr) return false;
    const auto first = loop->op() == ir::Op::For ? 1U : 0U;
    const auto initial = loop->group("initValues");
    return waits_for(initial[token.index() - first], origin, depth + 1) ||
           waits_for(token.argument_block()->terminator()->operand(token.index() - first), origin, depth + 1);
  }
  if (def == origin) return true;
  if (def->op() == ir::Op::JoinTokens) {
    for (const auto& v : def->operand_values()) {
      if (waits_for(v, origin, depth + 1)) return true;
    }
    return false;
  }
  if (def->num_regions() > 0) {
    for (std::size_t r = 0; r < def->num_regions(); ++r) {
      const ir::Operation* end = def->region(r).terminator();
      if (end->num_operands() > token.index() && waits_for(end->operand(token.index()), origin, depth + 1)) return true;
    }
    return false;
  }
  if (def->info().operand_group("token") >= 0) return waits_for(def->single("token"), origin, depth + 1);
  return false;
}

template <auto K>
void verifies(const char* name, const lang::Specialization& s = {}) {
  const auto t = lang::trace<K>(s);
  EXPECT_EQ(t.name, name);
  EXPECT_EQ(t.module->functions.at(0)->name, name);
  EXPECT_EQ(problems(*t.module), "") << name;
}
template <auto K>
void verifies_specialized(const char* name) {
  verifies<K>(name);
  lang::Specialization s;
  for (const auto& p : lang::kernel_param_infos<K>()) {
    if (p.is_tensor()) s.tensors.push_back({p.rank - 1, 0, (1U << p.rank) - 1});
  }
  verifies<K>(name, s);
  s.wide_grid = true;
  verifies<K>(name, s);
  s.checked = true;
  verifies<K>(name, s);
}

TEST(TraceApi, EveryKernelVerifies) {
  verifies_specialized<saxpy<128>>("saxpy");
  verifies_specialized<softmax<1024>>("softmax");
  verifies_specialized<add_rms_norm<1024>>("add_rms_norm");
  verifies_specialized<logsumexp<256>>("logsumexp");
  verifies_specialized<gemm<f16, 128, 128, 64>>("gemm");
  verifies_specialized<gemm<bf16, 64, 64, 32>>("gemm");
  verifies_specialized<gemm<f32, 64, 64, 32>>("gemm");
  verifies_specialized<attention<128, 64, 64>>("attention");
  verifies_specialized<blur<16, 16>>("blur");
  verifies_specialized<embed<8, 64>>("embed");
  verifies_specialized<dropout<256>>("dropout");
  verifies_specialized<running_product<128>>("running_product");
  verifies_specialized<histogram<1024>>("histogram");
}

TEST(Trace, ParametersAsTheHostSeesThem) {
  const auto t = lang::trace<attention<64, 32, 128>>();
  ASSERT_EQ(t.params.size(), 5U);
  EXPECT_EQ(t.params[0].spelling, "Mut<bf16, 1, 1, 64, 128>");
  EXPECT_EQ(t.params[1].spelling, "In<bf16, dyn, dyn, dyn, 128>");
  EXPECT_EQ(t.params[4].spelling, "Scalar<f32>");
  EXPECT_EQ(t.params[0].first_arg, 0);
  EXPECT_EQ(t.params[1].first_arg, 9);
  EXPECT_EQ(t.params[4].first_arg, 36);
  EXPECT_EQ(t.module->functions[0]->body().num_args(), 37U);
  using P = lang::ParamTraits<In<bf16, dyn, 8>>;
  static_assert(P::kind == lang::ParamKind::In && P::rank == 2 && P::extents[1] == 8);
  static_assert(std::is_same_v<P::element, bf16>);
}

TEST(Trace, RequirementsAreEvaluatedOverSlots) {
  const auto t = lang::trace<softmax<1024>>();
  ASSERT_EQ(t.requirements.size(), 1U);
  EXPECT_EQ(t.requirements[0].message, "a row must fit in one piece");
  EXPECT_GT(t.requirements[0].where.line, 0U);
  std::vector<std::uint64_t> slots(10, 1);
  slots[7] = 1024;  // x.dim(1)
  EXPECT_TRUE(t.requirements[0].condition.holds(slots));
  slots[7] = 1025;
  EXPECT_FALSE(t.requirements[0].condition.holds(slots));
}

void require_load(Mut<i32, 8> y, In<i32, dyn> x) {
  require(max(x.load_like(y)) > 3, "never");
  y.store(y.load());
}
void require_block(Mut<i32, 8> y) {
  auto [i] = y.index();
  require(i < 3, "never");
  y.store(y.load());
}
TEST(Trace, RequireOverDeviceValuesIsAnError) {
  EXPECT_THROW(lang::trace<require_load>(), TraceError);
  try {
    lang::trace<require_block>();
    FAIL();
  } catch (const TraceError& e) {
    EXPECT_NE(std::string(e.what()).find("dimensions, strides, scalar parameters"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("params_trace_test.cpp"), std::string::npos);
  }
}

TEST(Trace, UnitStrideIsStaticInTheView) {
  lang::Specialization s;
  s.tensors = {{0, 0, 0}, {0, 0, 0}};
  const auto t = lang::trace<saxpy<128>>(s);
  const auto views = all(*t.module, ir::Op::MakeTensorView);
  ASSERT_EQ(views.size(), 2U);
  for (auto* v : views) EXPECT_EQ(v->result().type().strides()[0], 1);
  const auto general = lang::trace<saxpy<128>>();
  for (auto* v : all(*general.module, ir::Op::MakeTensorView)) EXPECT_EQ(v->result().type().strides()[0], ir::kDynamic);
}

TEST(Trace, FactsAboutDimensionsRemoveTheBroadcastBranch) {
  lang::Specialization known;
  known.tensors = {{-1, 0, 1}, {-1, 0, 1}};
  EXPECT_EQ(count(*lang::trace<saxpy<128>>().module, ir::Op::LoadPtrTko), 1);
  EXPECT_EQ(count(*lang::trace<saxpy<128>>(known).module, ir::Op::LoadPtrTko), 0);
}

TEST(Trace, CheckedAssertsNameTheParameter) {
  lang::Specialization s;
  s.checked = true;
  const auto t = lang::trace<gemm<f16, 64, 64, 32>>(s);
  const auto asserts = all(*t.module, ir::Op::Assert);
  ASSERT_EQ(asserts.size(), 4U);
  // Compilers evaluate the arguments of mma in different orders: either load may come first.
  int named[2] = {0, 0};
  for (auto* op : asserts) {
    const auto& message = *op->attr(ir::AttrName::message)->as<std::string>();
    named[0] += message.find("argument 2 (In<f16, dyn, dyn>)") != std::string::npos ? 1 : 0;
    named[1] += message.find("argument 3 (In<f16, dyn, dyn>)") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(named[0], 2);
  EXPECT_EQ(named[1], 2);
  EXPECT_EQ(count(*lang::trace<gemm<f16, 64, 64, 32>>().module, ir::Op::Assert), 0);
}

TEST(Trace, AccuracyFollowsTheOutputs) {
  struct Probe {
    static lang::Accuracy of(const lang::Trace& t) {
      for (auto* op : all(*t.module, ir::Op::Exp)) {
        return op->enum_attr<ir::Rounding>(ir::AttrName::rounding_mode, ir::Rounding::Full) == ir::Rounding::Approx
                   ? lang::Accuracy::Approximate
                   : lang::Accuracy::Precise;
      }
      return lang::Accuracy::Precise;
    }
  };
  EXPECT_EQ(Probe::of(lang::trace<softmax<64>>()), lang::Accuracy::Approximate);
  EXPECT_EQ(Probe::of(lang::trace<logsumexp<64>>()), lang::Accuracy::Precise);
  lang::Specialization s;
  s.accuracy_given = true;
  EXPECT_EQ(Probe::of(lang::trace<softmax<64>>(s)), lang::Accuracy::Precise);
}

// ---- order ----------------------------------------------------------------------------------------------------------

void store_load_store(Mut<f32, 8> y) {
  y.store(y.load() + 1.0f);
  y.store(y.load() * 2.0f);
}
TEST(Order, AccessesOfOnePieceAreOrdered) {
  const auto t = lang::trace<store_load_store>();
  const auto loads = all(*t.module, ir::Op::LoadViewTko);
  const auto stores = all(*t.module, ir::Op::StoreViewTko);
  ASSERT_EQ(loads.size(), 2U);
  ASSERT_EQ(stores.size(), 2U);
  EXPECT_TRUE(waits_for(stores[0]->single("token"), loads[0]));
  EXPECT_TRUE(waits_for(loads[1]->single("token"), stores[0]));
  EXPECT_TRUE(waits_for(stores[1]->single("token"), loads[1]));
  EXPECT_TRUE(waits_for(stores[1]->single("token"), stores[0]));
}

void two_loads(Mut<f32, 8> y) {
  auto a = y.load(), b = y.load();
  y.store(a + b);
}
TEST(Order, LoadsDoNotWaitForEachOther) {
  const auto t = lang::trace<two_loads>();
  const auto loads = all(*t.module, ir::Op::LoadViewTko);
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_FALSE(waits_for(loads[1]->single("token"), loads[0]));
  const auto stores = all(*t.module, ir::Op::StoreViewTko);
  EXPECT_TRUE(waits_for(stores[0]->single("token"), loads[0]));
  EXPECT_TRUE(waits_for(stores[0]->single("token"), loads[1]));
}

void in_needs_no_token(Mut<f32, 8> y, In<f32, dyn> x) { y.store(x.tiles(shape<8>).load(0)); }
TEST(Order, SharedTensorsNeedNoToken) {
  const auto t = lang::trace<in_needs_no_token>();
  EXPECT_FALSE(all(*t.module, ir::Op::LoadViewTko).at(0)->single("token"));
}

void store_in_loop(Mut<f32, 8> y, Scalar<i32> n) {
  for (auto i : range(n)) { y.store(y.load() + cast<f32>(i)); }
  y.store(y.load() * 2.0f);
}
TEST(Order, LoopsCarryTheOrder) {
  const auto t = lang::trace<store_in_loop>();
  EXPECT_EQ(problems(*t.module), "");
  const auto loads = all(*t.module, ir::Op::LoadViewTko);
  const auto stores = all(*t.module, ir::Op::StoreViewTko);
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_TRUE(waits_for(loads[0]->single("token"), stores[0]))
      << "the next iteration's load waits for this one's store";
  EXPECT_TRUE(waits_for(loads[1]->single("token"), stores[0])) << "what follows the loop waits for it";
}

void store_in_branch(Mut<f32, 8> y, Scalar<i32> n) {
  tile_if (n > 0) { y.store(zeros<f32, 8>()); }
  y.store(y.load() + 1.0f);
}
TEST(Order, BranchesHandTheOrderOn) {
  const auto t = lang::trace<store_in_branch>();
  EXPECT_EQ(problems(*t.module), "");
  EXPECT_TRUE(waits_for(all(*t.module, ir::Op::LoadViewTko).at(0)->single("token"),
                        all(*t.module, ir::Op::StoreViewTko).at(0)));
}

void loop_twice(MutTiles<f32, 8> c) {
  for (auto out : c) out.store(zeros<f32, 8>());
  for (auto out : c) out.store(out.load() + 1.0f);
}
TEST(Order, ASecondLoopOverTilesFollowsTheFirst) {
  const auto t = lang::trace<loop_twice>();
  EXPECT_EQ(problems(*t.module), "");
  const auto stores = all(*t.module, ir::Op::StoreViewTko);
  const auto loads = all(*t.module, ir::Op::LoadViewTko);
  ASSERT_EQ(stores.size(), 2U);
  EXPECT_TRUE(waits_for(loads[0]->single("token"), stores[0]));
  EXPECT_FALSE(waits_for(stores[0]->single("token"), stores[0])) << "tiles of one loop are independent";
}

// ---- errors ---------------------------------------------------------------------------------------------------------

template <auto K>
std::string trace_error() {
  try {
    lang::trace<K>();
  } catch (const TraceError& e) { return e.what(); }
  return "";
}
#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

void leave_by_break(MutTiles<f32, 8> c) {
  for (auto out : c) {
    out.store(zeros<f32, 8>());
    break;
  }
}
void leave_by_return(MutTiles<f32, 8> c) {
  for (auto out : c) {
    out.store(zeros<f32, 8>());
    return;
  }
}
struct UserError {};
void leave_by_exception(MutTiles<f32, 8> c) {
  for (auto out : c) {
    out.store(zeros<f32, 8>());
    throw UserError{};
  }
}
void nested_tile_loops(MutTiles<f32, 8> c) {
  for (auto out : c) {
    for (auto again : c) again.store(zeros<f32, 8>());
    out.store(zeros<f32, 8>());
  }
}
void other_order(MutTiles<f32, 8, 8> c) {
  for (auto out : c) out.store(zeros<f32, 8, 8>());
  for (auto out : c.column_order()) out.store(out.load() + 1.0f);
}
void empty_group(MutTiles<f32, 8, 8> c) {
  for (auto out : c.grouped(0)) out.store(zeros<f32, 8, 8>());
}
void handle_escapes(MutTiles<f32, 8> c) {
  Piece<f32, 8>* kept = nullptr;
  alignas(Piece<f32, 8>) unsigned char place[sizeof(Piece<f32, 8>)];
  for (auto out : c) kept = new (place) Piece<f32, 8>(out);  // NOLINT(assignment)
  kept->store(zeros<f32, 8>());
}
void huge_index(Mut<f32, 8> y, In<f32, dyn> x) { y.store(x.tiles(shape<8>).load(std::int64_t{1} << 31)); }
void false_check(Mut<f32, 8> y) {
  check(false, "host condition");
  y.store(y.load());
}

TEST(TraceErrors, LeavingALoopOverTiles) {
  EXPECT_CONTAINS(trace_error<leave_by_break>(), "leaves a loop over the tiles");
  EXPECT_CONTAINS(trace_error<leave_by_break>(), "params_trace_test.cpp");
  EXPECT_CONTAINS(trace_error<leave_by_return>(), "leaves a loop over the tiles");
  EXPECT_THROW(lang::trace<leave_by_exception>(), UserError);
  EXPECT_EQ(trace_error<loop_twice>(), "") << "recording works after an abandoned one";
}
TEST(TraceErrors, MisuseOfTiles) {
  EXPECT_CONTAINS(trace_error<nested_tile_loops>(), "inside another loop over the same tiles");
  EXPECT_CONTAINS(trace_error<other_order>(), "the same order");
  EXPECT_CONTAINS(trace_error<empty_group>(), "at least one row");
  EXPECT_NE(trace_error<handle_escapes>(), "");
  EXPECT_CONTAINS(trace_error<huge_index>(), "does not fit");
  EXPECT_CONTAINS(trace_error<false_check>(), "host condition");
}
Mut<f32, 8>* stolen = nullptr;
void keep_parameter(Mut<f32, 8> y) {
  static Mut<f32, 8> copy = y;
  stolen = &copy;
  y.store(y.load());
}
void use_parameter(Mut<f32, 8> y) { stolen->store(y.load()); }
TEST(TraceErrors, ParametersOfAnotherKernel) {
  lang::trace<keep_parameter>();
  EXPECT_CONTAINS(trace_error<use_parameter>(), "another kernel");
  EXPECT_THROW(stolen->load(), TraceError);
}

constexpr auto relu = [](Mut<f32, 16, 16> y, In<f32, dyn, dyn> x) { y.store(max(x.load_like(y), 0.0f)); };
TEST(Trace, LambdasAreKernels) { EXPECT_EQ(problems(*lang::trace<relu>().module), ""); }

void raw_copy(unsafe_::Ptr<f32> to, unsafe_::Ptr<f32> from, Scalar<i32> n) {
  auto [i] = block_id<1>();
  auto at = iota<i32, 64>(axis<0>) + unsafe_::assume(i * 64, unsafe_::div_by(64));
  unsafe_::store(to + at, unsafe_::load(from + at, at < n), at < n);
}
TEST(Trace, RawPointers) { EXPECT_EQ(problems(*lang::trace<raw_copy>().module), ""); }

void first_used_in_a_loop(unsafe_::Ptr<f32> y, Scalar<i32> n) {
  for (auto i : range(n)) {
    unsafe_::store(y + i, unsafe_::load(y + i) + 1.0f);
    print("{}", i);
  }
  unsafe_::store(y + n, unsafe_::load(y));
  print("end");
}
TEST(Trace, RawPointersAndPrintsInALoopAndAfterIt) {
  EXPECT_EQ(problems(*lang::trace<first_used_in_a_loop>().module), "");
}

}  // namespace THIS_FILE
}  // namespace tessera
