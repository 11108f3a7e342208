"""Headless Chromium over its debugging pipe: open a page, run scripts in it, take pictures.

The pipe speaks JSON messages that end in a zero byte, so nothing has to be installed but the
browser itself.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser():
    """Return the path of a Chromium, or None."""
    return os.environ.get("TACIT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page in a headless browser that may not use the network."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp()
        down, self.outgoing = os.pipe()
        self.incoming, up = os.pipe()

        def pipes():  # the browser reads from 3 and writes to 4
            spare = os.dup(down), os.dup(up)
            os.dup2(spare[0], 3)
            os.dup2(spare[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-quic",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=pipes,
            close_fds=False,
        )  # fmt: skip
        os.close(down)
        os.close(up)
        self.buffer, self.events, self.count, self.session = b"", [], 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def _message(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.incoming], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.incoming, 1 << 20)
            if not part:
                raise ConnectionError("the browser has gone")
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        """Call a method of the protocol; events that arrive meanwhile are kept."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.outgoing, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            found = self._message(deadline)
            if found.get("id") == self.count:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return found["result"]
            self.events.append(found)

    def open(self, path, width, *, dark=False):
        """Open a file at a width in pixels, as a phone would, and wait until it is there."""
        self.events.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=844,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + 60
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._message(deadline))

    def run(self, script):
        """Return what a script in the page evaluates to."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def picture(self, path, height=None):
        """Save a picture of the page as PNG: all of it, or so many pixels from its top."""
        how = {}
        if height is not None:
            wide = self.run("document.documentElement.clientWidth")
            how["clip"] = {"x": 0, "y": 0, "width": wide, "height": height, "scale": 1}
        found = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, **how
        )
        path.write_bytes(base64.b64decode(found["data"]))

    def paper(self, path):
        """Save the page as PDF, as the browser prints it; return how many pages it has."""
        found = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        data = base64.b64decode(found["data"])
        path.write_bytes(data)
        return data.count(b"/Type /Page\n")

    def requests(self):
        """Return the addresses that the page asked for."""
        return [e["params"]["request"]["url"] for e in self.events
                if e.get("method") == "Network.requestWillBeSent"]  # fmt: skip

    def complaints(self):
        """Return errors of scripts, and what the browser logged."""
        return [e["params"] for e in self.events
                if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]  # fmt: skip

    def close(self):
        """End the browser."""
        self.process.kill()
        self.process.wait()
        os.close(self.outgoing)
        os.close(self.incoming)
        shutil.rmtree(self.folder, ignore_errors=True)
