// A compiled grammar, with the masks that are known for it.
#pragma once
#include <memory>
#include <mutex>

#include "grammar/masks.hpp"
#include "grammar/program.hpp"
#include "mortar/grammar.hpp"

namespace mortar {

struct Grammar::State {
  explicit State(grammar::Budget& budget) : program(budget) {}

  grammar::Program program;
  bool is_call = false;  ///< the inside of one call: what is begun by a token such as <tool_call>
  bool repeats = true;   ///< another call may follow it

  /// The masks for a vocabulary; those for another one are forgotten.
  std::shared_ptr<grammar::MaskCache> masks(const Vocabulary::State& vocabulary) const {
    const std::scoped_lock lock(mutex_);
    if (masks_ == nullptr || masks_->vocabulary() != vocabulary.number)
      masks_ = std::make_shared<grammar::MaskCache>(vocabulary.number);
    return masks_;
  }
  std::size_t bytes() const {
    const std::scoped_lock lock(mutex_);
    return sizeof(State) + program.bytes() + (masks_ != nullptr ? masks_->bytes() : 0);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<grammar::MaskCache> masks_;
};

}  // namespace mortar
