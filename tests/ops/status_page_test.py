# SPDX-License-Identifier: Apache-2.0
"""The status page of a real server in a real browser without a window."""

import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import scene

# Runs in the framed copy: writes what a visitor would see into the document.
PROBE = """<script>
addEventListener("load", () => {
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify({
    overflow: document.documentElement.scrollWidth - innerWidth,
    dark: getComputedStyle(document.body).backgroundColor,
    columns: new Set([...document.querySelectorAll("section")].map(
      s => s.getBoundingClientRect().left)).size,
    text: document.body.innerText,
  });
  document.body.append(pre);
});
</script>"""


def browse(url, folder, *flags):
    """The document after some seconds, and what the browser complains about."""
    seen = subprocess.run(
        [shutil.which("chromium"), "--headless=new", "--no-sandbox",
         "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
         "--enable-logging=stderr", "--virtual-time-budget=9000",
         f"--user-data-dir={folder}/profile", *flags, url],
        capture_output=True, text=True, timeout=120, check=True)
    return seen.stdout, re.findall(r".*CONSOLE.*", seen.stderr)


class StatusPageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        load = scene.server_under_load(os.environ["QGEMM_SERVER"])
        cls.server = load.__enter__()
        cls.addClassCleanup(load.__exit__, None, None, None)

    def framed(self, width, dark):
        """The probe's findings on a copy of the page in a frame, as windows
        have a least width that is wider than a phone."""
        page = re.sub(r"<script>.*?</script>", lambda _: PROBE,
                      self.server.get("/"), count=1, flags=re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "page.html").write_text(page, "utf-8")
            frame = pathlib.Path(folder, "frame.html")
            frame.write_text(
                f'<iframe src="page.html" width={width} height=900 onload="'
                "document.body.append(this.contentDocument.getElementById("
                "'probe'))\"></iframe>", "utf-8")
            dom, complaints = browse(
                frame.as_uri(), folder, "--allow-file-access-from-files",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}")
        self.assertEqual([], complaints)
        found = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)
        self.assertTrue(found, dom)
        return json.loads(html.unescape(found[1]))

    def test_it_refreshes_itself_under_its_own_policy(self):
        with tempfile.TemporaryDirectory() as folder:
            dom, complaints = browse(f"http://{self.server.metrics}/", folder)
        self.assertEqual([], complaints)
        self.assertIn('data-refreshed="yes"', dom)
        # The second look has a rate.
        self.assertRegex(dom, r"<td>Requests</td><td>[0-9.]+( k)?/s</td>")
        self.assertIn('<span class="state serving">serving</span>', dom)

    def test_a_phone_needs_no_sideways_scrolling(self):
        seen = self.framed(width=390, dark=False)
        self.assertLessEqual(seen["overflow"], 0)
        self.assertEqual(seen["columns"], 1)
        self.assertEqual(seen["dark"], "rgba(0, 0, 0, 0)")
        for text in ("qgemm_server serving", "backend cpu on", scene.LAYER,
                     "nothing since the start"):
            self.assertIn(text, seen["text"])

    def test_a_wide_window_is_used_and_dark_where_asked_for(self):
        seen = self.framed(width=1280, dark=True)
        self.assertLessEqual(seen["overflow"], 0)
        self.assertGreater(seen["columns"], 2)
        self.assertEqual(seen["dark"], "rgb(20, 21, 26)")


if __name__ == "__main__":
    unittest.main()
