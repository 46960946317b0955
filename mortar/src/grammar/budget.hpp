// What compiling one grammar may still take. Every state, transition and instruction that is built is a step, so time
// and memory are bounded together.
#pragma once
#include <cstddef>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"

namespace mortar::grammar {

class Budget {
 public:
  explicit Budget(std::size_t steps) : limit_(steps), left_(steps) {}
  /// Throws RequestError when more steps are taken than there are.
  void spend(std::size_t steps) {
    if (steps > left_)
      throw RequestError(tessera::concat("the grammar takes more than ", limit_,
                                         " steps to compile; use fewer or shorter alternatives, smaller bounds of "
                                         "repetitions, or simpler patterns"));
    left_ -= steps;
  }

 private:
  std::size_t limit_, left_;
};

}  // namespace mortar::grammar
