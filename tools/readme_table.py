#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of measured figures from bench/results/.

Usage: readme_table.py [--check]. Replaces the lines between each pair of
markers in README.md (a few layers) and docs/performance.md (all of them); with
--check it changes nothing and exits 1 if they differ. A report that is absent,
or that a document has no markers for, is passed over.
"""

import functools
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN = "<!-- table: {} by tools/readme_table.py -->"
END = "<!-- end of table -->"
CPU_ROWS = (1, 16)  # M
GPU_ROWS = (1, 16, 32, 64)
GPU_MANY_ROWS = (128, 256, 512, 1024, 4096)
GPU_MODE_ROWS = (1, 16, 64, 128, 512)
GATE_UP_70B = (8192, 28672)  # K, N
# README's: layers of Llama 3 70B and 8B; the other formats are in full only.
SHORT_LAYERS = (GATE_UP_70B, (4096, 14336), (14336, 4096), (4096, 4096))
SHORT_ROWS = (1, 16, 64, 256, 1024)
SHORT_CPU_LABELS = ("kbit2", "kbit4", "q4_0 A8", "dense")


def cpu_lines(report, accepts=lambda layer, label: True):
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
        label = name if mode == "A16" else f"{name} {mode}"
        if not accepts((k, n), label):
            continue
        times = " | ".join(
            f"{results[m]['us']:,.0f}" if m in results else "–"
            for m in CPU_ROWS)
        share = 100 * results[1]["roof_fraction"]
        yield f"| {k}×{n} | {label} | {times} | {share:.0f} % |"


def bound_cell(result):
    """Time, share of the nearer bound."""
    if result is None:
        return "–"
    return (f"{result['us']:,.0f} · {100 * result['bound_fraction']:.0f} % "
            f"{result['bound']}")


def cpu_bound_lines(name, report):
    """Times of one layer beside its bounds, for a report that has them."""
    by_label = {}
    dtypes = sorted({result["dtype"] for result in report["results"]})
    for result in report["results"]:
        label = result["format"]
        if result["mode"] != "A16":
            label += f" {result['mode']}"
        if len(dtypes) > 1:
            label += f" {result['dtype']}"
        by_label.setdefault(label, {})[result["m"]] = result
    first = report["results"][0]
    peaks = report["peaks"]
    bf16 = (f"bf16 {peaks['bf16_gflops']:.0f} GFLOP/s, "
            if peaks["bf16_gflops"] else "")
    yield (f"{report['device']} ({name}), {report['threads']} threads, "
           f"{report['isa']}, {first['k']}×{first['n']}, {' and '.join(dtypes)}; "
           f"read roof {report['roof_gbps']:.1f} GB/s, fp32 "
           f"{peaks['fp32_gflops']:.0f} GFLOP/s, {bf16}int8 "
           f"{peaks['int8_gops']:.0f} GOP/s. Microseconds a GEMM, and the "
           "share of the nearer of these bounds:")
    yield ""
    rows = sorted({result["m"] for result in report["results"]})
    yield from gpu_table("format", list(by_label.items()), rows, bound_cell)


def short_cpu_lines(report):
    return cpu_lines(report, lambda layer, label: (
        layer in SHORT_LAYERS[:2] and label in SHORT_CPU_LABELS))


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
    for baseline in ("cublas_us", "dequant_cublas_us"):
        if baseline in result:
            cell += f" · {result[baseline] / result['us']:.2f}×"
    return cell


def short_cell(result):
    """Time, times cuBLAS."""
    if result is None:
        return "–"
    return f"{result['us']:,.1f} · {result['cublas_us'] / result['us']:.2f}×"


def gpu_table(head, rows, of_m, cell):
    """A table of (label, {M: result}), without the Ms that nobody has."""
    present = [m for m in of_m if any(m in cells for _, cells in rows)]
    yield f"| {head} | " + " | ".join(f"M = {m}" for m in present) + " |"
    yield "|---|" + "---|" * len(present)
    for label, cells in rows:
        yield (f"| {label} | " +
               " | ".join(cell(cells.get(m)) for m in present) + " |")


def mode_cell(result):
    """Time, share of the roof, times cuBLAS in the mode's type."""
    if result is None:
        return "–"
    cublas = result.get("cublas_fp32_us", result.get("cublas_us"))
    return (f"{result['us']:,.1f} · {100 * result['roof_fraction']:.0f} % · "
            f"{cublas / result['us']:.1f}×")


def mode_lines(report):
    """Times of modes A8 in fp16 and A32, for a report that has them."""
    rows = {}
    for result in report["results"]:
        mode = result["mode"]
        if mode == "A16" or (mode == "A8" and result["dtype"] != "fp16"):
            continue
        label = f"{result['k']}×{result['n']} {result['format']} {mode}"
        rows.setdefault(label, {})[result["m"]] = result
    if not rows:
        return
    yield ""
    yield ("The other modes: microseconds with the preparation of activations, "
           "the share of the roof, and times as fast as cuBLAS, beside A8 in "
           "fp16, beside A32 in fp32:")
    yield ""
    yield from gpu_table("layer K×N, format, mode", list(rows.items()),
                         GPU_MODE_ROWS, mode_cell)


def gpu_layers(report):
    """The results in fp16: {(K, N): {M: kbit4's result}}, {format: {M: …}}."""
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
    return layers, formats


def gpu_lines(report):
    """The Markdown lines for a GPU's report."""
    layers, formats = gpu_layers(report)
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
    yield from mode_lines(report)


def short_gpu_lines(report):
    layers, _ = gpu_layers(report)
    yield (f"{report['device']}, kbit4, fp16; microseconds a GEMM, and times "
           "as fast as cuBLAS in fp16:")
    yield ""
    yield from gpu_table(
        "layer K×N",
        [(f"{k}×{n}", layers[k, n]) for k, n in SHORT_LAYERS],
        SHORT_ROWS, short_cell)


CPU_REPORT = "bench/results/cpu.json"
CPU_BOUND_REPORTS = (("bench/results/cpu-zen4-avx512.json", "Zen 4"),
                     ("bench/results/cpu-zen4-avx2.json", "Zen 4"),
                     ("bench/results/cpu-icelake-avx512.json", "Ice Lake"),
                     ("bench/results/cpu-icelake-avx2.json", "Ice Lake"),
                     ("bench/results/cpu-zen5-avx512bf16.json", "Zen 5"),
                     ("bench/results/cpu-zen5-avx512.json", "Zen 5"),
                     ("bench/results/cpu-zen5-avx2.json", "Zen 5"),
                     ("bench/results/cpu-xeon-amx.json", "with AMX"))
GPU_REPORTS = ("bench/results/h200.json", "bench/results/h100.json")
TABLES = (
    ("README.md", CPU_REPORT, short_cpu_lines),
    *(("README.md", report, short_gpu_lines) for report in GPU_REPORTS),
    ("docs/performance.md", CPU_REPORT, cpu_lines),
    *(("docs/performance.md", report, functools.partial(cpu_bound_lines, name))
      for report, name in CPU_BOUND_REPORTS),
    *(("docs/performance.md", report, gpu_lines) for report in GPU_REPORTS),
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
    check = "--check" in sys.argv[1:]
    differ = False
    for document in dict.fromkeys(document for document, _, _ in TABLES):
        path = ROOT / document
        text = path.read_text(encoding="utf-8")
        fresh = text
        for target, source, lines in TABLES:
            if target == document:
                fresh = renewed(fresh, source, lines)
        if fresh == text:
            continue
        if check:
            print(f"{document}'s tables differ from bench/results; "
                  "run tools/readme_table.py")
            differ = True
        else:
            path.write_text(fresh, encoding="utf-8")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
