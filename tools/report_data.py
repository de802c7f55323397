# SPDX-License-Identifier: Apache-2.0
"""Reports of qgemm_loadtest, and the rules by which they are read: how many
answers a percentile needs, when a run failed, where a sweep has its knee.

Pure functions from JSON to values; standard library only.
docs/load-testing-report.md lists the fields.
"""

import collections
import json
import re

SCHEMA = "qgemm.loadtest"
SCHEMA_VERSION = 3

# A percentile with fewer answers above it tells of single answers.
MIN_ANSWERS_ABOVE = 10
# Open arrivals keep their rate if this share of what was due is sent;
# loadtest/judgement.cc has the same number.
KEPT_SHARE = 0.99
# Options that name what is written, not what is measured; committed reports have
# some that the load test no longer takes.
OUTPUT_OPTIONS = {"csv", "hgrm", "html", "json", "live", "svg", "title"}

Bound = collections.namedtuple("Bound", "name percent limit_ns")


class ReportError(Exception):
    """The file is not a report that this version reads."""


def load(path):
    """The report in a file, as the dictionaries and lists of its JSON."""
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    except (OSError, ValueError) as error:
        raise ReportError(f"{path}: {error}") from error
    check(report, path)
    return report


def check(report, name):
    """Raises ReportError unless the JSON is a report of SCHEMA_VERSION."""
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise ReportError(
            f'{name}: "schema" is not "{SCHEMA}": not a report of '
            "qgemm_loadtest --json")
    version = report.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ReportError(
            f"{name}: schema_version is {version!r}, this program reads "
            f"{SCHEMA_VERSION}; use the tools of the same release")
    runs, headline = report["runs"], report["headline"]
    if runs and not 0 <= headline < len(runs):
        raise ReportError(f"{name}: headline is {headline} of {len(runs)} runs")


class Histogram:
    """Counts of values in buckets, as the load test counts them: a bucket is
    at most 1/1024 of its value wide."""

    def __init__(self, parts=()):
        """Merges the JSON histograms in `parts`."""
        counts = collections.Counter()
        parts = [part for part in parts if part["buckets"]]
        for part in parts:
            for lowest, highest, count in part["buckets"]:
                counts[lowest, highest] += count
        self.buckets = [(*ends, counts[ends]) for ends in sorted(counts)]
        self.count = sum(counts.values())
        self.sum = sum(part["sum"] for part in parts)
        self.max = max((part["max"] for part in parts), default=0)

    def mean(self):
        return self.sum / self.count if self.count else 0

    def percentile(self, percent):
        """The smallest bucket end that `percent` of the values do not exceed,
        at most the largest value; 0 if there is none."""
        seen = 0
        for _, highest, count in self.buckets:
            seen += count
            if 100 * seen >= percent * self.count:
                return min(highest, self.max)
        return self.max


def has_answers_above(count, percent):
    """True if enough of `count` answers lie above the percentile."""
    # Rounded, as 99.9 is not exact in binary.
    return round(count * (100 - percent) / 100, 6) >= MIN_ANSWERS_ABOVE


def latency(run):
    """Latency of all answers from the intended start, in nanoseconds."""
    return Histogram(each["latency_ns"] for each in run["classes"])


def send_latency(run):
    """Latency of all answers from the send, in nanoseconds."""
    return Histogram(each["send_latency_ns"] for each in run["classes"])


def is_open(run):
    """True of arrivals at a rate, false of closed loops."""
    return run["asked_rate"] > 0


_UNITS_NS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h)")


def duration_ns(text):
    """Nanoseconds of "1.5ms", "1h30m", "0" or "inf"; None of other text."""
    if text == "inf":
        return float("inf")
    if text == "0":
        return 0.0
    if not text or _PART.sub("", text):
        return None
    return sum(float(number) * _UNITS_NS[unit]
               for number, unit in _PART.findall(text))


def slo_bounds(report):
    """Bounds on latency that runs are held to, from --slo."""
    text = report["options"].get("slo") or report.get("peak", {}).get("slo", "")
    bounds = []
    for part in filter(None, text.split(",")):
        name, _, limit = part.partition("=")
        bounds.append(Bound(name, float(name.lstrip("p")), duration_ns(limit)))
    return bounds


def failures(report, run):
    """Reasons why a run's figures do not count as held, SLO apart: short texts,
    none if all went well."""
    options = report["options"]
    allowed = options.get("allow_errors", "").split(",")
    reasons = [f"{tally['count']} {code}" for code, tally in
               run["errors"].items() if code not in allowed]
    if run["interrupted"]:
        reasons.append("interrupted")
    if not run["answers"]:
        reasons.append("no answer")
    if is_open(run):
        if run["sent"] < KEPT_SHARE * run["due"]:
            reasons.append(f"{run['due'] - run['sent']} of {run['due']} due "
                           "requests never sent")
        max_lag = duration_ns(options.get("max_lag", ""))
        if max_lag is not None and run["lag_us"]["p99"] * 1e3 > max_lag:
            reasons.append("generator late")
    return reasons


def missed_bounds(report, run):
    """Names of the bounds that a run's latency does not hold: "p99"."""
    values = latency(run)
    return [bound.name for bound in slo_bounds(report)
            if not values.count
            or values.percentile(bound.percent) > bound.limit_ns]


def knee(report):
    """Index of the run with the highest asked rate that met the SLO and did
    not fail; of a peak search, the peak. None if there is no such run or no
    SLO."""
    runs = report["runs"]
    if len(runs) < 2 or not slo_bounds(report):
        return None
    peak = report.get("peak")
    held = [i for i, run in enumerate(runs)
            if is_open(run) and not failures(report, run)
            and not missed_bounds(report, run)
            and (peak is None or run["asked_rate"] <= peak["rate"] * 1.000001)]
    return max(held, key=lambda i: (runs[i]["asked_rate"], i), default=None)


def swept_value(run):
    """(name, value) of a label such as "rate=2000": the value as a number if
    it is one; ("", None) without a label."""
    name, _, text = run["label"].removeprefix("confirm ").partition("=")
    try:
        return name, float(text)
    except ValueError:
        return name, text or None


def ordered_options(report):
    """(name, value, changed) of every flag, those that differ from their
    defaults first."""
    changed = set(report["changed_options"])
    return sorted(((name, value, name in changed)
                   for name, value in report["options"].items()),
                  key=lambda option: not option[2])
