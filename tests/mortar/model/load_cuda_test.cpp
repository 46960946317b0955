// Loading through the CUDA backend on the fake driver: copies from pinned buffers run late, so a buffer that is written
// before its copy has ended would be noticed.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tessera/tessera.hpp>
#include <vector>

#include "mortar/files/model_files.hpp"
#include "mortar/load.hpp"
#include "runtime/cuda_fake_gpu.hpp"

namespace mortar {
namespace THIS_FILE {

namespace fake = tessera::runtime::cuda::fake;

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
std::vector<std::byte> from_files(const Checkpoint& checkpoint, const std::vector<std::string>& names) {
  std::vector<std::byte> all;
  for (const std::string& name : names) {
    const Checkpoint::Entry& entry = *checkpoint.find(name);
    all.resize(all.size() + entry.tensor->bytes);
    entry.file->read(entry.tensor->begin, std::span(all).last(entry.tensor->bytes));
  }
  return all;
}

TEST(MortarLoadCuda, ThroughPinnedBuffers) {
  fake::FakeDriver driver;
  {
    fake::FakeGpu gpu(driver);
    const tessera::Device device = gpu.device();
    const auto folder = test::test_model("moe");
    const ModelSpec model = read_config(folder);
    const Checkpoint checkpoint(folder);
    for (int round = 0; round < 3; ++round) {
      const Weights w = load_weights(model, checkpoint, device, {.progress = {}, .threads = 2});
      const tessera::Stream stream = tessera::Stream::default_of(device);
      EXPECT_EQ(w.layers[1].qkv.values.device(), device);
      const std::string layer = "model.layers.1.";
      EXPECT_EQ(bytes_of(host(w.layers[1].qkv.values).sync(stream)),
                from_files(checkpoint, {layer + "self_attn.q_proj.weight", layer + "self_attn.k_proj.weight",
                                        layer + "self_attn.v_proj.weight"}));
      std::vector<std::string> down;
      for (int e = 0; e < 8; ++e) down.push_back(layer + "mlp.experts." + std::to_string(e) + ".down_proj.weight");
      EXPECT_EQ(bytes_of(host(w.layers[1].experts->down.values).sync(stream)), from_files(checkpoint, down));
    }
    EXPECT_GT(driver.count(fake::Fn::cuMemHostAlloc), 0) << "pinned memory";
  }
  EXPECT_EQ(driver.violation(), "");
  EXPECT_EQ(driver.leaks(), "");
}

}  // namespace THIS_FILE
}  // namespace mortar
