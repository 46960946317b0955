// The flows and graphs of the API page, as they stand there, with the values that they have to give.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/kernels.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wconsumed"  // it does not see what co_await returns
#endif

namespace THIS_FILE {

using namespace tessera;

struct Layer {
  Tensor<bf16, 2> up, down;
};

Flow<Tensor<bf16, 2>> mlp(Tensor<bf16, 2> h, const Layer& w) {
  auto up = co_await kernels::gemm(h, w.up);
  up = co_await kernels::silu(std::move(up));
  co_return co_await kernels::gemm(up, w.down);
}

Tensor<bf16, 2> values(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  return cast<bf16>(random::normal<f32>({rows, columns}, seed)).sync();
}
Layer make_layer() { return {values(32, 64, 1), values(64, 32, 2)}; }

std::vector<bf16> expected_mlp(const Tensor<bf16, 2>& h, const Layer& layer) {
  auto up = kernels::gemm(h, layer.up).sync();
  up = kernels::silu(std::move(up)).sync();
  return host(kernels::gemm(up, layer.down).sync()).sync();
}

TEST(ApiFlows, BlockingAndAsynchronous) {
  const auto layer = make_layer();
  auto h = values(16, 32, 3), h2 = values(48, 32, 4);
  const auto first = expected_mlp(h, layer), second = expected_mlp(h2, layer);

  auto out = mlp(std::move(h), layer).sync();    // blocking
  auto task = spawn(mlp(std::move(h2), layer));  // asynchronous: task.get(), or co_await it in another flow
  auto out2 = task.get();

  EXPECT_EQ(host(out).sync(), first);
  EXPECT_EQ(host(out2).sync(), second);
}

// A decoder whose next id is the number of the largest score.
struct Model {
  Tensor<f32, 2> table;  // a row for each id
};
struct State {
  Tensor<i32, 1> ids;
  Tensor<f32, 2> sum;
};
struct Output {
  Tensor<i32, 1> ids;
};

template <int N>
void next_id(Mut<i32, 1> id, In<f32, dyn, dyn> scores) {
  id.store(reshape(argmax(scores.tiles(shape<1, N>, pad::neg_inf).load(id.index()[0], 0), axis<1>).index, shape<1>));
}
template <int D>
void accumulate(Mut<f32, 1, D> sum, In<f32, dyn, D> table, In<i32, dyn> ids) {
  sum.store(sum.load() * 0.5f + table.gather(axis<0>, ids.load_like(sum, axes<0>)));
}

Flow<Output> decode(State& state, const Model& model) {
  co_await kernel<accumulate<8>>(mut(state.sum), model.table, state.ids);
  auto ids = co_await kernel<next_id<8>>(empty<i32>(Dims(1)), state.sum);
  co_return Output{std::move(ids)};
}

TEST(ApiFlows, ADecoderAsAGraph) {
  const auto model = Model{random::normal<f32>({8, 8}, 5).sync()};
  const auto table = host(model.table).sync();
  const auto make_state = [] { return State{from(std::vector<i32>{3}, Dims(1)).sync(), zeros<f32>({1, 8}).sync()}; };
  constexpr int n = 12;
  std::vector<i32> expected;  // by plain C++
  std::vector<f32> sum(8, 0.0f);
  std::size_t id = 3;
  for (int i = 0; i < n; ++i) {
    for (std::size_t d = 0; d < 8; ++d) sum[d] = sum[d] * 0.5f + table[id * 8 + d];
    id = static_cast<std::size_t>(std::max_element(sum.begin(), sum.end()) - sum.begin());
    expected.push_back(static_cast<i32>(id));
  }

  auto state = make_state();
  std::vector<i32> next{3}, found;
  auto step = capture(decode, std::move(state), model);  // Graph<Output, State>: owns the state, pins the model
  for (int i = 0; i < n; ++i) {
    const auto id_now = from(next, Dims(1)).sync();
    copy_into(mut(step.input<0>().ids), id_now).sync();  // inputs and outputs are reached through the graph only
    step.replay().sync();
    next = host(step.output().ids).sync();
    found.push_back(next.front());
  }
  EXPECT_EQ(found, expected);

  const std::string picture = testing::TempDir() + "decode-" + std::to_string(getpid()) + ".svg";
  save_graph(step, picture);
  EXPECT_TRUE(std::ifstream(picture).good());
  std::remove(picture.c_str());
  auto [state2, output] = std::move(step).release();  // the graph is retired, its tensors come back
  EXPECT_EQ(host(output.ids).sync().front(), expected.back());
  EXPECT_EQ(host(state2.sum).sync(), sum);
}

}  // namespace THIS_FILE
