#!/usr/bin/env python3
"""What a single user of `mortar` meets: faults that are found before weights are loaded, folders without a tokenizer, short
options, suggestions, variables of the environment.

usage: cli_single_user_test.py MORTAR MODELS
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import cli_test
from cli_test import ids, run

MODELS = None


class OneModel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = self.folder / "model"
        shutil.copytree(MODELS / "dense-untied", self.model)

    def change(self, name, **fields):
        file = self.model / name
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))


class BeforeTheWeights(OneModel):
    """The memory plan is printed when they have been loaded."""

    def expect_fault(self, message, *words, text=""):
        out, err = run(*words, code=1, text=text)
        self.assertIn(message, err)
        self.assertNotIn("KV cache", err)
        self.assertEqual(out, "")

    def test_no_chat_template(self):
        config = json.loads((self.model / "tokenizer_config.json").read_text())
        del config["chat_template"]
        (self.model / "tokenizer_config.json").write_text(json.dumps(config))
        self.expect_fault("chat_template", "generate", self.model, "--prompt", "x")
        self.expect_fault("chat_template", "chat", self.model, text="question\n")
        run("generate", self.model, "--prompt", "x", "--raw", "--max-tokens", 1)
        run("generate", self.model, "--prompt-ids", 1, "--max-tokens", 1)

    def test_prompts_that_do_not_fit(self):
        text = self.folder / "text"
        text.write_text("the sum " * 100)
        for words in (["--prompt-ids", ids([1] * 40)], ["--prompt-file", text]):
            self.expect_fault("prompt and answer together at most 40 tokens: shorten it, or take a larger --max-context", "generate", self.model,
                              "--max-context", 40, *words)
        out = self.folder / "l.npy"
        self.expect_fault("the prompt has 41 tokens, and a prompt at most 40", "logits", self.model, "--max-context", 40, "--prompt-ids", ids([1] * 41),
                          "--out", out)
        self.expect_fault("--prompt-tokens: 40 tokens and 1 after them", "bench", self.model, "--max-context", 40, "--prompt-tokens", 40)
        run("logits", self.model, "--max-context", 40, "--prompt-ids", ids([1] * 40), "--out", out)
        text.write_text("a")
        self.expect_fault("expected at least two tokens", "perplexity", self.model, "--file", text)

    def test_ids_that_the_model_has_not(self):
        size = json.loads((self.model / "config.json").read_text())["vocab_size"]
        message = f"expected ids from 0 to {size - 1}, found {size}"
        self.expect_fault(message, "generate", self.model, "--prompt-ids", f"1,{size}")
        self.expect_fault(message, "logits", self.model, "--prompt-ids", f"1,{size}", "--out", self.folder / "l.npy")
        (self.folder / "empty").write_text("")
        self.expect_fault("expected at least one token", "generate", self.model, "--raw", "--prompt-file", self.folder / "empty")

    def test_paths_that_cannot_be_written(self):
        logits = ["logits", self.model, "--prompt-ids", 1, "--out"]
        self.expect_fault("the file of logits cannot be written: there is no folder", *logits, self.folder / "none/l.npy")
        self.expect_fault("cannot be written: found a folder", *logits, self.folder)
        self.expect_fault("cannot be written: found what is no regular file", *logits, "/dev/null")
        self.expect_fault("the chart cannot be written: there is no folder", "bench", self.model, "--svg", self.folder / "none/b.svg")

    def test_options_that_the_model_cannot_have(self):
        self.change("config.json", hidden_size=8256, intermediate_size=64)
        words = [self.model, "--random-weights", 1, "--strict"]
        self.expect_fault("a hidden size of at most 8192, found 8256", "generate", *words, "--prompt-ids", 1)
        self.expect_fault("a hidden size of at most 8192, found 8256", "logits", *words, "--prompt-ids", 1, "--out", self.folder / "l.npy")
        self.expect_fault("fp8_activations: expected a model with FP8 weights", "bench", MODELS / "dense-tied", "--fp8-activations")


class WithoutATokenizer(OneModel):
    def setUp(self):
        super().setUp()
        self.ids = ["--prompt-ids", ids([40, 41, 42])]
        self.words = [*self.ids, "--greedy", "--ignore-eos", "--max-tokens", 6]
        self.expected = json.loads(run("generate", self.model, *self.words, "--json")[0])["ids"]

    def logits(self, name):
        run("logits", self.model, *self.ids, "--out", self.folder / name)
        return (self.folder / name).read_bytes()

    def test_ids_are_enough(self):
        logits = self.logits("a.npy")
        (self.model / "tokenizer.json").unlink()
        self.assertEqual(run("generate", self.model, *self.words)[0], ",".join(map(str, self.expected)) + "\n")
        answer = json.loads(run("generate", self.model, *self.words, "--json")[0])
        self.assertEqual((answer["ids"], answer["text"]), (self.expected, ""))
        self.assertEqual(self.logits("b.npy"), logits)
        run("bench", self.model, "-p", 4, "-n", 2, "--repetitions", 1)
        for words in (["generate", self.model, "--prompt", "x"], ["chat", self.model], ["perplexity", self.model, "--file", __file__],
                      ["generate", self.model, *self.ids, "--stop", "x"]):
            self.assertIn("tokenizer.json", run(*words, code=1)[1])

    def test_logits_do_not_read_it(self):
        logits = self.logits("a.npy")
        (self.model / "tokenizer.json").write_text("damaged")
        self.assertEqual(self.logits("b.npy"), logits)
        self.assertIn("tokenizer.json", run("generate", self.model, *self.words, code=1)[1])


class Results(OneModel):
    def test_logits_that_are_no_numbers(self):
        for file in self.model.glob("*.safetensors"):
            data = file.read_bytes()
            header = 8 + struct.unpack("<Q", data[:8])[0]
            file.write_bytes(data[:header] + b"\xff" * (len(data) - header))
        out = self.folder / "l.npy"
        _, err = run("logits", self.model, "--prompt-ids", "1,2", "--out", out, code=1)
        self.assertIn("expected logits that are finite", err)
        self.assertIn("position 0, id 0", err)
        self.assertFalse(out.exists())

    def test_streams_that_go_to_one_file_keep_their_order(self):
        words = ["generate", self.model, "--prompt-ids", "40,41,42", "--greedy", "--ignore-eos", "--max-tokens", 20]
        answer, _ = run(*words)
        for more, first in (([], answer), (["--json"], '{"text"')):
            with open(self.folder / "both", "wb+") as both:
                subprocess.run([cli_test.MORTAR, *map(str, words), *more], stdout=both, stderr=subprocess.STDOUT, check=True,
                               env=os.environ | {"MORTAR_DEVICE": "cpu"})
                both.seek(0)
                text = both.read().decode()
            self.assertLess(text.index("KV cache"), text.index(first))
            self.assertRegex(text[text.index(first):], r"\n3 tokens of prompt in .*, 20 of answer at .*tok/s\n$")


class Words(OneModel):
    def test_short_options(self):
        words = ["--greedy", "--ignore-eos", "--raw", "--quiet"]
        whole, _ = run("generate", self.model, "--prompt", "the sum", "--max-tokens", 5, *words)
        for short in ([self.model, "-p", "the sum", "-n", 5], ["-m", self.model, "-n", 5, "-p", "the sum"], ["-n", 5, "-p", "the sum", "-m", self.model]):
            self.assertEqual(run("generate", *short, *words)[0], whole)
        row = json.loads(run("bench", "-m", self.model, "-p", 8, "-n", 0, "--repetitions", 1, "--json")[0])
        self.assertEqual(row["test"], "pp8")
        for wrong, message in ((["-m", self.model, self.model], "unexpected argument"), ([self.model, "-n", "5", "--max-tokens", "5"], "--max-tokens was given twice"),
                               ([self.model, "-p"], "-p needs a value: -p TEXT"), ([self.model, "-x"], "unknown option -x"), (["-m"], "-m needs a value")):
            self.assertIn(message, run("generate", *wrong, code=2)[1])
        self.assertIn("unknown option -p", run("info", self.model, "-p", "x", code=2)[1])
        self.assertEqual(run("generate", "-m", "-", "-p", "-", code=1)[0], "")

    def test_help_of_a_command(self):
        for command in ("chat", "generate"):
            text, _ = run("help", command)
            self.assertEqual(text, run(command, "--help")[0])
            self.assertIn("-m MODEL is the same", text)
            self.assertIn("short: -n", text)
        self.assertEqual(run("help")[0], run("--help")[0])
        self.assertIn("unknown command chta: did you mean chat?", run("help", "chta", code=2)[1])

    def test_suggestions(self):
        for words, message in ((["generat"], "unknown command generat: did you mean generate?"), (["hcat"], "did you mean chat?"),
                               (["perp"], "did you mean perplexity?"), (["generate", "x", "--max-token"], "unknown option --max-token: did you mean --max-tokens?"),
                               (["generate", "x", "--temp=1"], "unknown option --temp: did you mean --temperature?"),
                               (["generate", "x", "--no-thnik"], "did you mean --no-think?"), (["generate", "x", "-prompt", "y"], "unknown option -prompt: did you mean --prompt?"),
                               (["info", "x", "--jsn"], "did you mean --json?")):
            self.assertIn(message, run(*words, code=2)[1])
        for words in (["frobnicate"], ["generate", "x", "--quantise"]):
            self.assertNotIn("did you mean", run(*words, code=2)[1])

    def info(self, *words, **env):
        return run("info", self.model, *words, env=env)[1]

    def test_mistyped_variables(self):
        warning = "mortar info: warning: the environment has MORTAR_MAX_TOKEN, which is no option's variable: did you mean MORTAR_MAX_TOKENS?\n"
        self.assertEqual(self.info(MORTAR_MAX_TOKEN="5", MORTAR_TOP_P="1", MORTAR_PORT="8080"), warning)
        self.assertEqual(self.info(MORTAR_WEATHER="fine"), "mortar info: warning: the environment has MORTAR_WEATHER, which is no option's variable\n")
        self.assertEqual(self.info("--quiet", MORTAR_MAX_TOKEN="5"), "")

    def test_variables_of_kubernetes(self):
        """Of Services named mortar and mortar-small; kubernetes.io, Service, environment variables."""
        made = {"MORTAR_SERVICE_HOST": "10.0.0.11", "MORTAR_SERVICE_PORT": "8080", "MORTAR_SERVICE_PORT_HTTP": "8080", "MORTAR_PORT": "tcp://10.0.0.11:8080",
                "MORTAR_PORT_8080_TCP": "tcp://10.0.0.11:8080", "MORTAR_PORT_8080_TCP_PROTO": "tcp", "MORTAR_PORT_8080_TCP_PORT": "8080",
                "MORTAR_PORT_8080_TCP_ADDR": "10.0.0.11", "MORTAR_SMALL_SERVICE_HOST": "10.0.0.12", "MORTAR_SMALL_PORT": "udp://10.0.0.12:53",
                "MORTAR_SMALL_PORT_53_UDP_ADDR": "10.0.0.12"}
        err = self.info(**made)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn("Kubernetes makes them for a Service", err)
        for name in made:
            self.assertIn(name, err)
        self.assertEqual(self.info("--quiet", **made), "")
        self.assertIn("warning: the environment has MORTAR_POT, which is no option's variable: did you mean MORTAR_PORT?", self.info(MORTAR_POT="8080"))
        self.assertIn("warning: the environment has MORTAR_PORT_NAME", self.info(MORTAR_PORT_NAME="http"))


if __name__ == "__main__":
    cli_test.MORTAR, MODELS = sys.argv[1], pathlib.Path(sys.argv[2])
    cli_test.MODELS = MODELS
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
