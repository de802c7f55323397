# SPDX-License-Identifier: Apache-2.0
"""Charts of one run of a load test as Vega-Lite specifications, and the parts
that report_sweep_charts.py shares.

Every quantity has one colour in all charts. Percentiles appear only where
enough answers lie above them. Colours stand out on white and on black; text
has the colour of the page around it.
"""

import collections
import math

import report_data as data

# `spec` has no size or theme; render_report.py adds them.
Chart = collections.namedtuple("Chart", "title note height spec")

COLOURS = {
    "p50": "#159b84", "p99": "#e0821b", "p99.9": "#e0443e",
    "max": "#8d8d99", "answers/s": "#2f7ef0", "errors/s": "#d6249f",
    "asked": "#a89984", "in flight": "#6b7fa3", "rows per launch": "#a0622d",
    "client CPU": "#3fa7d6", "server CPU": "#5b8c5a",
    "from the intended start": "#2457c5", "from the send": "#00a6c8",
    "queue": "#c9a227", "to the device": "#4fc3c7", "kernel": "#5661d6",
    "from the device": "#6fb3e0", "server, other": "#b2749c",
    "transport and client": "#9a9a8c", "echo": "#8aa05c",
    "device": "#4b74b8", "service": "#ef7f6d", "SLO": "#b96ad9",
}
# Classes of requests, in the order of the report.
CLASS_COLOURS = ["#c08a2b", "#0e9f6e", "#d2604c", "#7f8c9d", "#8a7a2b",
                 "#c86fa0"]
PERCENTILES = {"p50": 50, "p99": 99, "p99.9": 99.9}
US = "µs"
# Labels of an axis: "16,000", never "1.6e+4" or "16k".
NUMBERS = {"labelExpr": "format(datum.value, ',.9~r')"}
ZOOM = {"name": "zoom", "bind": "scales", "select": {
    "type": "interval", "encodings": ["x"],
    # A finger scrolls the page and a plain wheel does, too.
    "translate": "[pointerdown[event.pointerType === 'mouse'],"
                 " window:pointerup] > window:pointermove!",
    "zoom": "wheel![event.ctrlKey || event.shiftKey]"}}
# Square pixels about a point that show its figures.
HOVER_AREA = 240
HOVER = {"name": "hover", "select": {
    "type": "point", "on": "pointerover", "clear": "pointerout"}}


def colour(names, title=None):
    """Encoding of the field "quantity" by its constant colours."""
    return {"field": "quantity", "type": "nominal", "title": title,
            "scale": {"domain": list(names),
                      "range": [COLOURS[name] for name in names]}}


def tooltip(*fields):
    """(field, title, format) of each line; a format of "" is for text."""
    return [{"field": field, "title": title,
             **({"type": "quantitative", "format": form} if form else
                {"type": "nominal"})}
            for field, title, form in fields]


def figure_hint(y, form=",.1f"):
    """The line of a tooltip that tells the value on axis `y`."""
    unit = f", {US}" if y["title"] == "latency" else ""
    return (y["field"], y["title"] + unit, form)


def _lines(rows, encoding, hints):
    """Lines with a point where the pointer is; drag and wheel zoom."""
    return [
        {"data": {"values": rows}, "mark": {"type": "line", "strokeWidth": 1.8},
         "encoding": encoding, "params": [ZOOM]},
        {"data": {"values": rows},
         "mark": {"type": "point", "filled": True, "size": HOVER_AREA},
         "encoding": {**encoding, "tooltip": hints,
                      "opacity": {"condition": {"param": "hover",
                                                "empty": False, "value": 0.6},
                                  "value": 0}},
         "params": [HOVER]}]


def time_text(us):
    """Three digits: "81.3 µs", "1.25 ms"."""
    for unit, scale in ((US, 1), ("ms", 1e3), ("s", 1e6)):
        if abs(us) < 999.5 * scale:
            return f"{us / scale:.3g} {unit}"
    return f"{us / 1e6:,.0f} s"


def log_ticks(low, high):
    """Round values between the two: at least three, as few as that allows."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = []
    for digits in ((1,), (1, 2, 5), (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8),
                   [1 + step / 10 for step in range(90)]):
        ticks = [digit * 10.0 ** power for power in powers for digit in digits
                 if low <= digit * 10.0 ** power <= high]
        if len(ticks) >= 3:
            break
    return ticks


def latency_axis(values, field="us"):
    """A logarithmic axis with room around the values, which are in µs."""
    low, high = min(values, default=1) / 1.2, max(values, default=1) * 1.3
    ticks = log_ticks(low, high)
    return {"field": field, "type": "quantitative", "title": "latency",
            "scale": {"type": "log", "nice": False, "domain": [low, high]},
            "axis": {"values": ticks, "labelExpr":
                     "datum.value < 1e3 ? format(datum.value, '~r') + ' µs' : "
                     "datum.value < 1e6 ? format(datum.value / 1e3, '~r') + "
                     "' ms' : format(datum.value / 1e6, '~r') + ' s'"}}


def _spectrum_rows(name, histogram):
    """Latency by percentile, as far as MIN_ANSWERS_ABOVE allow; eight levels
    each time that the distance to 100 % halves."""
    rows = []
    level = 0
    while True:
        above = 2 ** (-level / 8)
        percent = 100 * (1 - above)
        if not data.has_answers_above(histogram.count, percent):
            return rows
        rows.append({"quantity": name, "times": 1 / above, "percent": percent,
                     "us": max(histogram.percentile(percent), 1) / 1e3})
        level += 1


def spectrum(report, run):
    """Latency by percentile, each class by itself if there are several: one
    chart, or none of too few answers."""
    names = {"from the intended start": data.latency(run)}
    if data.is_open(run):
        names["from the send"] = data.send_latency(run)
    colours = [COLOURS[name] for name in names]
    if len(run["classes"]) > 1:
        for each, own in zip(run["classes"], CLASS_COLOURS):
            names[each["name"]] = data.Histogram([each["latency_ns"]])
            colours.append(own)
    rows = [row for name, values in names.items()
            for row in _spectrum_rows(name, values)]
    if not rows:
        return []
    x = {"field": "times", "type": "quantitative", "title": "percentile",
         "scale": {"type": "log", "nice": False},
         "axis": {"values": [1, 2, 10, 100, 1000, 1e4, 1e5, 1e6],
                  "labelExpr": "datum.value == 1 ? '0' : "
                               "format(100 - 100 / datum.value, '.6~f')"}}
    by_name = {"field": "quantity", "type": "nominal", "title": None,
               "scale": {"domain": list(names), "range": colours}}
    bounds = [{"times": 100 / (100 - bound.percent),
               "us": bound.limit_ns / 1e3, "text": f"SLO {bound.name}"}
              for bound in data.slo_bounds(report)
              if bound.percent < 100 and not math.isinf(bound.limit_ns)]
    y = latency_axis([row["us"] for row in rows + bounds])
    layers = _lines(
        rows, {"x": x, "y": y, "color": by_name},
        tooltip(("quantity", "answers", ""), ("percent", "percentile", ".4~f"),
                figure_hint(y)))
    if bounds:
        at = {"x": x, "y": y}
        layers += [
            {"data": {"values": bounds}, "encoding": at,
             "mark": {"type": "point", "shape": "triangle-down", "size": 90,
                      "filled": True, "color": COLOURS["SLO"]}},
            {"data": {"values": bounds},
             "encoding": {**at, "text": {"field": "text"}},
             "mark": {"type": "text", "dx": -9, "align": "right",
                      "color": COLOURS["SLO"]}}]
    note = ("The last point has at least "
            f"{data.MIN_ANSWERS_ABOVE} answers above it.")
    return [Chart("Latency by percentile", note, 220, {"layer": layers})]


def _course(title, note, rows, names, y, height=150):
    x = {"field": "s", "type": "quantitative",
         "title": "seconds since the measurement began",
         "scale": {"nice": False}}
    layers = _lines(rows, {"x": x, "y": y, "color": colour(names)},
                    tooltip(("quantity", "", ""), ("s", "second", ",.2f"),
                            figure_hint(y)))
    return Chart(title, note, height, {"layer": layers})


def courses(run):
    """The run over time: throughput, latency, load."""
    points = [point for point in run["series"] if point["length_s"] > 0]
    if len(points) < 2:
        return []

    def rows(quantity, field, value):
        return [{"quantity": quantity, "s": point["start_s"], field: each}
                for point in points for each in [value(point)]
                if each is not None]

    def supported(field, percent):
        return lambda point: (
            max(point[field], 1) / 1e3
            if data.has_answers_above(point["answers"], percent) else None)

    plain = {"type": "quantitative", "axis": {"tickCount": 4, **NUMBERS}}
    rates = {"answers/s": lambda point: point["answers"] / point["length_s"]}
    if any(point["errors"] for point in points):
        rates["errors/s"] = lambda point: point["errors"] / point["length_s"]
    times = {"p50": supported("p50_ns", 50), "p99": supported("p99_ns", 99),
             "max": lambda point: point["max_ns"] / 1e3 or None}
    loads = {"in flight": lambda point: point["in_flight"],
             "rows per launch": lambda point: point["launch_rows"]}

    def of(quantities, field):
        found = {name: rows(name, field, value)
                 for name, value in quantities.items()}
        found = {name: values for name, values in found.items() if values}
        return list(found), [row for each in found.values() for row in each]

    charts = []
    for title, note, quantities, y in (
            ("Throughput over time", "", rates,
             {**plain, "field": "rate", "title": "per second"}),
            ("Latency over time",
             "Percentiles of intervals with enough answers above them.", times,
             None),
            ("Load over time", "", loads,
             {**plain, "field": "amount", "title": "requests, rows"})):
        names, values = of(quantities, y["field"] if y else "us")
        if not values:
            continue
        y = y or latency_axis([row["us"] for row in values])
        charts.append(_course(title, note, values, names, y))
    return charts


def waterfall(title, note, parts):
    """Parts of a whole, (name, µs), each from where the one before it ends."""
    rows = []
    for name, us in parts:
        start = rows[-1]["end"] if rows else 0
        rows.append({"quantity": name, "start": start, "us": us,
                     "end": start + us, "text": time_text(us)})
    names = [row["quantity"] for row in rows]
    end = max((row["end"] for row in rows), default=0)
    y = {"field": "quantity", "type": "nominal", "sort": None, "title": None,
         "axis": {"domain": False, "ticks": False, "labelLimit": 200}}
    x = {"field": "start", "type": "quantitative", "title": US,
         # Room for the text of the last part.
         "scale": {"domainMin": 0, "domainMax": (end or 1) * 1.2,
                   "nice": False},
         "axis": {"tickCount": 5}}
    return Chart(title, note, 34 * len(rows), {
        "data": {"values": rows}, "layer": [
            {"mark": {"type": "bar"},
             "encoding": {"x": x, "x2": {"field": "end"}, "y": y,
                          "color": {**colour(names), "legend": None},
                          "tooltip": tooltip(("quantity", "", ""),
                                             ("us", US, ",.2f"))}},
            {"mark": {"type": "text", "align": "left", "dx": 5,
                      "color": "currentColor"},
             "encoding": {"x": {**x, "field": "end"}, "y": y,
                          "text": {"field": "text"}}}]})


def stage_means(run):
    """(stage, mean µs) of a request from the send to the answer."""
    server = run["server"]
    parts = [(name, server[field]["mean"]) for name, field in (
        ("queue", "queue_us"), ("to the device", "host_to_device_us"),
        ("kernel", "kernel_us"), ("from the device", "device_to_host_us"))]
    total = server["total_us"]["mean"]
    parts.append(("server, other", total - sum(us for _, us in parts)))
    sent = data.send_latency(run).mean() / 1e3
    parts.append(("transport and client", sent - total))
    return parts


def stages(run):
    return waterfall("Where the time goes",
                     "Means, from the send to the answer.", stage_means(run))


def baseline(measured):
    """One request in flight: the echo, the device, the service itself."""
    parts = [("echo", measured["echo_us"]["p50"]),
             ("device", measured["device_us"]["p50"])]
    if measured["overhead_us"] is not None:
        parts.append(("service", measured["overhead_us"]))
    return waterfall("Baseline: one request in flight", "Medians.", parts)


def launches(run):
    """Shares of answers by the rows of the launch that made them."""
    buckets = run["server"]["launch_rows_histogram"]["buckets"]
    if len(buckets) < 2:
        return []
    count = sum(each for _, _, each in buckets)
    rows = [{"rows": lowest, "share": each / count, "quantity":
             "rows per launch"} for lowest, _, each in buckets]
    return [Chart("Rows per launch", "", 150, {
        "data": {"values": rows},
        "mark": {"type": "bar", "width": {"band": 0.9} if len(rows) < 90 else 1,
                 "color": COLOURS["rows per launch"]},
        "encoding": {
            "x": {"field": "rows",
                  "type": "ordinal" if len(rows) < 90 else "quantitative",
                  "title": "rows", "axis": {"labelAngle": 0,
                                            "labelOverlap": "greedy"}},
            "y": {"field": "share", "type": "quantitative",
                  "title": "share of answers", "axis": {"format": "%",
                                                        "tickCount": 4}},
            "tooltip": tooltip(("rows", "rows", ",d"),
                               ("share", "answers", ".1%"))}})]
