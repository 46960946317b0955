// The handlers use nothing but strlen, write, tcsetattr, signal, raise, _exit and lock-free atomics, which are safe in
// a signal handler.
#include "interrupt.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "command.hpp"

namespace mortar::cli {
namespace {

std::atomic<int> presses{0}, most_counted{0};
std::atomic<const char*> closing{nullptr};
std::atomic<const TerminalReset*> terminal{nullptr};
std::atomic<int> wake{-1};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

void print(int file, std::string_view text) {
  [[maybe_unused]] const auto written = write(file, text.data(), text.size());
}

void reset_terminal() {
  const TerminalReset* reset = terminal;
  if (reset == nullptr) return;
  tcsetattr(reset->input, TCSANOW, &reset->modes);
  print(reset->output, {reset->text, std::strlen(reset->text)});
}

void on_interrupt(int) {
  if (presses.fetch_add(1) < most_counted) {
    const int before = errno;
    if (const int file = wake; file >= 0) print(file, "!");
    errno = before;
    return;
  }
  reset_terminal();
  if (const char* text = closing) print(STDOUT_FILENO, {text, std::strlen(text)});
  _exit(kInterrupted);
}

void on_termination(int signal) {
  reset_terminal();
  ::signal(signal, SIG_DFL);
  raise(signal);  // when this function has returned
}

void on_bus_error(int) {
  reset_terminal();
  print(STDERR_FILENO,
        "mortar: a bus error: probably a file of the model became shorter while it was in use.\n"
        "  Replace a model's files (write beside them, then rename) instead of changing them, and start again.\n");
  _exit(kFailed);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;  // without SA_RESTART: a read of standard input ends
  sigaction(signal, &action, nullptr);
}

}  // namespace

void handle_signals() {
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler != SIG_IGN) handle(SIGINT, on_interrupt);
  handle(SIGBUS, on_bus_error);
}

void set_terminal_reset(const TerminalReset* reset) noexcept {
  terminal = reset;
  struct sigaction now {};
  sigaction(SIGTERM, nullptr, &now);
  if (reset != nullptr && now.sa_handler == SIG_DFL) handle(SIGTERM, on_termination);
  if (reset == nullptr && now.sa_handler == on_termination) handle(SIGTERM, SIG_DFL);
}
void set_wake(int pipe) noexcept { wake = pipe; }

void set_closing(const char* text) noexcept { closing = text; }

CtrlC::CtrlC(int most) noexcept {
  presses = 0;
  most_counted = most;
}
CtrlC::~CtrlC() { most_counted = 0; }
int CtrlC::count() noexcept { return presses; }
void CtrlC::reset() noexcept { presses = 0; }

}  // namespace mortar::cli
