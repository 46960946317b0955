// Loading as a list of pieces: rows of one tensor of a file, or a part of their columns, and the rows of the device's
// tensor where they go.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "files/layout.hpp"
#include "mortar/checkpoint.hpp"
#include "mortar/load.hpp"

namespace mortar::model {

struct Piece {
  std::size_t weight = 0;  ///< index of the layout
  std::int64_t row = 0, rows = 0, columns = 0;
  const TensorFile* file = nullptr;
  FileType type = FileType::BF16;
  std::uint64_t begin = 0;  ///< of the first row in the file
  std::int64_t first_column = 0, file_columns = 0;

  std::uint64_t elements() const { return static_cast<std::uint64_t>(rows * columns); }
};

/// The pieces of one tensor of the layout, of about `most_bytes` bytes each.
void add_pieces(std::vector<Piece>& pieces, const Checkpoint& checkpoint, const files::WeightTensor& weight,
                std::size_t index, std::uint64_t most_bytes);
/// In the order of the files.
void sort_pieces(std::vector<Piece>& pieces);
/// The type of the elements in files that need no conversion.
FileType type_on_device(files::Stored stored);
/// Reads the elements as they are stored on the device: scales that are bf16 in the file become f32, weights that are
/// f32 or f16 are rounded to bf16. `to` has room for them. Throws ModelError.
void read_piece(const Piece& piece, files::Stored stored, std::byte* to);

/// How many threads read.
int reading_threads(const LoadOptions& options);

/// Counts bytes, from any thread, and reports from one.
class Meter {
 public:
  Meter(std::uint64_t total, const LoadOptions& options) : total_(total), options_(options) {}
  void add(std::uint64_t bytes) noexcept { bytes_ += bytes; }
  /// Calls the user's function if the last call is 0.1 s ago, or `always`.
  void report(bool always = false);

 private:
  using Clock = std::chrono::steady_clock;
  std::uint64_t total_;
  const LoadOptions& options_;
  std::atomic<std::uint64_t> bytes_{0};
  Clock::time_point start_ = Clock::now(), last_ = start_;
};
inline constexpr std::chrono::milliseconds kReportEvery{100};

/// Values that some threads hand to others. After close() there are none any more.
template <class T>
class Channel {
 public:
  void push(T value) {
    {
      const std::lock_guard lock(mutex_);
      values_.push_back(std::move(value));
    }
    changed_.notify_one();
  }
  /// Waits; nothing if the channel is closed.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !values_.empty(); });
    return take();
  }
  /// The same, and nothing if there is no value in time.
  std::optional<T> pop_within(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [&] { return closed_ || !values_.empty(); });
    return take();
  }
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::optional<T> take() {
    if (closed_ || values_.empty()) return std::nullopt;
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> values_;
  bool closed_ = false;
};

/// Threads that work through items 0 to count - 1. The first exception ends all of them. The destructor ends and joins
/// them, too.
class Readers {
 public:
  /// `work(item)` is called by the threads until it returns false; `at_end` when the work has been ended before its
  /// completion, so that no thread waits any longer.
  template <class Work, class AtEnd>
  Readers(int threads, std::size_t count, Work work, AtEnd at_end) : count_(count), at_end_(at_end) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this, work] { run(work); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Readers() { stop(); }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  /// Throws the exception of a thread, if there is one: when it is called first after that.
  void check() {
    if (failed_.load()) {
      stop();
      std::rethrow_exception(error_);
    }
  }

 private:
  template <class Work>
  void run(const Work& work) noexcept {
    try {
      for (std::size_t i = next_++; i < count_ && !ended_.load(); i = next_++)
        if (!work(i)) return;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      ended_ = true;
      failed_ = true;
      at_end_();
    }
  }
  void stop() noexcept {
    ended_ = true;
    at_end_();
    for (std::thread& t : threads_)
      if (t.joinable()) t.join();
  }

  std::size_t count_;
  std::function<void()> at_end_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> ended_{false}, failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace mortar::model
