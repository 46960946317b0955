// The section headers of an ELF file (ELF-64 object file format), and NVIDIA's section of kernel attributes.
#include <cstring>
#include <string>

#include "tessera/jit/code_report.hpp"

namespace tessera::jit {
namespace {

std::uint64_t number(std::span<const std::byte> file, std::uint64_t at, unsigned bytes) {
  if (at > file.size() || bytes > file.size() - at) return 0;
  std::uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(file[at + i]) << (8 * i);
  return value;
}

/// Section .nv.info: records of u8 format, u8 attribute, u16 length, as cuobjdump -elf shows them; 0x2F: registers,
/// 0x11: stack; both as the number of a symbol and a value.
void read_info(std::span<const std::byte> info, CubinResources& out) {
  for (std::size_t at = 0; at + 4 <= info.size();) {
    const auto attribute = number(info, at + 1, 1), length = number(info, at + 2, 2);
    const bool sized = number(info, at, 1) == 4;
    if (sized && attribute == 0x2F) out.registers = static_cast<unsigned>(number(info, at + 8, 4));
    if (sized && attribute == 0x11) out.stack = static_cast<unsigned>(number(info, at + 8, 4));
    at += 4 + (sized ? static_cast<std::size_t>(length) : 0);
  }
}

}  // namespace

CubinResources resources_of(std::span<const std::byte> cubin) {
  CubinResources r;
  const std::uint64_t table = number(cubin, 40, 8), size = number(cubin, 58, 2), count = number(cubin, 60, 2);
  const std::uint64_t names = number(cubin, table + number(cubin, 62, 2) * size + 24, 8);
  for (std::uint64_t s = 0; s < count; ++s) {
    const std::uint64_t at = table + s * size, name = names + number(cubin, at, 4);
    const std::uint64_t offset = number(cubin, at + 24, 8), bytes = number(cubin, at + 32, 8);
    if (name >= cubin.size()) continue;
    const std::string text(reinterpret_cast<const char*>(cubin.data() + name),
                           strnlen(reinterpret_cast<const char*>(cubin.data() + name), cubin.size() - name));
    if (text == ".nv.info" && offset <= cubin.size() && bytes <= cubin.size() - offset)
      read_info(cubin.subspan(offset, bytes), r);
    if (text.starts_with(".nv.shared.") && !text.starts_with(".nv.shared.reserved")) r.shared += bytes;
  }
  return r;
}

}  // namespace tessera::jit
