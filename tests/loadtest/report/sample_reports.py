# SPDX-License-Identifier: Apache-2.0
"""Reports for tests, with every field that the tools read."""

import collections

STAGES = ("queue", "host_to_device", "kernel", "device_to_host", "total")


def histogram(values):
    """JSON of a histogram with one value a bucket."""
    counts = sorted(collections.Counter(values).items())
    return {"min": counts[0][0] if counts else 0,
            "max": counts[-1][0] if counts else 0,
            "sum": float(sum(value * count for value, count in counts)),
            "buckets": [[value, value, count] for value, count in counts]}


def summary(values, unit=1):
    """JSON of a summary."""
    values = sorted(values) or [0]
    figures = {f"p{percent}": values[min(len(values) - 1, int(
        len(values) * percent / 100))] / unit for percent in (50, 90, 99)}
    return {"count": len(values), "mean": sum(values) / len(values) / unit,
            **figures, "max": values[-1] / unit}


def run(label="", rate=0, latencies=(1000,) * 2000, **others):
    """A run of a second whose answers took `latencies` nanoseconds, in ten
    blocks and ten intervals."""
    latencies = list(latencies)
    count = len(latencies)
    blocks = [latencies[i::10] for i in range(10)]
    server = {"launch_rows": summary([2]),
              "launch_rows_histogram": histogram([1] * count + [2] * count)}
    for stage in STAGES:
        server[f"{stage}_us"] = summary([100], 1000)
    return {
        "label": label, "interrupted": False, "asked_rate": float(rate),
        "concurrency": 4, "due_time_s": 1.0, "measured_s": 1.0,
        "client_cpu_s": 0.1, "server_cpu_s": 0.2,
        "client_cpu_us_an_answer": 10.0, "server_cpu_us_an_answer": 20.0,
        "answers_per_second": float(count), "rows_per_second": float(count),
        "due": count, "sent": count, "answers": count, "rows": count,
        "warmup_answers": 0, "expired": 0, "cancelled": 0, "disconnected": 0,
        "uploads": 0, "error_count": 0, "errors": {}, "lag_us": summary([0]),
        "classes": [{"name": "m=1", "m": 1,
                     "latency_ns": histogram(latencies),
                     "send_latency_ns": histogram(latencies)}],
        "server": server, "blocks_ns": [histogram(block) for block in blocks],
        "series": [{"start_s": i / 10, "length_s": 0.1,
                    "answers": len(block), "rows": len(block), "errors": 0,
                    "p50_ns": 1000, "p99_ns": 1000, "max_ns": 2000,
                    "in_flight": 4, "launch_rows": 2.0}
                   for i, block in enumerate(blocks)],
        **others}


def report(*runs, slo="", **options):
    """A report of these runs."""
    return {
        "schema": "qgemm.loadtest", "schema_version": 3, "title": "a </script>",
        "command": "qgemm_loadtest", "verdict": "passed", "exit_code": 0,
        "started_at": "2026-01-02T03:04:05+00:00", "findings": [],
        "options": {"allow_errors": "", "max_lag": "10ms", "slo": slo,
                    **options}, "changed_options": ["slo"],
        "environment": {
            "version": "0.1.0", "client_cpus": 2, "client_cpu": "c",
            "client_system": "s", "transport": "unix",
            "server": {"version": "0.1.0", "backend": "cpu", "device": "d",
                       "device_detail": "", "parallelism": 2}},
        "weights": {"text": "kbit4 64x64", "layers": 1, "resident_bytes": 1},
        "verify": {"mode": "none", "answers_compared": 0,
                   "answers_different": 0, "elements_checked": 0,
                   "worst_tolerance_used": None,
                   "status": {"code": "OK", "message": ""}},
        "headline": 0, "runs": list(runs)}


def sweep():
    """Three rates: one that holds p99=1us, one that misses it, one that fails
    altogether; the answers of none are enough for p99.9."""
    return report(
        run("rate=1000", 1000), run("rate=2000", 2000, [1000] * 990 + [5000]
                                    * 1010),
        run("rate=4000", 4000, errors={"UNAVAILABLE": {
            "count": 3, "first_message": "no"}}, error_count=3),
        slo="p99=1us", sweep="rate=1000,2000,4000")
