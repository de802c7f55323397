# SPDX-License-Identifier: Apache-2.0
"""Rate of load_model beside that of qgemm_loadtest's own upload, for the same layers.

Makes a safetensors file of two blocks of Llama-3-8B's widths in fp16 (916 MB, random
bits of normal size), and loads it in turns with the load test, each time onto a new
server: as it is, and in kbit4. Prints bytes of fp16 weights a second. The load test
makes its weights, and quantizes them, in the time that is counted; the package reads
its file, and the server quantizes.

Usage: python load_rate.py LOADTEST_BINARY [SERVER_BINARY]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import qgemm

TURNS, BLOCKS = 3, 2
HIDDEN, INNER, KV = 4096, 14336, 1024
SHAPES = {  # [n, k]
    "self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (KV, HIDDEN),
    "self_attn.v_proj": (KV, HIDDEN), "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER)}
BYTES = BLOCKS * sum(2 * n * k for n, k in SHAPES.values())


def write_checkpoint(path):
    header, at = {}, 0
    for block in range(BLOCKS):
        for name, (n, k) in SHAPES.items():
            header[f"model.layers.{block}.{name}.weight"] = {
                "dtype": "F16", "shape": [n, k], "data_offsets": [at, at + 2 * n * k]}
            at += 2 * n * k
    text = json.dumps(header).encode()
    random = np.random.default_rng(1)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for entry in header.values():
            file.write(random.standard_normal(entry["shape"], np.float32).astype("<f2"))


def load(server, path, format):
    with server.connect() as client:
        qgemm.load_model(client, path, format=format)


def load_test(binary, server, format):
    shapes = ",".join(f"{k}x{n}" for n, k in SHAPES.values())
    subprocess.run(
        [binary, f"--server={server.address}", f"--synthetic={shapes}",
         f"--layers={BLOCKS}", f"--format={format}", "--warmup=0s", "--duration=1ms",
         "--verify=none", "--teardown=false"], check=True, stdout=subprocess.DEVNULL)


def main():
    loadtest, binary = sys.argv[1], (sys.argv[2:] + [None])[0]
    print("format  package MB/s  load test MB/s  ratio")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        write_checkpoint(path)
        for format, name in ((None, "fp16"), ("kbit4", "kbit4")):
            rates = [], []
            for _ in range(TURNS):
                for found, upload in zip(rates, (
                        lambda server: load(server, path, format),
                        lambda server: load_test(loadtest, server, name))):
                    with qgemm.serve("--backend=cpu", binary=binary) as server:
                        start = time.perf_counter()
                        upload(server)
                        found.append(BYTES / (time.perf_counter() - start) / 1e6)
            ours, theirs = map(statistics.median, rates)
            print(f"{name:<7} {ours:<13.0f} {theirs:<15.0f} {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
