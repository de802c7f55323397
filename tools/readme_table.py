#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes README's table of measured figures from bench/results/cpu.json.

Usage: readme_table.py [--check]. Replaces the lines between the two markers
in README.md; with --check it changes nothing and exits 1 if they differ.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN = "<!-- table: bench/results/cpu.json by tools/readme_table.py -->"
END = "<!-- end of table -->"
ROWS = (1, 16)  # M


def table_lines(report):
    """The Markdown lines for one kernel_bench report."""
    by_layer = {}
    for result in report["results"]:
        if result["dtype"] != "fp16" or result["m"] not in ROWS:
            continue
        layer = (result["k"], result["n"], result["format"], result["mode"])
        by_layer.setdefault(layer, {})[result["m"]] = result
    yield (f"{report['device']}, {report['threads']} threads, "
           f"{report['isa']}, fp16; read roof {report['roof_gbps']:.1f} GB/s. "
           "Microseconds a GEMM, and the share of the roof at M = 1:")
    yield ""
    yield ("| layer K×N | format | " +
           " | ".join(f"M = {m}" for m in ROWS) + " | of roof |")
    yield "|---|---|" + "---|" * (len(ROWS) + 1)
    for (k, n, name, mode), results in by_layer.items():
        if 1 not in results:
            continue
        times = " | ".join(
            f"{results[m]['us']:,.0f}" if m in results else "–" for m in ROWS)
        share = 100 * results[1]["roof_fraction"]
        label = name if mode == "A16" else f"{name} {mode}"
        yield f"| {k}×{n} | {label} | {times} | {share:.0f} % |"


def main():
    report = json.loads(
        (ROOT / "bench/results/cpu.json").read_text(encoding="utf-8"))
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN, 1)
    _, tail = rest.split(END, 1)
    table = "\n".join(table_lines(report))
    renewed = f"{head}{BEGIN}\n{table}\n{END}{tail}"
    if "--check" in sys.argv[1:]:
        if renewed != text:
            print("README.md's table differs from bench/results/cpu.json; "
                  "run tools/readme_table.py")
            return 1
        return 0
    readme.write_text(renewed, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
