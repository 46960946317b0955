// One checked collective of each size class, before anything else is sent: what is wrong between ranks is named here.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/create.hpp"
#include "tessera/host/transfer.hpp"
#include "tessera/mesh/collective.hpp"
#include "tessera/mesh/mesh.hpp"

namespace tessera {
namespace {

/// Bytes of a rank's part. NCCL takes other paths for the smallest messages, through windows up to a MiB, and above.
constexpr std::int64_t kClasses[] = {256, 64 << 10, 4 << 20};

std::int64_t hash_of(std::string_view text) {  // FNV-1a
  std::uint64_t h = 14695981039346656037ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return static_cast<std::int64_t>(h >> 1);
}

/// What each local rank has, on its device.
template <class P>
P placed(const Mesh& mesh, const auto& values_of_rank, SourceLocation where) {
  using T = typename P::element;
  std::vector<Tensor<T, 1>> parts;
  for (int i = 0; i < mesh.local_ranks(); ++i) {
    const int rank = mesh.first_rank() + i;
    const std::vector<T> values = values_of_rank(rank);
    parts.push_back(
        from(values, Dims<1>(static_cast<std::int64_t>(values.size())), where).sync(mesh.stream(rank, where), where));
  }
  return detail::PlacedReach::make<P>(mesh, std::move(parts));
}
template <Element T>
std::vector<T> read(const Mesh& mesh, const Replicated<T, 1>& whole, int rank, SourceLocation where) {
  return host(whole.part(rank, where), where).sync(mesh.stream(rank, where), where);
}

void check_versions(const Mesh& mesh, SourceLocation where) {
  const std::int64_t own = hash_of(TESSERA_VERSION);
  const auto all = all_gather(placed<Sharded<std::int64_t, 1, 0>>(
                                  mesh, [&](int) { return std::vector<std::int64_t>{own}; }, where),
                              where)
                       .sync(mesh.stream(mesh.first_rank(), where), where);
  const std::vector<std::int64_t> found = read(mesh, all, mesh.first_rank(), where);
  for (std::size_t rank = 0; rank < found.size(); ++rank)
    if (found[rank] != own)
      throw MeshError(concat("rank ", rank, " of ", mesh.to_string(), " runs another version of Tessera than rank ",
                             mesh.first_rank(),
                             " (" TESSERA_VERSION
                             "), or its first message has not arrived as it was sent.\n  Start the same program on "
                             "all machines."),
                      where);
}

/// Small whole numbers, whose sums are exact.
f32 value(int rank, std::size_t i) { return static_cast<f32>((i * 7 + static_cast<std::size_t>(rank) * 3) % 16); }

[[noreturn]] void reject(const Mesh& mesh, const char* what, std::int64_t bytes, std::size_t at, f32 expected,
                         f32 found, SourceLocation where) {
  throw MeshError(concat(what, " of ", bytes, " bytes over ", mesh.to_string(), ": expected ", expected, " in element ",
                         at, ", found ", found,
                         ".\n  Data does not arrive as it was sent. Between GPUs of one machine, check peer access "
                         "(nvidia-smi topo -m; NCCL_P2P_DISABLE=1 goes around it); between machines, the interface "
                         "(NCCL_SOCKET_IFNAME, NCCL_IB_HCA)."),
                  where);
}

void check_class(const Mesh& mesh, std::int64_t bytes, SourceLocation where) {
  const auto n = static_cast<std::size_t>(bytes) / sizeof(f32), ranks = static_cast<std::size_t>(mesh.size());
  const auto own = [&](int rank) {
    std::vector<f32> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = value(rank, i);
    return values;
  };
  const Stream stream = mesh.stream(mesh.first_rank(), where);
  const auto gathered = all_gather(placed<Sharded<f32, 1, 0>>(mesh, own, where), where).sync(stream, where);
  const auto sums = all_reduce(placed<Partial<f32, 1>>(mesh, own, where), where).sync(stream, where);
  for (int rank = mesh.first_rank(); rank < mesh.first_rank() + mesh.local_ranks(); ++rank) {
    const std::vector<f32> all = read(mesh, gathered, rank, where), sum = read(mesh, sums, rank, where);
    for (std::size_t i = 0; i < n; ++i) {
      f32 expected = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        const f32 part = value(static_cast<int>(r), i);
        expected += part;
        if (all[r * n + i] != part) reject(mesh, "all_gather", bytes, r * n + i, part, all[r * n + i], where);
      }
      if (sum[i] != expected) reject(mesh, "all_reduce", bytes, i, expected, sum[i], where);
    }
  }
}

}  // namespace

void Mesh::check_links(SourceLocation where) const {
  try {
    check_versions(*this, where);
    for (const std::int64_t bytes : kClasses) check_class(*this, bytes, where);
    check_versions(*this, where);  // none goes on before all have found nothing
  } catch (const Error& error) {
    abort(error.message());  // a member that has found something ends the others, which may wait for it
    throw;
  }
}

}  // namespace tessera
