// Lines without an editor.
#include "line_reader.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace mortar::cli {
namespace THIS_FILE {

/// A terminal collects a line in a buffer of 4096 bytes, its end included, and drops what does not fit (Linux,
/// n_tty.c).
constexpr std::size_t kCutByTerminal = 4095;

class PlainReader final : public LineReader {
 public:
  explicit PlainReader(bool prompts) : terminal_(isatty(STDIN_FILENO) != 0), prompts_(prompts && terminal_) {}

  std::optional<std::string> read(const char* prompt) override {
    std::string line;
    for (;;) {
      if (prompts_) std::fputs(prompt, stderr);
      if (!std::getline(std::cin, line)) return std::nullopt;
      if (!terminal_ || line.size() < kCutByTerminal) break;
      std::fprintf(stderr,
                   "mortar: expected a line of less than %zu bytes, which is all that a terminal passes on, found a "
                   "longer one, which has been cut: it is not used. Give it through a pipe or with generate "
                   "--prompt-file, or build Mortar with libedit (docs/install.md)\n",
                   kCutByTerminal);
    }
    if (line.ends_with('\r')) line.pop_back();
    return line;
  }
  void remember(const std::string&) override {}

 private:
  bool terminal_, prompts_;
};

}  // namespace THIS_FILE

std::unique_ptr<LineReader> make_line_reader(const LineReaderOptions& options) {
#ifdef MORTAR_LIBEDIT
  if (auto editor = make_line_editor(options)) return editor;
#endif
  return std::make_unique<THIS_FILE::PlainReader>(options.prompts);
}

std::string state_file(const std::string& name) {
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/mortar/" + name;  // others are to be ignored
  if (home != nullptr && *home == '/') return std::string(home) + "/.local/state/mortar/" + name;
  return {};
}

}  // namespace mortar::cli
