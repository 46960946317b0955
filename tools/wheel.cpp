// Reads the table of contents of a zip archive. A deflated file becomes a gzip file: a header of ten bytes, the file as
// it is in the archive, its CRC-32 and its size, which the archive has too. So gzip checks what it unpacks.
#include "wheel.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "child.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera {
namespace {

// Offsets and signatures of the format (PKWARE's APPNOTE, sections 4.3.7, 4.3.12 and 4.3.16).
constexpr std::uint64_t kEndBytes = 22, kMaxComment = 65535, kDirectoryBytes = 46, kHeaderBytes = 30;
constexpr std::uint32_t kEndMark = 0x06054b50, kDirectoryMark = 0x02014b50, kHeaderMark = 0x04034b50;
constexpr std::uint32_t kSeeZip64 = 0xffffffff;
constexpr std::uint64_t kStored = 0, kDeflated = 8;

std::uint64_t number(const std::string& bytes, std::uint64_t at, int count) {
  std::uint64_t value = 0;
  for (int i = count; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::uint64_t>(i)]);
  return value;
}

/// `count` bytes of a file from `at` on; fewer at its end.
std::string read_at(std::ifstream& file, std::uint64_t at, std::uint64_t count) {
  std::string bytes(count, '\0');
  file.clear();
  file.seekg(static_cast<std::streamoff>(at));
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

[[noreturn]] void damaged(const std::string& wheel, const char* what) {
  throw IoError(concat(wheel, " is no wheel that can be read: ", what));
}

void append_number(std::string& bytes, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
}

/// Copies bytes of a wheel to the end of a file.
void copy(std::ifstream& from, std::uint64_t at, std::uint64_t count, std::ofstream& to) {
  constexpr std::uint64_t kPiece = 1 << 20;
  while (count > 0) {
    const std::string piece = read_at(from, at, std::min(count, kPiece));
    if (piece.empty()) return;  // the caller's check finds what is missing
    to << piece;
    at += piece.size();
    count -= piece.size();
  }
}

}  // namespace

std::vector<WheelEntry> wheel_entries(const std::string& wheel) {
  std::ifstream file(wheel, std::ios::binary | std::ios::ate);
  const auto size = static_cast<std::uint64_t>(std::max<std::streamoff>(file.tellg(), 0));
  if (size < kEndBytes) damaged(wheel, "it is too short");
  const std::string tail = read_at(file, size - std::min(size, kEndBytes + kMaxComment), kEndBytes + kMaxComment);
  std::uint64_t end = tail.size() - kEndBytes;
  while (number(tail, end, 4) != kEndMark) {
    if (end-- == 0) damaged(wheel, "it has no table of contents");
  }
  const std::uint64_t bytes = number(tail, end + 12, 4), start = number(tail, end + 16, 4);
  if (start == kSeeZip64 || bytes == kSeeZip64) damaged(wheel, "it has more than 4 GiB");
  const std::string table = read_at(file, start, bytes);
  std::vector<WheelEntry> entries;
  for (std::uint64_t at = 0; at + kDirectoryBytes <= table.size();) {
    if (number(table, at, 4) != kDirectoryMark) damaged(wheel, "its table of contents is damaged");
    const std::uint64_t method = number(table, at + 10, 2), name = number(table, at + 28, 2);
    const std::uint64_t extra = number(table, at + 30, 2), comment = number(table, at + 32, 2);
    if (at + kDirectoryBytes + name > table.size()) damaged(wheel, "its table of contents is damaged");
    if (method == kStored || method == kDeflated)
      entries.push_back({table.substr(at + kDirectoryBytes, name),
                         static_cast<std::uint32_t>(number(table, at + 16, 4)), number(table, at + 20, 4),
                         number(table, at + 24, 4), number(table, at + 42, 4), method == kDeflated});
    at += kDirectoryBytes + name + extra + comment;
  }
  return entries;
}

void unpack(const std::string& wheel, const WheelEntry& entry, const std::string& path) {
  std::ifstream file(wheel, std::ios::binary);
  const std::string header = read_at(file, entry.header, kHeaderBytes);
  if (header.size() < kHeaderBytes || number(header, 0, 4) != kHeaderMark)
    damaged(wheel, "a header of a file is damaged");
  const std::uint64_t start = entry.header + kHeaderBytes + number(header, 26, 2) + number(header, 28, 2);
  const std::string packed = entry.deflated ? path + ".gz" : path;
  std::ofstream out(packed, std::ios::binary);
  constexpr std::array<char, 10> kGzipHeader = {'\x1f', '\x8b', '\x08', 0, 0, 0, 0, 0, 0, '\xff'};
  if (entry.deflated) out.write(kGzipHeader.data(), kGzipHeader.size());
  copy(file, start, entry.packed, out);
  if (entry.deflated) {
    std::string closing;
    append_number(closing, entry.crc);
    append_number(closing, static_cast<std::uint32_t>(entry.size));
    out << closing;
  }
  out.close();
  if (!out) throw IoError(concat("cannot write ", packed));
  if (!entry.deflated) return;
  const Finished done = run_child({"gzip", "-dc", packed}, path);
  if (done.code != 0)
    throw IoError(concat("gzip cannot unpack ", entry.name, " of ", wheel, ": ", last_line(done.output)));
  std::remove(packed.c_str());
}

}  // namespace tessera
