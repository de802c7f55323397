#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two reports of qgemm_loadtest and says what chance explains.

Usage: tools/compare_reports.py A.json B.json

Runs of equal labels stand side by side, with the ratio b/a of each figure and
its 95 % confidence interval by a block bootstrap: blocks of a run are drawn
with replacement, on each side apart, and the ratio of what was drawn is looked
at. A block is long, so that what follows from a request's neighbours stays
within it. The interval covers what varies within the two runs; what varies
from run to run of the same thing shows only by repeating them in turn. Needs
numpy (tools/setup.sh test).
"""

import collections
import math
import sys

import numpy

import report_data as data

MIN_BLOCKS = 5
RESAMPLES = 2000
SEED = 1
NORMAL_QUANTILE = 1.959963984540054  # 95 % lie within
# Blocks know their values to 1/64 (RunResult::blocks_ns).
CELL_WIDTH = 1 / 64
PERCENTILES = (50, 90, 99, 99.9)

# A figure of a run's blocks: `values(weights)` gives it for each row of
# weights, [draws, blocks]; `step` is the share of itself to which a block's
# figure is known.
Statistic = collections.namedtuple("Statistic", "blocks values step")
Row = collections.namedtuple("Row", "name a b interval verdict")


def quotient(numerators, denominators, step=0):
    """sum(numerators) / sum(denominators) over the drawn blocks."""
    above = numpy.asarray(numerators, float)
    below = numpy.asarray(denominators, float)

    def values(weights):
        sums = weights @ below
        return numpy.divide(weights @ above, sums, out=numpy.zeros_like(sums),
                            where=sums > 0)
    return Statistic(len(above), values, step)


def cell_of(value):
    """(first, end) of the cell of a value: exact below 128, then seven binary
    digits."""
    shift = max(0, int(value).bit_length() - 7)
    first = int(value) >> shift << shift
    return first, first + (1 << shift)


class Blocks:
    """Latencies counted in blocks. Within a cell, values are taken to be
    evenly spread, so that percentiles move in small steps."""

    def __init__(self, blocks):
        """`blocks` are JSON histograms."""
        cells = sorted({cell_of(bucket[0]) for block in blocks
                        for bucket in block["buckets"]})
        place = {cell: i for i, cell in enumerate(cells)}
        counts = numpy.zeros((len(cells), len(blocks)))
        for i, block in enumerate(blocks):
            for lowest, _, count in block["buckets"]:
                counts[place[cell_of(lowest)], i] += count
        self._cells = numpy.array(cells, float).reshape(-1, 2)
        self._up_to = counts.cumsum(axis=0)
        self._counts = counts.sum(axis=0)
        self._sums = numpy.array([block["sum"] for block in blocks], float)

    def count(self):
        return quotient(self._counts, numpy.full(len(self._counts), 1.0))

    def mean(self):
        return quotient(self._sums, self._counts, CELL_WIDTH)

    def percentile(self, percent):
        def values(weights):
            if not len(self._cells):
                return numpy.zeros(len(weights))
            up_to = self._up_to @ weights.T  # [cells, draws]
            rank = percent / 100 * (weights @ self._counts)
            draws = numpy.arange(len(weights))
            # Rounding may leave the sum of all below the rank.
            cell = numpy.minimum((up_to < rank).sum(axis=0), len(up_to) - 1)
            before = numpy.where(cell > 0, up_to[cell - 1, draws], 0)
            within = up_to[cell, draws] - before
            share = numpy.divide(rank - before, within,
                                 out=numpy.ones_like(rank), where=within > 0)
            first, end = self._cells[cell].T
            return first + numpy.minimum(share, 1) * (end - first)
        return Statistic(len(self._counts), values, CELL_WIDTH)


def student_quantile(degrees):
    """95 % of Student's t lie within.
    Source: Abramowitz and Stegun, 26.7.5; within 0.3 % from 4 degrees on."""
    z = NORMAL_QUANTILE
    return (z + z * (z**2 + 1) / 4 / degrees
            + z * ((5 * z**2 + 16) * z**2 + 3) / 96 / degrees**2
            + z * (((3 * z**2 + 19) * z**2 + 17) * z**2 - 15) / 384
            / degrees**3)


def draw_weights(random, blocks):
    """How often each block is drawn, [draws, blocks]."""
    return random.multinomial(blocks, numpy.full(blocks, 1 / blocks),
                              RESAMPLES).astype(float)


def bootstrap(a, b):
    """(low, high) of the 95 % interval of b/a as multiples of the ratio of all
    blocks; None with too few blocks or a figure that is not above 0. Widened
    for few blocks, where plain quantiles are too narrow, and for differences
    that steps hide. The same input gives the same interval.
    Source: Hesterberg, "What Teachers Should Know About the Bootstrap" (2015),
    the expanded percentile interval."""
    fewest = min(a.blocks, b.blocks)
    if fewest < MIN_BLOCKS:
        return None
    whole = [side.values(numpy.ones((1, side.blocks)))[0] for side in (a, b)]
    if min(whole) <= 0:
        return None
    random = numpy.random.default_rng(SEED)
    drawn = [side.values(draw_weights(random, side.blocks)) for side in (a, b)]
    usable = (drawn[0] > 0) & (drawn[1] > 0)
    ratios = numpy.sort(drawn[1][usable] / drawn[0][usable])
    if not len(ratios):
        return None
    deviations = student_quantile(fewest - 1) * math.sqrt(
        fewest / (fewest - 1))
    left_out = int(math.erfc(deviations / math.sqrt(2)) / 2 * len(ratios))
    # A block's figure is anywhere in its step, uniformly.
    hidden = deviations * math.sqrt(a.step**2 / (12 * a.blocks)
                                    + b.step**2 / (12 * b.blocks))
    ratio = whole[1] / whole[0]

    def widened(bound, direction):
        distance = abs(math.log(bound))
        return bound * math.exp(
            direction * (math.hypot(distance, hidden) - distance))
    return (widened(ratios[left_out] / ratio, -1),
            widened(ratios[-1 - left_out] / ratio, +1))


def stretches(run):
    """Lists of answers, rows, and rows per launch summed over the answers, by
    stretch: whole intervals of the measured time, in as many stretches as the
    run has blocks, or fewer."""
    points = [point for point in run["series"]
              if point["start_s"] >= 0 and
              point["start_s"] + point["length_s"] <= run["due_time_s"] + 1e-9]
    length = math.ceil(len(points) / max(1, len(run["blocks_ns"])))
    sums = [[0] * (len(points) // length if length else 0) for _ in range(3)]
    for i in range(len(sums[0]) * length):
        point = points[i]
        for total, value in zip(sums, (
                point["answers"], point["rows"],
                point["launch_rows"] * point["answers"])):
            total[i // length] += value
    return sums


def compared(name, a, b, statistics, words, unit="blocks"):
    """A row: `words` are the verdicts of a ratio below and above 1."""
    if not (a > 0 and b > 0):
        return Row(name, a, b, None, "not measured on both sides")
    left, right = statistics
    if min(left.blocks, right.blocks) < MIN_BLOCKS:
        return Row(name, a, b, None, f"{left.blocks} and {right.blocks} {unit},"
                   f" at least {MIN_BLOCKS} needed")
    relative = bootstrap(left, right)
    if relative is None:
        return Row(name, a, b, None, f"the {unit} are empty")
    low, high = (b / a * bound for bound in relative)
    verdict = "no difference shown"
    if high < 1 or low > 1:
        verdict = words[int(low > 1)]
    return Row(name, a, b, (low, high), verdict)


def token_rows(a, b, counts, blocks):
    """Rows of two walks, whose tokens may take different numbers of calls;
    none if one has no tokens."""
    if any("token_ms" not in run for run in (a, b)):
        return []
    rows = [compared("ms a token", a["token_ms"], b["token_ms"],
                     [each.mean() for each in blocks], ("faster", "slower"))]
    # Tokens are answers times a constant.
    if all(len(run["classes"]) == 1 for run in (a, b)):
        rows.insert(0, compared("tokens/s", a["tokens_per_second"],
                                b["tokens_per_second"], counts,
                                ("slower", "faster")))
    return rows


def compare_runs(a, b):
    """Rows of two runs."""
    sides = (a, b)
    blocks = [Blocks(run["blocks_ns"]) for run in sides]
    values = [data.latency(run) for run in sides]
    parts = [stretches(run) for run in sides]
    counts = [each.count() for each in blocks]
    more_is_faster = ("slower", "faster")
    less_is_faster = ("faster", "slower")

    def field(*path):
        found = []
        for run in sides:
            for key in path:
                run = run[key]
            found.append(run)
        return found
    rows = [compared("answers/s", *field("answers_per_second"), counts,
                     more_is_faster)]
    if all(len(run["classes"]) == 1 for run in sides):
        # Rows are answers times a constant.
        rows.append(compared("rows/s", *field("rows_per_second"), counts,
                             more_is_faster))
    else:
        rows.append(compared(
            "rows/s", *field("rows_per_second"),
            [quotient(each[1], [1] * len(each[1])) for each in parts],
            more_is_faster, "stretches of the series"))
    rows += token_rows(a, b, counts, blocks)
    for percent in PERCENTILES:
        name = f"p{percent} us"
        a_us, b_us = (each.percentile(percent) / 1e3 for each in values)
        fewest = min(each.count for each in values)
        if a_us > 0 and b_us > 0 and not data.has_answers_above(fewest,
                                                                percent):
            above = math.floor(round(fewest * (100 - percent) / 10, 6)) / 10
            rows.append(Row(name, a_us, b_us, None,
                            f"{above:.1f} answers above it, at least "
                            f"{data.MIN_ANSWERS_ABOVE} needed"))
            continue
        rows.append(compared(name, a_us, b_us, [
            each.percentile(percent) for each in blocks], less_is_faster))
    rows.append(compared("mean us", *(each.mean() / 1e3 for each in values),
                         [each.mean() for each in blocks], less_is_faster))
    rows.append(compared(
        "rows per launch", *field("server", "launch_rows", "mean"),
        [quotient(each[2], each[0]) for each in parts], ("less", "more"),
        "stretches of the series"))
    for side in ("client", "server"):
        used = field(f"{side}_cpu_us_an_answer")
        rows.append(Row(f"{side} cpu us per answer", *used, None,
                        "one figure per run" if min(used) > 0
                        else "not measured on both sides"))
    return rows


def report_warnings(a, b):
    """Lines about what should be equal and is not."""
    fields = {"backend": ("environment", "server", "backend"),
              "server device": ("environment", "server", "device"),
              "server device detail": ("environment", "server",
                                       "device_detail"),
              "weights": ("weights", "text"),
              "transport": ("environment", "transport"),
              "client processor": ("environment", "client_cpu"),
              "client processors": ("environment", "client_cpus")}
    lines = []
    for name, path in fields.items():
        left, right = a, b
        for key in path:
            left, right = left[key], right[key]
        if left != right:
            lines.append(f'{name}: "{left}" in a, "{right}" in b')
    return lines


def run_warnings(a, b):
    """Lines about two runs that limit what their figures mean."""
    lines = []
    if data.is_open(a) != data.is_open(b):
        lines.append("one had open arrivals and the other a closed loop: their "
                     "latencies do not mean the same")
    for name, run in (("a", a), ("b", b)):
        if run["interrupted"]:
            lines.append(f"{name} was interrupted")
        if run["error_count"]:
            lines.append(f"{name} had {run['error_count']} errors; latencies "
                         "are of answers only")
    return lines


def option_lines(a, b):
    """Lines about flags that differ."""
    names = list(a["options"]) + [name for name in b["options"]
                                  if name not in a["options"]]
    for name in names:
        left, right = (report["options"].get(name) for report in (a, b))
        if left != right and name not in data.OUTPUT_OPTIONS:
            left, right = ("absent" if value is None else value
                           for value in (left, right))
            yield f"option     --{name}: {left} in a, {right} in b"


def description(report):
    server = report["environment"]["server"]
    return (f"{report['started_at'][:19]}, server {server['version']} "
            f"({server['backend']}, {server['device']}), "
            f"{report['weights']['text']}")


def row_line(row):
    ratio = f"{row.b / row.a:.4f}" if row.a > 0 and row.b > 0 else "-"
    verdict = f"no interval: {row.verdict}"
    if row.interval:
        low, high = row.interval
        verdict = f"{low:.4f} to {high:.4f}  {row.verdict}"
    return f"{row.name:<23} {row.a:12.2f} {row.b:12.2f} {ratio:>8}  {verdict}"


def compare(a, b):
    """The comparison of two reports as lines of text."""
    yield f"a          {description(a)}"
    yield f"b          {description(b)}"
    runs = [{}, {}]
    for found, report in zip(runs, (a, b)):
        for run in report["runs"]:
            found.setdefault(run["label"], run)
    warnings = report_warnings(a, b)
    for side, found, others in (("a", *runs), ("b", *reversed(runs))):
        warnings += [f'only {side} has the run "{label}"; it is left out'
                     for label in found if label not in others]
    yield from (f"WARNING    {line}" for line in warnings)
    yield from option_lines(a, b)
    common = [label for label in runs[0] if label in runs[1]]
    if not common:
        yield "no run to compare"
    for label in common:
        left, right = runs[0][label], runs[1][label]
        if label:
            yield f"run        {label}"
        yield from (f"WARNING    {line}" for line in run_warnings(left, right))
        yield (f"{'':<23} {'a':>12} {'b':>12} {'b/a':>8}  95 % interval of b/a")
        yield from map(row_line, compare_runs(left, right))


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit("usage: tools/compare_reports.py A.json B.json")
    try:
        a, b = map(data.load, sys.argv[1:])
    except data.ReportError as error:
        sys.exit(f"compare_reports: {error}")
    print("\n".join(compare(a, b)))


if __name__ == "__main__":
    main()
