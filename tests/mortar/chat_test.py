#!/usr/bin/env python3
"""`mortar chat` in a pseudo terminal: editing, history, pastes, Ctrl-C, Ctrl-D, the window's size, its commands.

usage: chat_test.py MORTAR MODELS [editor|plain [Chat.TEST ...]]

editor: the program is built with libedit (the default); plain: without, where only what a terminal cuts is tested.
"""
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from terminal import Terminal

MORTAR = MODELS = None
EDITOR = True
LEFT, RIGHT, UP, DOWN, HOME, DELETE = "\033[D", "\033[C", "\033[A", "\033[B", "\033[H", "\033[3~"
PASTE, PASTED = "\033[200~", "\033[201~"
ICANON = termios.ICANON


def needs_editor(test):
    @functools.wraps(test)
    def skips_without(self):
        if not EDITOR:
            self.skipTest("the program is built without an editor of lines")
        test(self)
    return skips_without


class Chat(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = self.folder / "model"  # with a context for long messages
        shutil.copytree(MODELS / "dense-untied", self.model)
        config = json.loads((self.model / "config.json").read_text())
        (self.model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 100000}))
        self.output = self.folder / "output"
        self.history = self.folder / "state/mortar/chat_history"

    def variables(self, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MORTAR_", "LC_")) and k not in ("LANG", "EDITRC")}
        return kept | {"MORTAR_DEVICE": "cpu", "HOME": str(self.folder), "XDG_STATE_HOME": str(self.folder / "state"), "TERM": "xterm"} | more

    def chat(self, *words, env=None, **how):
        words = words or ("--greedy", "--max-tokens", 4)
        terminal = Terminal([MORTAR, "chat", self.model, "--max-context", 20000, *words], self.variables(**env or {}), output=self.output, **how)
        self.addCleanup(terminal.close)
        terminal.expect("> ")
        terminal.forget()
        return terminal

    def say(self, terminal, keys):
        """A message, and its answer."""
        terminal.forget()
        terminal.send(keys + "\r")
        terminal.expect_match(r"tok/s[^\n]*\]\r\n(?:\033\[\?2004h)?> ")

    def expect_messages(self, terminal, *messages):
        """The answers are those that the messages get through a pipe."""
        terminal.send("\x04")
        self.assertEqual(terminal.wait(), 0)
        text = "".join(m.replace("\n", "\\\n") + "\n" for m in messages)
        done = subprocess.run([MORTAR, "chat", self.model, "--max-context", "20000", "--greedy", "--max-tokens", "4"], input=text.encode(),
                              capture_output=True, timeout=300, env=self.variables(), check=True)
        self.assertEqual(done.stderr.count(b"tok/s"), len(messages))
        self.assertEqual(self.output.read_bytes(), done.stdout)

    @needs_editor
    def test_editing(self):
        terminal = self.chat()
        self.say(terminal, "quetion" + 4 * LEFT + "s")
        self.say(terminal, "xquestio" + RIGHT + "n" + HOME + DELETE)
        self.say(terminal, "größe 文" + 4 * LEFT + "\x7fß" + 2 * RIGHT + " der")
        self.expect_messages(terminal, "question", "question", "größe der 文")

    @needs_editor
    def test_what_the_screen_shows(self):
        terminal = self.chat(columns=40)
        terminal.screen.resize(40, 24)
        terminal.send("\x15" + "0123456789" * 5)
        terminal.expect("9", count=5)
        terminal.read(0.2)
        whole = "0123456789" * 5
        self.assertTrue(terminal.screen.lines()[-1].endswith(whole[-12:]), terminal.screen.lines())
        terminal.send(45 * LEFT + "abc")
        terminal.read(0.5)
        shown = "".join(line.ljust(40) for line in terminal.screen.lines()).rstrip()
        self.assertTrue(shown.endswith("01234abc56789" + whole[10:]), shown)
        self.assertEqual(terminal.screen.cells[terminal.screen.row][terminal.screen.column], "5")

    @needs_editor
    def test_history(self):
        terminal = self.chat()
        self.say(terminal, "first")
        self.say(terminal, "second")
        self.say(terminal, UP + UP)
        self.say(terminal, UP + UP + UP + DOWN + "s")
        self.expect_messages(terminal, "first", "second", "first", "seconds")
        self.assertEqual(self.history.stat().st_mode & 0o777, 0o600)
        terminal = self.chat()
        self.say(terminal, UP + UP)
        self.expect_messages(terminal, "first")

    @needs_editor
    def test_a_history_of_one_session(self):
        for words, env in ((["--no-history"], {}), ([], {"MORTAR_NO_HISTORY": "1"})):
            terminal = self.chat("--greedy", "--max-tokens", 4, *words, env=env)
            self.say(terminal, "first")
            self.say(terminal, UP)
            self.expect_messages(terminal, "first", "first")
            self.assertFalse(self.history.exists())

    @needs_editor
    def test_a_file_that_is_no_history_stays(self):
        self.history.parent.mkdir(parents=True)
        self.history.write_text("mine\n")
        terminal = self.chat()
        self.say(terminal, "first")
        self.expect_messages(terminal, "first")
        self.assertEqual(self.history.read_text(), "mine\n")

    @needs_editor
    def test_a_paste_is_one_message(self):
        lines = [f"line {i} " + "the sum of the weights " * 6 for i in range(42)]
        self.assertGreater(sum(map(len, lines)), 6000)
        terminal = self.chat()
        self.say(terminal, PASTE + "\r".join(lines) + PASTED)
        self.say(terminal, "a " + PASTE + "b\nc\r\n" + PASTED + " d")
        self.expect_messages(terminal, "\n".join(lines), "a b\nc d")
        terminal = self.chat()  # and one of the history
        self.say(terminal, UP + UP + " again")
        self.expect_messages(terminal, "\n".join(lines) + " again")

    @needs_editor
    def test_long_lines_are_not_cut(self):
        terminal = self.chat()
        line = "the sum " * 700
        self.say(terminal, line + "end")
        self.expect_messages(terminal, line + "end")

    @needs_editor
    def test_ctrl_c(self):
        terminal = self.chat("--ignore-eos")
        self.assertFalse(terminal.modes()[3] & ICANON, "the editor reads single characters")
        terminal.send("question\r")
        while not self.output.read_bytes():  # it answers
            terminal.read(0.05)
        terminal.send("\x03")
        terminal.expect_match(r", stopped\]\r\n\033\[\?2004h> ")
        terminal.send("some")
        terminal.expect("some")
        terminal.forget()
        terminal.send("\x03")
        self.assertEqual(terminal.wait(), 130)
        self.assertTrue(terminal.modes()[3] & ICANON)
        self.assertIn("\033[?2004l", terminal.seen)

    @needs_editor
    def test_what_is_typed_during_an_answer_is_the_next_message(self):
        terminal = self.chat("--ignore-eos", "--max-tokens", 2000, "--greedy")
        lines = "\r".join("the sum of the weights " * 5 for _ in range(60))
        terminal.send("question\r")
        while not self.output.read_bytes():  # it answers
            terminal.read(0.05)
        terminal.forget()
        terminal.send(PASTE + lines[:2000])
        terminal.read(0.2)
        self.assertEqual(terminal.seen, "", "it goes on, and nothing of the next message stands in it")
        terminal.send(lines[2000:] + PASTED + "\r")  # waits for the editor when the terminal is full
        end = time.monotonic() + 60
        while "weights" not in self.history.read_text() and time.monotonic() < end:
            terminal.read(0.05)
        terminal.close()
        terminal = self.chat()
        self.say(terminal, UP)
        self.expect_messages(terminal, lines.replace("\r", "\n"))

    @needs_editor
    def test_signals_leave_the_terminal_as_it_was(self):
        for number, code in ((signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)):
            terminal = self.chat()
            self.assertFalse(terminal.modes()[3] & ICANON)
            for _ in range(2 if number == signal.SIGINT else 1):
                os.kill(terminal.pid, number)
            self.assertEqual(terminal.wait(), code)
            self.assertTrue(terminal.modes()[3] & ICANON)
            self.assertIn("\033[?2004l", terminal.seen)

    @needs_editor
    def test_ctrl_d(self):
        terminal = self.chat()
        terminal.send("quest" + "\x04" + "ion")  # in a line it ends nothing
        self.say(terminal, "")
        self.expect_messages(terminal, "question")

    @needs_editor
    def test_the_window_changes_its_size(self):
        terminal = self.chat()
        line = "".join(chr(ord("a") + i % 26) for i in range(100))
        terminal.send(line)
        terminal.expect(line[-5:])
        terminal.resize(30, 20)
        terminal.read(1)
        shown = terminal.screen.lines()
        self.assertEqual("".join(shown[-4:]), "> " + line, shown)
        self.assertEqual(len(shown[-4]), 30)
        self.say(terminal, 100 * LEFT + "0")
        self.expect_messages(terminal, "0" + line)

    @needs_editor
    def test_it_goes_on_after_ctrl_z(self):
        terminal = self.chat()
        terminal.send("quest")
        terminal.expect("quest")
        os.kill(terminal.pid, signal.SIGSTOP)
        cooked = terminal.modes()
        cooked[3] |= ICANON | termios.ECHO  # as a shell does
        termios.tcsetattr(terminal.file, termios.TCSANOW, cooked)
        os.kill(terminal.pid, signal.SIGCONT)
        end = time.monotonic() + 30
        while terminal.modes()[3] & ICANON and time.monotonic() < end:
            terminal.read(0.05)
        self.say(terminal, "ion")
        self.expect_messages(terminal, "question")

    def test_commands(self):
        terminal = self.chat()
        terminal.send("/cleer\r")
        terminal.expect("unknown command /cleer: did you mean /clear?")
        terminal.expect("/help ")
        terminal.send("/foo bar\r")
        terminal.expect("unknown command /foo\r\n")
        terminal.forget()
        terminal.send("/help\r")
        for name in ("/help ", "/clear ", "/exit "):
            terminal.expect("  " + name)
        self.assertNotIn("unknown", terminal.seen)
        terminal.expect("> ")
        self.assertNotIn("tok/s", terminal.seen)
        self.say(terminal, "/etc/hosts")
        self.say(terminal, "/no_think a")
        terminal.send("/clear\r")
        self.say(terminal, "question")
        terminal.send("/exit\r")
        self.assertEqual(terminal.wait(), 0)

    def test_an_answer_that_is_cut_says_so(self):
        terminal = self.chat("--ignore-eos", "--max-tokens", 5)
        self.say(terminal, "question")
        self.assertIn(", cut: the answer has all tokens of --max-tokens]", terminal.seen)
        terminal = Terminal([MORTAR, "chat", self.model, "--max-context", 64, "--ignore-eos"], self.variables(), output=self.output)
        self.addCleanup(terminal.close)
        terminal.expect("> ")
        self.say(terminal, "question")
        self.assertIn(", cut: the context of 64 tokens is full; /clear begins a new conversation]", terminal.seen)

    def test_what_a_terminal_cuts_is_said(self):
        """Without an editor: on a terminal that can do nothing, or in a build without libedit."""
        terminal = self.chat(env={"TERM": "dumb"})
        terminal.send("the sum " * 700 + "\r")
        terminal.expect("expected a line of less than 4095 bytes")
        self.assertNotIn("tok/s", terminal.seen)
        self.say(terminal, "question")
        self.expect_messages(terminal, "question")


if __name__ == "__main__":
    MORTAR, MODELS = sys.argv[1], pathlib.Path(sys.argv[2])
    EDITOR = sys.argv[3:4] != ["plain"]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
