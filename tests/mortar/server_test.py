#!/usr/bin/env python3
"""Runs `mortar serve` with a small model on the CPU and asks it with the official packages of OpenAI and Anthropic.

usage: server_test.py MORTAR MODELS TEMPLATES

The model's weights are random: what it answers means nothing, so tests force the form of answers with grammars. Returns 77
(skipped) where the packages are not installed; MORTAR_REQUIRE_CLIENTS=1 makes that a failure.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import anthropic
    import openai
except ImportError as error:
    print(f"skipped: {error}; scripts/test.sh --full installs it")
    sys.exit(1 if os.environ.get("MORTAR_REQUIRE_CLIENTS") == "1" else 77)

import serving
from serving import CONTEXT, Server, make_model

NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 4}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}}
TIME = {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}, "kind": {"enum": ["a", "b"]}}, "required": ["ok", "kind"],
          "additionalProperties": False}
HELLO = [{"role": "user", "content": "What is the answer?"}]


def joined(stream):
    """What a client joins of a stream, by choice."""
    choices, usage, count = {}, None, 0
    for chunk in stream:
        count += 1
        usage = chunk.usage or usage
        for c in chunk.choices:
            out = choices.setdefault(c.index, {"content": "", "reasoning": "", "calls": [], "finish": None, "logprobs": []})
            out["content"] += c.delta.content or ""
            out["reasoning"] += getattr(c.delta, "reasoning_content", None) or ""
            for call in c.delta.tool_calls or []:
                if call.id:
                    assert call.index == len(out["calls"])
                    out["calls"].append([call.function.name, ""])
                out["calls"][call.index][1] += call.function.arguments or ""
            if c.logprobs:
                out["logprobs"] += [l.token for l in c.logprobs.content]
            out["finish"] = c.finish_reason or out["finish"]
    assert count > 1
    return choices, usage


class WithServer(unittest.TestCase):
    words = ()
    template = "qwen3.jinja"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(make_model(pathlib.Path(cls.folder.name) / "small", cls.template), *cls.words)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        code, errors = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0, (code, errors)
        assert errors == "", errors

    def chat(self, **fields):
        return self.client.chat.completions.create(**({"model": self.server.name, "messages": HELLO, "max_tokens": 12, "seed": 1} | fields))

    def idle(self):
        """Waits until nothing runs."""
        self.assertTrue(self.server.idle(), "sequences still run")


class Chat(WithServer):
    def test_whole_and_streamed_answers_are_equal(self):
        whole = self.chat(extra_body=NO_THINKING, logprobs=True, top_logprobs=2)
        choice = whole.choices[0]
        self.assertEqual(choice.finish_reason, "length")
        self.assertEqual(whole.usage.completion_tokens, 12)
        self.assertEqual(whole.usage.total_tokens, whole.usage.prompt_tokens + 12)
        self.assertEqual(whole.object, "chat.completion")
        self.assertTrue(whole.id.startswith("chatcmpl-"))
        self.assertEqual(whole.seed, 1)
        self.assertEqual(whole.timings["predicted_n"], 12)
        self.assertLessEqual(len(choice.logprobs.content), 12)
        for entry in choice.logprobs.content:
            self.assertLessEqual(entry.logprob, 0)
            self.assertEqual(len(entry.top_logprobs), 2)
        choices, usage = joined(self.chat(extra_body=NO_THINKING, logprobs=True, top_logprobs=2, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(choices[0]["content"], choice.message.content)
        self.assertEqual(choices[0]["finish"], "length")
        self.assertEqual(choices[0]["logprobs"], [l.token for l in choice.logprobs.content])
        self.assertEqual(usage.completion_tokens, 12)
        self.assertGreater(usage.prompt_tokens_details.cached_tokens, -1)

    def test_the_package_s_own_accumulator(self):
        with self.client.chat.completions.stream(model=self.server.name, messages=HELLO, max_tokens=8, seed=3, extra_body=NO_THINKING) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].message.content, self.chat(max_tokens=8, seed=3, extra_body=NO_THINKING).choices[0].message.content)

    def test_choices(self):
        body = NO_THINKING | {"ignore_eos": True}
        whole = self.chat(n=3, extra_body=body)
        self.assertEqual([c.index for c in whole.choices], [0, 1, 2])
        self.assertEqual(whole.usage.completion_tokens, 36)
        self.assertGreater(len({c.message.content for c in whole.choices}), 1)
        choices, _ = joined(self.chat(n=3, stream=True, extra_body=body))
        self.assertEqual([choices[i]["content"] for i in range(3)], [c.message.content for c in whole.choices])

    def test_stop(self):
        whole = self.chat(max_tokens=40, temperature=0, extra_body=NO_THINKING).choices[0].message.content
        stop = whole[5:7]
        cut = self.chat(max_tokens=40, temperature=0, stop=[stop, "never"], extra_body=NO_THINKING)
        self.assertEqual(cut.choices[0].message.content, whole[:whole.find(stop)])
        self.assertEqual(cut.choices[0].finish_reason, "stop")
        self.idle()

    def test_thinking(self):
        whole = self.chat(max_tokens=150, extra_body={"thinking_token_budget": 6, "logit_bias": {"352": -100}}, reasoning_effort="high",
                          messages=[{"role": "user", "content": "x"}], response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}})
        message = whole.choices[0].message
        self.assertTrue(message.reasoning_content)
        self.assertEqual(message.reasoning, message.reasoning_content)
        self.assertGreaterEqual(whole.usage.completion_tokens_details.reasoning_tokens, 6)
        json.loads(message.content)  # the grammar began behind the thinking

    def test_response_format(self):
        for form in ({"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA, "strict": True}}, {"type": "json_object"}):
            answer = self.chat(max_tokens=200, temperature=0.2, response_format=form, extra_body=NO_THINKING)
            if answer.choices[0].finish_reason == "stop":
                value = json.loads(answer.choices[0].message.content)
                self.assertIsInstance(value, dict)
                if form["type"] == "json_schema":
                    self.assertEqual(set(value), {"ok", "kind"})
            else:
                self.assertEqual(form["type"], "json_object")
        choice = self.chat(extra_body=NO_THINKING | {"structured_outputs": {"choice": ["red", "green"]}})
        self.assertIn(choice.choices[0].message.content, ("red", "green"))
        regex = self.chat(extra_body=NO_THINKING | {"structured_outputs": {"regex": "[0-9]{3}-[0-9]{2}"}})
        self.assertRegex(regex.choices[0].message.content, r"^\d{3}-\d{2}$")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "array", "uniqueItems": True}}})
        self.assertIn("uniqueItems", raised.exception.message)
        self.assertEqual(raised.exception.param, "response_format.json_schema.schema")

    def test_tools(self):
        fields = {"tools": [WEATHER, TIME], "tool_choice": "required", "max_tokens": 120, "extra_body": NO_THINKING, "temperature": 1.2}
        found = set()
        for seed in range(4):
            whole = self.chat(seed=seed, **fields).choices[0]
            if whole.finish_reason == "length":
                continue
            self.assertEqual(whole.finish_reason, "tool_calls")
            for call in whole.message.tool_calls:
                arguments = json.loads(call.function.arguments)
                found.add(call.function.name)
                self.assertEqual(set(arguments), {"city", "days"} if call.function.name == "weather" else set())
                self.assertTrue(call.id.startswith("call_"))
            self.assertEqual(len({call.id for call in whole.message.tool_calls}), len(whole.message.tool_calls))
            choices, _ = joined(self.chat(seed=seed, stream=True, **fields))
            self.assertEqual(choices[0]["calls"], [[c.function.name, c.function.arguments] for c in whole.message.tool_calls])
            self.assertEqual(choices[0]["finish"], "tool_calls")
        self.assertTrue(found)

    def test_one_tool_and_no_parallel_calls(self):
        answer = self.chat(tools=[WEATHER, TIME], tool_choice={"type": "function", "function": {"name": "time"}}, parallel_tool_calls=False,
                           max_tokens=60, extra_body=NO_THINKING).choices[0]
        self.assertEqual([c.function.name for c in answer.message.tool_calls], ["time"])
        self.assertEqual(json.loads(answer.message.tool_calls[0].function.arguments), {})
        self.assertEqual(answer.finish_reason, "tool_calls")
        self.assertIsNone(answer.message.content)
        none = self.chat(tools=[WEATHER], tool_choice="none", max_tokens=30, extra_body=NO_THINKING).choices[0]
        self.assertIsNone(none.message.tool_calls)
        # The answer of a tool goes back.
        call = answer.message.tool_calls[0]
        again = self.chat(messages=HELLO + [answer.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "12:00"}],
                          tools=[WEATHER, TIME], extra_body=NO_THINKING)
        self.assertGreater(again.usage.prompt_tokens, 0)

    def test_errors(self):
        for fields, error, param in (({"temperature": 101}, openai.BadRequestError, "temperature"), ({"model": "other"}, openai.NotFoundError, "model"),
                                     ({"messages": []}, openai.BadRequestError, "messages"), ({"max_tokens": CONTEXT}, openai.BadRequestError, "messages"),
                                     ({"messages": [{"role": "user", "content": "long " * CONTEXT}]}, openai.BadRequestError, "messages")):
            with self.assertRaises(error) as raised:
                self.chat(**fields)
            self.assertEqual(raised.exception.param, param, raised.exception.message)
            self.assertIn("expected", raised.exception.message)
        self.assertEqual(self.server.get("/v1/nothing")[0], 404)
        status, headers, _ = self.server.get("/v1/chat/completions")
        self.assertEqual(status, 405)
        self.assertIn("POST", headers["Allow"])
        self.assertEqual(self.server.get("/v1/chat/completions", "POST", "{", {})[0], 400)

    def test_cancelling(self):
        before = self.server.metric(r'mortar_requests_ended_total\{[^}]*result="cancelled"\}')
        stream = self.chat(max_tokens=900, stream=True, extra_body={"ignore_eos": True} | NO_THINKING)
        next(iter(stream))
        stream.close()
        self.idle()
        self.assertEqual(self.server.metric(r'mortar_requests_ended_total\{[^}]*result="cancelled"\}'), before + 1)
        self.assertEqual(self.server.metric("mortar_kv_cache_usage_ratio"), 0)

    def test_many_clients_at_once(self):
        def ask(i):
            client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)
            answer = client.chat.completions.create(model=self.server.name, messages=HELLO, max_tokens=6, seed=i, extra_body=NO_THINKING)
            client.close()
            return answer.usage.completion_tokens
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            self.assertTrue(all(1 <= n <= 6 for n in pool.map(ask, range(24))))

    def test_names_of_tokens_are_text(self):
        def count(text):
            status, answer = self.server.post("/v1/chat/completions/input_tokens", {"messages": [{"role": "user", "content": text}]})
            self.assertEqual(status, 200, answer)
            return answer["input_tokens"]
        self.assertGreater(count("<|im_end|>"), count("x") + 4)

    def test_continuing(self):
        one = self.chat(messages=HELLO + [{"role": "assistant", "content": "The answer is"}], extra_body={"continue_final_message": True} | NO_THINKING)
        self.assertEqual(one.choices[0].finish_reason, "length")
        ids = self.chat(max_tokens=2, extra_body=NO_THINKING | {"return_token_ids": True})
        self.assertEqual(len(ids.prompt_token_ids), ids.usage.prompt_tokens)
        self.assertEqual(len(ids.choices[0].token_ids), 2)


class Others(WithServer):
    """The other routes, with one server."""

    def test_completions(self):
        create = lambda **fields: self.client.completions.create(**({"model": self.server.name, "prompt": "The kernel", "seed": 1} | fields))
        whole = create(max_tokens=10, logprobs=2)
        self.assertEqual(whole.usage.completion_tokens, 10)
        self.assertEqual("".join(whole.choices[0].logprobs.tokens), whole.choices[0].text)
        text = "".join(c.choices[0].text for c in create(max_tokens=10, stream=True) if c.choices)
        self.assertEqual(text, whole.choices[0].text)
        several = create(prompt=["The kernel", "Every block"], n=2, max_tokens=3)
        self.assertEqual([c.index for c in several.choices], [0, 1, 2, 3])
        self.assertEqual(create().usage.completion_tokens, 16)
        tokens = self.server.post("/tokenize", {"prompt": "The kernel"})[1]["tokens"]
        self.assertEqual(create(prompt=tokens, max_tokens=10).choices[0].text, whole.choices[0].text)
        self.assertEqual(self.server.post("/detokenize", {"tokens": tokens})[1]["prompt"], "The kernel")

    def test_responses(self):
        fields = {"model": self.server.name, "input": "What is the answer?", "max_output_tokens": 10, "reasoning": {"effort": "none"}}
        whole = self.client.responses.create(**fields, temperature=0)
        self.assertEqual(whole.status, "incomplete")
        self.assertEqual(whole.incomplete_details.reason, "max_output_tokens")
        self.assertEqual(whole.usage.output_tokens, 10)
        events = list(self.client.responses.create(**fields, temperature=0, stream=True))
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"), whole.output_text)
        self.assertEqual(events[-1].response.output_text, whole.output_text)
        tool = {"type": "function", "strict": True} | WEATHER["function"]
        with self.client.responses.stream(**(fields | {"max_output_tokens": 120}), tools=[tool], tool_choice="required", parallel_tool_calls=False) as stream:
            for _ in stream:
                pass
            final = stream.get_final_response()
        calls = [item for item in final.output if item.type == "function_call"]
        self.assertEqual(len(calls), 1)
        self.assertEqual(set(json.loads(calls[0].arguments)), {"city", "days"})
        history = [{"role": "user", "content": "q"}, {"type": "function_call", "call_id": "c", "name": "weather", "arguments": calls[0].arguments},
                   {"type": "function_call_output", "call_id": "c", "output": "sun"}]
        self.assertTrue(self.client.responses.create(**(fields | {"input": history}), tools=[tool]).output)
        with self.assertRaises(openai.BadRequestError) as raised:
            self.client.responses.create(**fields, previous_response_id="resp_1")
        self.assertIn("keeps no responses", raised.exception.message)
        shaped = self.client.responses.create(**(fields | {"max_output_tokens": 60}), text={"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}})
        self.assertEqual(set(json.loads(shaped.output_text)), {"ok", "kind"})
        self.assertGreater(self.client.responses.input_tokens.count(model=self.server.name, input="x").input_tokens, 0)

    def test_messages(self):
        client = anthropic.Anthropic(base_url=self.server.url, api_key="none", max_retries=0)
        fields = {"model": self.server.name, "max_tokens": 10, "messages": HELLO, "extra_body": {"temperature": 0}}
        whole = client.messages.create(**fields)
        self.assertEqual(whole.stop_reason, "max_tokens")
        self.assertEqual(whole.usage.output_tokens, 10)
        with client.messages.stream(**fields) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, "".join(b.text for b in whole.content))
        self.assertEqual(final.content[0].text, text)
        self.assertEqual(final.stop_reason, "max_tokens")
        tool = {"name": "weather", "description": "d", "input_schema": WEATHER["function"]["parameters"]}
        use = {"tools": [tool], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "max_tokens": 120, "extra_body": {"temperature": 1}}
        called = client.messages.create(**(fields | use))
        self.assertEqual(called.stop_reason, "tool_use")
        self.assertEqual(set(called.content[-1].input), {"city", "days"})
        with client.messages.stream(**(fields | use)) as stream:
            final = stream.get_final_message()
        self.assertEqual(set(final.content[-1].input), {"city", "days"})
        block = called.content[-1]
        history = HELLO + [{"role": "assistant", "content": [block.model_dump(include={"type", "id", "name", "input"})]},
                           {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block.id, "content": "sun"}]}]
        self.assertTrue(client.messages.create(**(fields | {"messages": history, "tools": [tool]})).content)
        think = {"max_tokens": 200, "thinking": {"type": "enabled", "budget_tokens": 6}}
        with client.messages.stream(**(fields | use | think)) as stream:
            final = stream.get_final_message()
        self.assertEqual([b.type for b in final.content], ["thinking", "tool_use"])
        self.assertTrue(final.content[0].thinking)
        self.assertGreater(client.messages.count_tokens(model=self.server.name, messages=HELLO).input_tokens, 0)
        with self.assertRaises(anthropic.BadRequestError) as raised:
            client.messages.create(**(fields | {"extra_body": {"temperature": 3}}))
        self.assertEqual(raised.exception.body["error"]["type"], "invalid_request_error")
        with self.assertRaises(anthropic.NotFoundError):
            client.messages.create(**(fields | {"model": "other"}))
        client.close()

    def test_models_and_state(self):
        self.assertEqual([m.id for m in self.client.models.list()], [self.server.name])
        self.assertEqual(self.client.models.retrieve(self.server.name).object, "model")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")
        self.assertEqual(self.server.get("/health")[0], 200)
        self.assertEqual(self.server.get("/ready")[0], 200)
        self.assertIn("version", json.loads(self.server.get("/version")[2]))
        self.assertEqual(json.loads(self.server.get("/state")[2])["model"], self.server.name)
        description = json.loads(self.server.get("/openapi.json")[2])
        self.assertIn("/v1/chat/completions", description["paths"])
        status, headers, page = self.server.get("/")
        self.assertEqual(status, 200)
        nonce = re.search(r"script-src 'nonce-(\w+)'", headers["Content-Security-Policy"])[1]
        self.assertEqual(page.count(f'nonce="{nonce}"'), 2)
        self.assertNotIn("@NONCE@", page)
        self.assertNotRegex(page, r"""(?:src|href)="(?!data:)""")  # nothing from elsewhere

    def test_metrics(self):
        self.client.completions.create(model=self.server.name, prompt="a", max_tokens=2)
        text = self.server.get("/metrics")[2]
        for name in ("mortar_requests_running", "mortar_time_to_first_token_seconds_bucket", "mortar_generated_tokens_total", "mortar_kv_cache_pages"):
            self.assertRegex(text, rf"(?m)^{name}\{{")
        promtool = shutil.which("promtool")
        if promtool is None:
            if os.environ.get("MORTAR_REQUIRE_CLIENTS") == "1":
                self.fail("promtool is not installed (Debian: prometheus)")
            return
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))


class Pages(WithServer):
    def test_the_programs_of_the_page(self):
        """The examples of docs/mortar/using.md for the packages, with this server's address and name and short answers."""
        text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "mortar" / "using.md").read_text()
        programs = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
        self.assertEqual([p.split()[1] for p in programs], ["openai", "anthropic"])
        for program in programs:
            changed = program.replace("http://127.0.0.1:8080", self.server.url).replace("Qwen3-4B", self.server.name).replace("max_tokens=1000", "max_tokens=20")
            self.assertNotEqual(changed, program)
            done = subprocess.run([sys.executable, "-c", changed], capture_output=True, text=True, check=False, timeout=120)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Coder(WithServer):
    """The calls of Qwen3-Coder's template, and vLLM's metrics."""
    template = "qwen3_coder.jinja"
    words = ("--metrics-names", "vllm", "--reasoning-field", "reasoning", "--batch-size", "2")

    def test_tools(self):
        answer = self.chat(tools=[WEATHER, TIME], tool_choice={"type": "function", "function": {"name": "weather"}}, parallel_tool_calls=False, max_tokens=120)
        call = answer.choices[0].message.tool_calls[0]
        arguments = json.loads(call.function.arguments)
        self.assertIsInstance(arguments["days"], int)
        self.assertIsInstance(arguments["city"], str)
        choices, _ = joined(self.chat(tools=[WEATHER, TIME], tool_choice={"type": "function", "function": {"name": "weather"}}, parallel_tool_calls=False,
                                      max_tokens=120, stream=True))
        self.assertEqual(choices[0]["calls"], [["weather", call.function.arguments]])
        again = self.chat(messages=HELLO + [answer.choices[0].message.model_dump(exclude_none=True),
                                            {"role": "tool", "tool_call_id": call.id, "content": "sun"}], tools=[WEATHER])
        self.assertEqual(again.choices[0].finish_reason, "length")
        self.assertRegex(self.server.get("/metrics")[2], r"(?m)^vllm:num_requests_running\{")


if __name__ == "__main__":
    serving.use(*sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
