// Bytecode files made by hand and taken apart, for the tests of the reader.
#pragma once
#include <map>
#include <vector>

#include "ir/byte_writer.hpp"
#include "ir/bytecode_tags.hpp"

namespace tessera::ir::testing {

struct FileSection {
  int id = 0;
  std::size_t alignment = 1;
  std::string payload;
};

inline std::string header(int minor) {
  ByteWriter out;
  out.raw(kBytecodeMagic);
  out.byte(13);
  out.byte(static_cast<std::uint8_t>(minor));
  out.little_endian(0, 2);
  return out.take();
}

inline std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

/// A file of these sections, in this order.
inline std::vector<std::byte> file_of(int minor, const std::vector<FileSection>& sections) {
  ByteWriter out;
  out.raw(header(minor));
  for (const FileSection& s : sections) {
    out.byte(static_cast<std::uint8_t>(s.id | (s.alignment > 1 ? kAligned : 0)));
    out.varint(s.payload.size());
    if (s.alignment > 1) {
      out.varint(s.alignment);
      out.pad(s.alignment);
    }
    out.raw(s.payload);
  }
  out.byte(kEnd);
  return bytes_of(out.bytes());
}

/// The sections of a file that write_bytecode() wrote.
inline std::vector<FileSection> sections_of(const std::vector<std::byte>& bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::size_t at = 12;
  const auto byte = [&] { return static_cast<unsigned char>(text.at(at++)); };
  const auto varint = [&] {
    std::size_t value = 0;
    for (int shift = 0;; shift += 7) {
      const std::size_t b = byte();
      value |= (b & 0x7F) << shift;
      if (b < 0x80) return value;
    }
  };
  std::vector<FileSection> sections;
  for (unsigned head = byte(); head != kEnd; head = byte()) {
    FileSection s;
    s.id = static_cast<int>(head & 0x7F);
    const std::size_t length = varint();
    if ((head & kAligned) != 0) {
      s.alignment = varint();
      at = (at + s.alignment - 1) / s.alignment * s.alignment;
    }
    s.payload = text.substr(at, length);
    at += length;
    sections.push_back(s);
  }
  return sections;
}

/// A file with one entry `k` without arguments. Types 0 to 2 are i8, tile<`elements` x i8> and the entry's.
struct SmallFile {
  int minor = 4;
  std::uint64_t elements = 4;
  std::string constant = std::string("\1\2\3\4", 4);
  std::string body;  ///< operations before `return`
  std::uint8_t flags = kEntryFunction;
  int element_tag = 1;  ///< i8

  std::vector<FileSection> sections() const {
    ByteTable strings, types, constants;
    const std::uint64_t name = strings.id("k");
    ByteWriter element, tile, entry, data;
    element.varint(static_cast<std::uint64_t>(element_tag));
    types.id(element.bytes());
    tile.byte(kTile);
    tile.varint(0);
    tile.int_list(std::vector<std::uint64_t>{elements}, 8);
    types.id(tile.bytes());
    entry.byte(kFunction);
    entry.varint(0);
    entry.varint(0);
    const std::uint64_t type = types.id(entry.bytes());
    data.varint(constant.size());
    data.raw(constant);
    constants.id(data.bytes());

    ByteWriter functions, string_table, type_table, constant_table;
    functions.varint(1);
    functions.varint(name);
    functions.varint(type);
    functions.byte(flags);
    functions.varint(0);
    const std::string all = body + returning();
    functions.varint(all.size());
    functions.raw(all);
    strings.write(string_table, 4);
    types.write(type_table, 4);
    constants.write(constant_table, 8);
    return {{kFunc, 8, functions.bytes()},
            {kConstant, 8, constant_table.bytes()},
            {kType, 4, type_table.bytes()},
            {kString, 4, string_table.bytes()}};
  }
  std::vector<std::byte> bytes() const { return file_of(minor, sections()); }

  /// `return` without results and operands.
  static std::string returning() { return std::string("\x5C\0\0", 3); }
  /// `constant` of type 1.
  static std::string constant_op() { return std::string("\x10\1\0", 3); }
};

}  // namespace tessera::ir::testing
