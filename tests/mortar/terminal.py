"""A program in a pseudo terminal, and what its screen shows."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

SEQUENCE = re.compile(r"\033\[([?\d;]*)([@A-Za-z])|\033[=>]|\033\(B")


class Screen:
    """The sequences that line editors use, of a terminal like xterm: a cursor, insertions, deletions, clearing."""

    def __init__(self, columns, rows):
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0

    def line_feed(self):
        if self.row + 1 < self.rows:
            self.row += 1
        else:
            self.cells = self.cells[1:] + [[" "] * self.columns]

    def put(self, character):
        if self.column >= self.columns:  # the cursor waits behind the last column until something is written
            self.column = 0
            self.line_feed()
        self.cells[self.row][self.column] = character
        self.column += 1

    def control(self, words, letter):
        n = int(words) if words.isdigit() and int(words) > 0 else 1
        row, at = self.cells[self.row], min(self.column, self.columns - 1)
        if letter == "A":
            self.row = max(0, self.row - n)
        elif letter == "B":
            self.row = min(self.rows - 1, self.row + n)
        elif letter == "C":
            self.column = min(self.columns - 1, at + n)
        elif letter == "D":
            self.column = max(0, at - n)
        elif letter == "G":
            self.column = n - 1
        elif letter == "H":
            self.row = self.column = 0
        elif letter == "J":
            row[at:] = [" "] * (self.columns - at)
            for below in self.cells[self.row + 1:]:
                below[:] = [" "] * self.columns
        elif letter == "K":
            row[at:] = [" "] * (self.columns - at)
        elif letter == "P":
            row[at:] = (row[at + n:] + [" "] * n)[:self.columns - at]
        elif letter == "@":
            row[at:] = ([" "] * n + row[at:])[:self.columns - at]
        elif letter not in "mhl":
            raise ValueError(f"the screen does not know ESC [ {words} {letter}")

    def write(self, text):
        at = 0
        while at < len(text):
            if found := SEQUENCE.match(text, at):
                if found[2]:
                    self.control(found[1], found[2])
                at = found.end()
                continue
            c, at = text[at], at + 1
            if c == "\r":
                self.column = 0
            elif c == "\n":
                self.line_feed()
            elif c == "\b":
                self.column = max(0, min(self.column, self.columns - 1) - 1)
            elif c == "\t":
                self.column = min(self.columns - 1, self.column // 8 * 8 + 8)
            elif c >= " ":
                self.put(c)

    def lines(self):
        text = ["".join(row).rstrip() for row in self.cells]
        while text and not text[-1]:
            text.pop()
        return text


class Terminal:
    """Runs a program with a terminal of its own; standard output goes to a file, if one is given."""

    def __init__(self, words, env, columns=80, rows=24, output=None):
        self.screen, self.seen = Screen(columns, rows), ""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            if output is not None:
                os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execve(words[0], [str(w) for w in words], env)
        self.rest = b""
        self.set_size(columns, rows)

    def set_size(self, columns, rows):
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        """What the terminal does with the old contents is its own affair: this one forgets them."""
        self.read(0.2)
        self.screen.resize(columns, rows)
        self.set_size(columns, rows)

    def send(self, text):
        data = text.encode()
        while data:  # a terminal takes 4095 bytes until they are read, and the program waits until it is read, too
            readable, writable, _ = select.select([self.file], [self.file], [], 60)
            assert readable or writable, "the program does not read"
            if writable:
                data = data[os.write(self.file, data[:1000]):]
            self.read(0)

    def read(self, longest):
        """What the program writes in this time; an empty text if it has ended."""
        text = ""
        end = time.monotonic() + longest
        while select.select([self.file], [], [], max(0, end - time.monotonic()))[0]:
            try:
                data = os.read(self.file, 65536)
            except OSError:  # the program has closed the terminal
                break
            if not data:
                break
            self.rest += data
            cut = len(self.rest)
            while cut > 0 and cut > len(self.rest) - 4 and self.rest[cut - 1] >= 0x80:  # a character may not be complete
                cut -= 1
            if self.rest[-1] >= 0x80:
                try:
                    self.rest.decode()
                    cut = len(self.rest)
                except UnicodeDecodeError:
                    pass
            else:
                cut = len(self.rest)
            part, self.rest = self.rest[:cut].decode(errors="replace"), self.rest[cut:]
            text += part
        self.seen += text
        self.screen.write(text)
        return text

    def expect(self, text, limit=60, count=1):
        """Waits until the program has written the text so often since the last forget()."""
        end = time.monotonic() + limit
        while self.seen.count(text) < count:
            assert time.monotonic() < end, f"expected {text!r}, found {self.seen!r}"
            self.read(0.05)

    def expect_match(self, pattern, limit=60):
        end = time.monotonic() + limit
        while not re.search(pattern, self.seen):
            assert time.monotonic() < end, f"expected {pattern!r}, found {self.seen!r}"
            self.read(0.05)

    def forget(self):
        self.read(0.05)
        self.seen = ""

    def modes(self):
        return termios.tcgetattr(self.file)

    def wait(self, limit=60):
        """The exit code."""
        end = time.monotonic() + limit
        while True:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < end, f"the program goes on: {self.seen!r}"

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
