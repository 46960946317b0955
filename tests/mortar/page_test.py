#!/usr/bin/env python3
"""Opens the page of `mortar serve` in Chromium: typing, tokens that arrive, stopping, loading again, the server's state, hostile text.

usage: page_test.py MORTAR MODELS TEMPLATES PICTURES

PICTURES is a folder for pictures of the page, for people to look at. Returns 77 (skipped) where there is no Chromium;
MORTAR_REQUIRE_CLIENTS=1 makes that a failure, unless MORTAR_NO_CHROMIUM says why the system has none.
"""
import base64
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

import browser
import serving
from serving import Server, make_model

PICTURES = None
CONTEXT = 32768
HOSTILE = r"""
<script>window.hacked = 1</script> <img src=x onerror="window.hacked = 2"> <svg onload="window.hacked = 3"><style>body { display: none }</style>
<iframe src="https://example.org/"></iframe> <a href="javascript:window.hacked = 4">text</a>

[one](javascript:window.hacked=5) [two](data:text/html,<script>window.hacked=6</script>) ![three](https://example.org/x.png) [four](https://example.org/ "title")
[<img src=x onerror=window.hacked=7>](https://example.org/"onmouseover="window.hacked=8)

# <script>window.hacked = 9</script>

- <script>window.hacked = 10</script>
- **<img src=x onerror=window.hacked=11>**

| <script>window.hacked = 12</script> | b |
|---|---|
| <img src=x onerror=window.hacked=13> | `<b>` |

> <script>window.hacked = 14</script>

```"><script>window.hacked = 15</script>
</code></pre><script>window.hacked = 16</script>
```
&lt;script&gt; \<script>
"""
TAGS = {"P", "BR", "STRONG", "EM", "CODE", "PRE", "UL", "OL", "LI", "A", "TABLE", "TR", "TH", "TD", "BLOCKQUOTE", "H3", "H4", "H5", "H6", "HR"}
WIDTH = "Math.max(...[...document.querySelectorAll('body, body *')].filter(e => e.checkVisibility() && !e.closest('pre, table, svg')).map(e => e.getBoundingClientRect().right))"


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        model = make_model(pathlib.Path(cls.folder.name) / "small")
        # Greedy answers of this model go on until they are stopped, or to the end of the context.
        (model / "generation_config.json").write_text(json.dumps({"eos_token_id": 1, "do_sample": False}))
        config = json.loads((model / "config.json").read_text()) | {"max_position_embeddings": CONTEXT}
        (model / "config.json").write_text(json.dumps(config))
        cls.server = Server(model, "--max-context", CONTEXT)
        cls.page = browser.Browser(browser.find())
        for domain in ("Page", "Runtime", "Network", "Log", "Security"):
            cls.page.send(domain + ".enable")

    @classmethod
    def tearDownClass(cls):
        cls.page.close()
        code, errors = cls.server.stop()
        cls.folder.cleanup()
        assert (code, errors) == (0, ""), (code, errors)

    def setUp(self):
        self.page.window(1100, 800)
        self.page.open(self.server.url)
        self.page.run("sessionStorage.clear(); messages = []; document.querySelector('#messages').replaceChildren()")

    def tearDown(self):
        self.page.run("running && running.abort()")
        self.page.until("!running")
        self.clean()

    def clean(self):
        """No error in the console, and no request to anybody else."""
        for method, parameters in self.page.events:
            if method == "Log.entryAdded":
                self.assertNotIn(parameters["entry"]["level"], ("error", "warning"), parameters)
            self.assertNotIn(method, ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"), parameters)
            if method == "Network.requestWillBeSent":
                self.assertTrue(parameters["request"]["url"].startswith((self.server.url + "/", "data:")), parameters["request"]["url"])

    def picture(self, name):
        self.page.picture(PICTURES / f"{name}.png")

    def ask(self, text):
        self.page.click("#prompt")
        self.page.type(text)
        self.page.press("Enter", 13)

    def answer(self):
        return self.page.run("document.querySelector('.answer:last-child > div').textContent")

    def note(self):
        return self.page.run("document.querySelector('.answer:last-child > .note').textContent")

    def test_typing_tokens_stopping_loading_again(self):
        page = self.page
        self.assertEqual(page.until("document.querySelector('#model').textContent !== 'Mortar' && document.title"), "small - Mortar")
        page.run("""window.lengths = []; new MutationObserver(() => { const e = document.querySelector('.answer:last-child > div');
                 if (e && e.textContent.length !== window.lengths.at(-1)) window.lengths.push(e.textContent.length); })
                 .observe(document.querySelector('#messages'), {childList: true, subtree: true, characterData: true})""")
        self.ask("What is a warp?")
        page.until("window.lengths.filter(n => n > 0).length >= 4")  # the answer grows while it is computed
        self.assertTrue(page.run("!document.querySelector('#stop').hidden && document.querySelector('#send').hidden"))
        self.assertEqual(self.server.metric("mortar_requests_running"), 1)
        self.picture("answering")
        page.click("#stop")
        page.until("document.querySelector('#stop').hidden")
        self.assertEqual(self.note(), "stopped")
        lengths = page.run("window.lengths")
        self.assertEqual(lengths, sorted(lengths))
        stopped = self.answer()
        self.assertTrue(self.server.idle())
        self.assertEqual(self.server.metric(r'mortar_requests_ended_total\{[^}]*result="cancelled"\}'), 1)
        self.assertEqual(self.answer(), stopped)
        # The conversation is there when the page is loaded again, and the next question has it.
        page.open(self.server.url)
        self.assertEqual(page.run("document.querySelector('.user').textContent"), "What is a warp?")
        self.assertEqual(self.answer(), stopped)
        # Loading it again in the middle of an answer ends the answer and keeps what has come.
        self.ask("And a block?")
        page.until("document.querySelectorAll('.answer').length === 2 && document.querySelector('.answer:last-child > div').textContent")
        sent = json.loads(next(p["request"]["postData"] for m, p in page.events if m == "Network.requestWillBeSent" and p["request"]["method"] == "POST"))
        self.assertEqual([m["role"] for m in sent["messages"]], ["user", "assistant", "user"])
        page.open(self.server.url)
        self.assertEqual(page.run("document.querySelectorAll('.user').length"), 2)
        self.assertTrue(self.answer())
        self.assertTrue(self.server.idle())
        # A new conversation, begun while an answer comes: nothing of the old one returns.
        self.ask("More")
        page.until("document.querySelectorAll('.answer').length === 3")
        page.click("#clear")
        page.until("!running")
        page.open(self.server.url)
        self.assertEqual(page.run("document.querySelector('#messages').children.length"), 0)

    def test_state(self):
        page = self.page
        page.click("#tab-state")
        page.until("samples.length")
        body = json.dumps({"prompt": "a", "max_tokens": 400, "ignore_eos": True})
        self.assertEqual(self.server.get("/v1/completions", "POST", body)[0], 200)
        page.until(f"samples.length >= {page.run('samples.length') + 2}")  # one may be on its way
        points = [tuple(map(float, p.split(","))) for p in page.run("document.querySelector('#line').getAttribute('points')").split()]
        self.assertGreaterEqual(len(points), 2)
        self.assertAlmostEqual(min(y for _, y in points), 7, delta=0.1)  # the most is near the top
        self.assertEqual(points, sorted(points))
        self.assertAlmostEqual(points[-1][0], 300, delta=1.5)  # and the last is now
        numbers = page.run("Object.fromEntries([...document.querySelectorAll('dt')].map(e => [e.textContent, e.nextSibling.textContent]))")
        self.assertEqual((numbers["Running"], numbers["Context"], numbers["Failed"]), ("0", str(CONTEXT), "0"))
        self.assertGreaterEqual(int(numbers["Answered"]), 1)
        self.assertEqual(page.run("[...document.querySelectorAll('#state > *')].map(e => e.getBoundingClientRect().left)"), [150] * 4)
        self.picture("state")
        page.window(390, 844, True, "dark")
        self.assertLessEqual(page.run(WIDTH), 390)
        self.picture("state-phone-dark")

    def reply(self, deltas):
        """Answers the page's next question in the server's place, with these deltas."""
        events = [{"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
        body = "".join(f"data: {json.dumps(e)}\n\n" for e in events) + ": ping\n\ndata: [DONE]\n\n"

        def answer(method, parameters):
            if method == "Fetch.requestPaused":
                self.page.post("Fetch.fulfillRequest", requestId=parameters["requestId"], responseCode=200,
                               responseHeaders=[{"name": "Content-Type", "value": "text/event-stream"}], body=base64.b64encode(body.encode()).decode())

        self.page.on_event = answer
        self.page.send("Fetch.enable", patterns=[{"urlPattern": "*/v1/chat/completions"}])
        self.ask("Be hostile")
        self.page.until("document.querySelector('.answer') && document.querySelector('#stop').hidden")
        self.page.send("Fetch.disable")
        self.page.on_event = lambda method, parameters: None

    def test_hostile_text(self):
        """Text of a model never becomes HTML, neither as an answer nor as thinking nor when it is loaded again."""
        page = self.page
        pieces = [HOSTILE[i:i + 7] for i in range(0, len(HOSTILE), 7)]
        self.reply([{"reasoning_content": "<script>window.hacked = 20</script>"}, {"reasoning_content": "<img src=x onerror=window.hacked=21>"},
                    *({"content": p} for p in pieces)])
        for _ in range(2):
            self.assertEqual(page.run("document.querySelector('details').open"), False)
            self.assertFalse(page.run("document.querySelector('details div').checkVisibility()"))
            self.assertIn("<img src=x", page.run("document.querySelector('details div').textContent"))
            self.assertEqual(page.run("document.querySelector('details div').children.length"), 0)
            tags = set(page.run("[...document.querySelectorAll('.answer > div *')].map(e => e.tagName)"))
            self.assertLessEqual({"A", "CODE", "H3", "LI", "STRONG", "TABLE", "BLOCKQUOTE"}, tags)
            self.assertLessEqual(tags, TAGS)
            self.assertEqual(set(page.run("[...document.querySelectorAll('.answer > div *')].flatMap(e => e.getAttributeNames())")), {"href", "rel", "target"})
            links = page.run("[...document.querySelectorAll('.answer > div a')].map(a => [a.href, a.rel, a.target])")
            self.assertTrue(all(link[0].startswith("https://example.org/") and link[1:] == ["noopener noreferrer", "_blank"] for link in links), links)
            text = self.answer()
            for number in (*range(1, 7), 9, 10, 11, 12, 13, 14, 16):
                self.assertRegex(text, rf"window\.hacked ?= ?{number}\b")
            self.assertIsNone(page.run("window.hacked"))
            page.open(self.server.url)
        page.click("summary")
        page.until("document.querySelector('details div').checkVisibility()")

    def test_markdown(self):
        """The renderer alone: what it makes of ordinary text, and that no text takes it long."""
        html = lambda text: self.page.run("(() => { const e = document.createElement('div'); markdown(%s, e); return e.innerHTML; })()" % json.dumps(text))
        self.assertEqual(html("a **b *c*** `**d**` \\*e\\*"), "<p>a <strong>b <em>c</em></strong> <code>**d**</code> *e*</p>")
        self.assertEqual(html("one\ntwo\n\nthree"), "<p>one<br>two</p><p>three</p>")
        self.assertEqual(html("1. a\n\n   more\n\n2. b\n   - c\n   - d\n3. e"),
                         '<ol start="1"><li>a<p>more</p></li><li>b<ul><li>c</li><li>d</li></ul></li><li>e</li></ol>')
        self.assertEqual(html("- a\n  ```py\n  x = 1\n\n    y\n  ```\n- b"), "<ul><li>a<pre><code>x = 1\n\n  y</code></pre></li><li>b</li></ul>")
        self.assertEqual(html("3) c\n4) d"), '<ol start="3"><li>c</li><li>d</li></ol>')
        self.assertEqual(html("```\n<b>"), "<pre><code>&lt;b&gt;</code></pre>")  # a block that is not complete yet
        self.assertEqual(html("> a\n> > b"), "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>")
        self.assertEqual(html("# a\n---\n|x|y|\n|-|-|\n|1|2|"), "<h3>a</h3><hr><table><tr><th>x</th><th>y</th></tr><tr><td>1</td><td>2</td></tr></table>")
        long = ["*" * 20000, "`" * 20000, "[" * 20000, "[a](" * 5000, "**a" * 5000, "*a *" * 5000, "> " * 3000 + "x", "\n".join(" " * i + "- a" for i in range(300)),
                ">" * 20000, "|" * 20000 + "\n|-|", "- " * 5000, "`a``" * 5000, "\\" * 20000, "1. " * 5000]
        for text in long:
            start = time.monotonic()
            html(text)
            self.assertLess(time.monotonic() - start, 60, text[:10])  # on a busy machine; without bounds it would be minutes

    def test_telephone_and_dark(self):
        page = self.page
        page.window(390, 844, True, "dark")
        wide = "Here is a table and code:\n\n|" + "a long heading|" * 8 + "\n|" + "-|" * 8 + "\n|" + "cell|" * 8 + "\n\n```\n" + "x = f(1) + " * 40 + "\n```\n" + "w" * 300
        self.reply([{"reasoning_content": "v" * 300}, {"content": wide + "\n\n1. one\n2. **two** with `code` and a [link](https://example.org/)\n\n> quote"}])
        page.click("summary")
        self.assertLessEqual(page.run(WIDTH), 390)
        self.assertEqual(page.run("document.documentElement.scrollWidth"), 390)
        # Every pair of colours is readable (WCAG AA: 4.5).
        contrast = """(() => { const n = c => c.match(/[\\d.]+/g).map(Number), l = c => { const f = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
            const [r, g, b] = n(c); return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
            const back = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (n(c).length < 4 || n(c)[3] > 0) return c; } return "rgb(255, 255, 255)"; };
            return Math.min(...[...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && [...e.childNodes].some(c => c.nodeType === 3 && c.data.trim())).map(e => {
              const a = l(getComputedStyle(e).color), b = l(back(e)); return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); })); })()"""
        for scheme in ("dark", "light"):
            page.window(390, 844, True, scheme)
            self.assertGreaterEqual(page.run(contrast), 4.5, scheme)
            page.run("document.querySelector('#chat').scrollTop = 0")
            self.picture("phone-" + scheme)
        self.assertGreaterEqual(page.run("Math.min(...[...document.querySelectorAll('button, textarea')].filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().height))"), 36)

    def test_policy(self):
        """The content security policy holds: neither scripts of others nor requests to others."""
        page = self.page
        _, headers, text = self.server.get("/")
        policy = headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        nonces = {policy.split("'nonce-")[1].split("'")[0], self.server.get("/")[1]["Content-Security-Policy"].split("'nonce-")[1].split("'")[0]}
        self.assertEqual(len(nonces), 2)  # each answer has its own
        self.assertNotIn("@NONCE@", text)
        blocked = page.run("""(async () => {
            const seen = []; document.addEventListener("securitypolicyviolation", e => seen.push(e.effectiveDirective));
            const script = document.createElement("script"); script.textContent = "window.hacked = 1"; document.body.append(script);
            const button = document.createElement("div"); button.innerHTML = "<b onclick='window.hacked = 2'>x</b>"; document.body.append(button); button.firstChild.click();
            const image = document.createElement("img"); image.src = "http://127.0.0.1:9/x.png"; document.body.append(image);
            const fetched = await fetch("http://127.0.0.1:9/").then(() => "fetched", () => "blocked");
            try { eval("window.hacked = 3"); } catch {}
            await new Promise(done => setTimeout(done, 50));
            return [fetched, window.hacked === undefined, [...new Set(seen)].sort()]; })()""", allowUnsafeEvalBlockedByCSP=False)
        self.assertEqual(blocked, ["blocked", True, ["connect-src", "img-src", "script-src", "script-src-attr", "script-src-elem"]])
        page.events.clear()  # what was blocked is in the console

    def test_keys(self):
        """Where the server wants a key, the page asks for it."""
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("alice secret-a\n")
            server = Server(pathlib.Path(self.folder.name) / "small", "--max-context", 512, "--api-key-file", keys)
            try:
                page = self.page
                page.open(server.url)
                page.until("!document.querySelector('#key-label').hidden")
                page.click("#key")
                page.type("secret-a")
                page.run("document.querySelector('#key').blur()")
                page.until("document.querySelector('#model').textContent === 'small'")
                self.ask("x")
                page.until("document.querySelector('.answer > div').textContent && document.querySelector('#stop').hidden")
                self.assertRegex(self.note(), r"^\d+ tokens, first after \d+ ms(, [\d.]+ a second)?$")
            finally:
                page.open(self.server.url)  # before the server goes, whose state the page asks for all the time
                page.events.clear()  # the console has the answers with status 401, and the last requests went to that server
                server.stop()


if __name__ == "__main__":
    if browser.find() is None:
        reason = os.environ.get("MORTAR_NO_CHROMIUM")
        print(f"skipped: {reason or 'chromium is not installed; scripts/test.sh --full installs it'}")
        sys.exit(1 if os.environ.get("MORTAR_REQUIRE_CLIENTS") == "1" and not reason else 77)
    serving.use(*sys.argv[1:4])
    PICTURES = pathlib.Path(sys.argv[4]).resolve()
    PICTURES.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
