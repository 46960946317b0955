// Cutting tensors into pieces, reading them, and reporting progress.
#include "model/pieces.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "tessera/base/float_types.hpp"

namespace mortar::model {

void add_pieces(std::vector<Piece>& pieces, const Checkpoint& checkpoint, const files::WeightTensor& weight,
                std::size_t index, std::uint64_t most_bytes) {
  std::int64_t row = 0;
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(weight.columns) * weight.element_bytes();
  const auto most_rows = static_cast<std::int64_t>(std::max<std::uint64_t>(1, most_bytes / row_bytes));
  for (const files::Part& part : weight.parts) {
    const Checkpoint::Entry& entry = *checkpoint.find(part.name);
    const std::uint64_t file_row = entry.tensor->bytes / static_cast<std::uint64_t>(part.rows);
    for (std::int64_t i = 0; i < part.rows; i += most_rows) {
      Piece p{index, row + i, std::min(most_rows, part.rows - i), weight.columns, entry.file, entry.tensor->type, 0};
      p.begin = entry.tensor->begin + static_cast<std::uint64_t>(i) * file_row;
      pieces.push_back(p);
    }
    row += part.rows;
  }
}

void sort_pieces(std::vector<Piece>& pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.file != b.file ? a.file->path() < b.file->path() : a.begin < b.begin;
  });
}

void read_piece(const Piece& piece, files::Stored stored, std::byte* to) {
  const std::uint64_t n = piece.elements();
  if (stored != files::Stored::Scales || piece.type == FileType::F32) {
    const std::uint64_t size = stored == files::Stored::Fp8 ? 1 : stored == files::Stored::Bf16 ? 2 : 4;
    return piece.file->read(piece.begin, {to, n * size});
  }
  std::vector<tessera::bf16> narrow(n);
  piece.file->read(piece.begin, std::as_writable_bytes(std::span(narrow)));
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto wide = static_cast<float>(narrow[i]);
    std::memcpy(to + i * sizeof wide, &wide, sizeof wide);
  }
}

int reading_threads(const LoadOptions& options) {
  constexpr int kMost = 64, kChosen = 8;
  if (options.threads > 0) return std::min(options.threads, kMost);
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kChosen);
}

void Meter::report(bool at_end) {
  const Clock::time_point now = Clock::now();
  const std::uint64_t bytes = bytes_.load();
  // All bytes are reported once, when they have arrived.
  if (!options_.progress || (!at_end && (now - last_ < kReportEvery || bytes >= total_))) return;
  last_ = now;
  options_.progress({bytes, total_, std::chrono::duration<double>(now - start_).count()});
}

}  // namespace mortar::model
