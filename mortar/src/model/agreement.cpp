// Properties of all processes, gathered and compared with those of rank 0.
#include "model/agreement.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <span>

#include "model/messages.hpp"
#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"
#include "text/read_text.hpp"

namespace mortar {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{1} << 24;

class Fnv1a {
 public:
  Fnv1a& add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) hash_ = (hash_ ^ static_cast<std::uint64_t>(b)) * 0x100000001b3U;
    return *this;
  }
  Fnv1a& add(const std::string& text) { return add(std::as_bytes(std::span(text))).add_number(text.size()); }
  Fnv1a& add_number(std::uint64_t value) { return add(std::as_bytes(std::span(&value, 1))); }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

/// Names, types, sizes and the first bytes of all tensors. A sum, because files may hold them in any order.
std::uint64_t hash_of(const Checkpoint& files) {
  constexpr std::uint64_t kRead = 64;  // two trainings of a model differ in the first bytes of some tensor
  std::uint64_t sum = 0;
  for (const auto& file : files.files()) {
    for (const FileTensor& tensor : file->tensors()) {
      std::array<std::byte, kRead> first{};
      const auto read = std::span(first).first(static_cast<std::size_t>(std::min(tensor.bytes, kRead)));
      file->read(tensor.begin, read);
      Fnv1a hash;
      hash.add(tensor.name).add_number(static_cast<std::uint64_t>(tensor.type)).add_number(tensor.bytes).add(read);
      sum += hash.value();
    }
  }
  return sum;
}

}  // namespace

std::vector<Property> properties_of(const std::string& folder, const ModelOptions& options, const Checkpoint* files) {
  const auto number = [](const char* name, std::int64_t value) {
    return Property{name, Property::Kind::Number, value};
  };
  const auto hash = [](const char* name, std::uint64_t value) {
    return Property{name, Property::Kind::Hash, static_cast<std::int64_t>(value)};
  };
  const std::string config = text::read_text((std::filesystem::path(folder) / "config.json").string(), kMaxConfigBytes);
  return {hash("config.json", Fnv1a().add(config).value()),
          number("random_weights (0: off, 1: on)", options.random_weights ? 1 : 0),
          number("the seed of random_weights", static_cast<std::int64_t>(options.random_weights.value_or(0))),
          hash("weights", files == nullptr ? 0 : hash_of(*files)),
          number("exact (0: off, 1: on)", options.exact ? 1 : 0),
          number("kv_type", static_cast<std::int64_t>(options.kv_type)),
          number("max_context", options.max_context),
          number("max_batch", options.max_batch),
          number("prefill_tokens", options.prefill_tokens)};
}

void check_agreement(Messages& messages, const std::vector<Property>& own) {
  std::vector<std::int64_t> values;
  for (const Property& p : own) values.push_back(p.value);
  const std::vector<std::int64_t> all = messages.gather(values);
  const std::size_t ranks = all.size() / own.size();
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::int64_t expected = all[i], found = all[rank * own.size() + i];
      if (expected == found) continue;
      const std::string which = tessera::concat("rank ", rank, " of ", ranks, ": expected ");
      const std::string difference =
          own[i].kind == Property::Kind::Hash
              ? tessera::concat("the ", own[i].name, " of rank 0, found another one")
              : tessera::concat(own[i].name, " = ", expected, ", as rank 0 has it, found ", found);
      throw RanksError(tessera::concat(
          which, difference, ".\n  Start the same command with the same files and environment on all ranks."));
    }
  }
}

}  // namespace mortar
