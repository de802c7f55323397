# SPDX-License-Identifier: Apache-2.0
"""Pages in a real browser: a sweep and a walk, on a screen and on a phone."""

import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import render_report
import report_data as data
import report_sweep_charts
import sample_reports as sample

ROOT = pathlib.Path(__file__).resolve().parents[3]
RESULTS = ROOT / "bench" / "results" / "service"

# Runs first in the page: collects errors, and writes what a visitor would see
# into the document once all charts are drawn.
PROBE = """<script>
const complaints = [];
addEventListener("error", e => complaints.push(e.message));
addEventListener("unhandledrejection", e => complaints.push(String(e.reason)));
for (const level of ["warn", "error"]) {
  console[level] = (...words) => complaints.push(words.join(" "));
}
const wait = setInterval(() => {
  if (typeof specs === "undefined" || chartsDrawn < specs.length) return;
  if (!document.querySelector("#vg-tooltip-element.visible")) {
    const points = document.querySelectorAll(".mark-symbol.role-mark path");
    for (const type of ["pointermove", "mousemove"]) {
      points[0].dispatchEvent(new PointerEvent(type, { bubbles: true }));
    }
    return;
  }
  clearInterval(wait);
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify({
    complaints,
    fetched: performance.getEntriesByType("resource").map(e => e.name),
    overflow: document.documentElement.scrollWidth - innerWidth,
    marks: [...document.querySelectorAll("figure")].map(f =>
      f.querySelectorAll(".mark-line path, .mark-rect path").length),
    hint: document.querySelector("#vg-tooltip-element").innerText,
    dark: getComputedStyle(document.body).backgroundColor,
    text: document.body.innerText + [...document.querySelectorAll("svg text")]
      .map(t => t.textContent).join(" "),
  });
  document.body.append(pre);
}, 50);
</script>"""


class BrowserTest(unittest.TestCase):

    def look(self, report, width=1280, dark=False):
        """The probe's findings on the page of a report. The page is framed, as
        windows have a least width that is wider than a phone."""
        with tempfile.TemporaryDirectory() as folder:
            page = render_report.page(report)
            pathlib.Path(folder, "page.html").write_text(
                page.replace("<style>", PROBE + "<style>", 1),
                encoding="utf-8")
            frame = pathlib.Path(folder, "frame.html")
            frame.write_text(
                f'<iframe src="page.html" width={width} height=900 '
                'onload="const poll = setInterval(() => {'
                "const found = this.contentDocument.getElementById('probe');"
                "if (found) { clearInterval(poll); document.body.append("
                'found); } }, 50)"></iframe>', encoding="utf-8")
            dom = subprocess.run(
                [shutil.which("chromium"), "--headless=new", "--no-sandbox",
                 "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
                 "--allow-file-access-from-files",
                 "--virtual-time-budget=20000", f"--user-data-dir={folder}/p",
                 f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                 frame.as_uri()], capture_output=True, text=True, timeout=120,
                check=True).stdout
        found = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)
        self.assertTrue(found, "the charts were not drawn")
        seen = json.loads(html.unescape(found[1]))
        self.assertEqual(seen["complaints"], [])
        self.assertEqual(seen["fetched"], [])
        self.assertLessEqual(seen["overflow"], 0)
        self.assertTrue(all(seen["marks"]), seen["marks"])
        self.assertRegex(seen["hint"], r"latency, µs\s+[0-9]")
        self.assertNotIn("undefined", seen["hint"])
        return seen

    def test_a_sweep_shows_its_knee_and_what_failed(self):
        seen = self.look(sample.sweep())
        for text in ("Knee: 1,000 requests/s", "A cross marks a run that",
                     "SLO p99 missed", "3 UNAVAILABLE", "a </script>",
                     "--slo"):
            self.assertIn(text, seen["text"])
        self.assertEqual(len(seen["marks"]), 4 + 6)

    def test_a_walk_shows_tokens_per_second(self):
        report = data.load(RESULTS / "decode-walk-64.json")
        seen = self.look(report, dark=True)
        self.assertIn("tokens/s\n401.1", seen["text"])
        self.assertEqual(seen["dark"], "rgb(20, 21, 26)")

    def test_a_walk_of_clients_shows_the_tokens_of_one(self):
        seen = self.look(sample.report(sample.run(
            tokens_per_second=660.0, client_tokens_per_second=165.0,
            token_ms=6.06)))
        for text in ("tokens/s\n660.0", "tokens/s a client\n165.00",
                     "ms a token\n6.060"):
            self.assertIn(text, seen["text"])

    def test_a_phone_needs_no_sideways_scrolling(self):
        seen = self.look(data.load(RESULTS / "shared-weights.json"), width=390)
        self.assertIn("Baseline: one request in flight", seen["text"])
        self.assertEqual(seen["dark"], "rgb(255, 255, 255)")

    @unittest.skipUnless("QGEMM_LOADTEST" in os.environ, "no program is given")
    def test_what_the_program_writes_is_drawn_and_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            subprocess.run(
                [os.environ["QGEMM_LOADTEST"], "--transport=null",
                 "--synthetic=64x64", "--sweep=rate=1000,2000",
                 "--slo=p50=1s", "--max_lag=10s", "--duration=500ms",
                 "--warmup=0s", f"--json={path}"], check=True,
                stdout=subprocess.DEVNULL)
            # Which rate the machine held is the machine's affair.
            report = data.load(path)
            self.assertIn(report_sweep_charts.knee_note(report),
                          self.look(report)["text"])
            text = subprocess.run(
                [os.sys.executable, ROOT / "tools" / "compare_reports.py",
                 path, path], check=True, capture_output=True, text=True).stdout
        self.assertIn("run        rate=2000", text)

    def test_pictures_are_those_of_the_first_chart(self):
        chart = render_report.charts_of(sample.sweep())[0]
        picture = render_report.picture(
            chart, render_report.vl_convert.vegalite_to_svg)
        self.assertIn("Latency against load", picture)
        self.assertNotIn("currentColor", picture)


if __name__ == "__main__":
    unittest.main()
