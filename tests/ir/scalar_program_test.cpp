// Scalar programs: what can be taken out of a kernel, what it evaluates to, and what stands in the way of the rest.
#include "tessera/ir/scalar_program.hpp"

#include <gtest/gtest.h>

#include <array>

namespace tessera::ir {
namespace {

struct Kernel {
  Module module;
  Function& f = module.add_function("k");
  Builder b{f.body()};
  Value arg(Elem e) { return f.body().add_arg(Type::tile(e)); }
  Value op(Op op, std::initializer_list<Value> operands, Elem result, std::initializer_list<NamedAttr> attrs = {}) {
    return b.create(op, operands, {Type::tile(result)}, attrs)->result();
  }
};
const NamedAttr kSigned{AttrName::signedness, Signedness::Signed};

TEST(ScalarProgram, EvaluatesConditionsOverArguments) {
  Kernel k;
  const Value n = k.arg(Elem::I64), heads = k.arg(Elem::I32), key_heads = k.arg(Elem::I32);
  const Value dim = k.op(Op::TruncI, {n}, Elem::I32);
  const Value fits = k.op(Op::CmpI, {dim, k.b.constant_int(Elem::I32, 128)}, Elem::I1,
                          {{AttrName::comparison_predicate, ComparisonPredicate::LessEqual}, kSigned});
  const Value rest = k.op(Op::RemI, {heads, key_heads}, Elem::I32, {kSigned});
  const Value whole = k.op(Op::CmpI, {rest, k.b.constant_int(Elem::I32, 0)}, Elem::I1,
                           {{AttrName::comparison_predicate, ComparisonPredicate::Equal}, kSigned});
  std::string why;
  const auto program = ScalarProgram::extract(k.op(Op::AndI, {fits, whole}, Elem::I1), &why);
  ASSERT_TRUE(program) << why;
  EXPECT_TRUE(program->holds(std::array<std::uint64_t, 3>{128, 32, 8}));
  EXPECT_FALSE(program->holds(std::array<std::uint64_t, 3>{129, 32, 8}));
  EXPECT_FALSE(program->holds(std::array<std::uint64_t, 3>{128, 32, 7}));
  // Slots are 8 bytes: what lies above an i32 does not matter.
  EXPECT_TRUE(program->holds(std::array<std::uint64_t, 3>{128, 0xDEAD00000020, 8}));
}

TEST(ScalarProgram, EvaluatesFloatsAndSelects) {
  Kernel k;
  const Value x = k.arg(Elem::F32);
  const Value positive = k.op(Op::CmpF, {x, k.b.constant_float(Elem::F32, 0.0)}, Elem::I1,
                              {{AttrName::comparison_predicate, ComparisonPredicate::Greater},
                               {AttrName::comparison_ordering, ComparisonOrdering::Ordered}});
  const Value chosen =
      k.op(Op::Select, {positive, k.op(Op::MulF, {x, x}, Elem::F32), k.op(Op::NegF, {x}, Elem::F32)}, Elem::F32);
  const auto program = ScalarProgram::extract(chosen);
  ASSERT_TRUE(program);
  EXPECT_EQ(0x41100000u, program->evaluate(std::array<std::uint64_t, 1>{0x40400000u}));  // 3 -> 9
  EXPECT_EQ(0x40000000u, program->evaluate(std::array<std::uint64_t, 1>{0xC0000000u}));  // -2 -> 2
}

TEST(ScalarProgram, MapsShapesOfViewsBackToArguments) {
  Kernel k;
  const Value base = k.f.body().add_arg(Type::tile(Type::pointer(Type::element(Elem::F32)), {}));
  const Value rows = k.arg(Elem::I64), stride = k.arg(Elem::I64);
  const std::array<std::int64_t, 2> shape{kDynamic, 96}, strides{kDynamic, 1};
  const Type tensor = Type::tensor_view(Elem::F32, shape, strides);
  const std::array<std::uint32_t, 3> groups{1, 1, 1};
  const Value view =
      k.b.create_grouped(Op::MakeTensorView, std::array{base, rows, stride}, groups, std::array{tensor})->result();
  const std::array<std::int32_t, 2> tile{32, 64}, order{1, 0};
  const auto count = [&](std::span<const std::int32_t> dim_map, std::uint32_t axis) {
    const Type type = Type::partition_view(tensor, tile, dim_map, std::nullopt);
    const Value partition = k.b.create(Op::MakePartitionView, {view}, {type})->result();
    const Operation* query =
        k.b.create(Op::GetIndexSpaceShape, {partition}, {Type::tile(Elem::I32), Type::tile(Elem::I32)});
    std::string why;
    const auto program = ScalarProgram::extract(query->result(axis), &why);
    EXPECT_TRUE(program) << why;
    return program ? program->evaluate(std::array<std::uint64_t, 3>{0, 100, 96}) : ~std::uint64_t{0};
  };
  EXPECT_EQ(4u, count({}, 0));     // ceil(100 / 32)
  EXPECT_EQ(2u, count({}, 1));     // ceil(96 / 64)
  EXPECT_EQ(3u, count(order, 0));  // ceil(96 / 32): tile axis 0 runs along tensor axis 1
  EXPECT_EQ(2u, count(order, 1));  // ceil(100 / 64)
  const Operation* dims = k.b.create(Op::GetTensorShape, {view}, {Type::tile(Elem::I64), Type::tile(Elem::I64)});
  EXPECT_EQ(100u, ScalarProgram::extract(dims->result(0))->evaluate(std::array<std::uint64_t, 3>{0, 100, 96}));
  EXPECT_EQ(96u, ScalarProgram::extract(dims->result(1))->evaluate(std::array<std::uint64_t, 3>{0, 100, 96}));
}

TEST(ScalarProgram, SaysWhatStandsInTheWay) {
  Kernel k;
  const Type i32 = Type::tile(Elem::I32);
  const Operation* id = k.b.create(Op::GetTileBlockId, {}, {i32, i32, i32});
  std::string why;
  EXPECT_FALSE(ScalarProgram::extract(k.op(Op::AddI, {id->result(0), id->result(1)}, Elem::I32), &why));
  EXPECT_NE(why.find("get_tile_block_id"), std::string::npos) << why;
  why.clear();
  EXPECT_FALSE(ScalarProgram::extract(k.b.constant_int(Elem::I32, 1, std::array<std::int64_t, 1>{8}), &why));
  EXPECT_NE(why.find("not a scalar"), std::string::npos) << why;
}

TEST(ScalarProgram, ReusesRegistersInLongExpressions) {
  Kernel k;
  const Value x = k.arg(Elem::I64);
  Value sum = x;
  for (int i = 1; i <= 1000; ++i) sum = k.op(Op::AddI, {sum, k.b.constant_int(Elem::I64, i)}, Elem::I64);
  const auto program = ScalarProgram::extract(sum);
  ASSERT_TRUE(program);
  EXPECT_EQ(500500u + 7u, program->evaluate(std::array<std::uint64_t, 1>{7}));
  // A value used twice by the last step that needs it.
  const auto square = ScalarProgram::extract(k.op(Op::MulI, {sum, sum}, Elem::I64));
  EXPECT_EQ(std::uint64_t{500507} * 500507, square->evaluate(std::array<std::uint64_t, 1>{7}));
}

}  // namespace
}  // namespace tessera::ir
