// Files appear complete (written under a temporary name, renamed) and are changed under a lock on a second file, which
// stays: removing it would let two processes hold locks of the same name.
#include "tessera/jit/tuning.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera {
namespace {

constexpr std::string_view kOpening = "{\"tessera tuning\":1,\"records\":";
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

[[noreturn]] void fail(const std::string& path, std::size_t line, const std::string& what) {
  throw IoError(concat("'", path, "', line ", line, ": ", what));
}

std::optional<std::string> contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in && access(path.c_str(), F_OK) != 0) return std::nullopt;
  if (!in) throw IoError(concat("cannot read '", path, "': ", std::strerror(errno)));
  std::string text;
  char block[1 << 16];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMaxBytes) fail(path, 1, "expected a file of tuning records, found more than 64 MiB");
  }
  if (in.bad()) throw IoError(concat("cannot read '", path, "': ", std::strerror(errno)));
  return text;
}

std::vector<TuningRecord> parse(const std::string& path, const std::string& text) {
  std::vector<TuningRecord> records;
  std::size_t line = 0, expected = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    ++line;
    if (end == text.npos) fail(path, line, "the file is cut short: tune again, or restore it");
    const std::string_view found = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line > 1) {
      try {
        records.push_back(jit::record_of(found));
      } catch (const IoError& error) { fail(path, line, error.message()); }
      continue;
    }
    int used = 0;
    if (!found.starts_with(kOpening) || std::sscanf(text.c_str() + kOpening.size(), "%9zu}%n", &expected, &used) != 1 ||
        kOpening.size() + static_cast<std::size_t>(used) != found.size()) {
      fail(path, 1, "expected a file of tuning records (version 1), found something else");
    }
  }
  if (line == 0) fail(path, 1, "expected a file of tuning records, found an empty file");
  if (records.size() != expected) {
    fail(path, line, concat("expected ", expected, " records, found ", records.size(), ": the file is cut short"));
  }
  return records;
}

/// Held until the end of the scope, against other processes and threads.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (fd_ < 0) throw IoError(concat("cannot write '", path, "': ", std::strerror(errno)));
    while (flock(fd_, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      close(fd_);
      throw IoError(concat("cannot lock '", path, "': ", std::strerror(error)));
    }
  }
  ~FileLock() { close(fd_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

/// What is below does not know the user's line.
template <class F>
auto located(SourceLocation where, F f) {
  try {
    return f();
  } catch (const IoError& error) { throw IoError(error.message(), where); }
}

void replace(const std::string& path, const std::string& text) {
  const std::string aside = concat(path, ".tmp-", getpid());
  std::FILE* file = std::fopen(aside.c_str(), "wb");
  const bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = !file || std::fclose(file) == 0;
  if (written && closed && std::rename(aside.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  if (file) std::remove(aside.c_str());
  throw IoError(concat("cannot write '", path, "': ", std::strerror(error)));
}

std::string text_of(const std::vector<TuningRecord>& records) {
  std::string text = concat(kOpening, records.size(), "}\n");
  for (const TuningRecord& r : records) text += jit::line_of(r) + '\n';
  return text;
}

void add(const std::string& path, const TuningRecord& record) {
  jit::record_of(jit::line_of(record));  // what could not be read back is not written
  const FileLock lock(path + ".lock");
  const std::optional<std::string> before = contents(path);
  std::vector<TuningRecord> records;
  if (before) records = parse(path, *before);
  std::erase_if(records, [&](const TuningRecord& r) { return jit::same_subject(r, record); });
  records.push_back(record);
  replace(path, text_of(records));
}

std::size_t remove(const std::string& path, const std::string& kernel) {
  const FileLock lock(path + ".lock");
  const std::optional<std::string> before = contents(path);
  if (!before) return 0;
  std::vector<TuningRecord> records = parse(path, *before);
  const std::size_t removed =
      std::erase_if(records, [&](const TuningRecord& r) { return r.kernel.find(kernel) != r.kernel.npos; });
  if (removed > 0) replace(path, text_of(records));
  return removed;
}

}  // namespace

std::vector<TuningRecord> read_records(const std::string& path, SourceLocation where) {
  return located(where, [&] {
    const std::optional<std::string> text = contents(path);
    if (!text) throw IoError(concat("there is no file of tuning records '", path, "'"));
    return parse(path, *text);
  });
}

void add_record(const std::string& path, const TuningRecord& record, SourceLocation where) {
  located(where, [&] { add(path, record); });
}

std::size_t remove_records(const std::string& path, const std::string& kernel, SourceLocation where) {
  return located(where, [&] { return remove(path, kernel); });
}

}  // namespace tessera
