// Writing to standard output and standard error.
#include "report.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <stdexcept>
#include <string>

namespace mortar::cli {

void put(std::FILE* file, std::string_view text) {
  (void)std::fflush(file);
  while (!text.empty()) {
    // Not by stdio: a Ctrl-C that is counted interrupts a write, and stdio would lose the rest.
    const ssize_t written = ::write(::fileno(file), text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR && file == stdout)
      throw std::runtime_error(std::string("standard output cannot be written: ") + std::strerror(errno));
    else if (errno != EINTR)
      return;
  }
}

void report(const Arguments& arguments, const char* format, ...) {
  if (arguments.quiet()) return;
  (void)std::fflush(stdout);  // what was printed before stands before it, where both go to one file
  std::va_list values;
  va_start(values, format);
  std::vfprintf(stderr, format, values);
  va_end(values);
}

}  // namespace mortar::cli
