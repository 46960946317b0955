// Nothing in a file is used before the checksum over all of it has been verified.
#include "jit/store/cache_file.hpp"

#include <cstring>
#include <string_view>

#include "jit/code/sha256.hpp"
#include "tessera/base/bytes.hpp"

namespace tessera::jit {
namespace {

constexpr std::string_view kCubin = "TSRCUBIN", kNote = "TSRNOTES";
constexpr std::uint32_t kFileVersion = 3;
constexpr std::size_t kFileHeader = 56, kChecksum = sizeof(Digest);
constexpr std::uint64_t kMaxMicroseconds = 365 * 86400 * std::uint64_t{1000000};  // of compiling one kernel

std::vector<std::byte> description(const CachedCubin& code) {
  BytesOut out;
  for (const std::string* field : {&code.label, &code.gpu, &code.assembler, &code.warnings}) out.text(*field);
  out.number(static_cast<std::uint8_t>(code.register_pressure));
  out.number(static_cast<std::uint64_t>(code.seconds * 1e6));
  return out.take();
}

std::vector<std::byte> write(std::string_view magic, const CacheKey& key, std::span<const std::byte> text,
                             std::span<const std::byte> contents) {
  BytesOut out;
  out.reserve(kFileHeader + text.size() + contents.size() + kChecksum);
  out.bytes(std::as_bytes(std::span(magic)));
  out.number(kFileVersion);
  out.number(static_cast<std::uint32_t>(text.size()));
  out.number(static_cast<std::uint64_t>(contents.size()));
  out.bytes(key);
  out.bytes(text);
  out.bytes(contents);
  out.bytes(sha256(out.view()));
  return out.take();
}

struct Parts {
  std::span<const std::byte> text, contents;
};

std::optional<Parts> read(std::string_view magic, std::span<const std::byte> file, const CacheKey* key) {
  if (file.size() < kFileHeader + kChecksum) return std::nullopt;
  const auto body = file.first(file.size() - kChecksum);
  const Digest checksum = sha256(body);
  if (std::memcmp(checksum.data(), file.data() + body.size(), kChecksum) != 0) return std::nullopt;
  BytesIn in(body);
  if (std::memcmp(in.bytes(magic.size()).data(), magic.data(), magic.size()) != 0) return std::nullopt;
  if (in.number<std::uint32_t>() != kFileVersion) return std::nullopt;
  const auto text_bytes = in.number<std::uint32_t>();
  const auto content_bytes = in.number<std::uint64_t>();
  const auto found_key = in.bytes(sizeof(CacheKey));
  if (key && std::memcmp(found_key.data(), key->data(), sizeof(CacheKey)) != 0) return std::nullopt;
  Parts parts;
  parts.text = in.bytes(text_bytes);
  parts.contents = in.bytes(content_bytes);
  return in.ended_well() ? std::optional(parts) : std::nullopt;
}

/// Cuts the file down to a part of it.
std::vector<std::byte> keep(std::vector<std::byte>&& file, std::span<const std::byte> part) {
  const std::ptrdiff_t begin = part.data() - file.data();
  file.resize(static_cast<std::size_t>(begin) + part.size());
  file.erase(file.begin(), file.begin() + begin);
  return std::move(file);
}

}  // namespace

std::vector<std::byte> write_cache_file(const CacheKey& key, const CachedCubin& code) {
  return write(kCubin, key, description(code), code.cubin);
}

std::optional<CachedCubin> read_cache_file(std::vector<std::byte> file, const CacheKey* key) {
  const auto parts = read(kCubin, file, key);
  if (!parts) return std::nullopt;
  BytesIn text(parts->text);
  CachedCubin code;
  for (std::string* field : {&code.label, &code.gpu, &code.assembler, &code.warnings}) *field = text.text();
  code.register_pressure = text.number<std::uint8_t>() != 0;
  const auto microseconds = text.number<std::uint64_t>();
  code.seconds = static_cast<double>(microseconds) * 1e-6;
  if (!text.ended_well() || microseconds > kMaxMicroseconds) return std::nullopt;
  code.cubin = keep(std::move(file), parts->contents);
  return code;
}

std::vector<std::byte> write_note_file(const CacheKey& key, std::span<const std::byte> note) {
  return write(kNote, key, {}, note);
}

std::optional<std::vector<std::byte>> read_note_file(std::vector<std::byte> file, const CacheKey& key) {
  const auto parts = read(kNote, file, &key);
  if (!parts || !parts->text.empty()) return std::nullopt;
  return keep(std::move(file), parts->contents);
}

}  // namespace tessera::jit
