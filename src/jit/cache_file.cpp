// Nothing in a file is believed before its checksum has been verified over all of it.
#include "jit/cache_file.hpp"

#include <cstring>

#include "jit/sha256.hpp"

namespace tessera::jit {
namespace {

constexpr char kMagic[8] = {'T', 'S', 'R', 'C', 'U', 'B', 'I', 'N'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeader = 56, kChecksum = sizeof(Digest);

/// Fields one after the other.
struct Writer {
  std::vector<std::byte> out;

  void bytes(std::span<const std::byte> data) {
    const std::size_t at = out.size();
    out.resize(at + data.size());
    if (!data.empty()) std::memcpy(out.data() + at, data.data(), data.size());
  }
  template <class T>
  void number(T value) {
    std::byte data[sizeof(T)];
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      data[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
    }
    bytes(data);
  }
  void text(const std::string& t) {
    number(static_cast<std::uint32_t>(t.size()));
    bytes(std::as_bytes(std::span(t)));
  }
};

/// Takes values off the front; `good` turns false where there are too few bytes.
struct Reader {
  std::span<const std::byte> rest;
  bool good = true;

  std::span<const std::byte> bytes(std::uint64_t n) {
    good = good && n <= rest.size();
    if (!good) return {};
    const auto taken = rest.first(static_cast<std::size_t>(n));
    rest = rest.subspan(static_cast<std::size_t>(n));
    return taken;
  }
  template <class T>
  T number() {
    std::uint64_t value = 0;
    const auto data = bytes(sizeof(T));
    for (std::size_t i = 0; i < data.size(); ++i) value |= std::to_integer<std::uint64_t>(data[i]) << (8 * i);
    return static_cast<T>(value);
  }
  std::string text() {
    const auto data = bytes(number<std::uint32_t>());
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }
};

std::vector<std::byte> description(const CachedCubin& code) {
  Writer w;
  for (const std::string* field : {&code.label, &code.gpu, &code.assembler, &code.warnings}) w.text(*field);
  w.number(static_cast<std::uint8_t>(code.register_pressure));
  w.number(static_cast<std::uint64_t>(code.seconds * 1e6));
  return std::move(w.out);
}

}  // namespace

std::vector<std::byte> write_cache_file(const CacheKey& key, const CachedCubin& code) {
  const std::vector<std::byte> text = description(code);
  Writer w;
  w.out.reserve(kHeader + text.size() + code.cubin.size() + kChecksum);
  w.bytes(std::as_bytes(std::span(kMagic)));
  w.number(kVersion);
  w.number(static_cast<std::uint32_t>(text.size()));
  w.number(static_cast<std::uint64_t>(code.cubin.size()));
  w.bytes(key);
  w.bytes(text);
  w.bytes(code.cubin);
  w.bytes(sha256(w.out));
  return std::move(w.out);
}

std::optional<CachedCubin> read_cache_file(std::span<const std::byte> file, const CacheKey* key) {
  if (file.size() < kHeader + kChecksum) return std::nullopt;
  const auto body = file.first(file.size() - kChecksum);
  const Digest checksum = sha256(body);
  if (std::memcmp(checksum.data(), file.data() + body.size(), kChecksum) != 0) return std::nullopt;
  Reader r{body};
  if (std::memcmp(r.bytes(sizeof kMagic).data(), kMagic, sizeof kMagic) != 0) return std::nullopt;
  if (r.number<std::uint32_t>() != kVersion) return std::nullopt;
  const auto text_bytes = r.number<std::uint32_t>();
  const auto cubin_bytes = r.number<std::uint64_t>();
  const auto found_key = r.bytes(sizeof(CacheKey));
  if (key && std::memcmp(found_key.data(), key->data(), sizeof(CacheKey)) != 0) return std::nullopt;
  Reader text{r.bytes(text_bytes)};
  CachedCubin code;
  for (std::string* field : {&code.label, &code.gpu, &code.assembler, &code.warnings}) *field = text.text();
  code.register_pressure = text.number<std::uint8_t>() != 0;
  code.seconds = static_cast<double>(text.number<std::uint64_t>()) * 1e-6;
  const auto cubin = r.bytes(cubin_bytes);
  if (!r.good || !r.rest.empty() || !text.good || !text.rest.empty()) return std::nullopt;
  code.cubin.assign(cubin.begin(), cubin.end());
  return code;
}

}  // namespace tessera::jit
