// Claims of every kind about a random program, most of them false, and what an execution says of those that are
// certified: assertions about numbers, and a log of where each access was.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "certify/support.hpp"

namespace tessera::test {

/// Any claims about `module`'s operations and arguments.
std::vector<analysis::Claim> random_claims(const ir::Module& module, std::mt19937_64& rng);

/// A program that is made to say where certified claims are wrong. Accesses are not executed: their tensors are
/// nowhere.
class Observed {
 public:
  /// `certified`: claims about operations of `module`, which is changed; `pieces`: of the launch, along each axis.
  Observed(ir::Module& module, std::vector<analysis::Claim> certified, std::vector<std::int64_t> pieces);
  /// After a run with these argument slots: the claims that it has refuted, in words, or nothing. (A false claim about
  /// numbers ends the run with an error instead.)
  std::string refuted(const std::vector<std::uint64_t>& slots) const;

 private:
  static constexpr std::int64_t kRows = 1 << 11, kColumns = 8;
  /// What the program writes down of one access: its number, the execution of its region and of the loop around it,
  /// and its index.
  struct Row {
    std::int64_t access, region, loop, index[2];
  };
  struct Access {
    const ir::Operation* op;
    ir::Type view;
    const ir::Operation* tensor;
    std::size_t base;  ///< entry argument of the tensor's address
  };
  void assert_number(const analysis::Claim& c);
  void observe(ir::Module& module);
  ir::Value next(ir::Builder& b, std::int64_t cell);
  void write(ir::Builder& b, const std::vector<ir::Value>& row);
  std::size_t number_of(const ir::Operation* op) const;
  std::vector<Row> rows() const;
  std::string refuted_argument(const analysis::Claim& c, const std::vector<std::uint64_t>& slots) const;
  std::string refuted_launch(const analysis::LaunchQuestion& question, const std::vector<std::uint64_t>& slots) const;
  std::string refuted_access(const analysis::Claim& c, const std::vector<std::uint64_t>& slots,
                             const std::vector<Row>& rows) const;
  static bool are_apart(const Access& a, const Row& x, const Access& b, const Row& y);

  std::vector<analysis::Claim> claims_;
  std::vector<std::int64_t> pieces_;
  std::vector<Access> accesses_;
  std::vector<ir::Type> arguments_;
  std::vector<std::int64_t> cells_;  ///< two counters, and the rows
};

}  // namespace tessera::test
