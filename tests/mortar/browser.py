"""Chromium without a window, driven over the DevTools protocol through pipes: JSON messages that end with a zero byte.

https://chromedevtools.github.io/devtools-protocol has the commands. The pipes are file descriptors 3 and 4 of the browser.
"""
import base64
import collections
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--hide-scrollbars", "--mute-audio",
         "--remote-debugging-pipe"]
PATIENCE = 120  # seconds for what is to happen: far more than it takes on a busy machine


def find():
    """The program, or None."""
    return os.environ.get("MORTAR_CHROMIUM") or shutil.which("chromium")


class Browser:
    """One browser with one page. Events of the page are in `events`, as (method, parameters)."""

    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        from_browser, to_us = os.pipe()
        to_browser, from_us = os.pipe()
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_browser, to_us)]  # above 3 and 4

        def place_pipes():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen([program, *FLAGS, f"--user-data-dir={self.folder.name}", "about:blank"], pass_fds=(3, 4), preexec_fn=place_pipes,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (to_browser, to_us, *ends):
            os.close(fd)
        self.input, self.output = from_us, from_browser
        self.buffer, self.count, self.session = b"", 0, None
        self.events = collections.deque()
        self.on_event = lambda method, parameters: None
        page = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]

    def close(self):
        try:
            self.session = None
            self.send("Browser.close")
            self.process.wait(10)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.input)
        os.close(self.output)
        self.folder.cleanup()

    def read(self, seconds):
        """The next message, or None after so many seconds."""
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            if not select.select([self.output], [], [], max(0, end - time.monotonic()))[0]:
                return None
            piece = os.read(self.output, 1 << 20)
            if not piece:
                raise EOFError("the browser has ended")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append((message["method"], message["params"]))
            self.on_event(message["method"], message["params"])
        return message

    def post(self, method, **parameters):
        """Sends a command and does not wait for its result."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.input, data):]
        return self.count

    def send(self, method, **parameters):
        number = self.post(method, **parameters)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            message = self.read(max(0, end - time.monotonic()))
            if message and message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
        raise TimeoutError(method)

    def run(self, script, **options):
        """The value of a JavaScript expression in the page; a promise is awaited."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, **options)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def until(self, script, seconds=PATIENCE):
        """Waits until an expression is true and returns its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(script)
            if value:
                return value
            self.read(0.03)
        raise TimeoutError(script)

    def open(self, url):
        self.events.clear()
        self.send("Page.navigate", url=url)
        self.until(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")

    def type(self, text):
        self.send("Input.insertText", text=text)

    def press(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text="\r" if key == "Enter" and kind == "keyDown" else "")

    def click(self, selector):
        """A real click in the middle of an element, which must be visible there."""
        x, y = self.run("(() => { const e = document.querySelector(%s); e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;"
                        " if (!e.contains(document.elementFromPoint(x, y))) throw new Error('covered or out of sight'); return [x, y]; })()" % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def window(self, width, height, mobile=False, scheme="light"):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if mobile else 1, mobile=mobile)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))
