// Lines of the access log. A line is written by one call, so that those of several programs do not mix.
#include "access_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <utility>

#include "mortar/errors.hpp"
#include "text/json_writer.hpp"
#include "text/utf8.hpp"

namespace mortar {
namespace {

int open_log(const std::string& path) { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640); }

/// UTC, with milliseconds: 2026-01-31T12:00:00.000Z.
std::string timestamp() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char text[40];
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + n, sizeof text - n, ".%03dZ", static_cast<int>(now.tv_nsec / 1'000'000));
  return text;
}

void append_field(std::string& line, std::string_view name, std::string_view value) {
  line += ",\"";
  line += name;
  line += "\":";
  text::append_json_string(line, text::replace_invalid_utf8(value));  // paths are any bytes
}

void append_number(std::string& line, std::string_view name, std::uint64_t value) {
  line += ",\"";
  line += name;
  line += "\":" + std::to_string(value);
}

void append_milliseconds(std::string& line, std::string_view name, std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(time.count()) * 1e-6);
  line += ",\"";
  line += name;
  line += "\":";
  line += text;
}

}  // namespace

AccessLog::AccessLog(std::string path, std::function<void(std::string_view)> sink)
    : path_(std::move(path)), sink_(std::move(sink)) {
  if (sink_ || path_.empty()) return;
  file_ = path_ == "-" ? STDERR_FILENO : open_log(path_);
  if (file_ < 0) throw RequestError(path_ + ": the access log cannot be opened for writing");
}

AccessLog::~AccessLog() {
  if (file_ > STDERR_FILENO) ::close(file_);
}

void AccessLog::reopen() {
  if (file_ <= STDERR_FILENO) return;
  const int file = open_log(path_);
  if (file < 0) return;
  const std::lock_guard lock(mutex_);
  ::close(std::exchange(file_, file));
}

void AccessLog::write(const AccessEntry& e) {
  if (!enabled()) return;
  std::string line = "{\"time\":\"" + timestamp() + '"';
  append_field(line, "id", e.id);
  append_field(line, "peer", e.peer);
  if (!e.key.empty()) append_field(line, "key", e.key);
  append_field(line, "method", e.method);
  append_field(line, "path", e.path);
  append_number(line, "status", static_cast<std::uint64_t>(e.status));
  append_number(line, "bytes_in", e.bytes_in);
  append_number(line, "bytes_out", e.bytes_out);
  append_milliseconds(line, "ms", e.time);
  if (e.first_byte.count() > 0) append_milliseconds(line, "first_byte_ms", e.first_byte);
  append_field(line, "end", e.end);
  if (!e.error.empty()) append_field(line, "error", e.error);
  line += "}";
  if (sink_) return sink_(line);
  line += '\n';
  const std::lock_guard lock(mutex_);
  [[maybe_unused]] const auto written = ::write(file_, line.data(), line.size());
}

}  // namespace mortar
