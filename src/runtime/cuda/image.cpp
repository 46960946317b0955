// The ELF headers of a cubin. Layouts and numbers: System V ABI, "Object Files" (ELF-64); EM_CUDA is 190 in its list of
// machines.
#include "runtime/cuda/image.hpp"

#include <cstdint>
#include <cstring>

#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

namespace {

struct ElfHeader {
  unsigned char ident[16];
  std::uint16_t type, machine;
  std::uint32_t version;
  std::uint64_t entry, segments, sections;  // offsets of the two tables
  std::uint32_t flags;
  std::uint16_t size, segment_size, segment_count, section_size, section_count, names;
};
static_assert(sizeof(ElfHeader) == 64);

struct ElfSection {
  std::uint32_t name, type;
  std::uint64_t flags, address, offset, bytes;
  std::uint32_t link, info;
  std::uint64_t alignment, entry_bytes;
};
static_assert(sizeof(ElfSection) == 64);

struct ElfSegment {
  std::uint32_t type, flags;
  std::uint64_t offset, address, physical, file_bytes, memory_bytes, alignment;
};
static_assert(sizeof(ElfSegment) == 56);

constexpr std::uint16_t kMachineCuda = 190;
constexpr std::uint32_t kNoBits = 8;    // SHT_NOBITS: the section has no bytes in the file
constexpr std::uint64_t kIsCode = 0x4;  // SHF_EXECINSTR

// Machine code: instructions of 16 bytes whose lowest 12 bits are the opcode. ptxas 13.0 and 13.5 translate
// griddepcontrol.wait to this opcode for sm_90, 100, 103, 110, 120 and 121.
constexpr std::uint64_t kInstructionBytes = 16;
constexpr std::uint16_t kOperationBits = 0xFFF, kWaitOperation = 0x82E;

/// True if [offset, offset + bytes) lies in a file of `size` bytes.
bool inside(std::uint64_t offset, std::uint64_t bytes, std::uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

template <class T>
T read(std::span<const std::byte> image, std::uint64_t offset) {
  T value;
  std::memcpy(&value, image.data() + offset, sizeof value);
  return value;
}

std::string identity_fault(const ElfHeader& header) {
  if (std::memcmp(header.ident, "\177ELF", 4) != 0) return "it does not begin with the mark of an ELF file";
  if (header.ident[4] != 2) return "it is not a 64-bit ELF file";
  if (header.ident[5] != 1) return "it is not a little-endian ELF file";
  if (header.machine != kMachineCuda)
    return concat("it is an ELF file for machine ", header.machine, ", not for NVIDIA GPUs (", kMachineCuda, ")");
  return {};
}

}  // namespace

std::string image_fault(std::span<const std::byte> image) {
  if (image.size() < sizeof(ElfHeader)) return concat("it has ", image.size(), " bytes, fewer than an ELF header");
  const auto header = read<ElfHeader>(image, 0);
  if (std::string fault = identity_fault(header); !fault.empty()) return fault;
  if (header.section_count == 0) return "it has no sections";
  if (header.section_size != sizeof(ElfSection)) return "its section headers have a wrong size";
  if (header.sections < sizeof(ElfHeader)) return "its table of sections lies in its header";
  if (!inside(header.sections, std::uint64_t{header.section_count} * sizeof(ElfSection), image.size()))
    return concat("its table of sections lies beyond its end at ", image.size(), " bytes: it was cut off");
  for (std::uint16_t i = 0; i < header.section_count; ++i) {
    const auto section = read<ElfSection>(image, header.sections + std::uint64_t{i} * sizeof(ElfSection));
    if (section.type != kNoBits && !inside(section.offset, section.bytes, image.size()))
      return concat("its section ", i, " lies beyond its end at ", image.size(), " bytes");
  }
  if (header.segment_count == 0) return {};
  if (header.segment_size != sizeof(ElfSegment)) return "its segment headers have a wrong size";
  if (header.segments < sizeof(ElfHeader)) return "its table of segments lies in its header";
  if (!inside(header.segments, std::uint64_t{header.segment_count} * sizeof(ElfSegment), image.size()))
    return "its table of segments lies beyond its end";
  for (std::uint16_t i = 0; i < header.segment_count; ++i) {
    const auto segment = read<ElfSegment>(image, header.segments + std::uint64_t{i} * sizeof(ElfSegment));
    if (!inside(segment.offset, segment.file_bytes, image.size()))
      return concat("its segment ", i, " lies beyond its end");
  }
  return {};
}

bool waits_for_predecessor(std::span<const std::byte> image) {
  const auto header = read<ElfHeader>(image, 0);
  for (std::uint16_t i = 0; i < header.section_count; ++i) {
    const auto section = read<ElfSection>(image, header.sections + std::uint64_t{i} * sizeof(ElfSection));
    if (section.type == kNoBits || (section.flags & kIsCode) == 0) continue;
    for (std::uint64_t at = 0; at + kInstructionBytes <= section.bytes; at += kInstructionBytes)
      if ((read<std::uint16_t>(image, section.offset + at) & kOperationBits) == kWaitOperation) return true;
  }
  return false;
}

}  // namespace tessera::runtime::cuda
