// Sections, tables of strings, places of operations.
#include "ir/bytecode_sections.hpp"

#include <bit>

#include "ir/kept_text.hpp"

namespace tessera::ir {

namespace {

constexpr std::size_t kMaxShared = std::size_t{256} << 20;  // bytes of copies of what the file has once
constexpr std::size_t kMaxAlignment = 4096;

}  // namespace

BytecodeError::BytecodeError(const std::string& file, std::size_t offset, const std::string& message)
    : CompileError(concat(file, ", byte ", offset, ": ", message)), offset_(offset) {}
BytecodeError::~BytecodeError() = default;

BytecodeSections::BytecodeSections(const std::string& file, std::string_view bytes) {
  ByteReader in(file, bytes, 0);
  read_header(in);
  read_sections(in, bytes.size());
  const auto read_table = [&](Section id, int offset_bytes, const char* what, Table& into) {
    if (sections_[id]) into = table(*sections_[id], offset_bytes, what);
    into.what = what;
  };
  read_table(kString, 4, "strings", strings_);
  read_table(kType, 4, "types", types_);
  read_table(kConstant, 8, "constants", constants_);
  known_types_.resize(types_.items.size());
  if (sections_[kDebug]) read_debug(*sections_[kDebug]);
  if (!sections_[kFunc]) in.fail("expected a section of functions, found none");
}

void BytecodeSections::read_header(ByteReader& in) {
  if (in.left() < kBytecodeMagic.size() || in.raw(kBytecodeMagic.size(), "the header") != kBytecodeMagic)
    ByteReader(in).fail("expected Tile IR bytecode (7F \"TileIR\" 00), found other bytes");
  version_.major = in.byte("the version");
  version_.minor = in.byte("the version");
  if (version_ < kOldestBytecode || version_ > kNewestBytecode)
    in.fail("expected bytecode of a version from ", version_text(kOldestBytecode), " to ",
            version_text(kNewestBytecode), ", found ", version_text(version_));
  if (const std::uint64_t tag = in.little_endian(2, "the version's tag"); tag != 0)
    in.fail("expected a released version (tag 0), found tag ", tag);
}

void BytecodeSections::read_sections(ByteReader& in, std::size_t file_bytes) {
  while (true) {
    const std::uint8_t head = in.byte("a section");
    const auto id = static_cast<std::uint8_t>(head & ~kAligned);
    if (id == kEnd) break;
    if (id >= sections_.size()) in.fail("expected a section from 1 to ", sections_.size() - 1, ", found ", int{id});
    if (sections_[id]) in.fail("expected each section once, found section ", int{id}, " again");
    if (id == kProducer && !at_least(3)) in.fail("the section of the producer came with 13.3");
    const std::uint64_t length = in.number("the length of a section", file_bytes);
    if ((head & kAligned) != 0) {
      const std::uint64_t alignment = in.number("an alignment", kMaxAlignment);
      if (!std::has_single_bit(alignment)) in.fail("expected an alignment that is a power of two, found ", alignment);
      if (const std::uint64_t over = in.offset() % alignment; over != 0) in.raw(alignment - over, "padding");
    }
    sections_[id] = in.part(length, "a section");
  }
  if (!in.ended()) in.fail("expected the end of the file after the last section, found ", in.left(), " more bytes");
}

/// Count, offsets, items.
BytecodeSections::Table BytecodeSections::table(ByteReader& in, int offset_bytes, const char* what) {
  Table table;
  const std::size_t n = in.count(what, static_cast<std::size_t>(offset_bytes));
  in.pad(static_cast<std::size_t>(offset_bytes));
  std::vector<std::uint64_t> offsets;
  for (std::size_t i = 0; i < n; ++i) offsets.push_back(in.little_endian(offset_bytes, what));
  const std::size_t bytes = in.left();
  offsets.push_back(bytes);
  if (n != 0 && offsets[0] != 0) in.fail("expected the first of the ", what, " at offset 0, found ", offsets[0]);
  for (std::size_t i = 0; i < n; ++i) {
    if (offsets[i + 1] < offsets[i] || offsets[i + 1] > bytes)
      in.fail("expected offsets of ", what, " that ascend to ", bytes, " at most, found ", offsets[i + 1]);
    table.items.push_back(in.part(offsets[i + 1] - offsets[i], what));
  }
  return table;
}

const ByteReader& BytecodeSections::Table::at(const ByteReader& in, std::uint64_t index) const {
  if (index >= items.size()) in.fail("expected a number below ", items.size(), " of ", what, ", found ", index);
  return items[static_cast<std::size_t>(index)];
}

void BytecodeSections::charge(const ByteReader& in, std::size_t bytes) {
  if (bytes > kMaxShared - charged_)
    in.fail("expected at most ", kMaxShared,
            " bytes of constants, strings and arguments where they are used, found more");
  charged_ += bytes;
}

std::string BytecodeSections::string(ByteReader& in, const char* what) {
  ByteReader item = strings_.at(in, in.varint(what));
  const std::string_view text = item.raw(item.left(), what);
  charge(in, text.size());
  return std::string(text);
}

/// For each function where its numbers begin; the numbers; what they stand for.
void BytecodeSections::read_debug(ByteReader in) {
  const std::size_t n = in.count("functions with debug information", 4);
  in.pad(4);
  std::vector<std::uint64_t> first;
  for (std::size_t i = 0; i < n; ++i) first.push_back(in.little_endian(4, "the numbers of places"));
  const std::size_t total = in.count("numbers of places", 8);
  in.pad(8);
  for (std::size_t i = 0; i < total; ++i) place_ids_.push_back(in.little_endian(8, "the number of a place"));
  first.push_back(total);
  for (std::size_t i = 0; i < n; ++i) {
    if (first[i + 1] < first[i] || first[i + 1] > total)
      in.fail("expected places of functions that ascend to ", total, " at most, found ", first[i + 1]);
    functions_.push_back({static_cast<std::size_t>(first[i]), static_cast<std::size_t>(first[i + 1] - first[i])});
  }
  // The table pads from the beginning of the section on.
  debug_ = table(in, 4, "places");
  debug_.what = "places";
  known_places_.resize(debug_.items.size());
  known_files_.resize(strings_.items.size());
}

/// Functions are numbered from 1; 0: it has no debug information.
BytecodeSections::Places BytecodeSections::places(std::uint64_t function) const {
  return function == 0 || function > functions_.size() ? Places{} : functions_[static_cast<std::size_t>(function - 1)];
}

/// Each name is looked up once: a file may name one long string in many places.
const char* BytecodeSections::file_name(ByteReader& in) {
  const std::uint64_t index = in.varint("a file");
  ByteReader file = strings_.at(in, index);
  const char*& known = known_files_[static_cast<std::size_t>(index)];
  if (known == nullptr) {
    charge(in, file.left());
    known = kept_text(file.raw(file.left(), "a file"));
  }
  return known;
}

/// Places are numbered from 1; 0, and what is no location: unknown.
SourceLocation BytecodeSections::place(const Places& places, std::size_t i) {
  if (i >= places.count) return {};
  const std::uint64_t id = place_ids_[places.first + i];
  if (id == 0 || id > debug_.items.size()) return {};
  auto& known = known_places_[static_cast<std::size_t>(id - 1)];
  if (known) return *known;
  known.emplace();
  ByteReader item = debug_.items[static_cast<std::size_t>(id - 1)];
  if (item.ended() || item.byte("a place") != kLocation) return *known;
  item.varint("a scope");
  SourceLocation loc;
  loc.file = file_name(item);
  loc.line = static_cast<std::uint32_t>(item.number("a line", UINT32_MAX));
  loc.column = static_cast<std::uint32_t>(item.number("a column", UINT32_MAX));
  if (loc.known()) known = loc;
  return *known;
}

}  // namespace tessera::ir
