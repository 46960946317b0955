#!/usr/bin/env python3
"""200 clients at a time ask `mortar serve`, and leave it in every state of a request: within the head or the body, queued, while their prompt is
computed, in the middle of a stream; some read or send slowly, and now and then all of them leave at once.

usage: server_storm.py MORTAR MODELS TEMPLATES [--seconds N] [--clients N] [--pause SECONDS] [--seed N] [--patience SECONDS] [--sanitized]

What must hold: no errors but those that are promised (a full queue, requests that are wrong), no request waits longer than --patience, memory
and open files do not grow, all pages of the cache are free in the end, received = rejected + finished + cancelled + failed, and the first answer
comes once more at the end. --sanitized: the program watches its memory itself, so its size says nothing. It needs nothing but Python.
"""
import argparse
import asyncio
import collections
import json
import pathlib
import random
import socket
import struct
import sys
import tempfile
import time

import serving

QUESTION = {"model": None, "messages": [{"role": "user", "content": "What is the answer?"}], "ignore_eos": True}
RESET = struct.pack("ii", 1, 0)


class Failure(Exception):
    """The server has broken a promise."""


class Connection:
    """A connection that can end in any way."""

    def __init__(self, port):
        self.port, self.reader, self.writer = port, None, None

    async def open(self, buffer=0):
        sock = socket.socket()
        sock.setblocking(False)
        if buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        self.reader, self.writer = await asyncio.open_connection(sock=sock, limit=buffer or 65536)

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def read_head(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        return int(head[0].split()[1]), dict(line.split(": ", 1) for line in head[1:] if line)

    async def read_body(self, headers):
        """Pieces of the body as they come."""
        if "Content-Length" in headers:
            yield await self.reader.readexactly(int(headers["Content-Length"]))
            return
        while True:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            data = await self.reader.readexactly(size + 2)
            if size == 0:
                return
            yield data[:-2]

    def leave(self, reset):
        if self.writer is None:
            return
        if reset:
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.writer.transport.abort()
        self.writer = None


def request(path, body, extra=""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{extra}Content-Length: {len(data)}\r\n\r\n".encode() + data


class Client:
    """One of the clients. Each method is something that clients do."""

    def __init__(self, storm, number):
        self.storm, self.random = storm, random.Random(storm.options.seed * 1000 + number)
        self.connection = None

    def chat(self, stream, tokens, words=4):
        prompt = " ".join(str(self.random.randrange(100)) for _ in range(words))
        return QUESTION | {"model": self.storm.server.name, "stream": stream, "max_tokens": tokens, "messages": [{"role": "user", "content": prompt}]}

    async def check(self, stream, slowly=0.0):
        """Reads a whole answer, which must be right, or a full queue."""
        sent = time.monotonic()
        status, headers = await self.connection.read_head()
        text = b""
        async for piece in self.connection.read_body(headers):
            text += piece
            if slowly:
                await asyncio.sleep(slowly)
        if not slowly:
            self.storm.waits.append(time.monotonic() - sent)
        self.storm.counts[status] += 1
        if status == 503:
            if json.loads(text)["error"]["code"] != "queue_full" or "Retry-After" not in headers:
                raise Failure(f"{headers} {text}")
        elif status != 200:
            raise Failure(f"{status} {text}")
        elif stream:
            events = [e.removeprefix("data: ") for e in text.decode().split("\n\n") if not e.startswith(":") and e]
            if events[-1] != "[DONE]" or '"finish_reason":"length"' not in text.decode() or '"error"' in text.decode():
                raise Failure(f"a stream that is not whole: {text[-500:]}")
        elif json.loads(text)["choices"][0]["finish_reason"] != "length":
            raise Failure(f"an answer that is not whole: {text}")
        return status

    async def stream(self):
        await self.connection.send(request("/v1/chat/completions", self.chat(True, self.random.randrange(1, 20))))
        await self.check(True)

    async def whole(self):
        await self.connection.send(request("/v1/chat/completions", self.chat(False, self.random.randrange(1, 20))))
        await self.check(False)

    async def several(self):
        """Requests one after the other on one connection, and one that is sent ahead."""
        for _ in range(2):
            await self.whole()
        await self.connection.send(request("/v1/chat/completions", self.chat(True, 3)) + request("/v1/chat/completions", self.chat(False, 3)))
        await self.check(True)
        await self.check(False)

    async def wrong(self):
        """Requests that are answered with an error; the connection goes on."""
        path, body, expected = self.random.choice([
            ("/v1/chat/completions", b'{"messages": [', 400), ("/v1/chat/completions", {"messages": "none"}, 400), ("/v1/nothing", {}, 404),
            ("/v1/chat/completions", self.chat(True, 5) | {"n": 10**6}, 400), ("/v1/chat/completions", self.chat(True, 10**6), 400),
            ("/v1/chat/completions", self.chat(True, 5) | {"structured_outputs": {"regex": "(a{1000}){1000}"}}, 400)])
        await self.connection.send(request(path, body))
        status, headers = await self.connection.read_head()
        text = b"".join([piece async for piece in self.connection.read_body(headers)])
        self.storm.counts[status] += 1
        if status != expected and not (status == 503 and b"queue_full" in text):
            raise Failure(f"expected {expected}: {status} {text}")

    async def slow_reader(self):
        await self.connection.send(request("/v1/chat/completions", self.chat(True, 60)))
        await self.check(True, slowly=0.05)

    async def slow_sender(self):
        data = request("/v1/chat/completions", self.chat(True, 5))
        for i in range(0, len(data), 40):
            await self.connection.send(data[i:i + 40])
            await asyncio.sleep(0.1)
        await self.check(True)

    async def leave_in_the_request(self):
        data = request("/v1/chat/completions", self.chat(True, 5))
        await self.connection.send(data[:self.random.randrange(len(data))])
        await asyncio.sleep(self.random.random() * 0.2)

    async def leave_before_the_answer(self):
        """Queued, or while a long prompt is computed."""
        await self.connection.send(request("/v1/chat/completions", self.chat(self.random.random() < 0.5, 30, words=self.random.choice([4, 300]))))
        await asyncio.sleep(self.random.choice([0, 0.002, 0.02, 0.2]))

    async def leave_in_the_stream(self):
        await self.connection.send(request("/v1/chat/completions", self.chat(True, 500)))
        status, headers = await self.connection.read_head()
        left = self.random.randrange(20)
        async for _ in self.connection.read_body(headers):
            left -= 1
            if status != 200 or left < 0:
                return

    async def never_read(self):
        await self.connection.send(request("/v1/chat/completions", self.chat(True, 500)))
        await asyncio.sleep(2)

    async def half_close(self):
        await self.connection.send(request("/v1/chat/completions", self.chat(True, 500)))
        self.connection.writer.write_eof()
        while await self.connection.reader.read(65536):
            pass

    async def silent(self):
        await asyncio.sleep(1)

    ways = [(stream, 6), (whole, 4), (several, 1), (wrong, 2), (slow_reader, 1), (slow_sender, 1), (leave_in_the_request, 2),
            (leave_before_the_answer, 4), (leave_in_the_stream, 4), (never_read, 1), (half_close, 1), (silent, 1)]

    async def once(self, way):
        await self.connection.open(buffer=4096 if way is Client.slow_reader or way is Client.never_read else 0)
        await way(self)

    async def run(self, end):
        ways, weights = zip(*self.ways)
        while (pause := self.random.expovariate(1 / self.storm.options.pause)) < end - time.monotonic():
            await asyncio.sleep(pause)
            way = self.random.choices(ways, weights)[0]
            self.connection = Connection(self.storm.server.port)
            doing = asyncio.ensure_future(self.once(way))
            all_leave = asyncio.ensure_future(self.storm.all_leave.wait())
            # What does not end at all is a failure, too.
            done, _ = await asyncio.wait({doing, all_leave}, timeout=3 * self.storm.options.patience, return_when=asyncio.FIRST_COMPLETED)
            all_leave.cancel()
            self.storm.done[way.__name__] += 1
            if not done:
                self.storm.failures.append(f"{way.__name__}: no end")
            if doing.done() and doing.exception():
                self.storm.failures.append(f"{way.__name__}: {doing.exception()!r}")
            doing.cancel()
            self.connection.leave(self.random.random() < 0.5)


class Storm:
    def __init__(self, server, options):
        self.server, self.options = server, options
        self.counts, self.done, self.waits, self.failures = collections.Counter(), collections.Counter(), [], []
        self.all_leave = None

    async def leave_together(self):
        """Now and then all clients leave whatever they do; some have had an answer, which may take long on a busy machine."""
        while True:
            answers = self.counts[200]
            await asyncio.sleep(self.options.seconds / 8)
            while self.counts[200] == answers:
                await asyncio.sleep(0.1)
            self.all_leave.set()
            await asyncio.sleep(0)
            self.all_leave.clear()

    async def run(self, part, share):
        """A share of the time, with other requests in each part."""
        self.all_leave = asyncio.Event()
        end = time.monotonic() + self.options.seconds * share
        leaving = asyncio.ensure_future(self.leave_together())
        await asyncio.gather(*(Client(self, part * self.options.clients + i).run(end) for i in range(self.options.clients)))
        leaving.cancel()


def require(condition, message):
    if not condition:
        raise Failure(message)


def first_answer(server, salt):
    status, body = server.post("/v1/chat/completions", QUESTION | {"model": server.name, "max_tokens": 24, "temperature": 0, "cache_salt": salt,
                                                                   "return_token_ids": True})
    require(status == 200, f"{status} {body}")
    return body["choices"][0]["token_ids"]


def all_ended(state):
    return state["received"] == state["rejected"] + state["finished"] + state["cancelled"] + state["failed"]


def cache_bytes(folder, state):
    """What all pages of keys and values take in bf16. A page costs memory from its first use on."""
    config = json.loads((folder / "config.json").read_text())
    return state["max_context"] * state["max_batch"] * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * 2 * 2


def memory_at_rest(server):
    """The least memory of some seconds in which nothing runs: a large grammar may still be compiled for a client that has left."""
    least = server.memory()
    for _ in range(30):
        time.sleep(0.1)
        least = min(least, server.memory())
    return least


def check_memory(before, after, cache):
    """At rest, the size after the whole time is that after a third of it: 1 %, 4 MiB that the allocator keeps or does not, and `cache` bytes, which
    are used for the first time at any time."""
    print(f"memory: {before / 2**20:.1f} MiB, later {after / 2**20:.1f} MiB; the cache has {cache / 2**20:.1f} MiB")
    require(after <= before * 1.01 + 2**22 + cache, f"memory has grown from {before} to {after} bytes")


def run(options, folder):
    server = serving.Server(serving.make_model(folder / "small"), "--batch-size", 16, "--max-queue", 100)
    answer = first_answer(server, "first")
    time.sleep(0.2)
    files = server.files()
    storm = Storm(server, options)
    asyncio.run(storm.run(0, 1 / 3))
    require(server.idle(options.patience), f"sequences still run: {server.state()}")
    before = memory_at_rest(server)
    asyncio.run(storm.run(1, 2 / 3))
    print(f"done: {dict(storm.done)}; statuses: {dict(storm.counts)}; longest wait {max(storm.waits, default=0):.2f} s")
    require(not storm.failures, "\n".join(storm.failures[:20]))
    require(server.idle(options.patience), f"sequences still run: {server.state()}")
    # What clients have sent before they left may still be read, and begin.
    require(serving.eventually(lambda: all_ended(server.state()), options.patience), f"received is not what has ended: {server.state()}")
    state = server.state()
    print(json.dumps(state))
    require(state["failed"] == 0, "requests have failed")
    require(state["held_pages"] == 0, f"{state['held_pages']} pages of the cache are lost")
    require(state["finished"] >= storm.counts[200] > 0 and state["rejected"] >= storm.counts[503], "counters are not those of the clients")
    require(state["cancelled"] > 0, "no client has left")
    require(max(storm.waits) <= options.patience, f"a request has waited {max(storm.waits)} s")
    require(first_answer(server, "last") == answer, "the first answer comes not again")
    require(serving.eventually(lambda: server.files() <= files, options.patience), f"{server.files()} open files, {files} before")
    if not options.sanitized:
        check_memory(before, memory_at_rest(server), cache_bytes(folder / "small", state))
    code, errors = server.stop()
    require(code == 0 and errors == "", f"the server has ended with {code}: {errors}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs=3, metavar="PATH")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--pause", type=float, default=10, help="mean seconds between what a client does")
    parser.add_argument("--patience", type=float, default=serving.PATIENCE)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sanitized", action="store_true")
    options = parser.parse_args()
    serving.use(*options.paths)
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(options, pathlib.Path(folder))
        except Failure as failure:
            print(failure)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
