# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, driven over its DevTools pipe: pages of given
widths, pictures of them, paper, and what the page's script engine answers.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
ANSWER_SECONDS = 120
MM_PER_INCH = 25.4


def find_browser():
    """The path of an installed browser."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    raise SystemExit("no chromium: install it with tools/setup.sh test")


class DevToolsPipe:
    """Commands and events as JSON, each ended by a NUL byte."""

    def __init__(self, write_fd, read_fd):
        self._write_fd = write_fd
        self._read_fd = read_fd
        self._buffer = b""
        self._last_id = 0
        self.events = []

    def call(self, method, session=None, **params):
        """Sends a command and returns its result. Events that come before it
        are kept."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self._write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") != self._last_id:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

    def wait_for(self, method):
        """Returns when that event has come since the events were cleared."""
        while not any(e.get("method") == method for e in self.events):
            self.events.append(self._read())

    def _write(self, data):
        while data:
            data = data[os.write(self._write_fd, data):]

    def _read(self):
        deadline = time.monotonic() + ANSWER_SECONDS
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._read_fd], [], [], max(0, left))
            data = os.read(self._read_fd, 1 << 16) if ready else b""
            if not data:
                raise RuntimeError("the browser does not answer")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(line)


class Page:
    """One tab."""

    def __init__(self, pipe):
        self._pipe = pipe
        target = pipe.call("Target.createTarget", url="about:blank")
        self._session = pipe.call("Target.attachToTarget", flatten=True,
                                  targetId=target["targetId"])["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def call(self, method, **params):
        return self._pipe.call(method, self._session, **params)

    def show(self, path, width, dark=False, media=""):
        """Loads a file as a screen of that width would; as paper of it if the
        media is "print"."""
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media, features=[
            {"name": "prefers-color-scheme",
             "value": "dark" if dark else "light"}])
        self._pipe.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self._pipe.wait_for("Page.loadEventFired")

    def requests(self):
        """The addresses that were asked for since show()."""
        return [event["params"]["request"]["url"]
                for event in self._pipe.events
                if event.get("method") == "Network.requestWillBeSent"]

    def complaints(self):
        """What the console, the log and uncaught exceptions said."""
        methods = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown",
                   "Log.entryAdded")
        return [event for event in self._pipe.events
                if event.get("method") in methods]

    def evaluate(self, expression):
        """The JSON value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression,
                           returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def picture(self, box=None, scale=1):
        """A PNG of the whole page, or of {x, y, width, height} in it."""
        if box is None:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            box = {"x": 0, "y": 0, "width": size["width"],
                   "height": size["height"]}
        answer = self.call("Page.captureScreenshot", format="png",
                           captureBeyondViewport=True,
                           clip=dict(box, scale=scale))
        return base64.b64decode(answer["data"])

    def paper(self):
        """A PDF on A4."""
        self.call("Emulation.setEmulatedMedia", media="")
        answer = self.call("Page.printToPDF", preferCSSPageSize=True,
                           paperWidth=210 / MM_PER_INCH,
                           paperHeight=297 / MM_PER_INCH)
        return base64.b64decode(answer["data"])


@contextlib.contextmanager
def open_page():
    """A tab of a fresh browser, which ends with the context."""
    browser = find_browser()
    to_browser, from_us = os.pipe()
    to_us, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The browser reads commands from descriptor 3 and writes to 4.
        script = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        process = subprocess.Popen(
            ["bash", "-c", script, browser,
             "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
             "--remote-debugging-pipe", f"--user-data-dir={profile}"],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        pipe = DevToolsPipe(from_us, to_us)
        try:
            yield Page(pipe)
            pipe.call("Browser.close")
        finally:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(from_us)
            os.close(to_us)
