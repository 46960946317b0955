// A kernel in numbers, as choose_hints sees it when it chooses: for its learnt rules, and for the data that they are
// learnt from (TESSERA_DECISIONS).
#pragma once
#include <array>
#include <cstdint>
#include <span>

namespace tessera::passes {

enum class Feature : std::uint8_t {
#define TESSERA_FEATURE(name, doc) name,
#include "tessera/passes/features.def"
};
struct FeatureInfo {
  const char* name;
  const char* doc;
};
/// All features, in the order of the enumeration.
std::span<const FeatureInfo> feature_table() noexcept;
inline constexpr std::size_t kFeatures = 0
#define TESSERA_FEATURE(name, doc) +1
#include "tessera/passes/features.def"
    ;

/// One number of each feature. A kernel of which nothing is known has zeros.
class Features {
 public:
  std::int64_t operator[](Feature f) const noexcept { return values_[static_cast<std::size_t>(f)]; }
  std::int64_t& operator[](Feature f) noexcept { return values_[static_cast<std::size_t>(f)]; }
  bool operator==(const Features&) const = default;

 private:
  std::array<std::int64_t, kFeatures> values_{};
};

}  // namespace tessera::passes
