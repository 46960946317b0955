// Which SSA value each variable (C++ tile object) has in each open region. Private to the tracer.
#pragma once
#include <cstdint>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::lang {

/// Bindings form one stack per variable, innermost region on top; regions are named by their depth (0: the kernel).
class Variables {
 public:
  using Number = std::uint32_t;
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

  struct Binding {
    std::uint32_t depth = kNowhere;
    ir::Value value;
    std::uint32_t below = kNowhere;  ///< index of the binding of an outer region
  };

  Number add() {
    top_.push_back(kNowhere);
    return static_cast<Number>(top_.size() - 1);
  }
  bool exists(Number v) const { return v < top_.size(); }
  /// The innermost binding; null when every region that knew the variable has been closed.
  const Binding* innermost(Number v) const { return top_[v] == kNowhere ? nullptr : &bindings_[top_[v]]; }
  /// Binds in the region at `depth`, which is at least as deep as the innermost binding. True if it was not bound
  /// there.
  bool bind(Number v, std::uint32_t depth, ir::Value value);
  /// Removes the innermost binding and returns its value.
  ir::Value unbind(Number v);

 private:
  std::vector<std::uint32_t> top_;
  std::vector<Binding> bindings_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tessera::lang
