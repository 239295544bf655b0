"""Runs with everything that an export must carry, hostile names included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattstep.schema.channel import Channel
from wattstep.schema.journal import Mark
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.writing import write_run

BEGIN = 5_000_000_000_000
AHEAD = 1_790_000_000_000_000_000  # of the wall clock
MS = 1_000_000
HTML = "<script>window.hacked = 1</script>"
TERMINAL = "\x1b[31mred\u202egnp.exe\r\n\x00"
FORMULA = '=cmd|"/c calc"!A1'
LONG = "x" * 10_000


@dataclass(frozen=True, kw_only=True)
class Did:
    """An operation; times in ns from the beginning, `launch` a position within its step."""

    name: str
    start: int
    end: int
    step: int = 1
    thread: int = 1
    processor: str = "cpu"
    kind: str = "other"
    layer: str = "features.0"
    phase: str = "forward"
    shapes: str = "8x3;64"
    flops: int | None = 10
    launch: int | None = None


POWER = Channel(
    name="board.power", unit="W", kind="gauge", domain="soc", role="power_total", source="ina3221"
)
BUSY = Channel(
    name="cpu0.busy_time", unit="s", kind="counter", domain="cpu", role="busy_time",
    source="/proc/stat", core=0,
)  # fmt: skip
HEAT = Channel(
    name="gpu.temperature", unit="°C", kind="gauge", domain="thermal", role="temperature",
    source="made", status="modelled",
)  # fmt: skip
# Values every 1 ms; None is a failed read.
SAMPLES: Mapping[Channel, Sequence[float | None]] = {
    POWER: [5.0, 5.5, None, None, 6.25, 7.0],
    BUSY: [100.0, 100.0005, 100.0015, 100.0015, 100.002, 100.003],
    HEAT: [40.0, 41.0, 41.5, 42.0, 42.5, 43.0],
}
OPERATIONS = (
    Did(name="aten::conv2d", start=1_000_123, end=1_400_456, kind="convolution"),
    Did(name="aten::pad", start=1_000_123, end=1_100_000),
    Did(name="cudaLaunchKernel", start=1_200_000, end=1_200_000),
    Did(name=HTML, start=1_450_000, end=1_500_000, layer=TERMINAL),
    Did(name="gemm", start=1_250_000, end=1_600_000, processor="gpu0", thread=7, launch=2),
    Did(name="gemm", start=1_600_000, end=1_900_001, processor="gpu0", thread=7, launch=2),
    Did(name=FORMULA, start=1_460_000, end=1_520_000, flops=None),  # only overlaps the one above
    Did(name=LONG, start=2_000_000, end=2_000_007, step=2, thread=1 << 40),
)


def write_made(
    path: Path,
    operations: Sequence[Did] = OPERATIONS,
    samples: Mapping[Channel, Sequence[float | None]] = SAMPLES,
    *,
    steps: int = 4,
    clocks: tuple[tuple[int, int], ...] = ((BEGIN, AHEAD), (BEGIN + 5 * MS, AHEAD)),
    begin: int = BEGIN,
    **more: Any,
) -> Path:
    """A closed run: steps of 1 ms with two phases and a layer, one row an operation, samples."""
    read = PlannedRead(
        number=0, sensor="made", path="-", parser="-", every=1, channels=tuple(samples)
    )
    reads = (read,) if samples else ()
    info = RunInfo(
        **{
            "state": "closed", "created": "2026-11-20T12:00:00+0000", "workload": HTML,
            "title": "made", "engine": "torch", "batch_size": 4, "threads": 1,
            "precision": "fp32", "processor": "cpu", "seed": 0, "interval_s": 0.001, "warmup": 1,
            "trace": "every:4", "reads": reads, "clocks": clocks, "device": {"cores": 1},
            "absent": {"rapl": f"hidden by {TERMINAL}"},
            **more,
        }
    )  # fmt: skip
    tables = {
        "steps": [_steps(begin, steps)] if steps else [],
        "spans": [_spans(begin)] if steps else [],
        "operations": [_operations(begin, operations)] if operations else [],
        "samples": [_sampled(begin, channel, values) for channel, values in samples.items()],
        "evaluations": [
            {"t_ns": [begin + 4 * MS], "step": [4], "measure": ["accuracy"], "value": [0.5]}
        ],
    }  # fmt: skip
    write_run(path, info, tables)
    return path


def _steps(begin: int, count: int) -> dict[str, Any]:
    starts = [begin + n * MS for n in range(count)]
    kinds = [Mark.PHASE, Mark.LAYER_START, Mark.LAYER_END, Mark.PHASE]
    return {
        "index": list(range(count)),
        "start_ns": starts,
        "end_ns": [start + MS - 10 for start in starts],
        "cpu_start_ns": [None] * count,
        "cpu_end_ns": [None] * count,
        "samples": [4.0] * count,
        "loss": [None if n == 1 else 2.0 - n for n in range(count)],
        "warmup": [n < 1 for n in range(count)],
        "traced": [n in (1, 2) for n in range(count)],
        "mark_ns": [[s, s + 10, s + 400_000, s + 500_000] for s in starts],
        "mark_kind": [[int(kind) for kind in kinds]] * count,
        "mark_name": [["forward", "features.0", "features.0", "backward"]] * count,
    }


def _spans(begin: int) -> dict[str, Any]:
    return {
        "start_ns": [begin + MS, begin + 4 * MS],
        "end_ns": [begin + 3 * MS, begin + 5 * MS],
        "kind": ["window", "rest"],
        "name": ["tracing", "evaluation"],
    }


def _operations(begin: int, operations: Sequence[Did]) -> dict[str, Any]:
    rows = sorted(operations, key=lambda one: one.step)
    windows = {step: n for n, step in enumerate(dict.fromkeys(one.step for one in rows))}
    count = len(rows)
    texts = ("name", "kind", "layer", "phase", "processor", "shapes", "step", "thread", "flops")
    return {
        **{key: [getattr(one, key) for one in rows] for key in texts},
        "window": [windows[one.step] for one in rows],
        "start_ns": [begin + one.start for one in rows],
        "end_ns": [begin + one.end for one in rows],
        "self_ns": [one.end - one.start for one in rows],
        "bytes": [None] * count,
        "allocated": [0] * count,
        "outermost": [True] * count,
        "parent": [None] * count,
        "launch": [one.launch for one in rows],
    }


def _sampled(begin: int, channel: Channel, values: Sequence[float | None]) -> dict[str, Any]:
    return {
        "t_ns": [begin + n * MS for n in range(len(values))],
        "channel": [channel.name] * len(values),
        "value": list(values),
        "errno": [5 if value is None else 0 for value in values],
    }
