// Misuse of functions that create tensors: with constants, from host values, from random numbers.
#include "misuse/misuse.hpp"

namespace tessera {
namespace {

MISUSE(FullBraced, "full") { c.result(full<i8>({c.extent(3), c.extent(4)}, c.number<i8>(7)).sync()); }
MISUSE(FullDims, "full") { c.result(full<f16>(Dims{2, 3}, c.number<f16>(1.5)).sync()); }
MISUSE(FullUnsigned, "full") { c.result(full<u32>({c.extent(3)}, c.number<u32>(7)).sync()); }
MISUSE(Zeros, "zeros") { c.result(zeros<bf16>({c.extent(3), c.extent(4), c.extent(2)}).sync()); }
MISUSE(ZerosOn, "zeros") { c.result(zeros<f32>({c.extent(3)}).on(c.stream(misuse::Outcome::Either))); }
MISUSE(Ones, "ones") { c.result(ones<bool>({c.extent(3), c.extent(4)}).sync()); }
MISUSE(ArangeBraced, "arange") {
  c.result(arange<i16>({c.extent(3), c.extent(4)}, c.number<i16>(-5), 2).sync());  // sums of integers wrap
}
MISUSE(ArangeCount, "arange") {
  const Extent n = c.extent(5);
  c.result(arange<f32>(n.value, c.number<f32>(2), c.number<f32>(0.5)).sync());
}
MISUSE(Empty, "empty") { c.result(tessera::empty<f64>({c.extent(3), c.extent(4)}).sync().size()); }
MISUSE(EmptyLikeTensor, "empty_like") { c.looks_only(), c.result(empty_like(c.in<f32, 2>({3, 4})).sync().size()); }
MISUSE(EmptyLikeView, "empty_like") { c.looks_only(), c.result(empty_like(c.view<i32, 2>({3, 4})).sync().size()); }
MISUSE(EmptyLikeShared, "empty_like") { c.looks_only(), c.result(empty_like(c.shared<i32, 2>({3, 4})).sync().size()); }
MISUSE(RandomUniform, "random::uniform") { c.result(random::uniform<f32>({c.extent(3), c.extent(4)}, 7).sync()); }
MISUSE(RandomNormal, "random::normal") { c.result(random::normal<f64>({c.extent(5)}, 7).sync()); }

MISUSE(FromVector, "from") {
  const std::vector<f32> values(12, 1.0f);
  c.result(from(values, {c.extent(3), c.extent(4)}).sync());
}
MISUSE(FromBools, "from") {
  const std::vector<bool> values(3, true);
  c.result(from(values, {c.extent(3)}).sync());
}
MISUSE(FromSpan, "from") {
  std::vector<i64> values(12, -1);
  const int chosen = c.other({{"fewer values", misuse::Outcome::Rejected}, {"no values", misuse::Outcome::Rejected}});
  const std::size_t count = chosen < 0 ? 12 : chosen == 0 ? 11 : 0;
  c.result(from(std::span(values).first(count), Dims{3, 4}).sync());
}

}  // namespace
}  // namespace tessera
