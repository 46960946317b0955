// Files to a device with memory of its own. Threads read pieces of the files into pinned buffers; the calling thread
// enqueues the copies from there to the final place, all on one stream (a link is saturated by one copy at a time), and
// hands the buffers back. A buffer is written again when its copy has ended.
#include <algorithm>

#include "model/load_paths.hpp"
#include "model/pieces.hpp"
#include "model/place.hpp"
#include "mortar/errors.hpp"
#include "tessera/tessera.hpp"

namespace mortar::model {
namespace {

constexpr std::uint64_t kBufferBytes = std::uint64_t{1} << 24;

/// Allocates the tensors of one element type and fills them.
template <class T>
class Upload {
 public:
  Upload(const std::vector<files::WeightTensor>& layout, files::Stored stored, tessera::Device device)
      : layout_(layout), stored_(stored), device_(device), stream_(device) {
    tensors_.resize(layout.size());
    for (std::size_t i = 0; i < layout.size(); ++i)
      if (layout[i].stored == stored)
        tensors_[i] = tessera::empty<T>(tessera::Dims<2>({layout[i].rows, layout[i].columns})).sync(stream_);
  }

  void run(const Checkpoint& checkpoint, const LoadOptions& options, Meter& meter) {
    for (std::size_t i = 0; i < layout_.size(); ++i)
      if (layout_[i].stored == stored_) add_pieces(pieces_, checkpoint, layout_[i], i, kBufferBytes);
    if (pieces_.empty()) return;
    sort_pieces(pieces_);
    std::uint64_t largest = 0;
    for (const Piece& p : pieces_) largest = std::max(largest, p.elements());
    const int threads =
        std::min<int>(reading_threads(options), static_cast<int>(std::min<std::size_t>(pieces_.size(), 64)));
    std::vector<tessera::HostBuffer<T>> buffers;
    Channel<std::size_t> idle;
    for (int i = 0; i < threads + 2; ++i) {
      buffers.emplace_back(static_cast<std::int64_t>(largest), device_);
      idle.push(static_cast<std::size_t>(i));
    }
    Channel<std::pair<std::size_t, std::size_t>> filled;  // piece, buffer
    Readers readers(
        threads, pieces_.size(),
        [&](std::size_t i) {
          const auto buffer = idle.pop();
          if (!buffer) return false;
          {
            const auto values = buffers[*buffer].write();  // waits until its copy has ended
            read_piece(pieces_[i], stored_, reinterpret_cast<std::byte*>(values.data()));
          }
          filled.push({i, *buffer});
          return true;
        },
        [&] { idle.close(), filled.close(); });
    for (std::size_t done = 0; done < pieces_.size();) {
      if (const auto ready = filled.pop_within(kReportEvery)) {
        enqueue(pieces_[ready->first], buffers[ready->second]);
        idle.push(ready->second);
        meter.add(pieces_[ready->first].elements() * sizeof(T));
        ++done;
      }
      readers.check();
      meter.report();
    }
    stream_.synchronize();
  }

  void finish(Weights& weights) {
    for (std::size_t i = 0; i < layout_.size(); ++i)
      if (layout_[i].stored == stored_) place<T>(weights, layout_[i], std::move(tensors_[i]));
  }

 private:
  void enqueue(const Piece& p, const tessera::HostBuffer<T>& buffer) {
    auto part = mut(tensors_[p.weight]).template slice<0>(p.row, p.row + p.rows);
    copy_into(part, buffer).on(stream_);
  }

  const std::vector<files::WeightTensor>& layout_;
  files::Stored stored_;
  tessera::Device device_;
  tessera::Stream stream_;
  std::vector<tessera::Tensor<T, 2>> tensors_;
  std::vector<Piece> pieces_;
};

}  // namespace

Weights load_staged(const ModelSpec& model, const Checkpoint& checkpoint, tessera::Device device,
                    const LoadOptions& options) {
  const auto layout = files::weight_tensors(model, options.ranks);
  std::uint64_t total = 0;
  for (const auto& w : layout) total += w.bytes();
  Upload<tessera::bf16> wide(layout, files::Stored::Bf16, device);
  Upload<tessera::f8e4m3> narrow(layout, files::Stored::Fp8, device);
  Upload<tessera::f32> scales(layout, files::Stored::Scales, device);
  Meter meter(total, options);
  wide.run(checkpoint, options, meter);
  narrow.run(checkpoint, options, meter);
  scales.run(checkpoint, options, meter);
  Weights weights = empty_weights(model);
  wide.finish(weights);
  narrow.finish(weights);
  scales.finish(weights);
  meter.report(true);
  return weights;
}

}  // namespace mortar::model
