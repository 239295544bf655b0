"""Runs and ceilings made by hand for the sections of an explanation, with known answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.run.made import MS, Sampled, Worked, import_made, make_run

from wattstep.schema.ceilings import Ceilings, Level
from wattstep.schema.figure import Figure, Status

TORCH = "2.13.0"
DEVICE = {"model": "board", "cpu": "processor", "architecture": "aarch64", "cores": 4}


def measured(value: float, unit: str, low: float | None = None) -> Figure:
    return Figure(value=value, unit=unit, low=low or value, high=value, n=9,
                  status=Status.MEASURED, source="made", method="best of 9")  # fmt: skip


def ceilings(
    threads: int = 1, flops: float = 20e9, bandwidth: float = 2e9, **compute: float
) -> Ceilings:
    """Ceilings of the made machine; `compute` adds "matrix_product_bf16" and the like."""
    level = Level(
        name="memory", size=10**9, copy=measured(bandwidth, "B/s"), triad=measured(1e9, "B/s")
    )
    known = {"matrix_product.fp32": flops}
    known |= {"_".join(k.split("_")[:-1]) + "." + k.split("_")[-1]: v for k, v in compute.items()}
    return Ceilings(
        created="2026-11-22T12:00:00+0000", device=DEVICE, engine=f"torch {TORCH}", threads=threads,
        compute={name: measured(value, "FLOP/s") for name, value in known.items()},
        levels=(level,), medians={}, seconds=1.0,
    )  # fmt: skip


def trained(
    path: Path,
    work: Mapping[str, Mapping[str, Any]] | None = None,
    sampled: Sequence[Sampled] = (),
    info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """A run of steps of 20 ms: data 2 ms, forward 8 ms, backward 10 ms, each one operation.

    Args:
        path: Its folder.
        work: By operation ("forward-op"): kind, flops, bytes.
        sampled: Channels.
        info: Fields of `run.json` instead of those that are made up.
        settings: See `make_run`.
    """
    make_run(path, sampled, device=dict(DEVICE), **settings)
    file = path / "run.json"
    fields = {**json.loads(file.read_text()), "engine": f"torch {TORCH}", **(info or {})}
    file.write_text(json.dumps(fields))
    _describe(path / "operations.parquet", work or {})
    return path


def _describe(file: Path, work: Mapping[str, Mapping[str, Any]]) -> None:
    table = pq.read_table(file)
    names = table["name"].cast(pa.string()).to_pylist()
    for column in ("kind", "flops", "bytes"):
        at = table.schema.get_field_index(column)
        old = table[column].to_pylist()
        values = [work.get(n, {}).get(column, v) for n, v in zip(names, old, strict=True)]
        kind = pa.string() if column == "kind" else pa.int64()
        table = table.set_column(at, column, pa.array(values, kind))
    pq.write_table(table, file)


def worked(name: str, step: int, start: float, end: float, **more: Any) -> Worked:
    """An operation of an imported trace; times in ms."""
    return Worked(name=name, step=step, start=start, end=end, **more)


def ran_on_gpu(path: Path) -> Path:
    """An imported step of 100 ms on a thread and a GPU.

    The host loads data 0-20, runs an operation 20-50 that launches at 30, waits for the GPU 60-90.
    The kernel runs 40-90. Between, the host runs code.
    """
    operations = [
        worked("loader", 0, 0, 20, phase="data", kind="scope"),
        worked("aten::mm", 0, 20, 50, kind="matrix product"),
        worked("cudaLaunchKernel", 0, 30, 32, kind="runtime call", inside=1),
        worked("gemm", 0, 40, 90, processor="gpu0", thread=7, kind="matrix product"),
        worked("cudaDeviceSynchronize", 0, 60, 90, kind="runtime call"),
    ]
    return imported(path, operations, end=100, launch={3: 2})


def imported(
    path: Path, rows: Sequence[Worked], *, end: float, launch: Mapping[int, int] | None = None
) -> Path:
    """One imported step from 0 to `end` ms; scopes are no operations, as importers have it.

    Args:
        path: Its folder.
        rows: Operations and scopes.
        end: Of the step in ms.
        launch: Which row asked for which (work on a GPU), by position.
    """
    about = {"trace": {"file": "t.json", "format": "Kineto trace"}}
    import_made(path, about, steps=[(0, end)], operations=rows)
    file = path / "operations.parquet"
    table = pq.read_table(file)
    outermost = [row.kind != "scope" and not _in_operation(row, rows) for row in rows]
    asked = pa.array([(launch or {}).get(at) for at in range(len(rows))], pa.int32())
    for name, values in (("outermost", pa.array(outermost)), ("launch", asked)):
        table = table.set_column(table.schema.get_field_index(name), name, values)
    pq.write_table(table, file)
    return path


def _in_operation(row: Worked, rows: Sequence[Worked]) -> bool:
    above = row.inside
    while above is not None:
        if rows[above].kind != "scope":
            return True
        above = rows[above].inside
    return False


__all__ = ["MS", "TORCH", "Sampled", "ceilings", "imported", "ran_on_gpu", "trained", "worked"]
