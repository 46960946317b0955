// Running the ranks of a mesh as threads of a test.
#pragma once
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "tessera/mesh/mesh.hpp"

namespace tessera::test {

/// Calls f(mesh) on one thread for each rank; what a thread throws is rethrown for the lowest rank that threw.
inline void on_ranks(std::vector<Mesh> meshes, const std::function<void(const Mesh&)>& f) {
  std::vector<std::exception_ptr> errors(meshes.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < meshes.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        f(meshes[i]);
      } catch (...) { errors[i] = std::current_exception(); }
    });
  for (std::thread& t : threads) t.join();
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);
}

}  // namespace tessera::test
