#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of sample reports in a real browser: a wide screen, a telephone,
dark mode and paper. browser_test.sh prepares and runs it.

Usage: browser_test.py FOLDER_WITH_PAGES [FOLDER_FOR_PICTURES]
"""

import html.parser
import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree

import numpy as np

import png
from headless_browser import open_page

PAGES = pathlib.Path()
PICTURES = None
NAMES = ("open", "sweep", "peak", "failed", "closed", "empty")
WIDE, TABLET, PHONE = 1400, 768, 375
# Between the margins of A4 at 96 px an inch.
PAPER = 690
A4_POINTS = (595, 842)
MAX_SHEETS = 4
# A figure's picture is taken at this size to be decoded quickly.
SCALE = 0.5
# Of a figure's pixels: a line 1 px wide across it is about 1/300.
LEAST_PAINTED = 1 / 1000
LEAST_FONT_PX = 9

FIGURES = {
    "open": ["Latency spectrum", "Where the time goes", "Yardstick",
             "Answers over time", "Latency over time", "Requests in flight",
             "Rows per launch"],
    "sweep": ["Latency spectrum", "Latency against load", "Throughput",
              "Where the time goes", "Answers over time", "Latency over time",
              "Requests in flight", "Rows per launch"],
    "failed": ["Latency spectrum", "Where the time goes", "Answers over time",
               "Latency over time", "Requests in flight", "Rows per launch"],
    "empty": [],
}
FIGURES["peak"] = FIGURES["sweep"]
FIGURES["closed"] = FIGURES["failed"]

# What the sample reports say of themselves.
WORDS = {
    "open": ["✓ passed", "2,000", "20,000", "Open arrivals (poisson)",
             "NVIDIA H100 80GB HBM3", "--synthetic=4096x14336"],
    "sweep": ["12,000", "rate=14000 · knee", "the headline of 9 runs"],
    "peak": ["Peak: 14,000 requests/s hold p99=2ms", "rate=14000 · peak"],
    "failed": ["✗ errors", "37", "RESOURCE_EXHAUSTED", "<b>gate</b>",
               "Overload <with> \"markup\" & a rather long title"],
    "closed": ["6,000", "prefill m=256", "16 requests in flight"],
    "empty": ["✗ not started", "Nothing ran."],
}

# Everything that is to be known of a page's visible plots, in one go.
LOOK = r"""(() => {
  const shown = e => e.getClientRects().length > 0;
  const plots = [...document.querySelectorAll('svg.plot')].filter(shown);
  const box = r => ({x: r.x + scrollX, y: r.y + scrollY,
                     width: r.width, height: r.height});
  const describe = svg => {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map(t => {
      const r = t.getBoundingClientRect();
      return {words: t.textContent, left: r.left - frame.left,
              top: r.top - frame.top, right: r.right - frame.left,
              bottom: r.bottom - frame.top,
              px: parseFloat(getComputedStyle(t).fontSize) * frame.width /
                  svg.viewBox.baseVal.width};
    });
    return {title: svg.querySelector('title').textContent,
            description: svg.querySelector('desc').textContent,
            role: svg.getAttribute('role'), texts, ...box(frame)};
  };
  return {plots: plots.map(describe),
          overflow: document.documentElement.scrollWidth -
                    document.documentElement.clientWidth,
          cut: [...document.querySelectorAll('.scroll')].filter(
              e => e.scrollWidth > e.clientWidth).map(
              e => e.getAttribute('aria-label')),
          figures: document.querySelectorAll('figure').length,
          words: document.body ? document.body.innerText : ''};
})()"""


def overlaps(a, b):
    """Whether two words share more than a hair's breadth."""
    hair = 0.5
    return (a["left"] < b["right"] - hair and b["left"] < a["right"] - hair and
            a["top"] < b["bottom"] - hair and b["top"] < a["bottom"] - hair)


def painted_share(pixels):
    """How many of the pixels are neither paper nor words nor grid, which are
    all nearly grey."""
    channels = pixels[:, :, :3].astype(int)
    return np.mean(channels.max(axis=2) - channels.min(axis=2) > 64)


class Nesting(html.parser.HTMLParser):
    """Finds tags that are closed out of order."""

    VOID = ("meta", "link")

    def __init__(self):
        super().__init__()
        self.open = []
        self.faults = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)


class ReportPage(unittest.TestCase):
    """Each case looks at all sample pages."""

    @classmethod
    def setUpClass(cls):
        browser = open_page()
        cls.page = browser.__enter__()  # pylint: disable=no-member
        cls.addClassCleanup(browser.__exit__, None, None, None)
        cls.looks = {}

    def look(self, name, width, dark=False, media=""):
        """Shows a page and says what there is to see."""
        self.page.show(PAGES / f"{name}.html", width, dark, media)
        look = self.page.evaluate(LOOK)
        look["complaints"] = self.page.complaints()
        look["requests"] = self.page.requests()
        if PICTURES and not media:
            mode = "-dark" if dark else ""
            path = PICTURES / f"{name}-{width}{mode}.png"
            path.write_bytes(self.page.picture())
        return look

    def on_each(self, check, widths=(WIDE, TABLET, PHONE)):
        """Calls check(name, look) for every page at those widths."""
        for name in NAMES:
            for width in widths:
                with self.subTest(page=name, width=width):
                    if (name, width) not in self.looks:
                        self.looks[name, width] = self.look(name, width)
                    check(name, self.looks[name, width])

    def check_words_apart(self, plot):
        texts = plot["texts"]
        for i, one in enumerate(texts):
            inside = (one["left"] >= -0.5 and one["top"] >= -0.5 and
                      one["right"] <= plot["width"] + 0.5 and
                      one["bottom"] <= plot["height"] + 0.5)
            self.assertTrue(inside, f"{one['words']!r} leaves "
                            f"{plot['title']!r}")
            for other in texts[i + 1:]:
                self.assertFalse(overlaps(one, other),
                                 f"{one['words']!r} on {other['words']!r} in "
                                 f"{plot['title']!r}")

    def test_shows_the_figures_that_the_report_has(self):
        def check(name, look):
            self.assertEqual([plot["title"] for plot in look["plots"]],
                             FIGURES[name])
            self.assertEqual(look["figures"], len(FIGURES[name]))
        self.on_each(check)

    def test_figures_have_a_size_and_words_for_screen_readers(self):
        def check(_, look):
            for plot in look["plots"]:
                self.assertGreater(plot["width"], 250)
                self.assertGreater(plot["height"], 60)
                self.assertEqual(plot["role"], "img")
                self.assertTrue(plot["description"])
        self.on_each(check)

    def test_words_of_a_figure_do_not_touch_or_leave_it(self):
        def check(_, look):
            for plot in look["plots"]:
                self.check_words_apart(plot)
        self.on_each(check)

    def test_words_of_a_figure_are_large_enough(self):
        def check(_, look):
            for plot in look["plots"]:
                for text in plot["texts"]:
                    self.assertGreaterEqual(text["px"], LEAST_FONT_PX,
                                            text["words"])
        self.on_each(check)

    def test_nothing_scrolls_sideways_but_tables(self):
        self.on_each(lambda _, look: self.assertLessEqual(look["overflow"], 0))

    def test_tables_fit_a_wide_screen(self):
        self.on_each(lambda _, look: self.assertEqual(look["cut"], []),
                     widths=(WIDE,))

    def test_holds_the_reports_words_and_numbers(self):
        def check(name, look):
            for words in WORDS[name]:
                self.assertIn(words, look["words"])
        self.on_each(check)

    def test_browser_does_not_complain(self):
        self.on_each(lambda _, look: self.assertEqual(look["complaints"], []))

    def test_asks_for_nothing_but_itself(self):
        def check(name, look):
            outside = [url for url in look["requests"]
                       if not url.startswith("data:")]
            self.assertEqual(outside, [(PAGES / f"{name}.html").as_uri()])
        self.on_each(check)

    def test_figures_are_painted(self):
        for name in NAMES:
            with self.subTest(page=name):
                for plot in self.look(name, WIDE)["plots"]:
                    box = {k: plot[k] for k in ("x", "y", "width", "height")}
                    pixels = png.decode(self.page.picture(box, SCALE))
                    self.assertGreater(painted_share(pixels), LEAST_PAINTED,
                                       plot["title"])

    def test_dark_mode_is_dark(self):
        corner = {"x": 0, "y": 0, "width": 400, "height": 300}
        for name in NAMES:
            with self.subTest(page=name):
                self.look(name, WIDE)
                light = png.decode(self.page.picture(corner, SCALE))
                self.look(name, WIDE, dark=True)
                dark = png.decode(self.page.picture(corner, SCALE))
                self.assertGreater(np.median(light[:, :, :3]), 200)
                self.assertLess(np.median(dark[:, :, :3]), 60)

    def test_paper_is_black_on_white_even_from_dark_mode(self):
        for name in NAMES:
            with self.subTest(page=name):
                look = self.look(name, PAPER, dark=True, media="print")
                self.assertLessEqual(look["overflow"], 0)
                self.assertEqual(look["cut"], [])
                self.assertEqual([plot["title"] for plot in look["plots"]],
                                 FIGURES[name])
                for plot in look["plots"]:
                    self.check_words_apart(plot)
                colours = self.page.evaluate(
                    "[document.body].map(e => getComputedStyle(e)).map("
                    "s => [s.color, s.backgroundColor])[0]")
                self.assertEqual(colours,
                                 ["rgb(0, 0, 0)", "rgb(255, 255, 255)"])

    def test_prints_on_a_few_sheets_of_a4(self):
        for name in NAMES:
            with self.subTest(page=name):
                self.look(name, WIDE)
                pdf = self.page.paper()
                if PICTURES:
                    (PICTURES / f"{name}.pdf").write_bytes(pdf)
                self.assertTrue(pdf.startswith(b"%PDF-"))
                sheets = len(re.findall(rb"/Type\s*/Page\b", pdf))
                self.assertIn(sheets, range(1, MAX_SHEETS + 1))
                boxes = re.findall(
                    rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", pdf)
                self.assertTrue(boxes)
                for box in boxes:
                    size = tuple(round(float(side)) for side in box)
                    self.assertEqual(size, A4_POINTS)

    def test_markup_is_nested(self):
        for name in NAMES:
            with self.subTest(page=name):
                nesting = Nesting()
                nesting.feed((PAGES / f"{name}.html").read_text())
                nesting.close()
                self.assertEqual((nesting.faults, nesting.open), ([], []))

    def test_pictures_are_xml(self):
        for name in NAMES:
            with self.subTest(page=name):
                text = (PAGES / f"{name}.html").read_text()
                for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
                    xml.etree.ElementTree.fromstring(svg)

    def test_spectrum_stands_alone(self):
        for name in NAMES:
            with self.subTest(picture=name):
                path = PAGES / f"{name}.svg"
                root = xml.etree.ElementTree.parse(path).getroot()
                _, _, width, height = root.get("viewBox").split()
                self.page.show(path, int(width))
                look = self.page.evaluate(LOOK.replace(
                    "document.body ? document.body.innerText : ''", "''"))
                self.assertEqual(len(look["plots"]), 1)
                self.check_words_apart(look["plots"][0])
                box = {"x": 0, "y": 0, "width": int(width),
                       "height": int(height)}
                picture = self.page.picture(box, SCALE)
                if PICTURES:
                    (PICTURES / f"{name}-spectrum.png").write_bytes(
                        self.page.picture(box))
                pixels = png.decode(picture)[:, :, :3]
                self.assertGreater(np.median(pixels), 200)
                self.assertEqual(self.page.complaints(), [])


def main():
    global PAGES, PICTURES  # pylint: disable=global-statement
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    PAGES = pathlib.Path(sys.argv[1]).resolve()
    if len(sys.argv) == 3:
        PICTURES = pathlib.Path(sys.argv[2])
        PICTURES.mkdir(parents=True, exist_ok=True)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(ReportPage)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    bad = {test.id().split(" ")[0] for test, _ in
           result.failures + result.errors}
    print(f"{max(0, result.testsRun - len(bad))} passed, {len(bad)} failed")
    return 1 if bad or not result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
