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
  for (const files::Part& part : weight.parts) {
    const Checkpoint::Entry& entry = *checkpoint.find(part.name);
    const std::uint64_t file_row = entry.tensor->bytes / static_cast<std::uint64_t>(part.file_rows);
    // Rows are read whole, also where columns of them are wanted.
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(part.file_columns) * weight.element_bytes();
    const auto most_rows = static_cast<std::int64_t>(std::max<std::uint64_t>(1, most_bytes / row_bytes));
    for (std::int64_t i = 0; i < part.rows; i += most_rows) {
      Piece p;
      p.weight = index;
      p.row = row + i, p.rows = std::min(most_rows, part.rows - i), p.columns = weight.columns;
      p.file = entry.file, p.type = entry.tensor->type;
      p.begin = entry.tensor->begin + static_cast<std::uint64_t>(part.first_row + i) * file_row;
      p.first_column = part.first_column, p.file_columns = part.file_columns;
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
  const bool widened = stored == files::Stored::Scales && piece.type != FileType::F32;
  const std::size_t device = stored == files::Stored::Fp8 ? 1 : stored == files::Stored::Bf16 ? 2 : 4;
  const std::size_t size = widened ? sizeof(tessera::bf16) : device;
  if (!widened && piece.columns == piece.file_columns)
    return piece.file->read(piece.begin, {to, piece.elements() * size});
  thread_local std::vector<std::byte> rows;  // of the file
  rows.resize(static_cast<std::size_t>(piece.rows * piece.file_columns) * size);
  piece.file->read(piece.begin, rows);
  const auto columns = static_cast<std::size_t>(piece.columns);
  for (std::int64_t i = 0; i < piece.rows; ++i) {
    const std::byte* from = rows.data() + static_cast<std::size_t>(i * piece.file_columns + piece.first_column) * size;
    std::byte* row = to + static_cast<std::size_t>(i) * columns * device;
    if (!widened) std::memcpy(row, from, columns * size);
    for (std::size_t k = 0; widened && k < columns; ++k) {
      tessera::bf16 narrow;
      std::memcpy(&narrow, from + k * size, size);
      const auto wide = static_cast<float>(narrow);
      std::memcpy(row + k * device, &wide, device);
    }
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
