// Lines as in files of records, without a header.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "jit/code/sha256.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/tuning.hpp"

namespace tessera::jit {

TuningJournal::TuningJournal(const std::string& file, const TuningRecord& subject) {
  Sha256 hash;
  for (const std::string* s : {&subject.space, &subject.arguments, &subject.device, &subject.gpu, &subject.assembler})
    hash.add_field(*s);
  path_ = concat(file, ".", hex(hash.finish()).substr(0, 8), ".journal");
}

TuningJournal::~TuningJournal() {
  if (fd_ >= 0) close(fd_);
}

std::vector<TuningRecord> TuningJournal::read() const {
  std::vector<TuningRecord> points;
  std::ifstream in(path_, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    try {
      points.push_back(record_of(line));
    } catch (const IoError&) { continue; }
  }
  return points;
}

void TuningJournal::add(const TuningRecord& point) {
  const auto fail = [&] { throw IoError(concat("cannot write '", path_, "': ", std::strerror(errno))); };
  if (fd_ < 0) fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail();
  // It starts with a line's end: what a killed process left before it spoils no line but its own.
  const std::string line = '\n' + line_of(point) + '\n';
  if (::write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) fail();
}

void TuningJournal::remove() noexcept { unlink(path_.c_str()); }

}  // namespace tessera::jit
