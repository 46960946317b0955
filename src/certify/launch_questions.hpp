// Questions that passes ask about a launch: whether they can be judged, and whether the answer is yes.
#pragma once
#include <cstddef>
#include <functional>

#include "certify/values.hpp"
#include "tessera/analysis/launch_question.hpp"

namespace tessera::certify {

/// The question says something, about arguments that there are. `is_slot`: argument i is a whole slot of the launch
/// that holds a number.
bool is_answerable(const analysis::LaunchQuestion& question, const std::function<bool(std::size_t argument)>& is_slot);
/// True if it is proven for each launch that `values` stand for; the question is answerable.
bool holds_in_launch(const analysis::LaunchQuestion& question, Values& values);

}  // namespace tessera::certify
