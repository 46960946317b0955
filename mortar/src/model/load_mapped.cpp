// Files to the CPU. A tensor whose parts follow each other in one file, aligned for its elements, is used in the mapped
// file; the others (projections that are fused, experts that are stacked) are read into memory by several threads.
#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <optional>
#include <unordered_map>

#include "model/load_paths.hpp"
#include "model/pieces.hpp"
#include "model/place.hpp"
#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/borrow.hpp"

namespace mortar::model {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 22;

/// Where a tensor's elements are, and what keeps them there.
struct Home {
  std::byte* data = nullptr;
  std::shared_ptr<void> owner;
};

/// Where the tensor begins in one file, if it is there as the kernels want it.
struct InFile {
  const TensorFile* file;
  std::uint64_t begin;
};
std::optional<InFile> whole_in_file(const Checkpoint& checkpoint, const files::WeightTensor& weight) {
  std::optional<InFile> first;
  std::uint64_t end = 0;
  for (const files::Part& part : weight.parts) {
    const Checkpoint::Entry& entry = *checkpoint.find(part.name);
    if (part.file_columns != weight.columns) return std::nullopt;
    if (entry.tensor->type != type_on_device(weight.stored)) return std::nullopt;
    const std::uint64_t row = entry.tensor->bytes / static_cast<std::uint64_t>(part.file_rows);
    const std::uint64_t begin = entry.tensor->begin + row * static_cast<std::uint64_t>(part.first_row);
    if (!first)
      first = InFile{entry.file, begin};
    else if (entry.file != first->file || begin != end)
      return std::nullopt;
    end = begin + row * static_cast<std::uint64_t>(part.rows);
  }
  return first && first->begin % weight.element_bytes() == 0 ? first : std::nullopt;
}

/// Memory of its own, in large pages where the system has them.
Home allocate(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw CapacityError(tessera::concat("the system has no ", bytes, " bytes of memory for a tensor of the weights."));
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), {memory, [bytes](void* m) { ::munmap(m, bytes); }}};
}

void read_all(const std::vector<Piece>& pieces, const std::vector<files::WeightTensor>& layout,
              const std::vector<Home>& homes, const LoadOptions& options, Meter& meter) {
  Channel<std::size_t> done;
  Readers readers(
      reading_threads(options), pieces.size(),
      [&](std::size_t i) {
        const Piece& p = pieces[i];
        const files::WeightTensor& w = layout[p.weight];
        const std::uint64_t at = static_cast<std::uint64_t>(p.row * p.columns) * w.element_bytes();
        read_piece(p, w.stored, homes[p.weight].data + at);
        meter.add(p.elements() * w.element_bytes());
        done.push(i);
        return true;
      },
      [&] { done.close(); });
  for (std::size_t n = 0; n < pieces.size();) {
    if (done.pop_within(kReportEvery)) ++n;
    readers.check();
    meter.report();
  }
}

}  // namespace

Weights load_mapped(const ModelSpec& model, const Checkpoint& checkpoint, const LoadOptions& options) {
  const auto layout = files::weight_tensors(model, options.ranks);
  std::uint64_t total = 0;
  for (const auto& w : layout) total += w.bytes();
  Meter meter(total, options);
  std::unordered_map<const TensorFile*, std::shared_ptr<std::byte>> maps;
  std::vector<Home> homes;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (const auto found = whole_in_file(checkpoint, layout[i])) {
      auto& map = maps[found->file];
      if (!map) map = found->file->map();
      homes.push_back({map.get() + found->begin, map});
      meter.add(layout[i].bytes());
    } else {
      homes.push_back(allocate(layout[i].bytes()));
      add_pieces(pieces, checkpoint, layout[i], i, kPieceBytes);
    }
  }
  sort_pieces(pieces);
  read_all(pieces, layout, homes, options, meter);
  Weights weights = empty_weights(model);
  for (std::size_t i = 0; i < layout.size(); ++i) {
    with_element(layout[i].stored, [&]<class T>() {
      place<T>(weights, layout[i],
               tessera::borrow<T, 2>(reinterpret_cast<T*>(homes[i].data),
                                     tessera::Dims<2>({layout[i].rows, layout[i].columns}), {layout[i].columns, 1},
                                     std::move(homes[i].owner)));
    });
  }
  meter.report(true);
  return weights;
}

}  // namespace mortar::model
