// A scalar expression over a kernel's entry arguments, taken out of the IR so that the host can evaluate it at launch
// without allocating: `require` conditions, and later the obligations of the compiler's proofs.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::ir {

class ScalarProgram {
 public:
  /// Takes the slice that computes `value`; nullopt if it reads anything but constants, entry arguments and queries of
  /// view shapes (`why` then says which operation stands in the way).
  static std::optional<ScalarProgram> extract(Value value, std::string* why = nullptr);

  /// Evaluates over the launch's argument slots (raw bits). Neither allocates nor throws.
  std::uint64_t evaluate(std::span<const std::uint64_t> args) const;
  bool holds(std::span<const std::uint64_t> args) const { return (evaluate(args) & 1) != 0; }

  /// True if the value depends on argument slot `slot`.
  bool reads(std::size_t slot) const noexcept;
  /// True if both compute the same in the same steps.
  bool operator==(const ScalarProgram& other) const;

  struct Step;  ///< defined in the source file

 private:
  std::shared_ptr<const std::vector<Step>> steps_;
};

}  // namespace tessera::ir
