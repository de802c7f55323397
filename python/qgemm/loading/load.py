# SPDX-License-Identifier: Apache-2.0
"""Loads a whole checkpoint onto a server: layers in parallel, memory bounded."""

from __future__ import annotations

import concurrent.futures
import os
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from qgemm.loading.checkpoint import Checkpoint, open_checkpoint
from qgemm.loading.plan import Entry, FormatLike, Options, Plan, make_plan
from qgemm.loading.sources import CheckpointError

DEFAULT_JOBS = 4
DEFAULT_MEMORY_BYTES = 1 << 30
# Called after each layer: its name, layers that are done, layers in all.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class LoadedModel:
    """What a checkpoint became on a server."""
    layers: Mapping[str, Any]  # WeightsInfo by name on the server
    skipped: Mapping[str, str] = field(default_factory=dict)  # tensor: reason
    deduplicated: int = 0      # layers whose bytes the server had already
    flushed_blocks: int = 0    # blocks whose scale was rounded to zero

    @property
    def resident_bytes(self) -> int:
        """Bytes that the layers take on the server, each once."""
        return sum({info.id: info.resident_bytes
                    for info in self.layers.values()}.values())


def plan_model(path: Union[str, os.PathLike[str], Checkpoint],
               **options: Any) -> Plan:
    """What `load_model` with the same options would do; needs no server."""
    checkpoint = path if isinstance(path, Checkpoint) else open_checkpoint(path)
    return make_plan(checkpoint, Options(**options))


def load_model(client: Any, path: Union[str, os.PathLike[str], Checkpoint], *,
               format: Optional[FormatLike] = None,
               formats: Optional[Mapping[str, FormatLike]] = None,
               include: Sequence[str] = (), exclude: Sequence[str] = (),
               rename: Sequence[tuple[str, str]] = (), prefix: str = "",
               jobs: int = DEFAULT_JOBS,
               memory_bytes: int = DEFAULT_MEMORY_BYTES,
               progress: Optional[Progress] = None,
               resume: bool = False) -> LoadedModel:
    """Loads every layer of a safetensors or GGUF file or a Hugging Face
    directory; plan.Options says what the options mean (docs/models.md).

    `jobs` uploads run at a time; what they decode takes `memory_bytes`, or one
    layer if that is more. Layers that the server has already are not sent again,
    so that a call which was cut off is repeated to go on; with `resume` neither are
    the parts of layers that it has come to.

    Raises CheckpointError, before anything is uploaded, if a tensor cannot be
    loaded, with all of them; exclude those to load the others.
    """
    plan = plan_model(path, format=format, formats=formats or {},
                      include=include, exclude=exclude, rename=rename,
                      prefix=prefix)
    raise_errors(plan)
    results = _upload_all(client, plan.entries, jobs, memory_bytes, progress, resume)
    return LoadedModel(
        {name: result.weights for name, result in results.items()},
        plan.skipped, sum(r.deduplicated for r in results.values()),
        sum(r.flushed_blocks for r in results.values()))


def raise_errors(plan: Plan) -> None:
    """Raises CheckpointError with all of the plan's errors, if it has any."""
    if not plan.errors:
        return
    lines = [f"  {name}: {text}" for name, text in plan.errors.items()]
    raise CheckpointError(
        f"{len(lines)} tensors cannot be loaded (exclude them, or give them "
        "another format):\n" + "\n".join(lines))


class _MemoryBudget:
    """Lends bytes; more than there are, to one borrower alone."""

    def __init__(self, limit: int):
        self._limit = limit
        self._lent = 0
        self._changed = threading.Condition()

    def borrow(self, count: int) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._lent == 0 or self._lent + count <= self._limit)
            self._lent += count

    def give_back(self, count: int) -> None:
        with self._changed:
            self._lent -= count
            self._changed.notify_all()


def _upload_all(client: Any, entries: Sequence[Entry], jobs: int,
                memory_bytes: int, progress: Optional[Progress], resume: bool
                ) -> dict[str, Any]:
    """LoadResult by name. The first failure is raised once what runs is over;
    uploads that have not begun are dropped then."""
    budget = _MemoryBudget(memory_bytes)

    def upload(entry: Entry) -> Any:
        budget.borrow(entry.scratch_bytes)
        try:
            spec, sections = entry.layer.encode(entry.target)
            return client.load_packed(entry.name, spec, sections, resume=resume)
        finally:
            budget.give_back(entry.scratch_bytes)

    results: dict[str, Any] = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        names = {pool.submit(upload, entry): entry.name for entry in entries}
        try:
            for future in concurrent.futures.as_completed(names):
                results[names[future]] = future.result()
                if progress is not None:
                    progress(names[future], len(results), len(entries))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {entry.name: results[entry.name] for entry in entries}
