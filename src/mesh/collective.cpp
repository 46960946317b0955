// The untyped part of the collectives' operations.
#include "tessera/mesh/collective.hpp"

#include "mesh/mesh_state.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/mesh/launch.hpp"

namespace tessera::detail {

void throw_empty_placed(const char* what, SourceLocation where) {
  throw BorrowError(concat("this ", what,
                           " is empty: it was never assigned, or it was moved or given to an operation.\n  Assign the "
                           "operation's result, and use that."),
                    where);
}

void throw_not_made_by_ranks(SourceLocation where) {
  throw BorrowError(
      "a launch over a mesh takes an operation as an operand only if each rank makes its part alone (empty_like, "
      "zeros, "
      "empty, partial_zeros); this one needs the other ranks.\n  Run it first, and pass its result: .sync(), or "
      "co_await in a flow.",
      where);
}

void scale_extent(std::span<std::int64_t> dims, int axis, const Mesh& mesh) noexcept {
  dims[static_cast<std::size_t>(axis)] *= mesh.size();
}

PartOperands::PartOperands(std::span<const ArgRef> parts, int rank, const char* what, SourceLocation where)
    : operands_(new ReadOperand[parts.size()]), size_(parts.size()) {
  for (std::size_t i = 0; i < size_; ++i) operands_[i].bind(parts[i], rank, what, where);
}

void PartOperands::release() noexcept {
  for (std::size_t i = 0; i < size_; ++i) {
    operands_[i].lease.release();
    operands_[i].storage.reset();
  }
}

void check_rank(int rank, const Mesh& mesh, const char* what, SourceLocation where) {
  if (rank >= 0 && rank < mesh.size()) return;
  throw ShapeError(concat(what, ": there is no rank ", rank, " in a mesh of ", mesh.to_string(),
                          ".\n  Ranks count from 0 to ", mesh.size() - 1, "."),
                   where);
}

std::vector<Stream> streams_of_ranks(const Mesh& mesh, const Stream& given, SourceLocation where) {
  std::vector<Stream> all;
  for (int i = 0; i < mesh.local_ranks(); ++i) all.push_back(stream_of_rank(mesh, i, given, where));
  return all;
}

namespace {
std::size_t byte_offset(const LayoutRef& l) noexcept {
  return static_cast<std::size_t>(l.offset) * static_cast<std::size_t>(size_of(l.element));
}
}  // namespace

void enqueue_collective(const Mesh& mesh, mesh::Collective kind, ElementType element, std::int64_t count, int peer,
                        std::span<const Stream> streams, std::span<const CollectiveOperands> ranks, const char* label,
                        SourceLocation where) {
  std::vector<mesh::RankOperands> operands;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    mesh::RankOperands o{streams[i], {}, 0, {}, 0};
    if (i < ranks.size() && ranks[i].in.storage) o.in = *ranks[i].in.storage, o.in_offset = byte_offset(ranks[i].in);
    if (i < ranks.size() && ranks[i].out.storage)
      o.out = *ranks[i].out.storage, o.out_offset = byte_offset(ranks[i].out);
    operands.push_back(std::move(o));
  }
  mesh.state().communicator().enqueue({kind, element, count, peer, operands, label, where});
}

void BarrierNode::run(const Stream& stream) {
  const auto streams = streams_of_ranks(mesh_, stream, where_);
  enqueue_collective(mesh_, mesh::Collective::Barrier, ElementType::u8, 0, 0, streams, {}, label_, where_);
}

}  // namespace tessera::detail
