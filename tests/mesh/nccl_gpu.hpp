// Members of a group over the installed NCCL, all on one GPU: for tests/gpu.
#pragma once
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mesh/nccl_communicator.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/graph.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace nccl_gpu {

using namespace tessera;
using mesh::Collective;
using runtime::StorageRef;

/// The library, or why there is none. Several ranks on one GPU are an option of NCCL 2.30, read when it is loaded.
inline const mesh::nccl::Library* library(std::string* why) {
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  return mesh::nccl::available(why) ? &mesh::nccl::installed_library() : nullptr;
}
inline constexpr int kSeveralRanksVersion = 23000;

/// Calls f(rank) in one thread for each; the first error, or "ok".
inline std::string in_threads(int ranks, const std::function<void(int)>& f) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks), "ok");
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        f(r);
      } catch (const std::exception& error) { errors[static_cast<std::size_t>(r)] = error.what(); }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) {
    if (error != "ok") return error;
  }
  return "ok";
}

template <class T>
StorageRef make(Device device, const std::vector<T>& values) {
  auto storage = runtime::Storage::allocate(device, values.size() * sizeof(T));
  storage->wait_unused();
  device.backend().copy(storage->data(), values.data(), storage->bytes());
  return storage;
}
template <class T>
std::vector<T> read(const StorageRef& storage) {
  std::vector<T> values(storage->bytes() / sizeof(T));
  storage->wait_written();
  storage->device().backend().copy(values.data(), storage->data(), storage->bytes());
  return values;
}

/// Small integers, whose sums are exact in every type.
template <class T>
std::vector<T> values_of(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = T(static_cast<float>((static_cast<int>(i) * 7 + rank * 3) % 16));
  return values;
}
template <class T>
std::vector<T> sums(int ranks, std::size_t count) {
  std::vector<T> all(count, T(0.0F));
  for (int r = 0; r < ranks; ++r) {
    const std::vector<T> values = values_of<T>(r, count);
    for (std::size_t i = 0; i < count; ++i) all[i] = T(static_cast<float>(all[i]) + static_cast<float>(values[i]));
  }
  return all;
}

struct Member {
  Stream stream;
  std::shared_ptr<mesh::Communicator> communicator;

  void call(Collective kind, ElementType element, std::size_t count, StorageRef in, StorageRef out, int peer = 0,
            const Stream* on = nullptr) const {
    const std::vector<mesh::RankOperands> operands{{on != nullptr ? *on : stream, std::move(in), 0, std::move(out), 0}};
    mesh::CollectiveCall call;
    call.kind = kind;
    call.element = element;
    call.count = static_cast<std::int64_t>(count);
    call.peer = peer;
    call.label = mesh::text_of(kind);
    call.ranks = operands;
    communicator->enqueue(call);
  }
};

/// One member for each thread; rank r is on `device` too.
inline Member join(const mesh::nccl::Library& nccl, const mesh::nccl::UniqueId& id, int ranks, int rank, Device device,
                   std::size_t window_bytes) {
  const Stream stream(device);
  const mesh::NcclOptions options{.timeout_ms = 60'000, .window_bytes = window_bytes, .window_of_one_rank = true};
  return {stream, mesh::nccl_communicator(nccl, id, ranks, rank, {&stream, 1}, options)};
}

}  // namespace nccl_gpu
