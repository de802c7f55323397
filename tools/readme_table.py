#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes README's tables of measured figures from bench/results/.

Usage: readme_table.py [--check]. Replaces the lines between each pair of
markers in README.md; with --check it changes nothing and exits 1 if they
differ. A report that is absent, or that README has no markers for, is passed
over.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN = "<!-- table: {} by tools/readme_table.py -->"
END = "<!-- end of table -->"
CPU_ROWS = (1, 16)  # M
GPU_ROWS = (1, 16, 32, 64)
GPU_MANY_ROWS = (128, 256, 512, 1024, 4096)
GATE_UP_70B = (8192, 28672)  # K, N


def cpu_lines(report):
    """The Markdown lines for a processor's report."""
    by_layer = {}
    for result in report["results"]:
        if result["dtype"] != "fp16" or result["m"] not in CPU_ROWS:
            continue
        layer = (result["k"], result["n"], result["format"], result["mode"])
        by_layer.setdefault(layer, {})[result["m"]] = result
    yield (f"{report['device']}, {report['threads']} threads, "
           f"{report['isa']}, fp16; read roof {report['roof_gbps']:.1f} GB/s. "
           "Microseconds a GEMM, and the share of the roof at M = 1:")
    yield ""
    yield ("| layer K×N | format | " +
           " | ".join(f"M = {m}" for m in CPU_ROWS) + " | of roof |")
    yield "|---|---|" + "---|" * (len(CPU_ROWS) + 1)
    for (k, n, name, mode), results in by_layer.items():
        if 1 not in results:
            continue
        times = " | ".join(
            f"{results[m]['us']:,.0f}" if m in results else "–"
            for m in CPU_ROWS)
        share = 100 * results[1]["roof_fraction"]
        label = name if mode == "A16" else f"{name} {mode}"
        yield f"| {k}×{n} | {label} | {times} | {share:.0f} % |"


def gpu_cell(result):
    """Time, share of the roof, times cuBLAS."""
    if result is None:
        return "–"
    cell = f"{result['us']:,.1f} · {100 * result['roof_fraction']:.0f} %"
    if "speedup_vs_cublas" in result:
        cell += f" · {result['speedup_vs_cublas']:.1f}×"
    return cell


def many_rows_cell(result):
    """Time, times cuBLAS, times dequantizing and cuBLAS."""
    if result is None:
        return "–"
    cell = f"{result['us']:,.1f}"
    for yardstick in ("cublas_us", "dequant_cublas_us"):
        if yardstick in result:
            cell += f" · {result[yardstick] / result['us']:.2f}×"
    return cell


def gpu_table(head, rows, of_m, cell):
    """A table of (label, {M: result}), without the Ms that nobody has."""
    present = [m for m in of_m if any(m in cells for _, cells in rows)]
    yield f"| {head} | " + " | ".join(f"M = {m}" for m in present) + " |"
    yield "|---|" + "---|" * len(present)
    for label, cells in rows:
        yield (f"| {label} | " +
               " | ".join(cell(cells.get(m)) for m in present) + " |")


def gpu_lines(report):
    """The Markdown lines for a GPU's report."""
    layers = {}
    formats = {}
    for result in report["results"]:
        if result["dtype"] != "fp16" or result["mode"] != "A16":
            continue
        layer = (result["k"], result["n"])
        if result["format"] == "kbit4":
            layers.setdefault(layer, {})[result["m"]] = result
        elif layer == GATE_UP_70B:
            formats.setdefault(result["format"], {})[result["m"]] = result
    yield (f"{report['device']}, fp16; read roof {report['roof_gbps']:,.0f} "
           "GB/s. Microseconds a GEMM, the share of the roof, and times as "
           "fast as cuBLAS in fp16. kbit4:")
    yield ""
    labelled = [(f"{k}×{n}", cells) for (k, n), cells in layers.items()]
    yield from gpu_table("layer K×N", labelled, GPU_ROWS, gpu_cell)
    yield ""
    yield ("kbit4 with many rows: microseconds, times as fast as cuBLAS in "
           "fp16, and as dequantizing the layer and cuBLAS:")
    yield ""
    yield from gpu_table("layer K×N", labelled, GPU_MANY_ROWS, many_rows_cell)
    if formats:
        yield ""
        yield "The other formats at {}×{}:".format(*GATE_UP_70B)
        yield ""
        yield from gpu_table("format", list(formats.items()), GPU_ROWS,
                             gpu_cell)


TABLES = (
    ("bench/results/cpu.json", cpu_lines),
    ("bench/results/h100.json", gpu_lines),
)


def renewed(text, source, lines):
    """The text with one table made anew."""
    begin = BEGIN.format(source)
    path = ROOT / source
    if begin not in text or not path.exists():
        return text
    report = json.loads(path.read_text(encoding="utf-8"))
    head, rest = text.split(begin, 1)
    _, tail = rest.split(END, 1)
    table = "\n".join(lines(report))
    return f"{head}{begin}\n{table}\n{END}{tail}"


def main():
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    fresh = text
    for source, lines in TABLES:
        fresh = renewed(fresh, source, lines)
    if "--check" in sys.argv[1:]:
        if fresh != text:
            print("README.md's tables differ from bench/results; "
                  "run tools/readme_table.py")
            return 1
        return 0
    readme.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
