// The section headers of an ELF file (ELF-64 object file format), NVIDIA's sections of kernel attributes, and the
// instructions of setmaxnreg.
#include <algorithm>
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

/// Section .nv.info.<entry>, of the same records. 0x10: the extents of the block (.reqntid).
void read_entry_info(std::span<const std::byte> info, CubinResources& out) {
  for (std::size_t at = 0; at + 4 <= info.size();) {
    const bool sized = number(info, at, 1) == 4;
    if (sized && number(info, at + 1, 1) == 0x10)
      out.threads = static_cast<unsigned>(number(info, at + 4, 4) * number(info, at + 8, 4) * number(info, at + 12, 4));
    at += 4 + (sized ? static_cast<std::size_t>(number(info, at + 2, 2)) : 0);
  }
}

/// setmaxnreg in machine code (instructions of 16 bytes): the lowest 12 bits are 0x9C8, bits 32 to 39 the number of
/// registers; bits 72 and 73 say whether a thread gets more (2) or releases some (1). Read off what ptxas 13.0 makes of
/// PTX for sm_90, sm_100 and sm_120.
void read_setmaxnreg(std::span<const std::byte> code, CubinResources& out) {
  for (std::size_t at = 0; at + 16 <= code.size(); at += 16) {
    if ((number(code, at, 2) & 0xFFF) != 0x9C8) continue;
    const auto registers = static_cast<unsigned>(number(code, at + 4, 1));
    const auto direction = number(code, at + 9, 1) & 3;
    if (direction == 2) out.asked_registers = std::max(out.asked_registers, registers);
    if (direction != 1) continue;
    out.kept_registers = out.releases == 0 ? registers : std::min(out.kept_registers, registers);
    ++out.releases;
  }
}

/// Of the same encoding: 0x983 loads from local memory (LDL), 0x387 stores to it (STL), 0x947 and 0x547 branch (BRA,
/// BRA.U); bits 64 to 79 of a branch are the upper ones of its distance. Each entry ends with a branch to itself. 0x984
/// loads from shared memory (LDS), 0xFAE (LDGSTS) and 0x5B4 (UTMALDG) copy from global to shared memory without
/// waiting. Read off nvdisasm 13.0 -hex for sm_80, sm_90, sm_100 and sm_120.
void count_instructions(std::span<const std::byte> code, CubinResources& out) {
  out.instructions = code.size() / 16;
  out.local_accesses = 0;
  out.shared_loads = 0;
  out.copies_ahead = false;
  unsigned backward = 0;
  for (std::size_t at = 0; at + 16 <= code.size(); at += 16) {
    const auto opcode = number(code, at, 2) & 0xFFF;
    out.local_accesses += opcode == 0x983 || opcode == 0x387 ? 1 : 0;
    out.shared_loads += opcode == 0x984 ? 1 : 0;
    out.copies_ahead |= opcode == 0xFAE || opcode == 0x5B4;
    const bool branches = opcode == 0x947 || opcode == 0x547;
    backward += branches && number(code, at + 8, 2) == 0xFFFF ? 1 : 0;
  }
  out.loops = backward > 1;
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
    const bool inside = offset <= cubin.size() && bytes <= cubin.size() - offset;
    if (inside && text == ".nv.info") read_info(cubin.subspan(offset, bytes), r);
    if (inside && text.starts_with(".nv.info.")) read_entry_info(cubin.subspan(offset, bytes), r);
    if (inside && text.starts_with(".text.")) {
      read_setmaxnreg(cubin.subspan(offset, bytes), r);
      count_instructions(cubin.subspan(offset, bytes), r);
    }
    if (text.starts_with(".nv.shared.") && !text.starts_with(".nv.shared.reserved")) r.shared += bytes;
  }
  return r;
}

}  // namespace tessera::jit
