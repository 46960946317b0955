// Ctrl-C, and files that change under the program.
#pragma once
#include <termios.h>

namespace mortar::cli {

/// From now on Ctrl-C ends the program with kInterrupted, whatever it is doing, and reading a part of a model's file
/// that is not there any more ends it with kFailed and a message. A Ctrl-C that the caller of the program ignores
/// stays ignored.
void handle_signals();

/// What Ctrl-C prints before it ends the program: the end of a line that has begun, a terminal's normal style. Static;
/// null: nothing.
void set_closing(const char* text) noexcept;

/// What a terminal needs before the program ends by a signal (Ctrl-C, SIGTERM): its modes, and a text for it.
struct TerminalReset {
  int input = -1, output = -1;
  struct termios modes = {};
  const char* text = "";
};
/// From now on; it must exist until it is replaced. Null: nothing has to be done.
void set_terminal_reset(const TerminalReset* reset) noexcept;
/// A pipe into which each Ctrl-C that is counted writes a byte, so that poll() hears of it; -1: none.
void set_wake(int pipe) noexcept;

/// While it exists, Ctrl-C is counted instead of ending the program, `most` times; one more ends it. One at a time.
class CtrlC {
 public:
  explicit CtrlC(int most) noexcept;
  ~CtrlC();
  CtrlC(const CtrlC&) = delete;
  CtrlC& operator=(const CtrlC&) = delete;
  static int count() noexcept;
  static void reset() noexcept;
};

}  // namespace mortar::cli
