#!/usr/bin/env python3
"""Runs the program `mortar` with the small models on the CPU: answers, exit codes, what goes to which stream.

usage: cli_test.py MORTAR MODELS
"""
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import xml.dom.minidom

MORTAR = MODELS = None


def run(*words, env=None, text="", code=0, limit=300):
    variables = {k: v for k, v in os.environ.items() if not k.startswith("MORTAR_")} | {"MORTAR_DEVICE": "cpu"} | (env or {})
    done = subprocess.run([MORTAR, *map(str, words)], input=text.encode(), capture_output=True, timeout=limit, env=variables, check=False)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == code, f"exit code {done.returncode}, expected {code}\n{out}\n{err}"
    return out, err


def start(*words):
    """Starts the program. Ctrl-C is not ignored, as it is in a child of a shell's background job."""
    return subprocess.Popen([MORTAR, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def golden(model):
    return json.loads((MODELS / model / "golden/greedy.json").read_text())


def ids(numbers):
    return ",".join(map(str, numbers))


class Generate(unittest.TestCase):
    def generate(self, *words, model="dense-untied", **options):
        out, _ = run("generate", MODELS / model, "--json", "--max-context", 256, *words, **options)
        return json.loads(out)

    def test_golden_tokens(self):
        g = golden("dense-tied")
        answer = self.generate("--prompt-ids", ids(g["prompt"]), "--greedy", "--ignore-eos", "--max-tokens", 24, model="dense-tied")
        self.assertEqual(answer["ids"], g["ids"])
        self.assertEqual(answer["finish_reason"], "length")
        self.assertEqual(answer["timings"]["prompt_n"], len(g["prompt"]))
        self.assertEqual(answer["timings"]["predicted_n"], 24)

    def test_the_kernels_of_a_gpu_give_the_same_answer(self):
        """While kernels are collected for a GPU, the CPU runs those that the GPU would run."""
        prompt = ids((37 * i + 11) % 300 + 5 for i in range(3))
        # Five query heads for a key head are none of attend_slice's.
        for model, kernel, *kv in (("dense-yarn", "attend_slice"), ("fp8", "attend_slice"), ("dense-yarn", "attend_slice", "--kv-dtype", "f8"),
                                   ("dense-untied", "paged_", "--kv-dtype", "f8")):
            words = ["--prompt-ids", prompt, "--greedy", "--ignore-eos", "--max-tokens", 16, "--logprobs", 1, *kv]
            own = self.generate(*words, model=model)
            with tempfile.TemporaryDirectory() as folder:
                other = self.generate(*words, model=model, env={"TESSERA_COLLECT": folder, "TESSERA_COLLECT_GPUS": "sm_90"})
                self.assertTrue(list(pathlib.Path(folder).glob(f"*{kernel}*")))
            self.assertEqual(own["ids"], other["ids"])
            for a, b in zip(own["logprobs"], other["logprobs"]):
                self.assertAlmostEqual(a["logprob"], b["logprob"], delta=0.15 if kv else 0.04)  # roundings to three bits differ

    def test_short_rows_are_loaded_before_the_wait(self):
        """A model whose products of one row are those of few, short rows of weights (products.cpp)."""
        config = json.loads((MODELS / "dense-tied" / "config.json").read_text())
        config |= {"hidden_size": 512, "intermediate_size": 1536, "num_attention_heads": 8, "head_dim": 64}
        words = ["--random-weights", 3, "--prompt-ids", ids([5, 42, 79]), "--greedy", "--ignore-eos", "--max-tokens", 8, "--logprobs", 1]
        with tempfile.TemporaryDirectory() as model, tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(model) / "config.json").write_text(json.dumps(config))
            own = self.generate(*words, model=model)
            other = self.generate(*words, model=model, env={"TESSERA_COLLECT": folder, "TESSERA_COLLECT_GPUS": "sm_90"})
            reports = [f.read_text() for f in pathlib.Path(folder).glob("*-summed_rows_1536_.txt")]
        self.assertTrue(any("of the loop's first 3 iterations" in r for r in reports), reports)
        self.assertEqual(own["ids"], other["ids"])
        for a, b in zip(own["logprobs"], other["logprobs"]):
            self.assertAlmostEqual(a["logprob"], b["logprob"], delta=0.04)

    def test_several_devices_give_the_bits_of_one(self):
        """With --exact. A number of ranks that cannot share the model is an error before anything is loaded."""
        words = ["--prompt-ids", ids(range(5, 40)), "--temperature", 1, "--seed", 7, "--ignore-eos", "--max-tokens", 24, "--logprobs", 2]
        for model, ranks in (("dense-tied", 4), ("moe", 4), ("moe-fp8", 2)):
            one, several = (self.generate(*words, "--exact", "--tensor-parallel", n, model=model) for n in (1, ranks))
            for key in ("ids", "logprobs"):
                self.assertEqual(one[key], several[key], model)
        self.assertEqual(len(self.generate(*words, "--tensor-parallel", 2)["ids"]), 24)
        _, err = run("generate", MODELS / "dense-tied", "--prompt-ids", 1, "--tensor-parallel", 3, code=1)
        self.assertIn("query heads that divide equally among 3 ranks", err)
        _, err = run("generate", MODELS / "dense-tied", "--prompt-ids", 1, "--tensor-parallel", 0, code=2)
        self.assertIn("--tensor-parallel: expected an integer from 1 to 64", err)

    def test_a_cache_in_fp8(self):
        """Another cache, other numbers: near those of bf16, and the same ones for any number of devices and in the environment."""
        words = ["--prompt-ids", ids(golden("dense-tied")["prompt"]), "--greedy", "--ignore-eos", "--max-tokens", 24, "--logprobs", 2, "--exact"]
        answer = lambda *more, **how: self.generate(*words, *more, model="dense-tied", **how)
        wide, narrow = answer(), answer("--kv-dtype", "f8")
        self.assertNotEqual(narrow["logprobs"], wide["logprobs"])
        self.assertLess(abs(narrow["logprobs"][0]["logprob"] - wide["logprobs"][0]["logprob"]), 0.2)
        self.assertEqual(answer("--kv-dtype", "f8", "--tensor-parallel", 2)["logprobs"], narrow["logprobs"])
        self.assertEqual(answer(env={"MORTAR_KV_DTYPE": "f8"})["logprobs"], narrow["logprobs"])
        self.assertEqual(answer("--kv-dtype", "bf16")["logprobs"], wide["logprobs"])
        plan = [re.search(r"tokens of (\d+) bytes", run("generate", MODELS / "dense-tied", *words, *kv)[1]) for kv in ((), ("--kv-dtype", "f8"))]
        self.assertEqual(int(plan[0][1]), 2 * int(plan[1][1]))
        _, err = run("generate", MODELS / "dense-tied", "--prompt-ids", 1, "--kv-dtype", "int8", code=2)
        self.assertIn('--kv-dtype: expected bf16 or f8, found "int8"', err)

    def test_text_is_standard_output_and_the_rest_standard_error(self):
        words = ["generate", MODELS / "dense-untied", "--prompt", "The kernel", "--raw", "--greedy", "--ignore-eos", "--max-tokens", 20, "--max-context", 256]
        out, err = run(*words)
        self.assertIn("tok/s", err)
        self.assertIn("KV cache", err)
        quiet, nothing = run(*words, "--quiet")
        self.assertEqual(nothing, "")
        self.assertEqual(quiet, out)
        self.assertEqual(out, self.generate("--prompt", "The kernel", "--raw", "--greedy", "--ignore-eos", "--max-tokens", 20)["text"] + "\n")

    def test_chat_template_and_prompt_file(self):
        raw = self.generate("--prompt", "question", "--raw", "--greedy", "--max-tokens", 2)
        chat = self.generate("--prompt", "question", "--greedy", "--max-tokens", 2)
        system = self.generate("--prompt", "question", "--system", "answer", "--greedy", "--max-tokens", 2)
        self.assertGreater(chat["timings"]["prompt_n"], raw["timings"]["prompt_n"])
        self.assertGreater(system["timings"]["prompt_n"], chat["timings"]["prompt_n"])
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write("question")
            f.flush()
            self.assertEqual(self.generate("--prompt-file", f.name, "--greedy", "--max-tokens", 2)["ids"], chat["ids"])

    def test_seeds(self):
        def sampled(seed):
            return self.generate("--prompt-ids", "1,2,3", "--temperature", 1.5, "--top-k", 0, "--top-p", 1, "--seed", seed, "--ignore-eos", "--max-tokens", 16)["ids"]
        self.assertEqual(sampled(1), sampled(1))
        self.assertNotEqual(sampled(1), sampled(2))

    def test_stop_and_logprobs(self):
        words = ["--prompt-ids", "40,41,42", "--greedy", "--ignore-eos", "--max-tokens", 30]
        whole = self.generate(*words, "--logprobs", 3)
        self.assertEqual(len(whole["logprobs"]), 30)
        for token, entry in zip(whole["ids"], whole["logprobs"]):
            self.assertEqual(entry["id"], token)
            self.assertEqual(entry["top_logprobs"][0], {"id": token, "logprob": entry["logprob"]})
            self.assertLess(entry["logprob"], 0)
        stop = whole["text"][5:8]
        cut = self.generate(*words, "--stop", stop)
        self.assertEqual(cut["text"], whole["text"][:whole["text"].find(stop)])
        self.assertEqual(cut["finish_reason"], "stop")

    def test_environment(self):
        words = ["--prompt-ids", "1,2,3", "--greedy", "--ignore-eos"]
        self.assertEqual(len(self.generate(*words, env={"MORTAR_MAX_TOKENS": "5"})["ids"]), 5)
        self.assertEqual(len(self.generate(*words, "--max-tokens", 3, env={"MORTAR_MAX_TOKENS": "5"})["ids"]), 3)
        _, err = run("generate", MODELS / "moe", *words, env={"MORTAR_MAX_TOKENS": "many"}, code=2)
        self.assertIn('--max-tokens: expected an integer from 1 to 1073741824, found "many"', err)

    def test_random_weights_need_the_config_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "config.json").write_bytes((MODELS / "moe/config.json").read_bytes())
            words = ["generate", folder, "--prompt-ids", "1,2", "--max-tokens", 4, "--ignore-eos", "--greedy", "--json", "--random-weights"]
            self.assertEqual(json.loads(run(*words, 3)[0])["ids"], json.loads(run(*words, 3)[0])["ids"])

    def test_ctrl_c(self):
        process = start("generate", MODELS / "dense-untied", "--prompt-ids", "1", "--ignore-eos", "--max-tokens", "1000", "--device", "cpu")
        process.stdout.read(10)  # it answers
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)

    def test_ctrl_c_while_the_prompt_is_computed(self):
        with tempfile.TemporaryDirectory() as folder:
            config = json.loads((MODELS / "dense-untied/config.json").read_text())
            config |= {"max_position_embeddings": 100000, "hidden_size": 512, "intermediate_size": 2048}
            (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
            process = start("generate", folder, "--random-weights", "1", "--prompt-ids", ids([5] * 60000), "--max-tokens", "1", "--device", "cpu")
            for line in iter(process.stderr.readline, b""):
                if b"KV cache" in line:  # of the plan, before the prompt
                    break
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 130)
            self.assertIn(out, (b"\n", b""), "an empty line, unless the engine was still being made")

    def test_the_command_line_wins(self):
        words = ["--max-tokens", 3, "--ignore-eos"]
        greedy = self.generate("--prompt-ids", "1,2,3", *words, "--greedy")
        self.assertEqual(self.generate("--prompt-ids", "1,2,3", *words, "--greedy", env={"MORTAR_PROMPT": "x"})["ids"], greedy["ids"])
        sampling = ["--prompt-ids", "1,2,3", *words, "--temperature", 100, "--top-k", 0, "--top-p", 1, "--seed", 3]
        self.assertEqual(self.generate(*sampling, env={"MORTAR_GREEDY": "1"})["ids"], self.generate(*sampling)["ids"])
        template = ["--prompt", "x", "--no-think", "--greedy", "--max-tokens", 1]
        self.generate(*template, env={"MORTAR_THINK": "1"})

    def test_thinking_is_not_a_part_of_the_answer(self):
        words = ["--prompt", "hi", "--temperature", 100, "--top-k", 0, "--top-p", 1, "--seed", 0, "--ignore-eos", "--max-tokens", 800]
        answer = json.loads(run("generate", MODELS / "dense-tied", "--json", *words)[0])
        self.assertTrue(answer["thinking"], "the seed is one whose answer has thinking")
        out, err = run("generate", MODELS / "dense-tied", *words)
        self.assertEqual(out, answer["text"] + "\n")
        self.assertIn(answer["thinking"].replace("\n", ""), err.replace("\n", ""), "between lines of its own")
        self.assertIn("\0", out + err, "a character like any other")


class Errors(unittest.TestCase):
    def test_wrong_usage(self):
        for words, message in [
            (["generate"], "expected MODEL, found nothing"),
            (["generate", "x", "y"], 'unexpected argument "y"'),
            (["generate", "x", "--nothing"], "unknown option --nothing"),
            (["generate", "x", "--seed"], "--seed needs a value"),
            (["generate", "x", "--seed", "1", "--seed", "2"], "--seed was given twice"),
            (["generate", "x", "--greedy=1"], "--greedy takes no value"),
            (["generate", "/nowhere"], "expected one of --prompt, --prompt-file and --prompt-ids"),
            (["generate", "/nowhere", "--prompt", "x", "--max-tokens", "abc"], "--max-tokens: expected an integer"),
            (["generate", "/nowhere", "--prompt", "x", "--top-p", "0"], "--top-p: expected a number"),
            (["generate", "/nowhere", "--prompt", "x", "--repetition-penalty", "0"], "--repetition-penalty: expected a number"),
            (["generate", "/nowhere", "--prompt", "x", "--stop", ""], "--stop: expected a text"),
            (["generate", MODELS / "moe", "--prompt-ids", "1", "--device", "gpu"], "--device: expected cpu"),
            (["generate", MODELS / "moe", "--prompt-ids", "1", "--device", "cuda:x"], "--device: expected cpu"),
            (["info", MODELS / "moe", "--device", "gpu"], "--device: expected cpu"),
            (["info", MODELS / "moe", "--random-weights", "abc"], "--random-weights: expected an integer"),
            (["generate", "/nowhere", "--prompt", "x", "--greedy", "--temperature", "1"], "--greedy and --temperature exclude each other"),
            (["generate", "/nowhere", "--prompt-ids", "1,a"], "expected integers separated by commas"),
            (["generate", "/nowhere", "--prompt", "x", "--logprobs", "21"], "--logprobs: expected an integer"),
            (["chat", "/nowhere", "--temperature", "abc"], "--temperature: expected a number"),
            (["template", MODELS / "dense-tied", "--messages", "-", "--tools", "-"], "at most one"),
            (["bench", MODELS / "moe", "--prompt-tokens", "0", "--generate", "0"], "above 0"),
            (["generate", MODELS / "moe", "--prompt", "x", "--think", "--no-think"], "exclude each other"),
            (["bench", "x", "--prompt-tokens", "1,,2"], "expected integers separated by commas"),
            (["logits", "x", "--prompt-ids", "1"], "--out is required"),
            (["nothing"], "unknown command nothing"),
            ([], "mortar COMMAND"),
        ]:
            out, err = run(*words, code=2)
            self.assertIn(message, err)
            self.assertEqual(out, "")

    def test_failures(self):
        _, err = run("generate", "/nowhere", "--prompt-ids", "1", code=1)
        self.assertIn("ModelError: /nowhere", err)
        _, err = run("generate", MODELS / "moe", "--prompt-ids", "1", "--max-context", 100000, code=1)
        self.assertIn("100000", err)
        _, err = run("generate", MODELS / "moe", "--prompt-ids", ids([1] * 50), "--max-context", 40, code=1)
        self.assertIn("at most 40 tokens", err)

    def test_what_cannot_be_written(self):
        with open("/dev/full", "wb") as full, tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write("the sum " * 10000)
            f.flush()
            for words in (["--help"], ["generate", "--help"], ["tokenize", MODELS / "dense-tied", "--file", f.name],
                          ["generate", MODELS / "moe", "--prompt-ids", "1", "--max-tokens", "2"],
                          ["chat", MODELS / "dense-untied", "--max-tokens", "2"]):
                done = subprocess.run([MORTAR, *words], input=b"question\n", stdout=full, stderr=subprocess.PIPE, check=False,
                                      env=os.environ | {"MORTAR_DEVICE": "cpu"})
                self.assertEqual(done.returncode, 1, words)
                self.assertIn(b"standard output cannot be written", done.stderr)

    def test_what_cannot_be_read(self):
        for words in (["generate", MODELS / "dense-tied", "--prompt-file"], ["perplexity", MODELS / "dense-tied", "--file"],
                      ["tokenize", MODELS / "dense-tied", "--file"], ["template", MODELS / "dense-tied", "--messages"]):
            self.assertIn("Is a directory", run(*words, "/tmp", code=1)[1])
        self.assertIn("expected ids from 0", run("tokenize", MODELS / "dense-tied", "--decode", text="5 999999", code=1)[1])

    def test_stop_texts_are_whole_characters(self):
        words = [MORTAR, "generate", MODELS / "dense-tied", "--device", "cpu", "--prompt", "a", "--json", "--max-tokens", "1", "--stop", b"\xbf"]
        done = subprocess.run(words, capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--stop: expected a text in UTF-8", done.stderr)

    def test_damaged_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model"
            shutil.copytree(MODELS / "dense-untied", model)
            for file in model.glob("*.safetensors"):
                data = file.read_bytes()
                header = 8 + struct.unpack("<Q", data[:8])[0]
                file.write_bytes(data[:header] + b"\xff" * (len(data) - header))  # NaN everywhere
            for words in (["generate", model, "--prompt-ids", "1,2"], ["generate", model, "--prompt-ids", "1", "--temperature", 1]):
                _, err = run(*words, "--max-tokens", 3, code=1)
                self.assertIn("are the weights damaged?", err)
            _, err = run("chat", model, "--max-tokens", 3, text="question\n", code=1)
            self.assertIn("are the weights damaged?", err)

    def test_experts_of_any_size(self):
        with tempfile.TemporaryDirectory() as folder:
            config = json.loads((MODELS / "moe" / "config.json").read_text())
            (pathlib.Path(folder) / "config.json").write_text(json.dumps(config | {"moe_intermediate_size": 17}))
            words = ["generate", folder, "--random-weights", 1, "--prompt-ids", "1,2", "--max-tokens", 3, "--ignore-eos", "--json"]
            self.assertEqual(len(json.loads(run(*words)[0])["ids"]), 3)

    def test_checked_mode_finds_nothing(self):
        words = ["generate", MODELS / "dense-tied", "--prompt-ids", "1,2,3", "--max-tokens", 3, "--ignore-eos", "--greedy", "--json"]
        self.assertEqual(json.loads(run(*words, env={"TESSERA_CHECK": "1"})[0])["ids"], json.loads(run(*words)[0])["ids"])

    def test_the_device_is_the_one_that_was_named(self):
        words = ["generate", MODELS / "dense-tied", "--prompt-ids", "1", "--max-tokens", 3, "--device", "cpu"]
        run(*words, env={"TESSERA_DEVICE": "cuda:77"})

    def test_files_that_become_shorter(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model"
            shutil.copytree(MODELS / "dense-untied", model)
            process = start("chat", model, "--max-tokens", "3", "--device", "cpu", "--max-context", "256")
            process.stdin.write(b"question\n")
            process.stdin.flush()
            process.stdout.readline()
            for file in model.glob("*.safetensors"):
                os.truncate(file, 0)
            _, err = process.communicate(b"question\n", timeout=120)
            if process.returncode != 0:  # 0: nothing of the file is in use any more
                self.assertEqual(process.returncode, 1, err)
                self.assertIn(b"became shorter", err)

    def test_a_head_that_is_not_the_embedding(self):
        """config.json says that it is: the head of the files is used, with a warning."""
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model"
            shutil.copytree(MODELS / "dense-untied", model)
            config = json.loads((model / "config.json").read_text())
            (model / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
            warning = "mortar: warning: .*tie_word_embeddings is true, but lm_head.weight in .* differs"
            g = golden("dense-untied")
            words = ["generate", model, "--prompt-ids", ids(g["prompt"]), "--greedy", "--ignore-eos", "--max-tokens", 8, "--json"]
            out, err = run(*words)
            self.assertEqual(json.loads(out)["ids"], g["ids"][:8])
            self.assertRegex(err, warning)
            self.assertEqual(run(*words, "--quiet")[1], "")
            out, err = run("info", model, "--json")
            self.assertRegex(err, warning)
            untied = json.loads(run("info", MODELS / "dense-untied", "--json")[0])
            for field in ("tied", "parameters", "active_parameters", "bytes", "bytes_per_step", "plan"):
                self.assertEqual(json.loads(out)[field], untied[field])
            self.assertEqual(run("info", model, "--quiet")[1], "")
            self.assertEqual(run("info", MODELS / "dense-untied")[1], "")

    def test_info_about_another_device(self):
        """--memory plans for a device that this machine does not have."""
        plan = lambda *words: json.loads(run("info", MODELS / "dense-untied", "--json", *words)[0])
        small, large = plan("--memory", "64M"), plan("--memory", "80g")
        self.assertEqual(small["device"]["memory"], 64 << 20)
        self.assertEqual(large["plan"]["reserve"], 512 << 20)
        self.assertEqual(small["cache_tokens"] % 64, 0)
        left = (64 << 20) - small["bytes"]["total"] - small["plan"]["activations"] - small["plan"]["reserve"]
        self.assertTrue(0 <= left - small["cache_tokens"] * small["kv_bytes_per_token"] < 64 * small["kv_bytes_per_token"])
        self.assertGreater(small["cache_tokens"], plan("--memory", "64M", "--batch-size", 64)["cache_tokens"])
        half = plan("--memory", "64M", "--kv-dtype", "f8")
        self.assertEqual(2 * half["kv_bytes_per_token"], small["kv_bytes_per_token"])
        self.assertTrue(0 <= half["cache_tokens"] - 2 * small["cache_tokens"] < 128)
        self.assertIn("(f8)", run("info", MODELS / "dense-untied", "--kv-dtype", "f8")[0])
        nothing = plan("--memory", "1K")
        self.assertEqual((nothing["plan"]["fits"], nothing["cache_tokens"]), (False, 0))
        for wrong in ("", "G", "-1G", "0", "1.5G", "1T", "99999999999999999999G"):
            self.assertIn("--memory: expected a number of bytes", run("info", MODELS / "dense-untied", "--memory", wrong, code=2)[1])

    def test_the_version(self):
        self.assertRegex(run("--version")[0], r"^mortar \d+\.\d+\.\d+\n$")

    def test_help_names_every_variable(self):
        out, _ = run("--help")
        commands = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
        self.assertTrue({"bench", "chat", "generate", "info", "logits", "perplexity"} <= set(commands))
        for command in commands:
            text, _ = run(command, "--help")
            options = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
            self.assertIn("--quiet", options)
            for option in options:
                self.assertIn("[MORTAR_" + option[2:].upper().replace("-", "_") + "]", text)


class Others(unittest.TestCase):
    def test_chat(self):
        words = ["chat", MODELS / "dense-untied", "--greedy", "--max-tokens", 6, "--max-context", 256]
        out, err = run(*words, text="question\nanswer \\\nthe user\n/exit\n")
        self.assertEqual(err.count("tok/s"), 2)
        again, _ = run(*words, text="question\n/clear\nquestion\n")
        first = again[:len(again) // 2]
        self.assertEqual(again, first + first, "a new conversation begins as the first")
        self.assertTrue(out.startswith(first))
        _, err = run(*words, text="the sum " * 200 + "\nquestion\n", code=1)
        self.assertIn("the context 256", err)
        self.assertEqual(err.count("tok/s"), 1, "the conversation goes on after a message that is too long")

    def chat_that_answers(self, folder):
        model = pathlib.Path(folder) / "model"  # with a context that an answer does not fill before the signal comes
        shutil.copytree(MODELS / "dense-untied", model)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 100000}))
        process = start("chat", model, "--ignore-eos", "--device", "cpu", "--max-context", "50000")
        process.stdin.write(b"question\n")
        process.stdin.flush()
        process.stdout.read(5)
        return process

    def test_ctrl_c_in_chat_stops_the_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            process = self.chat_that_answers(folder)
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            out, err = process.communicate(b"/exit\n", timeout=120)
            self.assertEqual(process.returncode, 0, err)
            self.assertIn(b"stopped", err)

    def test_ctrl_c_while_output_waits_for_its_reader(self):
        with tempfile.TemporaryDirectory() as folder:
            process = self.chat_that_answers(folder)
            fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, 4096)
            process.stdin.write(b"/exit\n")
            process.stdin.flush()
            waiting, before = 0, -1
            while waiting != before or waiting < 4000:  # the answer goes on until the pipe is full
                time.sleep(0.5)
                waiting, before = struct.unpack("i", fcntl.ioctl(process.stdout.fileno(), termios.FIONREAD, bytes(4)))[0], waiting
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
            self.assertIn(b"stopped", err)
            self.assertGreater(len(out), 4000)

    def test_thinking_beside_redirected_output(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model"
            shutil.copytree(MODELS / "dense-tied", model)
            (model / "chat_template.jinja").write_text("{{ messages[-1].content }}<think>\n")
            words = ["chat", model, "--greedy", "--max-tokens", 5, "--ignore-eos"]
            out, err = run(*words, text="hi\n")
            _, quiet = run(*words, "--quiet", text="hi\n")
            generated, thinking = run("generate", model, "--prompt", "hi", *words[2:])
            self.assertEqual(out, generated)
            self.assertEqual(quiet, "")
            self.assertIn(err[err.rindex("available\n") + 10:err.rindex("\n[") if "\n[" in err else err.rindex("[")].strip(), thinking)

    def test_a_chart_behind_a_link(self):
        with tempfile.TemporaryDirectory() as folder:
            link, chart = pathlib.Path(folder) / "link.svg", pathlib.Path(folder) / "chart.svg"
            link.symlink_to("chart.svg")
            run("bench", "/nowhere", "--svg", link, code=1)
            self.assertTrue(link.is_symlink() and not chart.exists(), "nothing has changed")
            run("bench", MODELS / "dense-tied", "--prompt-tokens", 4, "--generate", 2, "--repetitions", 1, "--svg", link)
            self.assertTrue(link.is_symlink())
            xml.dom.minidom.parse(str(chart))
            self.assertIn("cannot be written", run("bench", MODELS / "dense-tied", "--svg", folder, code=1)[1])
            self.assertEqual(sorted(p.name for p in pathlib.Path(folder).iterdir()), ["chart.svg", "link.svg"])

    def test_a_second_ctrl_c_ends_chat(self):
        with tempfile.TemporaryDirectory() as folder:
            process = self.chat_that_answers(folder)
            while process.poll() is None:  # two that come at once are one
                process.send_signal(signal.SIGINT)
                time.sleep(0.05)
            process.communicate(timeout=120)
            self.assertEqual(process.returncode, 130)

    def test_the_whole_context_is_scored(self):
        with tempfile.TemporaryDirectory() as folder:
            run("logits", MODELS / "dense-tied", "--prompt-ids", "1,2,3", "--max-context", 3, "--out", pathlib.Path(folder) / "l.npy")
            text = pathlib.Path(folder) / "text"
            text.write_text("The kernel reads the weights. " * 3)
            result = json.loads(run("perplexity", MODELS / "dense-tied", "--file", text, "--max-context", 2, "--json")[0])
            self.assertEqual(result["context"], 2)
            self.assertGreater(result["perplexity"], 1)
            self.assertIn("at least two tokens", run("perplexity", MODELS / "dense-tied", "--file", text, "--max-context", 1, code=1)[1])

    def test_logits(self):
        g = golden("dense-tied")["prompt"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "logits.npy"
            run("logits", MODELS / "dense-tied", "--prompt-ids", ids(g), "--out", path)
            data = path.read_bytes()
        length = struct.unpack("<H", data[8:10])[0]
        self.assertIn(f"({len(g)}, 384)", data[10:10 + length].decode())
        last = struct.unpack("<384f", data[-4 * 384:])
        self.assertEqual(last.index(max(last)), golden("dense-tied")["ids"][0])

    def test_perplexity(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write("The kernel reads the weights of the layer and writes the sum. " * 20)
            f.flush()
            words = ["perplexity", MODELS / "dense-tied", "--file", f.name, "--json"]
            one, many = (json.loads(run(*words, "--context", c)[0]) for c in (900, 50))
        self.assertGreater(one["tokens"], many["tokens"])  # the first of each window is not scored
        for result in (one, many):
            self.assertAlmostEqual(2.718281828459045 ** result["negative_log_likelihood"] / result["perplexity"], 1, places=6)
            self.assertGreater(result["perplexity"], 1)

    def test_bench(self):
        with tempfile.TemporaryDirectory() as folder:
            chart = pathlib.Path(folder) / "chart.svg"
            out, _ = run("bench", MODELS / "dense-tied", "--prompt-tokens", "32", "--generate", 8, "--context", "0,64", "--batch", "1,2",
                         "--repetitions", 2, "--json", "--svg", chart, "--max-context", 128)
            xml.dom.minidom.parse(str(chart))
        out_of_room, err = run("bench", str(MODELS / "dense-tied") + "/", "--prompt-tokens", "4,2000", "--generate", 0, "--max-context", 128, code=1)
        self.assertEqual(out_of_room, "", "nothing is measured before")
        self.assertIn("--prompt-tokens: 2000 tokens and 1 after them need a context of 2001", err)
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([r["test"] for r in rows], ["pp32", "tg8", "tg8 b2", "tg8@64", "tg8@64 b2"])
        for r in rows:
            self.assertGreater(r["tokens_per_s"], 0)
            self.assertEqual(r["model"], "dense-tied")
            self.assertNotIn("idle_share", r)
        # Of each sequence, 2 layers of keys and values of 2 heads of 32, in bf16: 64 tokens and half of the answer.
        self.assertEqual(rows[3]["bytes_per_step"] - rows[1]["bytes_per_step"], 63 * 2 * 2 * 2 * 32 * 2)

    def test_bench_of_what_the_device_idles(self):
        out, _ = run("bench", MODELS / "dense-tied", "--prompt-tokens", 0, "--generate", 12, "--idle", 3, "--repetitions", 2, "--json", "--max-context", 128)
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([r["test"] for r in rows], ["tg12", "idle tg12 b3", "idle tg12 b3 c1"])
        for r in rows[1:]:
            self.assertTrue(0 < r["idle_share"] < 1, r)
            self.assertAlmostEqual(r["device_ms_per_step"], r["ms_per_step"] * (1 - r["idle_share"]), places=9)
        table, _ = run("bench", MODELS / "dense-tied", "--prompt-tokens", 0, "--generate", 4, "--idle", 2, "--repetitions", 1, "--max-context", 128)
        self.assertEqual({line.count("|") for line in table.splitlines()}, {7}, table)
        run("bench", MODELS / "dense-tied", "--generate", 0, "--idle", 3, code=2)


if __name__ == "__main__":
    MORTAR, MODELS = sys.argv[1], pathlib.Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1], verbosity=1)
