// An editor of lines on the terminal, by libedit. Its own reading of characters is replaced: so that Ctrl-C and a
// change of the window's size are heard at once, without its handlers of signals, which send signals to all of the
// group.
//
// Everything is UTF-8, whatever the locale: terminals are.
#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <string_view>

#include "interrupt.hpp"
#include "line_reader.hpp"
#include "text/utf8.hpp"

namespace mortar::cli {
namespace THIS_FILE {

constexpr const char *kPastesOn = "\033[?2004h", *kPastesOff = "\033[?2004l";  // xterm, "Bracketed Paste Mode"
constexpr std::wstring_view kPasteEnds = L"\033[201~";
constexpr int kHistory = 1000;  ///< messages

// The handlers of signals use these. There is one editor at a time.
std::atomic<bool> resized{false}, continued{false};
std::atomic<int> wake_pipe{-1};

void on_change(int signal) {
  const int before = errno;
  (signal == SIGWINCH ? resized : continued) = true;
  [[maybe_unused]] const auto written = ::write(wake_pipe, "!", 1);
  errno = before;
}

wchar_t wide(char32_t c) { return static_cast<wchar_t>(c); }

std::string narrow(std::wstring_view text) {
  std::string out;
  for (const wchar_t c : text) text::append_utf8(out, static_cast<char32_t>(c));
  return out;
}

std::wstring widen(std::string_view text) {
  std::wstring out;
  while (!text.empty()) {
    const text::Utf8Unit unit = text::next_utf8(text);
    out += wide(unit.code_point);
    text.remove_prefix(unit.bytes);
  }
  return out;
}

/// The terminal that is written to: answers may go elsewhere. -1: none.
int output_terminal() {
  return isatty(STDERR_FILENO) != 0 ? STDERR_FILENO : isatty(STDOUT_FILENO) != 0 ? STDOUT_FILENO : -1;
}

class Editor final : public LineReader {
 public:
  explicit Editor(const LineReaderOptions& options);
  ~Editor() override;
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;
  std::optional<std::string> read(const char* prompt) override;
  void remember(const std::string& message) override;

 private:
  static Editor& of(EditLine* line) {
    void* self = nullptr;
    el_wget(line, EL_CLIENTDATA, &self);
    return *static_cast<Editor*>(self);
  }
  static wchar_t* prompt_of(EditLine* line) { return of(line).prompt_.data(); }
  static int next_of(EditLine* line, wchar_t* c) { return of(line).next(c); }
  static unsigned char paste(EditLine* line, wint_t);
  int next(wchar_t* c);
  void wait();
  int row_of_cursor(int columns) const;
  void redraw();
  void keep_typed() const;
  void bind(const wchar_t* keys, const wchar_t* function) { el_wset(line_, EL_BIND, keys, function, nullptr); }
  void load_history();
  void handle(int signal, void (*handler)(int), struct sigaction* before);

  LineReaderOptions options_;
  std::FILE* output_;
  EditLine* line_ = nullptr;
  HistoryW* history_ = nullptr;
  std::wstring prompt_;
  std::string bytes_;  ///< that were read and are no character yet
  bool ended_ = false;
  int pipe_[2] = {-1, -1};
  TerminalReset reset_;
  struct sigaction resize_before_ {
  }, continue_before_{};
};

Editor::Editor(const LineReaderOptions& options)
    : options_(options), output_(output_terminal() == STDERR_FILENO ? stderr : stdout) {
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "C.utf8");  // of libedit's characters
  line_ = el_init("mortar", stdin, output_, output_);
  history_ = history_winit();
  if (line_ == nullptr || history_ == nullptr || ::pipe2(pipe_, O_NONBLOCK | O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("the editor of lines cannot be started: ") + std::strerror(errno));
  el_wset(line_, EL_CLIENTDATA, this);
  el_wset(line_, EL_EDITOR, L"emacs");
  el_wset(line_, EL_PROMPT, prompt_of);
  el_wset(line_, EL_GETCFN, next_of);
  el_wset(line_, EL_HIST, history_w, history_);
  el_wset(line_, EL_ADDFN, L"mortar-paste", L"inserts what the terminal pastes", paste);
  bind(L"\\e[200~", L"mortar-paste");
  bind(L"^R", L"em-inc-search-prev");
  for (const wchar_t* keys : {L"\\e[H", L"\\eOH", L"\\e[1~"}) bind(keys, L"ed-move-to-beg");
  for (const wchar_t* keys : {L"\\e[F", L"\\eOF", L"\\e[4~"}) bind(keys, L"ed-move-to-end");
  bind(L"\\e[3~", L"ed-delete-next-char");
  bind(L"\\e[1;5C", L"em-next-word");
  bind(L"\\e[1;5D", L"ed-prev-word");
  el_source(line_, nullptr);  // the user's ~/.editrc
  HistEventW event;
  history_w(history_, &event, H_SETSIZE, kHistory);
  history_w(history_, &event, H_SETUNIQUE, 1);
  load_history();
  wake_pipe = pipe_[1];
  set_wake(pipe_[1]);
  handle(SIGWINCH, on_change, &resize_before_);
  handle(SIGCONT, on_change, &continue_before_);
  reset_.input = STDIN_FILENO, reset_.output = ::fileno(output_), reset_.text = kPastesOff;
  tcgetattr(STDIN_FILENO, &reset_.modes);
  set_terminal_reset(&reset_);
}

Editor::~Editor() {
  set_terminal_reset(nullptr);
  set_wake(-1);
  ::sigaction(SIGWINCH, &resize_before_, nullptr);
  ::sigaction(SIGCONT, &continue_before_, nullptr);
  if (line_ != nullptr) el_end(line_);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &reset_.modes);
  std::fputs(kPastesOff, output_);
  std::fflush(output_);
  if (history_ != nullptr) history_wend(history_);
  for (const int file : pipe_)
    if (file >= 0) ::close(file);
}

void Editor::handle(int signal, void (*handler)(int), struct sigaction* before) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // the pipe wakes the editor; others are not disturbed
  ::sigaction(signal, &action, before);
}

/// The earlier messages. A file that is none of histories is left as it is, and nothing is written to it.
void Editor::load_history() {
  namespace fs = std::filesystem;
  const std::string& file = options_.history_file;
  std::error_code error;
  if (file.empty()) return;
  fs::create_directories(fs::path(file).parent_path(), error);
  if (!fs::exists(file, error)) return;
  HistEventW event;
  const int loaded = history_w(history_, &event, H_LOAD, file.c_str());
  if (loaded < 0 && fs::file_size(file, error) > 0) {
    std::fprintf(stderr, "mortar: warning: %s: expected a history of messages, found something else: it is not used\n",
                 file.c_str());
    options_.history_file.clear();
  } else if (loaded > 2 * kHistory) {
    history_w(history_, &event, H_SAVE, file.c_str());  // the last ones alone
  }
}

/// Into the history and, at once, behind its file, which several programs may share.
void Editor::remember(const std::string& message) {
  HistEventW event;
  if (history_w(history_, &event, H_ENTER, widen(message).c_str()) < 0 || options_.history_file.empty()) return;
  const int file = ::open(options_.history_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR);
  std::FILE* stream = file >= 0 ? ::fdopen(file, "a") : nullptr;
  bool saved = stream != nullptr && std::fseek(stream, 0, SEEK_END) == 0;
  saved = saved && history_w(history_, &event, H_NSAVE_FP, std::size_t{1}, stream) >= 0;
  if (stream != nullptr) saved = std::fclose(stream) == 0 && saved;
  if (saved) return;
  std::fprintf(stderr, "mortar: warning: %s: the history cannot be written: %s\n", options_.history_file.c_str(),
               std::strerror(errno));
  options_.history_file.clear();
}

/// Until there is input, or a signal has come.
void Editor::wait() {
  pollfd files[] = {{STDIN_FILENO, POLLIN, 0}, {pipe_[0], POLLIN, 0}};
  if (::poll(files, 2, -1) <= 0) return;
  char block[4096];
  if (files[1].revents != 0)
    while (::read(pipe_[0], block, sizeof block) > 0) {}
  if (files[0].revents == 0) return;
  const ssize_t n = ::read(STDIN_FILENO, block, sizeof block);
  if (n > 0)
    bytes_.append(block, static_cast<std::size_t>(n));
  else if (n == 0 || (errno != EINTR && errno != EAGAIN))
    ended_ = true;
}

/// How many rows below that of the prompt the cursor is, in a window of so many columns.
int Editor::row_of_cursor(int columns) const {
  const LineInfoW* line = el_wline(line_);
  std::wstring shown = prompt_;
  shown.append(line->buffer, line->cursor);
  int row = 0, column = 0;
  for (const wchar_t c : shown) {
    constexpr int kTab = 8;
    if (c == L'\n') {
      ++row, column = 0;
      continue;
    }
    const int own = ::wcwidth(c), width = c == L'\t' ? kTab - column % kTab : own < 0 ? 2 : own;  // "^A"
    if (column + width > columns) ++row, column = 0;
    column += width;
  }
  return column >= columns ? row + 1 : row;
}

/// After a change of the window's size. Terminals wrap what they show anew, so the prompt is where it would be now.
void Editor::redraw() {
  winsize size{};
  const int columns = ::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  if (const int rows = row_of_cursor(columns); rows > 0) std::fprintf(output_, "\033[%dA", rows);
  std::fputs("\r\033[J", output_);
  std::fflush(output_);
  el_resize(line_);
  el_wset(line_, EL_REFRESH);
}

/// A character of the terminal: 1; 0 at the end of the input; -1 after Ctrl-C.
int Editor::next(wchar_t* c) {
  for (;;) {
    if (CtrlC::count() > 0) {
      bytes_.clear();
      errno = EINTR;
      return -1;
    }
    if (continued.exchange(false)) {  // in the modes of the shell
      el_wset(line_, EL_PREP_TERM, 0);
      el_wset(line_, EL_PREP_TERM, 1);
      std::fprintf(output_, "\r%s", kPastesOn);
      el_wset(line_, EL_REFRESH);
    }
    if (resized.exchange(false)) redraw();
    if (!bytes_.empty()) {
      const text::Utf8Unit unit = text::next_utf8(bytes_);
      if (unit.state != text::Utf8::Incomplete || ended_) {
        bytes_.erase(0, unit.bytes);
        *c = wide(unit.code_point);
        return 1;
      }
    }
    if (ended_) return 0;
    wait();
  }
}

/// What comes between the marks of a paste, as text: its ends of lines do not end the message.
unsigned char Editor::paste(EditLine* line, wint_t) {
  std::wstring text;
  while (!text.ends_with(kPasteEnds)) {
    wchar_t c = 0;
    if (el_wgetc(line, &c) != 1) return CC_EOF;
    text += c;
  }
  text.resize(text.size() - kPasteEnds.size());
  std::wstring clean;
  for (const wchar_t c : text) {
    if (c == L'\n' && clean.ends_with(L'\r'))
      clean.back() = c;
    else if (c != 0)
      clean += c;
  }
  for (wchar_t& c : clean)
    if (c == L'\r') c = L'\n';  // as terminals send the end of a line
  if (clean.ends_with(L'\n')) clean.pop_back();
  if (clean.empty()) return CC_NORM;
  return el_winsertstr(line, clean.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

/// Between two lines, while an answer comes: what is typed or pasted waits for the next line, is not shown in the
/// answer, and is not cut, as it would be in a terminal that collects lines. Ctrl-C and Ctrl-Z are signals as ever.
void Editor::keep_typed() const {
  termios modes = reset_.modes;
  modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  modes.c_cc[VMIN] = 1, modes.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
}

std::optional<std::string> Editor::read(const char* prompt) {
  prompt_ = widen(options_.prompts ? prompt : "");
  resized = continued = false;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &reset_.modes);  // libedit makes its own of them
  el_resize(line_);                                   // the window may have changed during the answer
  std::fflush(stdout);
  std::fputs(kPastesOn, output_);
  std::fflush(output_);
  int count = 0;
  const wchar_t* line = el_wgets(line_, &count);
  if (line == nullptr || count <= 0 || CtrlC::count() > 0) {
    std::fputs("\n", output_);  // the cursor is behind what was typed
    std::fflush(output_);
    return std::nullopt;
  }
  keep_typed();
  std::wstring_view text(line, static_cast<std::size_t>(count));
  if (text.ends_with(L'\n')) text.remove_suffix(1);
  return narrow(text);
}

}  // namespace THIS_FILE

std::unique_ptr<LineReader> make_line_editor(const LineReaderOptions& options) {
  const char* terminal = std::getenv("TERM");
  const bool can = terminal != nullptr && *terminal != '\0' && std::strcmp(terminal, "dumb") != 0;
  if (!can || isatty(STDIN_FILENO) == 0 || THIS_FILE::output_terminal() < 0) return nullptr;
  return std::make_unique<THIS_FILE::Editor>(options);
}

}  // namespace mortar::cli
