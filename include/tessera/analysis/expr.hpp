// Launch expressions: exact integer expressions over an entry's arguments, such as ceil(x.dim(1) / 64) - 1, interned in
// a pool. Nothing has to be proven about them symbolically: they are evaluated, and compared as numbers, at the launch.
// docs/compiler/facts.md.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tessera::analysis {

enum class ExprKind : std::uint8_t {
  Const,
  Arg,
  Add,
  Sub,
  Mul,
  FloorDiv,  ///< rounded down; divisors below 1 make it unknown
  CeilDiv,   ///< rounded up; divisors below 1 make it unknown
  Mod,       ///< a - FloorDiv(a, b) * b; divisors below 1 make it unknown
  Min,
  Max
};

/// A handle into an ExprPool.
struct Expr {
  std::uint32_t id = 0;
  bool operator==(const Expr&) const = default;
};

/// Every value in [lo, hi]; INT64_MIN and INT64_MAX also mean "no bound".
struct Interval {
  std::int64_t lo = INT64_MIN;
  std::int64_t hi = INT64_MAX;
};

struct ExprNode {
  ExprKind kind = ExprKind::Const;
  std::uint8_t bits = 64;  ///< Arg: how many low bits of its slot are read
  bool is_signed = true;   ///< Arg: how they are read
  std::int64_t value = 0;  ///< Const: the number; Arg: the entry argument
  Expr lhs, rhs;           ///< operands of the binary kinds
  Interval interval;       ///< contains the value in every launch
};

/// Makes launch expressions. Constants are folded; what the launch contract bounds is used to simplify.
class ExprPool {
 public:
  ExprPool();
  Expr constant(std::int64_t value);
  Expr arg(int number, int bits = 64, bool is_signed = true);
  /// Promises that arguments `a` and `b` are equal in every launch: expressions made from now on name the lower.
  void identify(int a, int b);
  Expr add(Expr a, Expr b);
  Expr sub(Expr a, Expr b);
  Expr mul(Expr a, Expr b);
  Expr floor_div(Expr a, Expr b);
  Expr ceil_div(Expr a, Expr b);
  Expr mod(Expr a, Expr b);
  Expr min(Expr a, Expr b);
  Expr max(Expr a, Expr b);

  /// Promises that `e` lies in `interval` in every launch that runs a block. Expressions made from it before keep what
  /// they knew.
  void promise(Expr e, Interval interval);

  const ExprNode& operator[](Expr e) const { return nodes_[e.id]; }
  std::size_t size() const { return nodes_.size(); }
  std::optional<std::int64_t> constant_value(Expr e) const;
  /// `e` as a sum: the rest and the constant. The rest of a constant is the constant 0.
  struct Offset {
    Expr base;
    std::int64_t offset;
  };
  Offset split(Expr e) const;
  /// True if a <= b in every launch. False says nothing.
  bool always_le(Expr a, Expr b) const { return le(a, b, 0, 6); }

  /// The value over the launch's argument slots; nullopt where an operation leaves 64 bits or divides by less than 1.
  std::optional<std::int64_t> evaluate(Expr e, std::span<const std::uint64_t> slots) const;
  /// As above, from the values of all expressions with lower numbers, among them its operands.
  std::optional<std::int64_t> evaluate_node(Expr e, std::span<const std::uint64_t> slots,
                                            std::span<const std::optional<std::int64_t>> lower) const;
  /// Text with the arguments called `names[i]` ("arg3" beyond its end); "..." for what is beyond kMaxNodesOfText.
  std::string text(Expr e, std::span<const std::string> names = {}) const;

 private:
  static constexpr int kShortExpression = 256, kMaxNodesOfText = 64;  ///< nodes, as often as they are written
  static constexpr int kMaxFactors = 256;                             ///< likewise, that quotient() looks at
  std::optional<std::int64_t> leaf(const ExprNode& n, std::span<const std::uint64_t> slots) const;
  std::optional<std::int64_t> evaluate_short(Expr e, std::span<const std::uint64_t> slots, int& steps) const;
  std::optional<std::int64_t> evaluate_shared(Expr e, std::span<const std::uint64_t> slots) const;
  std::string text(Expr e, std::span<const std::string> names, int& nodes) const;
  int representative(int number) const;
  Expr intern(ExprNode node);
  Expr binary(ExprKind kind, Expr a, Expr b);
  Expr with_offset(Expr base, std::int64_t offset);
  Expr with_offset_of(Expr e, std::int64_t offset) { return add(e, constant(offset)); }
  std::optional<Expr> quotient(Expr product, Expr factor);  ///< r with product = r * factor, if it shows
  std::optional<Expr> quotient(Expr product, Expr factor, int& steps);
  bool le(Expr a, Expr b, std::int64_t offset, int depth) const;  ///< a <= b + offset
  bool le_by_upper(Expr a, Expr b, std::int64_t offset, int depth) const;
  bool le_by_lower(Expr a, Expr b, std::int64_t offset, int depth) const;
  bool le_by_rounding(Expr a, Expr b, std::int64_t offset, int depth) const;
  std::deque<ExprNode> nodes_;  // references stay valid while expressions are made
  std::unordered_multimap<std::uint64_t, std::uint32_t> index_;
  std::unordered_map<int, int> same_as_;  ///< an argument of a lower number that it is equal to
};

/// The value of one binary step. False where the result is unknown.
bool evaluate_step(ExprKind kind, std::int64_t a, std::int64_t b, std::int64_t& result) noexcept;
/// An argument's value out of its slot.
std::int64_t read_slot(std::uint64_t slot, int bits, bool is_signed) noexcept;

}  // namespace tessera::analysis
