// Copying and inlining operations, shared by passes that change control flow.
#pragma once
#include <span>
#include <unordered_map>
#include <vector>

#include "tessera/analysis/values.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// Copies operations; operands that were copied or mapped are replaced by their copies.
class Copier {
 public:
  void map(ir::Value from, ir::Value to) { map_[from.impl()] = to; }
  ir::Value mapped(ir::Value v) const;
  std::vector<ir::Value> mapped(const std::vector<ir::Value>&) const;
  /// Copies `op`, regions included, to the builder's place.
  ir::Operation* copy(const ir::Operation& op, ir::Builder& at);
  /// Copies every operation of `block` but its terminator.
  void copy_body(const ir::Block& block, ir::Builder& at);

 private:
  void copy_block(const ir::Block& from, ir::Block& to);
  std::unordered_map<const ir::ValueImpl*, ir::Value> map_;
};

using analysis::first_carried_arg;
using analysis::first_carried_operand;
using analysis::leaves_early;

/// Combines tiles of one shape element by element as the region of `aggregate`, a reduction or scan, combines two
/// elements: `arguments` are those of the region. Returns what it yields. The region's operations are elementwise.
std::vector<ir::Value> combined_elementwise(ir::Builder&, const ir::Operation& aggregate,
                                            const std::vector<ir::Value>& arguments,
                                            std::span<const std::int64_t> shape);

/// Replaces the token operand of `access`; a null token removes it.
void set_token(ir::Operation& access, ir::Value token);

/// Removes mask and padding of `access`, whose mask is true everywhere.
void drop_mask(ir::Operation& access);

/// Moves the operations of `block` (terminator excepted) before `op`.
void move_body_before(ir::Block& block, ir::Operation& op);
/// Replaces the results of `op` by `values` and erases it.
void replace(ir::Operation& op, const std::vector<ir::Value>& values);

}  // namespace tessera::passes
