// The key of a recording: which layouts of tensors and which options of a launch need their own recording.
#include "host/recorded_kernel.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tessera::detail {
namespace THIS_FILE {

lang::TensorFacts facts_of(std::vector<std::int64_t> dims, std::vector<std::int64_t> strides) {
  RecordingKey key;
  key.tensors[0] = tensor_bits(dims, strides);
  lang::ParamInfo x{};
  x.kind = lang::ParamKind::In;
  x.rank = static_cast<int>(dims.size());
  return specialization(key, {&x, 1}).tensors.at(0);
}

TEST(RecordedKernel, TheUnitAxisIsTheLastOfStrideOneThatHasMoreThanOneElement) {
  EXPECT_EQ(facts_of({4, 8}, {8, 1}).unit_axis, 1);
  EXPECT_EQ(facts_of({4, 8}, {1, 4}).unit_axis, 0);
  EXPECT_EQ(facts_of({4, 1}, {1, 1}).unit_axis, 0) << "along an axis of one element nothing is contiguous";
  EXPECT_EQ(facts_of({1, 4}, {1, 1}).unit_axis, 1);
  EXPECT_EQ(facts_of({1, 1}, {1, 1}).unit_axis, 1) << "there is no better one";
  EXPECT_EQ(facts_of({4, 8}, {16, 2}).unit_axis, -1);
  EXPECT_EQ(facts_of({4, 1}, {1, 1}).unit_dims, 0b10u);
}

TEST(RecordedKernel, EveryOptionIsTold) {
  using lang::Accuracy;
  const std::vector<std::uint32_t> all{flag_bits(false, CheckMode::Off, false, Accuracy::Precise),
                                       flag_bits(true, CheckMode::Off, false, Accuracy::Precise),
                                       flag_bits(false, CheckMode::On, false, Accuracy::Precise),
                                       flag_bits(false, CheckMode::Off, true, Accuracy::Precise),
                                       flag_bits(false, CheckMode::Off, true, Accuracy::Approximate),
                                       flag_bits(false, CheckMode::Off, false, Accuracy::Precise, 1),
                                       flag_bits(false, CheckMode::Off, true, Accuracy::Approximate, 1),
                                       flag_bits(false, CheckMode::Strict, false, Accuracy::Precise)};
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(flag_bits(false, CheckMode::Off, false, Accuracy::Approximate), all[0])
      << "not given, so the build's default";
}

TEST(RecordedKernel, TheAccuracyThatIsGivenIsRecorded) {
  RecordingKey key;
  const auto accuracy = [&](bool given, lang::Accuracy a) {
    key.flags = flag_bits(false, CheckMode::Off, given, a);
    return specialization(key, {}).accuracy;
  };
  EXPECT_EQ(accuracy(true, lang::Accuracy::Approximate), lang::Accuracy::Approximate);
  EXPECT_EQ(accuracy(true, lang::Accuracy::Precise), lang::Accuracy::Precise);
}

}  // namespace THIS_FILE
}  // namespace tessera::detail
