// Lays out, fills and compares the memory of a launch.
#include "generate/memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "generate/number.hpp"

namespace tessera::generate {
namespace {

constexpr std::size_t kMaxBytes = 1 << 18;
constexpr std::byte kCanary{0x5C};

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

/// Mostly small numbers, which floats add exactly; sometimes the ends of the range.
Cell element(ElementType e, std::uint64_t random) {
  const auto small = static_cast<std::int64_t>(random >> 8 & 31) - 16;
  const bool rare = random % 64 == 0;
  if (e == ElementType::boolean) {  // memory of others holds any byte for true
    const auto other = static_cast<std::int64_t>(random >> 16 & 254) + 1;
    return integer((small & 1) == 0 ? 0 : random % 8 == 0 ? other : 1);
  }
  if (is_float(e)) {
    if (rare) {
      static constexpr double kSpecial[] = {-0.0, INFINITY, -INFINITY, NAN, 1e30, -1e30, 1e-40, 65504, 3.3e38, 448};
      return real(rounded(e, kSpecial[(random >> 16) % std::size(kSpecial)]));
    }
    return real(rounded(e, static_cast<double>(small) / 4));
  }
  if (!rare) return integer(wrapped(e, static_cast<std::uint64_t>(is_signed(e) ? small : small + 16)));
  static constexpr std::int64_t kSpecial[] = {INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, -1, 127, 128, 32768, 65535};
  return integer(wrapped(e, static_cast<std::uint64_t>(kSpecial[(random >> 16) % std::size(kSpecial)])));
}

/// Calls f(byte offset from the tensor's origin, number) for every element, row-major.
template <class F>
void each_element(const Layout& t, int size, F f) {
  std::int64_t total = 1;
  for (const std::int64_t d : t.dims) total *= d;
  std::vector<std::int64_t> at(t.dims.size(), 0);
  for (std::int64_t k = 0; k < total; ++k) {
    std::int64_t offset = 0;
    for (std::size_t a = 0; a < at.size(); ++a) offset += at[a] * t.strides[a];
    f(offset * size, k);
    for (std::size_t a = at.size(); a-- > 0 && ++at[a] == t.dims[a];) at[a] = 0;
  }
}

std::int64_t span_of(const Layout& t) {
  std::int64_t last = 0;
  for (std::size_t a = 0; a < t.dims.size(); ++a) {
    if (t.dims[a] == 0) return 0;
    last += (t.dims[a] - 1) * t.strides[a];
  }
  return last + 1;
}

}  // namespace

bool Memory::make(const Program& p, const Launch& launch) {
  tensors.clear();
  std::size_t total = kGuard, next = 0;
  for (std::size_t i = 0; i < p.params.size(); ++i) {
    if (!p.params[i].is_tensor()) continue;
    const Layout& t = launch.tensors[next++];
    const auto size = static_cast<std::size_t>(tessera::info(p.params[i].elem).bits / 8);
    for (const std::int64_t d : t.dims) {
      if (d < 0 || d > 100000) return false;
    }
    const std::int64_t span = span_of(t);
    if (span < 0 || span > 100000 || t.before < 0 || t.after < 0) return false;
    Placed placed{static_cast<int>(i), p.params[i].elem, &t, 0, total, 0};
    placed.origin = total + static_cast<std::size_t>(t.before) * size;
    placed.bytes = static_cast<std::size_t>(t.before + span + t.after) * size;
    total += (placed.bytes + kGuard - 1) / kGuard * kGuard + kGuard;
    tensors.push_back(placed);
    if (total > kMaxBytes) return false;
  }
  initial.assign(total, kCanary);
  element.assign(total, 0);
  for (const Placed& t : tensors) {
    const int size = tessera::info(t.elem).bits / 8;
    each_element(*t.layout, size, [&](std::int64_t offset, std::int64_t k) {
      const std::size_t at = t.origin + static_cast<std::size_t>(offset);
      store(t.elem, initial.data() + at,
            generate::element(t.elem, mixed(t.layout->fill + static_cast<std::uint64_t>(k))));
      std::memset(element.data() + at, 1, static_cast<std::size_t>(size));
    });
  }
  return true;
}

namespace {

bool combines(const Node& n) {
  const KindClass c = info(n.kind).cls;
  return c == KindClass::Reduce || c == KindClass::Scan || n.kind == Kind::Mma ||
         std::any_of(n.kids.begin(), n.kids.end(), [](const Node& kid) { return combines(kid); });
}

/// A sum may combine its identity, +0, any number of times, so the sign of a zero result is not compared.
bool combines(const Program& p) {
  return combines(p.body) ||
         std::any_of(p.functions.begin(), p.functions.end(), [](const Function& f) { return combines(f.body); });
}

}  // namespace

std::string Memory::difference(const Program& p, const std::byte* expected, const std::byte* found) const {
  if (std::memcmp(expected, found, initial.size()) == 0) return {};
  const bool signs_of_zeros_are_open = combines(p);
  std::string text;
  int wrong = 0;
  for (const Placed& t : tensors) {
    const int size = tessera::info(t.elem).bits / 8;
    each_element(*t.layout, size, [&](std::int64_t offset, std::int64_t k) {
      const std::size_t at = t.origin + static_cast<std::size_t>(offset);
      if (std::memcmp(expected + at, found + at, static_cast<std::size_t>(size)) == 0) return;
      const Cell x = load(t.elem, expected + at), y = load(t.elem, found + at);
      if (is_float(t.elem) && std::isnan(x.d) && std::isnan(y.d)) return;
      if (is_float(t.elem) && x.d == y.d && signs_of_zeros_are_open) return;
      if (wrong++ < 4) {
        text += "  parameter " + std::to_string(t.param) + ", element " + std::to_string(k) + ": expected " +
                (is_float(t.elem) ? std::to_string(x.d) : std::to_string(x.i)) + ", found " +
                (is_float(t.elem) ? std::to_string(y.d) : std::to_string(y.i)) + "\n";
      }
    });
  }
  if (wrong > 0) text = std::to_string(wrong) + " elements differ\n" + text;
  for (std::size_t at = 0; at < initial.size(); ++at) {
    if (element[at] != 0 || expected[at] == found[at]) continue;
    std::size_t near = 0;
    for (std::size_t t = 0; t < tensors.size(); ++t) near = tensors[t].storage <= at + kGuard ? t : near;
    return text + "  written outside: near parameter " + std::to_string(tensors.empty() ? 0 : tensors[near].param) +
           ", " + std::to_string(static_cast<std::int64_t>(at) - static_cast<std::int64_t>(tensors[near].origin)) +
           " bytes from its first element\n";
  }
  return text;
}

}  // namespace tessera::generate
