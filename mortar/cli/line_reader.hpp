// Lines that a person types, or that come through a pipe.
#pragma once
#include <memory>
#include <optional>
#include <string>

namespace mortar::cli {

class LineReader {
 public:
  virtual ~LineReader() = default;
  /// Returns the next line, without its end. A line of an editor has line feeds where several lines were pasted. There
  /// is none at the end of the input, and after Ctrl-C (CtrlC::count()).
  virtual std::optional<std::string> read(const char* prompt) = 0;
  /// `message` can be called back with the arrow keys from now on, where there is an editor.
  virtual void remember(const std::string& message) = 0;
};

struct LineReaderOptions {
  bool prompts = true;       ///< prompts are shown, where standard input is a terminal
  std::string history_file;  ///< of an editor; empty: what was typed is forgotten with the program
};
/// Reads standard input. Where that is a terminal and the program is built with libedit, the reader is an editor. Else
/// it takes lines of any length; a line that the terminal has cut is reported and not returned.
std::unique_ptr<LineReader> make_line_reader(const LineReaderOptions& options);

/// Standard input with an editor; null if it is no terminal that can be edited on. In builds with libedit alone.
std::unique_ptr<LineReader> make_line_editor(const LineReaderOptions& options);

/// $XDG_STATE_HOME/mortar/NAME, with ~/.local/state where that variable is not set; empty if there is no home either.
std::string state_file(const std::string& name);

}  // namespace mortar::cli
