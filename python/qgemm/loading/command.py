# SPDX-License-Identifier: Apache-2.0
"""The commands load-model and plan: options, and reports for readers."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from typing import Any, Optional, Sequence

from qgemm import Tls, client, errors
from qgemm.loading.checkpoint import open_checkpoint
from qgemm.loading.load import (DEFAULT_JOBS, DEFAULT_MEMORY_BYTES, LoadedModel,
                                load_model, plan_model, raise_errors)
from qgemm.loading.plan import Plan, target_label
from qgemm.loading.sources import CheckpointError

DEFAULT_SERVER = "127.0.0.1:50051"
SUFFIXES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9,
            "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
SHOWN_NAMES = 3  # of tensors skipped for one reason


def add_commands(commands: Any) -> None:
    """Adds both to what argparse's add_subparsers returned."""
    load = commands.add_parser(
        "load-model", help="loads a whole model onto a server",
        description="Loads every layer of a safetensors or GGUF file or a "
        "Hugging Face directory (docs/models.md).")
    plan = commands.add_parser(
        "plan", help="prints what load-model would do",
        description="Prints what load-model would load, and the bytes that it "
        "takes beside what the server has; without --server, files alone.")
    for command in (load, plan):
        _add_options(command)
    load.add_argument("--dry-run", action="store_true", help="the same as plan")
    load.add_argument("--jobs", type=_positive, default=DEFAULT_JOBS,
                      help="uploads at a time (default %(default)s)")
    load.add_argument("--memory", type=byte_count, default=DEFAULT_MEMORY_BYTES,
                      metavar="BYTES",
                      help="that decoding may take, as 512MiB (default 1GiB)")
    load.add_argument("--resume", action="store_true",
                      help="goes on within layers too, where a load that was cut off "
                      "came to; one that still runs ends")
    load.set_defaults(run=_load)
    plan.set_defaults(run=_plan)


def _add_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("path", metavar="PATH", help="a file or a directory")
    add("--format", action="append", default=[], metavar="[PATTERN=]FORMAT",
        help="kbit2 to kbit5, nf4, q4_0, ternary, int4, fp16, bf16 or keep; "
        "behind PATTERN= of the tensors that match, the last one counts")
    add("--include", action="append", default=[], metavar="PATTERN",
        help="tensors to load, as *.layers.0.*; default: all")
    add("--exclude", action="append", default=[], metavar="PATTERN")
    add("--rename", action="append", default=[], metavar="REGEX=REPLACEMENT",
        type=_pair, help="changes names of layers; several in turn")
    add("--prefix", default="", help="stands before each name")
    _add_shared(command, "server", "ADDRESS", f", or {DEFAULT_SERVER}")
    for name in ("tls_ca", "tls_client_cert", "tls_client_key", "token_file"):
        _add_shared(command, name, "FILE")
    _add_shared(command, "tls_server_name", "NAME")
    add("--json", action="store_true", help="prints a JSON object")


def _add_shared(command: argparse.ArgumentParser, name: str, metavar: str,
                otherwise: str = "") -> None:
    """An option of every command of qgemm, which the environment sets too."""
    variable = f"QGEMM_{name.upper()}"
    command.add_argument(f"--{name}", metavar=metavar,
                         default=os.environ.get(variable) or None,
                         help=f"default: ${variable}{otherwise}")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}; expected 1 or more")
    return value


def byte_count(text: str) -> int:
    """The bytes of 512MiB, 16GB or 4096."""
    match = re.fullmatch(r"(\d+) ?([A-Za-z]*)", text)
    if match is None or match[2].upper() not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, as 512MiB")
    return int(match[1]) * SUFFIXES[match[2].upper()]


def _pair(text: str) -> tuple[str, str]:
    pattern, equals, replacement = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} has no =")
    try:
        re.compile(pattern)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{pattern!r}: {error}") from error
    return pattern, replacement


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of plan.Options."""
    formats: dict[str, str] = {}
    for text in arguments.format:
        pattern, _, format = text.rpartition("=")
        formats[pattern] = format
    default = formats.pop("", None)
    return {"format": default, "formats": formats,
            "include": arguments.include, "exclude": arguments.exclude,
            "rename": arguments.rename, "prefix": arguments.prefix}


def _connect(arguments: argparse.Namespace) -> client.Client:
    tls = (arguments.tls_ca, arguments.tls_client_cert, arguments.tls_client_key)
    return client.connect(
        arguments.server or DEFAULT_SERVER,
        tls=Tls(*tls, arguments.tls_server_name or "") if any(tls) else False,
        token_file=arguments.token_file)


def _plan(arguments: argparse.Namespace) -> int:
    plan = plan_model(arguments.path, **_options(arguments))
    info: Any = None
    if arguments.server:
        with _connect(arguments) as connected:
            info = connected.info()
    _print(plan_json(plan, info) if arguments.json else plan_text(plan, info))
    return 1 if plan.errors else 0


def _load(arguments: argparse.Namespace) -> int:
    if arguments.dry_run:
        return _plan(arguments)
    checkpoint, options = open_checkpoint(arguments.path), _options(arguments)
    plan = plan_model(checkpoint, **options)
    raise_errors(plan)
    if not arguments.json:
        _print(_skipped_text(plan), sys.stderr)
    with _connect(arguments) as connected:
        loaded = load_model(
            connected, checkpoint, jobs=arguments.jobs,
            memory_bytes=arguments.memory, progress=_progress,
            resume=arguments.resume, **options)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    _print(loaded_json(loaded) if arguments.json else loaded_text(loaded, plan))
    return 0


def _progress(name: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r\33[K{done} of {total}  {name}", end="", file=sys.stderr,
              flush=True)


def _print(text: str, file: Any = None) -> None:
    if text:
        print(text, file=file)


# Reports ----------------------------------------------------------------


def format_bytes(count: int) -> str:
    """4096 -> 4.0 KiB."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in rows)


def plan_text(plan: Plan, info: Optional[Any]) -> str:
    """A line a layer, what is skipped, errors, and totals."""
    rows = [("LAYER", "N", "K", "FORMAT", "RESIDENT", "SCRATCH")]
    for entry in plan.entries:
        rows.append((entry.name, str(entry.layer.n), str(entry.layer.k),
                     entry.action, format_bytes(entry.resident_bytes),
                     format_bytes(entry.scratch_bytes)))
    parts = [_table(rows), _skipped_text(plan)]
    parts += [f"error: {name}: {text}" for name, text in plan.errors.items()]
    largest = max((e.scratch_bytes for e in plan.entries), default=0)
    parts.append(f"{len(plan.entries)} layers, {format_bytes(plan.resident_bytes)}"
                 f" resident; at most {format_bytes(largest)} of the client's "
                 "memory for a layer")
    if info is not None:
        parts.append(_room_text(plan, info))
    return "\n".join(part for part in parts if part)


def _room_text(plan: Plan, info: Any) -> str:
    held = format_bytes(info.weights_bytes)
    if not info.weights_budget_bytes:
        return f"{info.device}: {held} of weights held, no budget set"
    free = info.weights_budget_bytes - info.weights_bytes
    verdict = "fits" if plan.resident_bytes <= free else "does not fit"
    return (f"{info.device}: {format_bytes(max(free, 0))} free of "
            f"{format_bytes(info.weights_budget_bytes)}: {verdict}")


def _skipped_text(plan: Plan) -> str:
    """A line a reason, with its first tensors."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in plan.skipped.items():
        by_reason.setdefault(reason, []).append(name)
    lines = []
    for reason, names in by_reason.items():
        more = len(names) - SHOWN_NAMES
        shown = ", ".join(names[:SHOWN_NAMES])
        lines.append(f"skipped: {shown}{f' and {more} more' if more > 0 else ''}"
                     f": {reason}")
    return "\n".join(lines)


def plan_json(plan: Plan, info: Optional[Any]) -> str:
    layers = [{"name": e.name, "n": e.layer.n, "k": e.layer.k,
               "tensors": e.layer.tensors, "type": e.layer.kind,
               "format": target_label(e.layer, e.target),
               "resident_bytes": e.resident_bytes,
               "scratch_bytes": e.scratch_bytes} for e in plan.entries]
    made: dict[str, Any] = {
        "layers": layers, "skipped": plan.skipped, "errors": plan.errors,
        "resident_bytes": plan.resident_bytes}
    if info is not None:
        made["server"] = {"device": info.device,
                          "weights_bytes": info.weights_bytes,
                          "weights_budget_bytes": info.weights_budget_bytes}
    return json.dumps(made, indent=2)


def loaded_text(loaded: LoadedModel, plan: Plan) -> str:
    rows = [("LAYER", "FORMAT", "RESIDENT", "ID")]
    for entry in plan.entries:
        info = loaded.layers[entry.name]
        rows.append((entry.name, entry.action, format_bytes(info.resident_bytes),
                     info.id[:12]))
    text = (f"{len(loaded.layers)} layers, {format_bytes(loaded.resident_bytes)}"
            f" resident; {loaded.deduplicated} were there already")
    if loaded.flushed_blocks:
        text += f"; {loaded.flushed_blocks} blocks have a scale rounded to zero"
    return f"{_table(rows)}\n{text}"


def loaded_json(loaded: LoadedModel) -> str:
    layers = [{"name": name, "id": info.id, "n": info.n, "k": info.k,
               "format": info.format, "resident_bytes": info.resident_bytes}
              for name, info in loaded.layers.items()]
    return json.dumps({
        "layers": layers, "skipped": dict(loaded.skipped),
        "deduplicated": loaded.deduplicated,
        "flushed_blocks": loaded.flushed_blocks,
        "resident_bytes": loaded.resident_bytes}, indent=2)


def run(arguments: argparse.Namespace) -> int:
    """The exit code: 0 done, 1 failed."""
    try:
        code: int = arguments.run(arguments)
        return code
    except (CheckpointError, errors.Error, ValueError, OSError) as error:
        print(f"qgemm {arguments.command}: {error}", file=sys.stderr)
        return 1
