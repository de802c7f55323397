#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the latencies of a report of qgemm_loadtest as HdrHistogram prints
percentiles (".hgrm"), for its plotter and other load testers' tools: of the
headline run, in microseconds, five lines each time that the distance to 100 %
halves.

Usage: tools/report_hgrm.py REPORT.json > REPORT.hgrm

Source: HdrHistogram, AbstractHistogram.outputPercentileDistribution and
PercentileIterator; but a value is never above the maximum.
"""

import math
import sys

import report_data as data

TICKS_A_HALVING = 5
SUB_BUCKETS = 2048
HEAD = f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} " \
       f"{'1/(1-Percentile)':>14}\n"


def next_level(percent):
    """The percentage after `percent`, which is below 100."""
    halvings = math.floor(math.log2(100 / (100 - percent)))
    return percent + 100 / (TICKS_A_HALVING * 2 ** (halvings + 1))


def rows(values, unit):
    level, seen = 0, 0
    for _, highest, count in values.buckets:
        seen += count
        value = min(highest, values.max) / unit
        while 100 * seen / values.count >= level:
            yield (f"{value:12.3f} {level / 100:2.12f} {seen:10d} "
                   f"{1 / (1 - level / 100):14.2f}")
            level = next_level(level)
            # All are counted: one line for the largest, then that of 100 %.
            if seen == values.count:
                break
    if values.count:
        yield f"{values.max / unit:12.3f} {1:2.12f} {values.count:10d}"


def deviation(values):
    """The standard deviation, each value in the middle of its bucket."""
    squares = sum(count * ((lowest + highest) / 2 - values.mean()) ** 2
                  for lowest, highest, count in values.buckets)
    return math.sqrt(squares / max(1, values.count))


def text(values, unit):
    """The file's text, values divided by `unit`."""
    octaves = max(1, (int(values.max) // SUB_BUCKETS).bit_length() + 1)
    return "\n".join([
        HEAD, *rows(values, unit),
        f"#[Mean    = {values.mean() / unit:12.3f}, "
        f"StdDeviation   = {deviation(values) / unit:12.3f}]",
        f"#[Max     = {values.max / unit:12.3f}, "
        f"Total count    = {values.count:12d}]",
        f"#[Buckets = {octaves:12d}, SubBuckets     = {SUB_BUCKETS:12d}]", ""])


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: tools/report_hgrm.py REPORT.json > REPORT.hgrm")
    try:
        report = data.load(sys.argv[1])
    except data.ReportError as error:
        sys.exit(f"report_hgrm: {error}")
    if not report["runs"]:
        sys.exit("report_hgrm: nothing ran")
    run = report["runs"][report["headline"]]
    print(text(data.latency(run), 1000), end="")


if __name__ == "__main__":
    main()
