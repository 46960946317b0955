// Making graphs, and finding the memory of their work.
#include "runtime/model/model_graph.hpp"

namespace tessera::runtime::model {

std::shared_ptr<const GraphWork> ModelDevice::make_graph(std::shared_ptr<const GraphRecording> recording) {
  enter("make a graph");
  may_fail("make a graph");
  auto calls = std::make_shared<const GraphCalls>(recording->calls());
  return std::make_shared<const ModelGraph>(std::move(recording), std::move(calls));
}

/// Where the memory of work is now.
void ModelDevice::locate(Work& work, std::span<const Access> accesses) {
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    Work::Touch& touch = work.touches[i];
    touch.memory = accesses[i].storage->data();
    touch.block = block_at(touch.memory);
    touch.generation = blocks_[static_cast<std::size_t>(touch.block)].handed_out;
  }
}

}  // namespace tessera::runtime::model
