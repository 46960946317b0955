// The host programs of API.md section 2, and the rules of section 4 that they rely on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <tessera/tessera.hpp>
#include <vector>

#include "api/kernels.hpp"
#include "api/reference.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace api_kernels;

TEST(ApiHost, TheFirstProgram) {
  auto x = ones<f32>({1024}).sync();
  auto y = zeros<f32>({1024}).sync();
  y = kernel<saxpy<128>>(std::move(y), 2.0f, x).sync();  // give: ownership in, ownership out; grid 8 inferred
  kernel<saxpy<128>>(mut(y), 3.0f, x).sync();            // lend: exclusive while the operation needs it
  testing::internal::CaptureStdout();
  print(y);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "Tensor<f32, 1> [1024] on " + default_device().name() + "\n[5., 5., 5., ..., 5., 5., 5.]\n");
}

TEST(ApiHost, TheHostSection) {
  const auto folder = std::filesystem::temp_directory_path() / ("tessera_api_host_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  save_npy("input.npy", random::uniform<f32>({30, 20}, 5));

  Tensor<f32, 2> x =
      random::normal<f32>({4096, 1024}, /*seed*/ 1).sync();  // zeros, ones, full, arange, empty, random::uniform
  Tensor<bf16, 2> b = cast<bf16>(x).sync();
  auto img = load_npy<f32, 2>("input.npy").sync();
  save_npy("out.npy", img);  // checked: rank, type, order, size
  std::vector<f32> h = host(x).sync();
  auto t = from(std::span(h), {4096, 1024}).sync();
  auto v = x.view().slice<0>(0, 128).permute<1, 0>();  // views share and keep the storage alive
  testing::internal::CaptureStdout();
  print(x);  // shape, type, device, summarised values
  const std::string head = "Tensor<f32, 2> [4096, 1024] on " + default_device().name() + "\n[[";
  EXPECT_EQ(testing::internal::GetCapturedStdout().substr(0, head.size()), head);

  EXPECT_EQ(host(t).sync(), h);
  EXPECT_EQ(host(load_npy<f32, 2>("out.npy")).sync(), host(img).sync());
  EXPECT_EQ(v.dims(), (Dims{1024, 128}));
  EXPECT_EQ(host(v).sync()[1], h[1024]);

  auto y = kernel<softmax<1024>>(empty_like(b), b).sync();  // a fresh output
  const auto fresh = doubles(y);
  y = kernel<softmax<1024>>(std::move(y), b).sync();  // give: ownership in, ownership out
  kernel<softmax<1024>>(mut(y), b).sync();            // lend: exclusive until enqueued
  EXPECT_EQ(doubles(y), fresh);
  auto w = ones<bf16>({1024}).sync();
  auto [n, r] = kernel<add_rms_norm<1024>>(empty_like(b), std::move(y), b, w, 1e-6f).sync();
  EXPECT_EQ(n.dims(), b.dims());
  EXPECT_NEAR(doubles(r)[5], doubles(b)[5] + fresh[5], 0.02);

  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
}

TEST(ApiHost, InFlight) {
  auto x = arange<f32>(1000).sync();
  auto y = zeros<f32>({1000}).sync(), z = zeros<f32>({1000}).sync();
  Stream a, b;
  y = kernel<saxpy<128>>(std::move(y), 2.0f, x).on(a);  // enqueued; y can be used at once
  z = kernel<saxpy<128>>(std::move(z), 3.0f, y).on(b);  // waits on the device for what it reads, nothing else
  EXPECT_EQ(host(z).sync()[999], 6.0f * 999);

  auto [p, q] = all(kernel<saxpy<128>>(std::move(y), 2.0f, x), kernel<saxpy<128>>(std::move(z), 2.0f, x)).sync();
  EXPECT_EQ(host(p).sync()[10], 40.0f);
  EXPECT_EQ(host(q).sync()[10], 80.0f);
}

TEST(ApiHost, OrderIsInsertedBetweenStreams) {
  Stream a, b;
  auto y = zeros<f32>({100000}).sync();
  const auto x = ones<f32>({100000}).sync();
  for (int round = 0; round < 50; ++round) y = kernel<saxpy<128>>(std::move(y), 1.0f, x).on(round % 2 ? a : b);
  EXPECT_EQ(host(y).sync(), std::vector<f32>(100000, 50.0f));
}

TEST(ApiHost, OperationsAreOperands) {
  const auto y = kernel<saxpy<128>>(zeros<f32>({300}), 2.0f, arange<f32>(300)).sync();
  EXPECT_EQ(host(y).sync()[299], 598.0f);
  auto made = kernel<saxpy<128>>(zeros<f32>({300}), 2.0f, ones<f32>({300}));  // extents are known before it runs
  const auto z = kernel<saxpy<128>>(std::move(made), 1.0f, cast<f32>(arange<i32>(300))).sync();
  EXPECT_EQ(host(z).sync()[299], 301.0f);
  auto late = zeros<f32>({300}).then([](Tensor<f32, 1> t) { return copy_into(std::move(t), ones<f32>({300})); });
  EXPECT_EQ(host(kernel<saxpy<128>>(std::move(late), 1.0f, ones<f32>({300}))).sync(), std::vector<f32>(300, 2.0f));
}

TEST(ApiHost, SharedViewsAndPermutedOperands) {
  const auto shared = share(arange<f32>({4, 6}).sync());
  const auto y = kernel<blur<4, 4>>(zeros<f32>({6, 4}), shared.permute<1, 0>()).sync();
  const auto same = kernel<blur<4, 4>>(zeros<f32>({6, 4}), clone(shared.permute<1, 0>())).sync();
  EXPECT_EQ(host(y).sync(), host(same).sync());
  auto target = zeros<f32>({6, 8}).sync();
  kernel<blur<4, 4>>(mut(target).slice<1>(2, 6), shared.permute<1, 0>()).sync();
  EXPECT_EQ(host(target.slice<1>(2, 6)).sync(), host(same).sync());
  EXPECT_EQ(host(target.slice<1>(0, 2)).sync(), std::vector<f32>(12, 0.0f));
  EXPECT_EQ(host(target.slice<1>(6, 8)).sync(), std::vector<f32>(12, 0.0f));
}

TEST(ApiHost, EmptyTensorsLaunchNothing) {
  auto y = kernel<saxpy<128>>(zeros<f32>({0}), 2.0f, zeros<f32>({0})).sync();
  EXPECT_EQ(y.size(), 0);
  y = kernel<saxpy<128>>(std::move(y), 2.0f, zeros<f32>({1})).sync();  // repeated; its result is not used
  EXPECT_EQ(y.size(), 0);
  EXPECT_THROW((void)kernel<saxpy<128>>(zeros<f32>({0}), 2.0f, zeros<f32>({5})), ShapeError);
  constexpr auto partly = [](Mut<f32, 128> out, In<f32, dyn> in) { out.store(in.load_like(out, partial, pad(3))); };
  const auto z = kernel<partly>(zeros<f32>({5}), zeros<f32>({0})).sync();  // what is outside reads padding
  EXPECT_EQ(host(z).sync(), std::vector<f32>(5, 3.0f));
  auto c = kernel<gemm<f32, 32, 32, 32>>(empty<f32>({3, 3}), zeros<f32>({3, 0}), zeros<f32>({0, 3})).sync();
  EXPECT_EQ(host(c).sync(), std::vector<f32>(9, 0.0f));
}

constexpr auto doubled = [](Mut<i32, 64> y, In<i32, dyn> x) { y.store(x.load_like(y) * 2); };

TEST(ApiHost, LambdasAreKernels) {
  const auto y = kernel<doubled>(empty<i32>({100}), arange<i32>(100)).sync();
  EXPECT_EQ(host(y).sync()[99], 198);
  const auto z =
      kernel<[](Mut<i32, 64> y, In<i32, dyn> x) { y.store(x.load_like(y) + 1); }>(empty<i32>({3}), arange<i32>(3))
          .sync();
  EXPECT_EQ(host(z).sync(), (std::vector<i32>{1, 2, 3}));
}

TEST(ApiHost, OptionsCompose) {
  auto counts = zeros<i32>({4}).sync();
  const auto x = from(std::vector<i32>{0, 1, 1, 3, 3, 3}, {6}).sync();
  kernel<histogram<4>>.blocks(2).on_device(default_device())(mut(counts), x).sync();
  EXPECT_EQ(host(counts).sync(), (std::vector<i32>{1, 2, 0, 3}));
  kernel<histogram<4>>.blocks(0)(mut(counts), x).sync();
  EXPECT_EQ(host(counts).sync(), (std::vector<i32>{1, 2, 0, 3}));
  const auto b = cast<bf16>(random::normal<f32>({4, 100}, 1)).sync();
  const auto precise = doubles(kernel<softmax<128>>.precise()(empty_like(b), b)),
             fast = doubles(kernel<softmax<128>>(empty_like(b), b));
  expect_matrix(fast, precise, 0x1p-8);
}

void use_address(Mut<f32, 4> y, unsafe_::Ptr<f32> p) { y.store(unsafe_::load(p + iota<i32, 4>(axis<0>))); }

TEST(ApiHost, UnsafeAddresses) {
  const auto x = arange<f32>(4).sync();
  const auto y = kernel<use_address>(empty<f32>({4}), unsafe_::address(x)).sync();
  EXPECT_EQ(host(y).sync(), (std::vector<f32>{0, 1, 2, 3}));
}

}  // namespace THIS_FILE
