// Notes of loaded objects (System V ABI, "Note Section"; GNU gABI extensions: NT_GNU_BUILD_ID). Tessera's layers are
// static libraries, so one object holds them all.
#include "tessera/base/build_id.hpp"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tessera {
namespace {

/// The linker's hashes are 16 (md5) or 20 bytes (sha1); what a person writes in their place may be shorter.
constexpr std::size_t kShortestHash = 16;

constexpr std::size_t padded(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// The build ID among the notes of one segment. A note's description and the next note begin at multiples of the
/// alignment, counted from the note's beginning. GNU ld keeps notes of different alignment apart; mold puts them into
/// one segment.
std::span<const std::byte> find_in(std::span<const std::byte> notes, std::size_t alignment) noexcept {
  constexpr std::string_view kOwner("GNU\0", 4);
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes.data(), sizeof head);
    if (head.n_namesz > notes.size() || head.n_descsz > notes.size()) return {};
    const std::size_t description = padded(sizeof head + head.n_namesz, alignment), end = description + head.n_descsz;
    if (end > notes.size()) return {};
    const std::string_view owner(reinterpret_cast<const char*>(notes.data()) + sizeof head, head.n_namesz);
    if (head.n_type == NT_GNU_BUILD_ID && owner == kOwner) return notes.subspan(description, head.n_descsz);
    notes = notes.subspan(std::min(padded(end, alignment), notes.size()));
  }
  return {};
}

struct Search {
  std::uintptr_t inside;  ///< an address in the object
  std::span<const std::byte> found;
};

int visit(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::span<const ElfW(Phdr)> segments(object->dlpi_phdr, object->dlpi_phnum);
  bool ours = false;
  for (const ElfW(Phdr) & s : segments) {
    const std::uintptr_t begin = object->dlpi_addr + s.p_vaddr;
    ours = ours || (s.p_type == PT_LOAD && search.inside >= begin && search.inside - begin < s.p_memsz);
  }
  if (!ours) return 0;
  for (const ElfW(Phdr) & s : segments) {
    if (s.p_type != PT_NOTE || !search.found.empty()) continue;
    const auto* notes = reinterpret_cast<const std::byte*>(object->dlpi_addr + s.p_vaddr);
    search.found = find_in({notes, s.p_memsz}, s.p_align == 8 ? 8 : 4);
  }
  return 1;
}

}  // namespace

std::span<const std::byte> build_id() noexcept {
  static const std::span<const std::byte> id = [] {
    static const char here = 0;
    Search search{reinterpret_cast<std::uintptr_t>(&here), {}};
    dl_iterate_phdr(visit, &search);
    return search.found.size() >= kShortestHash ? search.found : std::span<const std::byte>();
  }();
  return id;
}

}  // namespace tessera
