// The access log: one JSON object per request and line, without prompts, queries and keys.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace mortar {

struct AccessEntry {
  std::string id, peer, key, method, path;
  int status = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::chrono::nanoseconds time{0}, first_byte{0};  ///< since the head was complete; first_byte: 0 if there was none
  std::string_view end = "done";                    ///< or why the client did not get the whole answer
  std::string error;                                ///< what a handler threw
};

class AccessLog {
 public:
  /// `path`: a file that is appended to, "-" for standard error, empty for none; `sink` takes the lines instead. Throws
  /// RequestError if the file cannot be opened.
  AccessLog(std::string path, std::function<void(std::string_view)> sink);
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;
  bool enabled() const { return sink_ || !path_.empty(); }
  /// What cannot be written (a full disk) is lost; serving goes on.
  void write(const AccessEntry& entry);
  /// Opens the file anew, and keeps the old one where that fails.
  void reopen();

 private:
  std::string path_;
  std::function<void(std::string_view)> sink_;
  std::mutex mutex_;
  int file_ = -1;
};

}  // namespace mortar
