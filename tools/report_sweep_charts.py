# SPDX-License-Identifier: Apache-2.0
"""Charts of several runs against what was varied: the rate of arrivals, the
clients of a closed loop, the rows of a request."""

import math

import report_charts as charts
import report_data as data


def _run_points(report, quantities):
    """Rows of every run: `quantities` map a name to a function of a run that
    gives its value, or None where there is none to show."""
    rows = []
    for run in report["runs"]:
        name, value = data.swept_value(run)
        if name == "rate" or not name:
            value = run["asked_rate"]
        reasons = data.failures(report, run)
        missed = data.missed_bounds(report, run)
        verdict = ", ".join(reasons + [f"SLO {name} missed" for name in missed])
        for quantity, value_of in quantities.items():
            y = value_of(run)
            if y is not None:
                rows.append({"quantity": quantity, "x": value, "value": y,
                             "run": run["label"], "failed": bool(reasons),
                             "verdict": verdict or "held"})
    return sorted(rows, key=lambda row: (isinstance(row["x"], str), row["x"]))


def _limit_layers(text, limit, y):
    """A dashed line across, with its text."""
    here = {"values": [{"value": limit, "text": text}]}
    colour = charts.COLOURS["SLO"]
    return [
        {"data": here, "encoding": {"y": y},
         "mark": {"type": "rule", "strokeDash": [5, 4], "color": colour}},
        {"data": here,
         "encoding": {"y": y, "text": {"field": "text"}},
         "mark": {"type": "text", "align": "left", "dx": 3, "dy": -6, "x": 0,
                  "color": colour}}]


def _knee_layers(rate, x):
    """A dotted line upright, with its text."""
    here = {"values": [{"x": rate, "text": "knee"}]}
    return [
        {"data": here, "encoding": {"x": x},
         "mark": {"type": "rule", "strokeDash": [2, 3],
                  "color": "currentColor"}},
        {"data": here,
         "encoding": {"x": x, "text": {"field": "text"}},
         "mark": {"type": "text", "align": "right", "dx": -4, "y": 8,
                  "color": "currentColor"}}]


def _against_load(report, title, note, quantities, y=None, rules=()):
    """A list of one chart, or none without points; `y` is the axis, by default
    that of latencies."""
    rows = _run_points(report, quantities)
    if not rows:
        return []
    y = y or charts.latency_axis([row["value"] for row in rows]
                                 + [limit for _, limit in rules], "value")
    names = [name for name in quantities
             if any(row["quantity"] == name for row in rows)]
    numeric = all(not isinstance(row["x"], str) for row in rows)
    swept = data.swept_value(report["runs"][0])[0]
    open_rate = swept == "rate"
    x = {"field": "x", "type": "quantitative" if numeric else "ordinal",
         "title": "asked rate, requests/s" if open_rate else swept,
         "sort": None, "axis": {"tickCount": 6, **charts.NUMBERS} if numeric
         else {"labelAngle": 0},
         "scale": {"zero": False, "padding": 14} if numeric else {}}
    at = {"x": x, "y": y}
    shape = {"field": "failed", "type": "nominal", "legend": None, "scale": {
        "domain": [False, True], "range": ["circle", "cross"]}}
    layers = [
        {"data": {"values": rows}, "mark": {"type": "line", "strokeWidth": 1.8},
         "encoding": {**at, "color": charts.colour(names)},
         **({"params": [charts.ZOOM]} if numeric else {})},
        {"data": {"values": rows},
         "mark": {"type": "point", "filled": True, "opacity": 1},
         "encoding": {
             **at, "color": charts.colour(names), "shape": shape,
             "angle": {"condition": {"test": "datum.failed", "value": 45},
                       "value": 0},
             "size": {"condition": {"test": "datum.failed", "value": 170},
                      "value": 55},
             "tooltip": charts.tooltip(
                 ("run", "run", ""), ("quantity", "", ""),
                 charts.figure_hint(y), ("verdict", "verdict", ""))}}]
    for text, limit in rules:
        layers += _limit_layers(text, limit, y)
    found = data.knee(report)
    if found is not None:
        layers += _knee_layers(report["runs"][found]["asked_rate"], x)
    return [charts.Chart(title, note, 260, {"layer": layers})]


def sweep(report):
    """Latency, throughput and cost of every run against what was varied."""
    def percentile(percent):
        def value(run):
            values = data.latency(run)
            if not data.has_answers_above(values.count, percent):
                return None
            return values.percentile(percent) / 1e3
        return value

    def plain(title):
        return {"field": "value", "type": "quantitative", "title": title,
                "scale": {"padding": 10},
                "axis": {"tickCount": 5, **charts.NUMBERS}}

    rates = {"answers/s": lambda run: run["answers_per_second"]}
    if all(map(data.is_open, report["runs"])):
        rates = {"asked": lambda run: run["asked_rate"], **rates}
    failed = any(data.failures(report, run) for run in report["runs"])
    crosses = "A cross marks a run that failed." if failed else ""
    cost = {
        "client CPU": lambda run: run["client_cpu_us_an_answer"] or None,
        "server CPU": lambda run: run["server_cpu_us_an_answer"] or None}
    return [
        *_against_load(
            report, "Latency against load",
            " ".join(filter(None, [knee_note(report), crosses])),
            {name: percentile(percent)
             for name, percent in charts.PERCENTILES.items()},
            rules=[(f"SLO {bound.name}", bound.limit_ns / 1e3)
                   for bound in data.slo_bounds(report)
                   if not math.isinf(bound.limit_ns)]),
        *_against_load(report, "Throughput against load", crosses, rates,
                       plain("per second")),
        *_against_load(report, "Rows per launch against load", "",
                       {"rows per launch": lambda run:
                        run["server"]["launch_rows"]["mean"] or None},
                       plain("rows per launch")),
        *_against_load(report, "Processor time against load", "", cost,
                       plain(f"{charts.US} per answer"))]


def knee_note(report):
    """A sentence about the knee, or the peak that was searched."""
    peak = report.get("peak")
    if peak and peak["rate"]:
        return (f"Peak: {peak['rate']:,.0f} requests/s held {peak['slo']}, "
                f"{'' if peak['confirmed'] else 'not '}confirmed.")
    if not data.slo_bounds(report):
        return "There is no knee without an SLO."
    found = data.knee(report)
    if found is None:
        return "No run met the SLO: there is no knee."
    return (f"Knee: {report['runs'][found]['asked_rate']:,.0f} requests/s, the "
            "highest rate that met the SLO.")
