#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a report of qgemm_loadtest as one HTML page that needs nothing else:
no network, no server. Charts are Vega-Lite; the page holds its library.

Usage: tools/render_report.py REPORT.json [--html=PAGE.html] [--svg=CHART.svg]
                              [--png=CHART.png]

Without an output, writes REPORT.html beside the report. --svg and --png are
the report's first chart. Needs vl-convert-python (tools/setup.sh test).
"""

import argparse
import copy
import html
import json
import pathlib
import sys

import vl_convert

import report_charts
import report_data as data
import report_sweep_charts

HERE = pathlib.Path(__file__).resolve().parent
PICTURE_WIDTH = 720

CONFIG = {
    "font": "system-ui, sans-serif", "background": "transparent",
    "view": {"stroke": None},
    "axis": {"labelColor": "currentColor", "titleColor": "currentColor",
             "gridColor": "currentColor", "gridOpacity": 0.13,
             "domainColor": "currentColor", "domainOpacity": 0.4,
             "tickColor": "currentColor", "tickOpacity": 0.4,
             "labelFontSize": 11, "titleFontSize": 11,
             "titleFontWeight": "normal", "labelOverlap": "greedy"},
    "legend": {"labelColor": "currentColor", "orient": "top", "title": None,
               "labelFontSize": 12, "labelLimit": 300, "columns": 3,
               "symbolStrokeWidth": 3},
    "text": {"fontSize": 11},
    "title": {"color": "currentColor", "anchor": "start"}}


def charts_of(report):
    """All charts of a report, the most telling first."""
    runs = report["runs"]
    if not runs:
        return []
    run = runs[report["headline"]]
    found = report_sweep_charts.sweep(report) if len(runs) > 1 else []
    found += [*report_charts.spectrum(report, run), report_charts.stages(run),
              *report_charts.launches(run)]
    baseline = report.get("baseline")
    if baseline:
        found.append(report_charts.baseline(baseline))
    return found + report_charts.courses(run)


def full_spec(chart, width):
    """The chart's specification, complete but for its data's place."""
    return {"$schema": "https://vega.github.io/schema/vega-lite/v6.json",
            "description": chart.title, "width": width,
            "height": chart.height,
            "autosize": {"type": "fit-x", "contains": "padding"},
            "config": CONFIG, **copy.deepcopy(chart.spec)}


def picture(chart, write):
    """SVG or PNG of a chart on white, by vl_convert's writer `write`."""
    spec = full_spec(chart, PICTURE_WIDTH)
    spec["title"] = chart.title
    spec["background"] = "white"
    # Without a page around it there is no current colour.
    return write(json.loads(json.dumps(spec).replace("currentColor", "black")))


def percentile_cell(histogram, percent):
    """Microseconds, or a dash where too few answers lie above."""
    if not data.has_answers_above(histogram.count, percent):
        return "–"
    return f"{histogram.percentile(percent) / 1e3:,.1f}"


def element(tag, content, css=""):
    return f"<{tag}{f' class={css}' if css else ''}>{content}</{tag}>"


def table(caption, head, rows, note=""):
    """Cells are texts; the first of a row names it."""
    lines = [element("caption", html.escape(caption) + (
        element("small", " " + html.escape(note)) if note else ""))]
    if head:
        lines.append(element("tr", "".join(
            element("th", html.escape(cell)) for cell in head)))
    for css, *cells in rows:
        first, *others = (html.escape(str(cell)) for cell in cells)
        lines.append(element("tr", element("th", first) + "".join(
            element("td", cell) for cell in others), css))
    css = "numbers" if head else "words"
    return element("div", element("table", "".join(lines)), css)


def key_figures(report):
    """Tiles: the headline run at a glance."""
    run = report["runs"][report["headline"]]
    values = data.latency(run)
    tiles = [("answers/s", f"{run['answers_per_second']:,.0f}")]
    if "tokens_per_second" in run:
        tiles.append(("tokens/s", f"{run['tokens_per_second']:,.1f}"))
    if "client_tokens_per_second" in run and run["concurrency"] > 1:
        tiles.append(("tokens/s a client",
                      f"{run['client_tokens_per_second']:,.2f}"))
    if "token_ms" in run:
        tiles.append(("ms a token", f"{run['token_ms']:,.3f}"))
    tiles.append(("rows/s", f"{run['rows_per_second']:,.0f}"))
    for name, percent in report_charts.PERCENTILES.items():
        if data.has_answers_above(values.count, percent):
            us = values.percentile(percent) / 1e3
            tiles.append((name, report_charts.time_text(us)))
    tiles.append(("errors", f"{run['error_count']:,}"))
    return element("dl", "".join(
        element("div", element("dt", name) + element("dd", value))
        for name, value in tiles))


def sentence(report):
    """The load and the machine, in words."""
    run = report["runs"][report["headline"]]
    if data.is_open(run):
        load = (f"Open arrivals ({report['options'].get('arrivals', '')}), "
                f"{run['asked_rate']:,.6g} requests/s")
    else:
        load = f"Closed loop, {run['concurrency']} in flight"
    classes = ", ".join(each["name"] for each in run["classes"])
    server = report["environment"]["server"]
    several = (f"; figures of {run['label']}, one of {len(report['runs'])} runs"
               if len(report["runs"]) > 1 else "")
    return (f"{load}, {classes}, {report['weights']['text']}, "
            f"{run['due_time_s']:,.3g} s, {report['environment']['transport']}"
            f", {server['device']} ({server['backend']}){several}.")


def runs_table(report):
    found = data.knee(report)
    rows = []
    for i, run in enumerate(report["runs"]):
        reasons = data.failures(report, run)
        reasons += [f"SLO {name} missed"
                    for name in data.missed_bounds(report, run)]
        values = data.latency(run)
        rows.append((
            "bad" if reasons else "mark" if i == found else "",
            run["label"] + (" · knee" if i == found else ""),
            f"{run['asked_rate']:,.0f}" if data.is_open(run) else "–",
            f"{run['answers_per_second']:,.0f}",
            f"{run['rows_per_second']:,.0f}",
            *(percentile_cell(values, percent)
              for percent in report_charts.PERCENTILES.values()),
            f"{run['error_count']:,}",
            f"{run['server']['launch_rows']['mean']:.2f}",
            f"{run['lag_us']['p99']:,.0f}" if data.is_open(run) else "–",
            ", ".join(reasons) or "held"))
    return table("All runs", [
        "", "asked/s", "answers/s", "rows/s", *report_charts.PERCENTILES,
        "errors", "rows/launch", "lag p99", ""], rows,
        f"times in {report_charts.US}")


def latency_table(run):
    parts = [("from the intended start", data.latency(run))]
    if data.is_open(run):
        parts.append(("from the send", data.send_latency(run)))
    if len(run["classes"]) > 1:
        parts += [(each["name"], data.Histogram([each["latency_ns"]]))
                  for each in run["classes"]]
    parts += [(f"until {code}", data.Histogram([tally["latency"]["ns"]]))
              for code, tally in run["errors"].items() if "latency" in tally]
    rows = [("", name, f"{values.count:,}", f"{values.mean() / 1e3:,.1f}",
             *(percentile_cell(values, percent)
               for percent in (50, 90, 99, 99.9, 99.99)),
             f"{values.max / 1e3:,.1f}") for name, values in parts]
    return table("Latency", ["", "count", "mean", "p50", "p90", "p99", "p99.9",
                             "p99.99", "max"], rows,
                 f"{report_charts.US}; a dash: fewer than "
                 f"{data.MIN_ANSWERS_ABOVE} answers above")


def stage_table(run):
    server = run["server"]
    fields = {"queue": "queue_us", "to the device": "host_to_device_us",
              "kernel": "kernel_us", "from the device": "device_to_host_us"}
    rows = []
    for name, mean in report_charts.stage_means(run):
        summary = server.get(fields.get(name))
        rows.append(("", name, f"{mean:,.2f}", *(
            f"{summary[each]:,.2f}" if summary else "" for each in (
                "p50", "p99"))))
    return table("Stages of a request", ["", "mean", "p50", "p99"], rows,
                 report_charts.US)


def count_table(run):
    rows = [("", name, f"{run[field]:,}") for name, field in (
        ("due", "due"), ("sent", "sent"), ("answers", "answers"),
        ("answers in the warm-up", "warmup_answers"),
        ("deadline expired", "expired"), ("cancelled", "cancelled"),
        ("disconnected", "disconnected"), ("uploads", "uploads"))
        if run[field] or field in ("due", "sent", "answers")]
    rows += [("bad", code, f"{tally['count']:,} {tally['first_message']}")
             for code, tally in run["errors"].items()]
    for side in ("client", "server"):
        if run[f"{side}_cpu_s"]:
            us = run[f"{side}_cpu_us_an_answer"]
            rows.append(("", f"{side} processor time per answer",
                         report_charts.time_text(us)))
    return table("Counts and costs", [], rows)


def baseline_table(report):
    baseline = report["baseline"]
    rows = [("", name, f"{baseline[field]['p50']:,.1f}",
             f"{baseline[field]['p99']:,.1f}") for name, field in (
                 ("echo", "echo_us"), ("device", "device_us"),
                 ("round trip", "gemm_us"))]
    if baseline["overhead_us"] is not None:
        rows.insert(2, ("", "service", f"{baseline['overhead_us']:,.1f}", ""))
    rate = baseline.get("echo_rate")
    if rate:
        run = report["runs"][report["headline"]]
        rows.append(("", f"echoes/s of {rate['clients']} clients",
                     f"{rate['per_second']:,.0f}", ""))
        if rate["per_second"]:
            share = run["answers_per_second"] / rate["per_second"]
            rows.append(("", "answers, of as many echoes", f"{share:.1%}", ""))
    return table("Baseline", ["", "p50", "p99"], rows,
                 f"{report_charts.US}; {baseline['bytes_out']:,} bytes out, "
                 f"{baseline['bytes_back']:,} back, one in flight")


def verify_table(report):
    verify = report["verify"]
    wrong = verify["status"]["code"] != "OK"
    found = verify["status"]["message"] if wrong else "nothing wrong"
    tolerance = verify["worst_tolerance_used"]
    return table("Answers checked", [], [
        ("bad" if wrong else "", "found", found),
        ("", "compared bit by bit", f"{verify['answers_compared']:,}"),
        ("", "with other bits", f"{verify['answers_different']:,}"),
        ("", "elements against fp64", f"{verify['elements_checked']:,}"),
        ("", "largest error / tolerance",
         "–" if tolerance is None else f"{tolerance:.3f}")], verify["mode"])


def machine_table(report):
    environment, weights = report["environment"], report["weights"]
    server = environment["server"]
    rows = [("started", report["started_at"]),
            ("load test", environment["version"]),
            ("server", server["version"]), ("backend", server["backend"]),
            ("device", server["device"]), ("", server["device_detail"]),
            ("parallelism", server["parallelism"]),
            ("transport", environment["transport"]),
            ("client", environment["client_cpu"]),
            ("client threads", environment["client_cpus"]),
            ("system", environment["client_system"]),
            ("layers", f"{weights['layers']:,}"),
            ("resident", f"{weights['resident_bytes']:,} bytes")]
    return table("Machine", [], [("", *row) for row in rows
                                 if row[1] not in ("", 0)])


def option_tables(report):
    options = [option for option in data.ordered_options(report)
               if option[0] not in data.OUTPUT_OPTIONS]
    changed = [("", f"--{name}", value) for name, value, is_changed in options
               if is_changed]
    others = [("", f"--{name}", value) for name, value, is_changed in options
              if not is_changed]
    return (table("Flags", [], changed, "that differ from their defaults")
            + element("details", element("summary", "Flags at their defaults")
                      + table("", [], others)))


def page(report):
    """The whole page as text."""
    title = html.escape(report["title"] or "Load test")
    passed = report["exit_code"] == 0
    parts = [element("h1", title + " " + element(
        "span", html.escape(report["verdict"]), "good" if passed else "bad"))]
    charts = charts_of(report)
    if report["runs"]:
        run = report["runs"][report["headline"]]
        parts += [element("p", html.escape(sentence(report))),
                  key_figures(report)]
    else:
        parts.append(element("p", "Nothing ran."))
    parts += [element("p", html.escape(finding["message"]), "bad")
              for finding in report["findings"]]
    parts.append('<div class="charts">')
    for i, chart in enumerate(charts):
        parts.append(element("figure", element(
            "figcaption", element("b", html.escape(chart.title)) + " "
            + html.escape(chart.note)) + f'<div id="chart{i}"></div>'))
    parts.append("</div>")
    if len(report["runs"]) > 1:
        parts.append(runs_table(report))
    parts += ['<div class="tables">', option_tables(report)]
    if report["runs"]:
        parts += [latency_table(run), stage_table(run), count_table(run)]
    if "baseline" in report:
        parts.append(baseline_table(report))
    parts += [verify_table(report), machine_table(report), "</div>",
              element("p", "Again: " + element(
                  "code", html.escape(report["command"])))]
    specs = json.dumps([full_spec(chart, "container") for chart in charts],
                       separators=(",", ":")).replace("</", "<\\/")
    template = (HERE / "report_page.html").read_text(encoding="utf-8")
    library = vl_convert.javascript_bundle().replace("</script", "<\\/script")
    for name, text in (("TITLE", title), ("BODY", "\n".join(parts)),
                       ("SPECS", specs), ("LIBRARY", library)):
        template = template.replace(f"@{name}@", text, 1)
    return template


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("report", type=pathlib.Path)
    for name in ("html", "svg", "png"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        report = data.load(arguments.report)
    except data.ReportError as error:
        sys.exit(f"render_report: {error}")
    if not (arguments.html or arguments.svg or arguments.png):
        arguments.html = arguments.report.with_suffix(".html")
    if arguments.html:
        arguments.html.write_text(page(report), encoding="utf-8")
    if (arguments.svg or arguments.png) and not report["runs"]:
        sys.exit("render_report: nothing ran: there is no chart")
    if arguments.svg:
        arguments.svg.write_text(picture(charts_of(report)[0],
                                         vl_convert.vegalite_to_svg))
    if arguments.png:
        arguments.png.write_bytes(picture(charts_of(report)[0],
                                          vl_convert.vegalite_to_png))


if __name__ == "__main__":
    main()
