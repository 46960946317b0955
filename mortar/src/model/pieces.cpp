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
    const std::uint64_t element = std::max<std::uint64_t>(weight.element_bytes(), bytes_of(entry.tensor->type));
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(part.file_columns) * element;
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

FileType type_on_device(files::Stored stored) {
  switch (stored) {
    case files::Stored::Fp8: return FileType::F8_E4M3;
    case files::Stored::Scales: return FileType::F32;
    case files::Stored::Bf16: break;
  }
  return FileType::BF16;
}

namespace {

template <class From, class To>
void convert(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    const To converted(static_cast<float>(value));
    std::memcpy(to + i * sizeof converted, &converted, sizeof converted);
  }
}
/// The conversion of these elements; null if they are stored as they are on the device.
using Convert = void (*)(const std::byte* from, std::byte* to, std::size_t count);
Convert conversion(FileType from, FileType to) {
  if (from == to) return nullptr;
  if (to == FileType::F32) return convert<tessera::bf16, float>;
  return from == FileType::F32 ? convert<float, tessera::bf16> : convert<tessera::f16, tessera::bf16>;
}

}  // namespace

void read_piece(const Piece& piece, files::Stored stored, std::byte* to) {
  const FileType type = type_on_device(stored);
  const Convert converted = conversion(piece.type, type);
  const std::size_t size = bytes_of(piece.type), device = bytes_of(type);
  if (converted == nullptr && piece.columns == piece.file_columns)
    return piece.file->read(piece.begin, {to, piece.elements() * size});
  thread_local std::vector<std::byte> rows;  // of the file
  rows.resize(static_cast<std::size_t>(piece.rows * piece.file_columns) * size);
  piece.file->read(piece.begin, rows);
  const auto columns = static_cast<std::size_t>(piece.columns);
  for (std::int64_t i = 0; i < piece.rows; ++i) {
    const std::byte* from = rows.data() + static_cast<std::size_t>(i * piece.file_columns + piece.first_column) * size;
    std::byte* row = to + static_cast<std::size_t>(i) * columns * device;
    if (converted != nullptr)
      converted(from, row, columns);
    else
      std::memcpy(row, from, columns * size);
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
