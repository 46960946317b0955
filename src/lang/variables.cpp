// Stacks of bindings, one per variable.
#include "lang/variables.hpp"

namespace tessera::lang {

bool Variables::bind(Number v, std::uint32_t depth, ir::Value value) {
  std::uint32_t& top = top_[v];
  if (top != kNowhere && bindings_[top].depth == depth) {
    bindings_[top].value = value;
    return false;
  }
  const Binding binding{depth, value, top};
  if (free_.empty()) {
    top = static_cast<std::uint32_t>(bindings_.size());
    bindings_.push_back(binding);
  } else {
    top = free_.back();
    free_.pop_back();
    bindings_[top] = binding;
  }
  return true;
}

ir::Value Variables::unbind(Number v) {
  std::uint32_t& top = top_[v];
  const Binding binding = bindings_[top];
  free_.push_back(top);
  top = binding.below;
  return binding.value;
}

}  // namespace tessera::lang
