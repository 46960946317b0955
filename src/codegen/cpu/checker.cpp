// The checks of every access: its tensor's bounds, which block wrote the element, and the order by the block's tokens.
//
// Order inside a block: every access and every join of tokens is a node that knows the nodes its token came from; an
// access is ordered after another if that can be reached. An element remembers the last access that wrote it and the
// set of accesses that read it since; sets are interned, because all elements of a tile have the same history.
#include "codegen/cpu/checker.hpp"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::cpu {
namespace {

std::uint64_t pair_key(std::int32_t a, std::int32_t b) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 | static_cast<std::uint32_t>(b);
}

bool foreign(std::int32_t owner, std::int32_t block) { return owner != -1 && owner != block; }

void join_owner(std::int32_t& owner, std::int32_t block) { owner = owner == -1 || owner == block ? block : -2; }

}  // namespace

Checker::Checker(std::string kernel, std::span<const Region> regions, std::span<const std::uint64_t> args)
    : kernel_(std::move(kernel)) {
  for (const Region& r : regions)
    if (r.bytes != 0) shadows_.push_back({r, 0, {}});
  std::sort(shadows_.begin(), shadows_.end(),
            [](const Shadow& a, const Shadow& b) { return a.region.base < b.region.base; });
  for (std::uint64_t a : args) {
    std::byte* address = nullptr;
    std::memcpy(&address, &a, sizeof address);
    root_.push_back(find(address));
  }
}

void Checker::start_block(const Frame& f) {
  block_ = (f.block[2] * f.grid[1] + f.block[1]) * f.grid[0] + f.block[0];
  nodes_.assign(1, {});
  reader_sets_.assign(1, {});
  reader_set_.clear();
  reaches_.clear();
}

std::int32_t Checker::begin(const Frame& f, const Site& site) {
  const std::int32_t number = static_cast<std::int32_t>(nodes_.size());
  nodes_.push_back({{*f.at<std::int32_t>(site.token_in)}, &site});
  *f.at<std::int32_t>(site.token_out) = number;
  return number;
}

std::int32_t Checker::join(std::span<const std::int32_t> tokens) {
  nodes_.push_back({{tokens.begin(), tokens.end()}, nullptr});
  return static_cast<std::int32_t>(nodes_.size() - 1);
}

void Checker::allow(const std::byte* base, std::int64_t bytes) {
  for (const Allowed& a : allowed_)
    if (a.base == base && a.bytes == bytes) return;
  allowed_.push_back({base, bytes});
}

Checker::Shadow* Checker::find(const std::byte* address) {
  auto after = std::upper_bound(shadows_.begin(), shadows_.end(), address,
                                [](const std::byte* a, const Shadow& s) { return a < s.region.base; });
  if (after == shadows_.begin()) return nullptr;
  Shadow& s = *(after - 1);
  return static_cast<std::size_t>(address - s.region.base) < s.region.bytes ? &s : nullptr;
}

Checker::Shadow* Checker::shadow_of(const Site& site, const std::byte* address, std::int64_t bytes,
                                    const std::byte* object) {
  Shadow* s = object != nullptr ? find(object) : nullptr;
  if (s == nullptr && site.root >= 0 && static_cast<std::size_t>(site.root) < root_.size())
    s = root_[static_cast<std::size_t>(site.root)];
  if (s == nullptr) s = find(address);
  if (s == nullptr) {
    for (const Allowed& a : allowed_)
      if (address >= a.base && address + bytes <= a.base + a.bytes) return nullptr;
    if (shadows_.empty()) return nullptr;  // nothing is known about this launch's memory
    fail(concat(site.verb, " outside every tensor of the launch"), site);
  }
  const std::int64_t at = address - s->region.base;
  if (at < 0 || at + bytes > static_cast<std::int64_t>(s->region.bytes)) {
    const std::int64_t element = at >= 0 ? at / bytes : -((-at + bytes - 1) / bytes);
    fail(concat(site.verb, " outside ", s->region.label, ": element ", element, ", but it holds ",
                static_cast<std::int64_t>(s->region.bytes) / bytes, " elements"),
         site);
  }
  return s;
}

/// Cells of at most this many bytes; existing ones are split, each part inheriting the history.
void Checker::refine(Shadow& s, std::int64_t bytes) {
  if (s.grain != 0 && s.grain <= bytes) return;
  const std::int64_t count = (static_cast<std::int64_t>(s.region.bytes) + bytes - 1) / bytes;
  std::vector<Cell> cells(static_cast<std::size_t>(count));
  if (s.grain != 0)
    for (std::int64_t i = 0; i < count; ++i)
      cells[static_cast<std::size_t>(i)] = s.cells[static_cast<std::size_t>(i * bytes / s.grain)];
  s.cells = std::move(cells);
  s.grain = bytes;
}

void Checker::touch(const Site& site, std::int32_t access, const std::byte* address, std::int64_t bytes,
                    const std::byte* object) {
  Shadow* s = shadow_of(site, address, bytes, object);
  if (s == nullptr) return;
  const std::int64_t at = address - s->region.base;
  refine(*s, at % bytes == 0 ? bytes : 1);
  if (s->region.written != nullptr) {
    std::uint8_t* written = s->region.written + at;
    if (site.reads && std::find(written, written + bytes, 0) != written + bytes)
      fail(concat(site.verb, " of an element that nothing has written: ", element_text(*s, at / bytes)), site);
    if (site.writes) std::fill_n(written, bytes, std::uint8_t{1});
  }
  for (std::int64_t c = at / s->grain; c * s->grain < at + bytes; ++c)
    check_cell(s->cells[static_cast<std::size_t>(c)], *s, site, access, at / bytes);
}

void Checker::check_cell(Cell& cell, const Shadow& s, const Site& site, std::int32_t access, std::int64_t element) {
  // Other blocks.
  if (foreign(cell.writer_block, block_)) conflict(s, site, element, cell.writer_block);
  if (site.writes && foreign(cell.reader_block, block_)) conflict(s, site, element, cell.reader_block);
  if (!site.atomic && foreign(cell.atomic_block, block_)) conflict(s, site, element, cell.atomic_block);
  // This block.
  if (cell.epoch != block_) {
    cell.epoch = block_;
    cell.last_write = cell.readers = 0;
  }
  const std::int32_t last = cell.last_write;
  if (last == access && !site.atomic)
    fail(concat(site.verb, " writes one element more than once: ", element_text(s, element)), site);
  if (last != 0 && last != access && !(site.atomic && nodes_[static_cast<std::size_t>(last)].site->atomic) &&
      !reaches(access, last))
    unordered(s, site, element, last);
  if (site.writes) {
    for (std::int32_t reader : reader_sets_[static_cast<std::size_t>(cell.readers)])
      if (!reaches(access, reader)) unordered(s, site, element, reader);
    cell.last_write = access;
    cell.readers = 0;
  } else {
    cell.readers = add_reader(cell.readers, access);
  }
  if (site.atomic) {
    join_owner(cell.atomic_block, block_);
  } else if (site.writes) {
    cell.writer_block = block_;
  } else {
    join_owner(cell.reader_block, block_);
  }
}

bool Checker::reaches(std::int32_t from, std::int32_t target) {
  if (from == target) return true;
  if (from < target) return false;  // a token only knows what came before
  const auto [it, fresh] = reaches_.emplace(pair_key(from, target), false);
  if (!fresh) return it->second;
  // Iterative: chains of tokens are as long as loops.
  std::vector<std::int32_t> work{from};
  std::vector<bool> seen(static_cast<std::size_t>(from - target), false);
  bool found = false;
  while (!work.empty() && !found) {
    const std::int32_t n = work.back();
    work.pop_back();
    for (std::int32_t p : nodes_[static_cast<std::size_t>(n)].after) {
      if (p < target || found) continue;
      if (p == target) {
        found = true;
      } else if (!seen[static_cast<std::size_t>(p - target)]) {
        seen[static_cast<std::size_t>(p - target)] = true;
        work.push_back(p);
      }
    }
  }
  return reaches_[pair_key(from, target)] = found;
}

std::int32_t Checker::add_reader(std::int32_t readers, std::int32_t access) {
  const auto [it, fresh] = reader_set_.emplace(pair_key(readers, access), 0);
  if (!fresh) return it->second;
  std::vector<std::int32_t> set = reader_sets_[static_cast<std::size_t>(readers)];
  // Readers that the new one comes after need not be remembered.
  std::erase_if(set, [&](std::int32_t r) { return reaches(access, r); });
  set.push_back(access);
  reader_sets_.push_back(std::move(set));
  return it->second = static_cast<std::int32_t>(reader_sets_.size() - 1);
}

std::string Checker::element_text(const Shadow& s, std::int64_t element) const {
  return concat(s.region.label, ", element ", element);
}

void Checker::conflict(const Shadow& s, const Site& site, std::int64_t element, std::int32_t other) const {
  const std::string who = other >= 0 ? concat("block ", other) : std::string("other blocks");
  fail(concat("blocks conflict: ", site.verb, " by block ", block_, " of what ", who,
              site.writes ? " touched: " : " wrote: ", element_text(s, element)),
       site);
}

void Checker::unordered(const Shadow& s, const Site& site, std::int64_t element, std::int32_t other) const {
  const Site* first = nodes_[static_cast<std::size_t>(other)].site;
  fail(concat(site.verb, " overlaps the ", first->verb, " at ", first->where.file, ":", first->where.line,
              " of the same block and no token orders them: ", element_text(s, element)),
       site);
}

void Checker::fail(const std::string& what, const Site& site) const {
  throw DeviceError(concat("kernel ", kernel_, ": ", what), site.where);
}

}  // namespace tessera::cpu
