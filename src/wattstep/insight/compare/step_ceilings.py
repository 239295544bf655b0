"""How long a step takes at the ceilings of an OpenCL device and of the CPU beside it: its work is counted, nothing is timed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wattstep.run import Run
from wattstep.schema.device_ceilings import CeilingRow, DeviceCeilings
from wattstep.schema.figure import Figure, Missing, Status, missing
from wattstep.schema.opencl import COPYING

TUNED: Final = "tuned"  # columns of ceilings
DEVICE: Final = "device"
HOST: Final = "NumPy"
WAITED: Final = "launched and waited for"  # rows of launches
IN_ROW: Final = " in a row"
MULTIPLYING: Final = (
    "matrix product", "convolution", "convolution input gradient", "convolution weight gradient",
)  # fmt: skip
COPIES: Final[Mapping[str, str]] = {
    "CopyHostToDevice": "to, copied",
    "CopyDeviceToHost": "from, copied",
}
ON_DEVICE: Final = (
    "products and convolutions at the rate of the fastest product of their size, other kernels at the "
    "bandwidth of memory, launches and copies at what one takes; nothing overlaps"
)
ON_HOST: Final = (
    "the same work by NumPy: products at their rate by size, the rest at the bandwidth of memory; what "
    "a framework takes for itself is not in it"
)


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a kernel, or copies in one direction, do in a step.

    Attributes:
        kind: Of operation; a direction of `COPIES` for copies.
        calls: In a step.
        flops: Floating-point operations of them all; None: not known.
        bytes: That they read and write, or copy; None: not known.
    """

    kind: str
    calls: float
    flops: float | None
    bytes: float | None


def work_of(run: Run) -> Sequence[Work] | Missing:
    """What the device does in a step of a run of the engine opencl, by its kernels' shapes."""
    rows = run.document()["operations"]
    works = [
        Work(
            kind=COPIES.get(row["name"], row.get("kind") or ""),
            calls=_value(row, "calls") or 0.0,
            flops=_value(row, "flops"),
            bytes=_value(row, "bytes"),
        )
        for row in rows
        if row.get("kind") != "runtime call"
    ]
    return works if any(work.flops for work in works) else Missing("no kernels were traced")


def device_step(works: Sequence[Work] | Missing, mode: str, ceilings: DeviceCeilings) -> Figure:
    """Time of a step on the device, predicted.

    Args:
        works: Of the step.
        mode: Of `schema.opencl.MODES`.
        ceilings: Of the device.
    """
    if isinstance(works, Missing):
        return missing("s", works)
    kernels = [work for work in works if work.kind not in COPIES.values()]
    launch = _launch(ceilings, waiting=mode == COPYING)
    if launch is None:
        return missing("s", "the ceilings have no launches")
    times = [_computing(work, ceilings, TUNED, DEVICE) for work in kernels]
    times += [
        _at_ceiling(ceilings.rows("copies"), work.kind, work.bytes, work.calls, floor=True)
        for work in works
        if work.kind in COPIES.values()
    ]
    return _predicted([*times, launch * sum(work.calls for work in kernels)], ceilings, ON_DEVICE)


def host_step(works: Sequence[Work] | Missing, ceilings: DeviceCeilings) -> Figure:
    """Time of the same step on the CPU beside the device, predicted.

    Args:
        works: Of the step, whose copies count for nothing here.
        ceilings: Of the device, with the CPU's beside them.
    """
    if isinstance(works, Missing):
        return missing("s", works)
    kernels = [work for work in works if work.kind not in COPIES.values()]
    return _predicted(
        [_computing(work, ceilings, HOST, HOST) for work in kernels], ceilings, ON_HOST
    )


def _value(row: Mapping[str, Any], name: str) -> float | None:
    value = (row.get(name) or {}).get("value")
    return None if value is None else float(value)


def _computing(work: Work, ceilings: DeviceCeilings, rate: str, bandwidth: str) -> float | None:
    if work.kind in MULTIPLYING:
        return _at_ceiling(ceilings.rows("products"), rate, work.flops, work.calls)
    triads = [row for row in ceilings.rows("bandwidth") if row.label.startswith("triad")]
    return _at_ceiling(triads, bandwidth, work.bytes, work.calls)


def _at_ceiling(
    rows: Sequence[CeilingRow],
    column: str,
    amount: float | None,
    calls: float,
    *,
    floor: bool = False,
) -> float | None:
    """Seconds of an amount in so many calls, by the rate of their size; None: one of these is not known.

    Between sizes that were measured the rate is interpolated (both logarithmic); beyond them it is
    that of the nearest. With `floor` a call takes no less than the smallest that was measured did.
    """
    if amount is None or not calls:
        return None
    if not amount:
        return 0.0
    known = sorted(
        (row.amount, row.figures[column].value)
        for row in rows
        if row.amount and column in row.figures and row.figures[column].value
    )
    if not known:
        return None
    sizes, rates = np.log(np.array(known, dtype=float)).T
    each = amount / calls
    seconds = each / math.exp(float(np.interp(math.log(each), sizes, rates)))
    least = math.exp(sizes[0] - rates[0]) if floor else 0.0
    return calls * max(seconds, least)


def _launch(ceilings: DeviceCeilings, *, waiting: bool) -> float | None:
    for row in ceilings.rows("launch"):
        if row.label == WAITED if waiting else row.label.endswith(IN_ROW):
            return row.figures["time"].value
    return None


def _predicted(times: Sequence[float | None], ceilings: DeviceCeilings, method: str) -> Figure:
    known = [time for time in times if time is not None]
    if len(known) < len(times):
        return missing(
            "s", "the ceilings have no rate for some of its work, or that is not counted"
        )
    return Figure(
        value=sum(known), unit="s", status=Status.PREDICTED, method=method,
        source=f"ceilings of {ceilings.device.get('name')}, measured {ceilings.created}",
    )  # fmt: skip
