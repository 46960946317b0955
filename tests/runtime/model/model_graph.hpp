// A graph of the model device.
#pragma once
#include <memory>
#include <utility>

#include "runtime/model/device.hpp"

namespace tessera::runtime::model {

/// The entries one after the other: of Flavour::Gpu each is a step of the queue, of Flavour::Cpu the graph is one.
class ModelGraph final : public GraphWork {
 public:
  ModelGraph(std::shared_ptr<const GraphRecording> recording, std::shared_ptr<const GraphCalls> calls)
      : recording_(std::move(recording)), calls_(std::move(calls)) {}
  void launch(const LaunchContext& c) const override {
    for (const RecordedWork& entry : recording_->work()) {
      const RecordedCall& call = call_of(entry);
      call.work->launch({call.grid, call.args, entry.accesses, c.native_queue, c.native_launch});
    }
  }
  std::shared_ptr<const GraphWork> with(std::shared_ptr<const GraphCalls> calls) const override {
    return std::make_shared<const ModelGraph>(recording_, std::move(calls));
  }
  const GraphRecording& recording() const { return *recording_; }
  Work& work_of(const RecordedWork& entry) const {
    return *reinterpret_cast<Work*>(static_cast<std::uintptr_t>(call_of(entry).args[0]));
  }
  void locate_all(ModelDevice& device) const {
    for (const RecordedWork& entry : recording_->work()) device.locate(work_of(entry), entry.accesses);
  }
  /// All that a replay touches, as one Work.
  Work& whole(std::span<const Access> accesses) const {
    whole_.operation = work_of(recording_->work()[0]).operation;
    whole_.touches.resize(accesses.size());
    for (std::size_t i = 0; i < accesses.size(); ++i) whole_.touches[i].mode = accesses[i].mode;
    return whole_;
  }

 private:
  const RecordedCall& call_of(const RecordedWork& entry) const {
    return entry.call_number == kNoEntry ? entry.call : (*calls_)[entry.call_number];
  }
  std::shared_ptr<const GraphRecording> recording_;
  std::shared_ptr<const GraphCalls> calls_;
  mutable Work whole_;
};

}  // namespace tessera::runtime::model
