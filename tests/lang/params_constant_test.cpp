// Constant parameters in a recording: they are not arguments of the entry; their values are part of the recording.
#include <gtest/gtest.h>

#include "lang/core_support.hpp"
#include "tessera/lang/difference.hpp"

namespace tessera {
namespace THIS_FILE {

enum class Mode : std::uint16_t { Plain, Doubled = 7 };

std::uint32_t load_line = 0;
void chosen(Mut<f32, 8> y, Constant<Mode> mode, Scalar<f32> a, const Constant<f32> c, In<f32, dyn> x) {
  load_line = __LINE__ + 1;
  auto t = x.load_like(y) * c + a;
  if (mode == Mode::Doubled) t = t * 2.0f;
  y.store(t);
}

lang::Specialization with(Mode mode, float c) {
  lang::Specialization s;
  s.constants = {static_cast<std::uint64_t>(mode), std::bit_cast<std::uint32_t>(c)};
  return s;
}

TEST(ConstantParameter, IsNoArgumentOfTheEntry) {
  const lang::Trace t = lang::trace<chosen>(with(Mode::Plain, 1.5f));
  ASSERT_EQ(t.params.size(), 5u);
  EXPECT_EQ(t.params[1].spelling, "Constant<Mode>");
  EXPECT_EQ(t.params[3].spelling, "Constant<f32>");
  EXPECT_EQ(t.params[1].first_arg, 0) << "the first constant";
  EXPECT_EQ(t.params[3].first_arg, 1);
  EXPECT_EQ(t.params[2].first_arg, 3) << "after y's pointer, extent and stride";
  EXPECT_EQ(t.params[4].first_arg, 4);
  EXPECT_EQ(t.module->functions[0]->body().num_args(), 7u);
  EXPECT_FALSE(t.params[1].is_tensor());
  EXPECT_EQ(t.params[1].num_args(), 0);
  EXPECT_EQ(lang::constants_text(t.params, with(Mode::Doubled, -1.5f).constants), "7, -1.5");
}

TEST(ConstantParameter, IsWhatTheSpecializationSays) {
  const auto text = [](const lang::Specialization& s) {
    return ir::print(*lang::trace<chosen>(s).module->functions[0]);
  };
  EXPECT_EQ(test::count(text(with(Mode::Plain, 1.5f)), "mulf"), 1);
  EXPECT_EQ(test::count(text(with(Mode::Doubled, 1.5f)), "mulf"), 2);
  EXPECT_EQ(test::count(text({}), "mulf"), 1) << "zero where nothing is said";
  EXPECT_NE(text(with(Mode::Plain, 1.5f)), text(with(Mode::Plain, 2.5f)));
  EXPECT_EQ(text(with(Mode::Plain, 1.5f)), text(with(Mode::Plain, 1.5f)));
}

std::optional<lang::Difference> difference(const lang::Trace& a, const lang::Trace& b) {
  return lang::first_difference(*a.module, a, b);
}

TEST(RecordingDifference, IsTheFirstPlace) {
  const lang::Trace plain = lang::trace<chosen>(with(Mode::Plain, 1.5f));
  const lang::Trace other = lang::trace<chosen>(with(Mode::Plain, 2.5f));
  const lang::Trace doubled = lang::trace<chosen>(with(Mode::Doubled, 1.5f));
  EXPECT_FALSE(difference(plain, lang::trace<chosen>(with(Mode::Plain, 1.5f))));
  const auto value = difference(plain, other);
  ASSERT_TRUE(value);
  EXPECT_EQ(value->before.line, load_line) << "of the load: an operator has the line of the nearest call before";
  EXPECT_EQ(value->now.line, load_line);
  const auto more = difference(plain, doubled);
  ASSERT_TRUE(more);
  EXPECT_TRUE(more->now.known());
  EXPECT_TRUE(difference(doubled, plain));
}

int order = 0;
/// The same operations on the same values in another order of operands.
void ordered(Mut<f32, 8> y, Scalar<f32> a, Scalar<f32> b) {
  y.store(full<f32, 8>(0.0f) + (order == 0 ? a - b : b - a));
}
TEST(RecordingDifference, OperandsCount) {
  const lang::Trace before = lang::trace<ordered>();
  EXPECT_FALSE(difference(before, lang::trace<ordered>()));
  order = 1;
  EXPECT_TRUE(difference(before, lang::trace<ordered>()));
}

}  // namespace THIS_FILE
}  // namespace tessera
