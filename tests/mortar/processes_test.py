#!/usr/bin/env python3
"""`mortar` in several processes that share a model, over MPI: what they answer, and what happens when one is killed.

    processes_test.py MORTAR MODELS TEMPLATES MPIRUN PROGRAM

PROGRAM is mpi_program_main, which joins a group as one of another version.

Where a process is killed, mpirun runs with --enable-recovery: otherwise it would kill the others itself. Its exit code
says nothing then, so a shell around each process writes down that of the process.
"""
import ctypes
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

import serving

MPIRUN = None
PROGRAM = None
LIMIT = 2.0  # seconds from a kill to the end of all others
SILENCE = 5.0  # seconds after which the watch takes a process that says nothing for one that is stopped
DEVICE = ["--device", "cpu"]


def environment():
    variables = {k: v for k, v in os.environ.items() if not k.startswith("MORTAR_")}
    return variables | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "ASAN_OPTIONS": "detect_leaks=0"}


def run(ranks, *words):
    """The command on so many ranks, by mpirun unless it is one: exit code, standard output, standard error."""
    command = [MPIRUN, "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    command += [str(serving.MORTAR), *(str(w) for w in words)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    return done.returncode, done.stdout, done.stderr


def run_different(*of_rank):
    """Each rank runs a command of its own; mpirun leaves the others alone when one of them fails."""
    command = [MPIRUN, "--oversubscribe", "--enable-recovery"]
    for words in of_rank:
        command += [":"] * (len(command) > 3) + ["-n", "1", *(str(w) for w in words)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    return done.stdout, done.stderr


def members(group):
    """Process ids of mortar by rank, of the group with this value of PROCESSES_TEST."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or pathlib.Path(os.readlink(entry / "exe")) != serving.MORTAR:
                continue
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        ranks = [v for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
        if ranks and f"PROCESSES_TEST={group}".encode() in variables:
            found[int(ranks[0].split(b"=")[1])] = int(entry.name)
    return found


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def stop_thread(tid):
    """Stops one thread, until end_traced(). False where the system does not allow it."""
    seize, interrupt = 0x4206, 0x4207
    libc = ctypes.CDLL(None)
    return libc.ptrace(seize, tid, None, None) == 0 and libc.ptrace(interrupt, tid, None, None) == 0


def end_traced(pid):
    """SIGKILL for a process with a stopped thread. It first ends for this process, which traces it, and then for its parent."""
    os.kill(pid, signal.SIGKILL)
    every_child = 0x40000000  # __WALL
    while not os.WIFSIGNALED(os.waitpid(pid, every_child)[1]):
        pass


class Group:
    """mortar on several ranks in the background."""

    def __init__(self, ranks, *words, env=None):
        self.output, self.errors, self.codes = (tempfile.NamedTemporaryFile() for _ in range(3))
        self.name = str(uuid.uuid4())
        shell = f'"$0" "$@"; code=$?; echo $OMPI_COMM_WORLD_RANK $code >> {self.codes.name}; exit $code'
        command = [MPIRUN, "--oversubscribe", "--enable-recovery", "-n", str(ranks), "sh", "-c", shell, str(serving.MORTAR), *(str(w) for w in words)]
        self.process = subprocess.Popen(command, env=environment() | {"PROCESSES_TEST": self.name} | (env or {}), stdin=subprocess.DEVNULL,
                                        stdout=self.output, stderr=self.errors)
        self.pids = {}
        self.wait_for(lambda: len(self.find()) == ranks, "all processes have started")

    def find(self):
        self.pids = members(self.name)
        return self.pids

    def out(self):
        return pathlib.Path(self.output.name).read_text()

    def exit_codes(self):
        """By rank, when all have ended."""
        self.process.wait(60)
        return dict(sorted(tuple(map(int, line.split())) for line in pathlib.Path(self.codes.name).read_text().splitlines()))

    def err(self):
        return pathlib.Path(self.errors.name).read_text()

    def wait_for(self, condition, what, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"waited in vain until {what}: {self.out()} {self.err()}")
            time.sleep(0.02)

    def kill(self, rank, how=signal.SIGKILL):
        """Returns the seconds until all others have ended."""
        begin = time.monotonic()
        os.kill(self.pids[rank], how)
        while any(alive(pid) for r, pid in self.pids.items() if r != rank):
            if time.monotonic() > begin + 60:
                raise AssertionError(f"others than rank {rank} have not ended: {self.err()}")
            time.sleep(0.01)
        return time.monotonic() - begin

    def close(self):
        for pid in self.pids.values():
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(60)
        for file in (self.output, self.errors, self.codes):
            file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Server(Group):
    """`mortar serve` on several ranks, once it is ready."""

    def __init__(self, ranks, model, env=None):
        self.connections = []
        super().__init__(ranks, "serve", model, *DEVICE, "--quiet", "--port", 0, "--max-context", 2048, "--tensor-parallel", ranks, env=env)
        self.wait_for(lambda: "\n" in self.out(), "the server is ready")
        self.port = int(re.match(r"ready: http://127\.0\.0\.1:(\d+) ", self.out())[1])

    def close(self):
        for connection in self.connections:
            connection.close()
        super().close()

    def post(self, path, value):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        self.connections.append(connection)
        connection.request("POST", path, json.dumps(value), {"Content-Type": "application/json"})
        return connection.getresponse()


class Processes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = serving.make_model(pathlib.Path(cls.folder.name) / "model")
        # Four ranks can share this one.
        cls.for_four = serving.make_model(pathlib.Path(cls.folder.name) / "for_four", name="dense-tied")
        # Weights that are made for seconds.
        cls.large = pathlib.Path(cls.folder.name) / "large"
        cls.large.mkdir()
        config = json.loads((serving.MODELS / "dense-untied" / "config.json").read_text())
        config |= {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
        (cls.large / "config.json").write_text(json.dumps(config))
        # Four ranks can share the blocks of its FP8 scales.
        cls.fp8 = pathlib.Path(cls.folder.name) / "fp8"
        cls.fp8.mkdir()
        config |= {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
        config |= {"vocab_size": 381, "bos_token_id": 0, "eos_token_id": 0}
        config["quantization_config"] = json.loads((serving.MODELS / "fp8" / "config.json").read_text())["quantization_config"]
        (cls.fp8 / "config.json").write_text(json.dumps(config))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_tokens_are_those_of_one_device(self):
        made = ("--random-weights", 3)
        for model, options in ((serving.MODELS / "dense-tied", ()), (serving.MODELS / "moe", ()), (self.fp8, made)):
            for choice in (("--greedy",), ("--temperature", 1, "--seed", 3)):
                words = ["generate", model, *options, *DEVICE, "--exact", "--prompt-ids", "1,2,3,4,5", "--max-tokens", 12, "--max-context", 256,
                         "--ignore-eos", *choice, "--logprobs", 2, "--json", "--quiet"]
                code, out, err = run(1, *words)
                self.assertEqual((code, err), (0, ""))
                one = json.loads(out)
                self.assertEqual(len(one["ids"]), 12)
                for ranks in (2, 4):
                    with self.subTest(model=model.name, choice=choice[0], ranks=ranks):
                        code, shared, err = run(ranks, *words, "--tensor-parallel", ranks)
                        self.assertEqual((code, err), (0, ""))
                        all_ranks = json.loads(shared)  # rank 0 alone prints
                        self.assertEqual(all_ranks["ids"], one["ids"])
                        self.assertEqual(all_ranks["logprobs"], one["logprobs"])

    def test_other_commands(self):
        model = serving.MODELS / "dense-tied"
        code, out, err = run(2, "bench", model, *DEVICE, "--tensor-parallel", 2, "--prompt-tokens", 8, "--generate", 4, "--repetitions", 1, "--json")
        self.assertEqual(code, 0, err)
        self.assertEqual([json.loads(line)["test"] for line in out.splitlines()], ["pp8", "tg4"])

    def test_the_number_of_processes_is_that_of_ranks(self):
        for words in ((), ("--tensor-parallel", 4)):
            code, out, err = run(2, "generate", serving.MODELS / "dense-tied", *DEVICE, "--prompt-ids", "1", *words)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("--tensor-parallel: expected 2, as many as Open MPI has started processes, found " + (str(words[1]) if words else "1"), err)
        code, _, err = run(2, "generate", serving.MODELS / "dense-tied", "--device", "cuda:1", "--prompt-ids", "1", "--tensor-parallel", 2)
        self.assertNotEqual(code, 0, err)

    def test_a_rank_with_other_options_is_named(self):
        model = serving.MODELS / "dense-tied"
        words = [serving.MORTAR, "generate", model, *DEVICE, "--prompt-ids", "1", "--tensor-parallel"]
        for first, second, expected in (
            ([*words, 2], [*words, 2, "--exact"], r"rank 1 of 2: expected exact .* = 0, as rank 0 has it, found 1"),
            ([*words, 2], [*words, 2, "--kv-dtype", "f8"], "rank 1 of 2: expected kv_type = 0, as rank 0 has it, found 1"),
            ([*words, 2, "--max-context", 64], [*words, 2], "rank 1 of 2: expected max_context = 64, as rank 0 has it, found 0"),
            ([*words, 2], [*words, 4], "rank 1: --tensor-parallel: expected 2, as many as Open MPI has started processes, found 4"),
            ([*words, 4], [*words, 2], "rank 0: --tensor-parallel: expected 2, as many as Open MPI has started processes, found 4"),
            ([*words, 2], [w if w != model else "/nowhere/at/all" for w in words] + [2], "rank 1: .*/nowhere/at/all"),
        ):
            with self.subTest(expected=expected):
                out, err = run_different(first, second)
                self.assertEqual(out, "")
                self.assertEqual(len(re.findall(r"^mortar generate: ", err, re.M)), 2, err)
                self.assertRegex(err, expected)
                self.assertNotIn("loaded", err)

    def test_a_rank_of_another_version_is_named(self):
        words = [serving.MORTAR, "generate", serving.MODELS / "dense-tied", *DEVICE, "--prompt-ids", "1", "--tensor-parallel", 2]
        other_version = ["env", "TESSERA_DEVICE=cpu", PROGRAM, "other-version"]
        for of_rank, other in (((words, other_version), 1), ((other_version, words), 0)):
            with self.subTest(other=other):
                out, err = run_different(*of_rank)
                self.assertEqual(out, "")
                self.assertRegex(err, rf"mortar generate: .*rank {other} of 2 ranks \(MPI\) runs another version of Tessera")
                self.assertNotIn("loaded", err)

    def test_what_rank_zero_rejects_ends_all(self):
        code, out, err = run(2, "generate", serving.MODELS / "dense-tied", *DEVICE, "--tensor-parallel", 2, "--max-context", 64, "--quiet", "--prompt-ids",
                             ",".join(["1"] * 64))
        self.assertEqual((code, out), (1, ""))
        # Before it loads weights: the other rank waits there, and says who has ended it.
        self.assertEqual(err.count("the prompt has 64 tokens"), 2, err)
        self.assertEqual(err.count("RanksError: rank 0: the prompt has 64 tokens"), 1, err)

    def test_serving(self):
        # Between two requests it is idle for longer than a rank may be late.
        with Server(2, self.model, env={"TESSERA_MESH_TIMEOUT": "4"}) as server:
            time.sleep(6)
            answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 8, "ignore_eos": True})
            self.assertEqual(answer.status, 200)
            self.assertEqual(json.loads(answer.read())["usage"]["completion_tokens"], 8)
            os.kill(server.pids[0], signal.SIGTERM)
            self.assertEqual(server.exit_codes(), {0: 0, 1: 0}, server.err())
            self.assertNotIn("mortar", server.err())

    def expect_the_cause(self, group, rank, cause="the process has ended"):
        """On every other rank; `rank` was killed."""
        codes = group.exit_codes()
        self.assertEqual(codes, {r: 128 + signal.SIGKILL if r == rank else 1 for r in group.pids}, group.err())
        said = re.findall(rf"mortar \w+: .*rank {rank}: {cause}", group.err())
        self.assertEqual(len(said), len(codes) - 1, group.err())

    def expect_in_time(self, seconds_of, *arguments):
        """The least time of some runs, each of which has to be right, is below LIMIT: the machine may be busy."""
        tries = []
        while len(tries) < 10:
            tries.append(seconds_of(*arguments))
            if tries[-1] < LIMIT:
                return
        self.fail(f"{arguments}: expected less than {LIMIT} s once, found {tries}")

    def end_of_an_idle_server(self, ranks, rank):
        with Server(ranks, self.for_four) as server:
            time.sleep(0.5)
            seconds = server.kill(rank)
            self.expect_the_cause(server, rank)
            return seconds

    def test_a_killed_process_ends_a_server_that_is_idle(self):
        for ranks, rank in ((2, 1), (2, 0), (4, 2)):
            with self.subTest(ranks=ranks, rank=rank):
                self.expect_in_time(self.end_of_an_idle_server, ranks, rank)

    def end_of_a_server_that_decodes(self, rank):
        with Server(2, self.model) as server:
            response = server.post("/v1/completions", {"prompt": "a", "max_tokens": 2000, "ignore_eos": True, "stream": True})
            first = response.readline()
            self.assertTrue(first.startswith(b"data: "), first)
            rest = []
            reader = threading.Thread(target=lambda: rest.append(self.read(response)))
            reader.start()
            seconds = server.kill(rank)
            reader.join(60)
            self.expect_the_cause(server, rank)
            if rank == 1:  # rank 0 lives to say why
                self.assertRegex(rest[0], r"error.*rank 1: the process has ended")
            return seconds

    def test_a_killed_process_ends_a_server_that_decodes(self):
        for rank in (1, 0):
            with self.subTest(rank=rank):
                self.expect_in_time(self.end_of_a_server_that_decodes, rank)

    def end_behind_a_stopped_process(self):
        with Server(2, self.model) as server:
            response = server.post("/v1/completions", {"prompt": "a", "max_tokens": 2000, "ignore_eos": True, "stream": True})
            self.assertTrue(response.readline().startswith(b"data: "))
            rest = []
            reader = threading.Thread(target=lambda: rest.append(self.read(response)))
            reader.start()
            seconds = server.kill(1, signal.SIGSTOP) - SILENCE
            reader.join(60)
            os.kill(server.pids[1], signal.SIGKILL)
            self.expect_the_cause(server, 1, "the process has not answered for 5 s")
            self.assertRegex(rest[0], r"error.*rank 1: the process has not answered")
            return seconds

    def test_a_stopped_process_ends_a_server_that_decodes(self):
        self.expect_in_time(self.end_behind_a_stopped_process)

    def test_a_process_that_hangs_ends_a_server(self):
        """Its main thread makes no step any more; the one that answers the watch lives."""
        with Server(2, self.model, env={"TESSERA_MESH_TIMEOUT": "4"}) as server:
            if not stop_thread(server.pids[1]):
                self.skipTest("this system does not allow ptrace")
            try:
                response = server.post("/v1/completions", {"prompt": "a", "max_tokens": 8})
                self.assertRegex(self.read(response), r"error.*rank 1: the rank makes no progress for 4 s while others wait for it")
                self.assertTrue(serving.eventually(lambda: not alive(server.pids[0])))
            finally:
                end_traced(server.pids[1])
            self.expect_the_cause(server, 1, "the rank makes no progress for 4 s")

    def test_a_process_that_hangs_while_it_loads_ends_the_others(self):
        words = ["generate", self.large, *DEVICE, "--random-weights", 1, "--tensor-parallel", 2, "--prompt-ids", "1", "--max-context", 64]
        with Group(2, *words, env={"TESSERA_MESH_TIMEOUT": "4"}) as group:
            group.wait_for(lambda: all(self.memory(pid) > 100 << 20 for pid in group.pids.values()), "weights are made")
            if not stop_thread(group.pids[1]):
                self.skipTest("this system does not allow ptrace")
            try:
                self.assertTrue(serving.eventually(lambda: not alive(group.pids[0])))
            finally:
                end_traced(group.pids[1])
            self.expect_the_cause(group, 1, "the rank makes no progress for 4 s")
            self.assertEqual(group.out(), "")

    @staticmethod
    def read(response):
        try:
            return response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return repr(error)

    def end_of_others_that_load(self, rank):
        words = ["generate", self.large, *DEVICE, "--random-weights", 1, "--tensor-parallel", 2, "--prompt-ids", "1", "--max-context", 64]
        with Group(2, *words) as group:
            group.wait_for(lambda: all(self.memory(pid) > 300 << 20 for pid in group.pids.values()), "weights are made")
            seconds = group.kill(rank)
            self.expect_the_cause(group, rank)
            self.assertNotIn("loaded", group.err())
            self.assertEqual(group.out(), "")
            return seconds

    def test_a_killed_process_ends_others_that_load(self):
        for rank in (1, 0):
            with self.subTest(rank=rank):
                self.expect_in_time(self.end_of_others_that_load, rank)

    @staticmethod
    def memory(pid):
        try:
            return int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10
        except (OSError, TypeError):
            return 0


if __name__ == "__main__":
    serving.use(*sys.argv[1:4])
    MPIRUN, PROGRAM = sys.argv[4:6]
    sys.argv[1:6] = []
    unittest.main()
