// Programs of the model check: operations over streams and storages, as text, enumerated, and at random.
#pragma once
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace tessera::runtime::model {

/// docs/internals/model-check.md has the list with the meaning of each.
enum class Kind : std::uint8_t {
  Mix,
  Fill,
  Read,
  Fail,
  Wait,
  FailWait,
  Renew,
  HostRead,
  HostWrite,
  Build,
  Submit,
  Cancel,
  Sync,
  Restart,
  Capture,
  Replay,
  Number,
  DropGraph
};
inline constexpr int kKinds = 18;

/// The operands of a kind, in the order of its digits: a stream, storages, and for Renew a second stream.
struct KindInfo {
  const char* name;
  const char* operands;  ///< 's': stream, 'y' and 'x': storages, 't': second stream
};
const KindInfo& info(Kind kind);

struct Operation {
  Kind kind = Kind::Mix;
  std::uint8_t stream = 0, y = 0, x = 0;  ///< Renew: `x` is its second stream
};
using Program = std::vector<Operation>;

std::string text(const Program& program);
/// Throws std::invalid_argument.
Program parse(const std::string& text);

/// What the programs of a family are made of.
struct Alphabet {
  int streams = 1, storages = 1;
  std::vector<Kind> kinds;
  std::vector<Operation> operations() const;
};
/// All kinds that a device without failing work can run, and all kinds; both without those about graphs.
std::span<const Kind> kinds_without_failures();
std::span<const Kind> all_kinds();
std::span<const Kind> graph_kinds();

/// True if a submit or cancel has something pending, and a build has not; the same for graphs.
bool makes_sense(const Program& program);
/// Calls `f` with every program of `length` operations that makes sense, once for all programs that differ in the names
/// of streams and storages only. Stops if `f` returns false.
void for_each_program(const Alphabet& alphabet, std::size_t length, const std::function<bool(const Program&)>& f);
Program random_program(const Alphabet& alphabet, std::size_t length, std::mt19937_64& random);

}  // namespace tessera::runtime::model
