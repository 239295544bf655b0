"""A small reader of Kineto traces for the tests of what is made of them: plain json, event by event."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.formats.trace import CATEGORIES, NONE, Events, Trace, no_events

CATEGORY = {
    "cpu_op": "operation",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "set",
    "cuda_sync": "wait",
    "gpu_user_annotation": "gpu_annotation",
    "python_function": "python",
    "overhead": "overhead",
}
ON_GPU = ("kernel", "copy", "set", "wait", "gpu_annotation")
ARGUMENTS = {
    "correlation": "correlation",
    "external": "External id",
    "sequence": "Sequence number",
    "forward_thread": "Fwd thread id",
}
Row = dict[str, Any]


def rows_of(path: Path) -> list[Row]:
    """The intervals of a trace: what they are, and times in whole ns."""
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    rows = []
    for event in document["traceEvents"]:
        if event.get("ph") != "X" or event["cat"] == "Trace":
            continue
        category = CATEGORY[event["cat"]]
        if category == "annotation" and event["name"].startswith("ProfilerStep#"):
            category = "step"
        if event["name"].startswith("nn.Module: "):
            category = "module"
        start = int(Decimal(event["ts"]) * 1000)
        arguments = event.get("args", {})
        gpu = category in ON_GPU
        rows.append(
            {
                "name": event["name"],
                "category": category,
                "processor": f"gpu{event['pid']}" if gpu else "cpu",
                "process": event["pid"],
                "thread": event["tid"],
                "start_ns": start,
                "end_ns": start + int(Decimal(event["dur"]) * 1000),
                **{key: arguments.get(word, NONE) for key, word in ARGUMENTS.items()},
            }
        )
    return rows


def trace_of(rows: list[Row], **extra: Any) -> Trace:
    """A trace of such rows; what a row leaves out is not said."""
    texts = [*CATEGORIES, "cpu"]
    code = {text: number for number, text in enumerate(texts)}
    columns = no_events(len(rows))
    defaults = {"category": "operation", "processor": "cpu"}
    for at, row in enumerate(rows):
        for key, value in {**defaults, **row}.items():
            if isinstance(value, str):
                if value not in code:
                    code[value] = len(texts)
                    texts.append(value)
                value = code[value]
            columns[key][at] = value
    return Trace(format="by hand", names=tuple(texts), events=Events(**columns), **extra)


def table(tables: Any) -> list[Row]:
    """The rows of operations, as plain values."""
    rows: list[Row] = []
    for batch in tables.operations():
        lists = {
            key: value.tolist() if isinstance(value, np.ndarray) else value.to_pylist()
            for key, value in batch.items()
        }
        rows += [
            dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)
        ]
    return rows
