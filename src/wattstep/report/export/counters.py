"""Sampled channels of a run as series for a timeline: values of gauges, rates of counters, gaps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.tables.naming import Names, names_of
from wattstep.recorded.curves import Curve, curve_of
from wattstep.recorded.power import EnergySource
from wattstep.recorded.series import GAP_PERIODS, Series
from wattstep.report.export.timeline import Masked, Slices, reason_of
from wattstep.run.run import Run
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Status

RATES: Final = {"J": "W", "s": "ratio", "events": "1/s", "B": "B/s", "count": "1/s"}
GROUPS: Final = {
    "W": "power", "J": "power", "A": "power", "V": "power", "C": "power", "ratio": "utilization",
    "Hz": "frequency", "°C": "temperature", "B": "memory", "B/s": "memory",
}  # fmt: skip
# What the sampler notes of itself beside the channels; "cost:NAME" and "every:NAME" likewise.
OWN: Final = {"sampler.lateness": "s", "sampler.busy_time": "s", "sampler.lost_ticks": "events"}
RECORDING: Final = "recording"
NO_SAMPLES: Final = -1  # in place of an error number: nothing was read for long
DIFFERENCES: Final = (
    "rate of the cumulative counter {}: its gain from one read to the next over the time between, "
    "drawn from the earlier of both"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """Series of a timeline.

    Attributes:
        name: The channel's, with ", rate" behind it where it is one.
        unit: Of the values.
        group: Group of channels it stands with.
        status: Measured, replayed or modelled.
        about: Where it comes from, and what a reader must know.
        t_ns: Times, rising, shape (n,).
        value: All finite, shape (n,); a missing one is left out.
        gaps: Where nothing is known, with the reason.
    """

    name: str
    unit: str
    group: str
    status: str
    about: str
    t_ns: IntArray
    value: FloatArray
    gaps: Slices

    @property
    def shown(self) -> str:
        """Its name, with the status where no sensor saw it."""
        return self.name if self.status == Status.MEASURED.value else f"{self.name} ({self.status})"


def counters(run: Run) -> Iterator[Counted]:
    """Every channel that has samples, then what is known of memory, goals and modelled power."""
    series = run.series
    for name in series.samples:
        yield _channel(series, name)
    if run.info.power_model is not None:
        for name, source in (("power", series.energy), ("machine power", series.machine_by_model)):
            if isinstance(source, EnergySource):
                yield _modelled(name, source)
    yield from _from_table(run, "memory", "category", "bytes", "B")
    if run.tables.count("evaluations"):
        yield from _from_table(run, "evaluations", "measure", "value", "")


def _channel(series: Series, name: str) -> Counted:
    t_ns, value, errnos = series.samples[name]
    errno = errnos.astype(np.int64)
    channel = series.channels.get(name)
    if channel is None:
        return _own(name, t_ns, value, errno)
    if channel.kind == "counter":
        return _rate(channel, t_ns, value, errno)
    known = np.isfinite(value)
    return Counted(
        name=name, unit=channel.unit, group=_group(channel.domain, channel.unit),
        status=channel.status, about=_about(channel), t_ns=t_ns[known], value=value[known],
        gaps=_gaps(t_ns, known, errno),
    )  # fmt: skip


def _own(name: str, t_ns: IntArray, value: FloatArray, errno: IntArray) -> Counted:
    known = np.isfinite(value)
    return Counted(
        name=name, unit=own_unit(name), group=RECORDING, status="measured",
        about="what the sampler notes of itself", t_ns=t_ns[known], value=value[known],
        gaps=_gaps(t_ns, known, errno),
    )  # fmt: skip


def own_unit(name: str) -> str:
    """Unit of what the sampler notes of itself."""
    return OWN.get(name, "s" if name.startswith("cost:") else "events")


def _rate(channel: Channel, t_ns: IntArray, value: FloatArray, errno: IntArray) -> Counted:
    unit = RATES.get(channel.unit, f"{channel.unit}/s")
    times, rates = t_ns[:0], value[:0]
    if len(t_ns):
        times, rates = rates_of(curve_of(channel, t_ns, value, max_gap_ns=0))
    return Counted(
        name=f"{channel.name}, rate", unit=unit, group=_group(channel.domain, unit),
        status=channel.status,
        about=f"{DIFFERENCES.format(f'in {channel.unit}')}; {_about(channel)}",
        t_ns=times, value=rates, gaps=_gaps(t_ns, np.isfinite(value), errno),
    )  # fmt: skip


def rates_of(curve: Curve) -> tuple[IntArray, FloatArray]:
    """Rates of a curve between its samples, per second, at the earlier of each two.

    Where a counter was not read or began again, there is none.
    """
    rates = curve.rates()[1:]
    known = np.isfinite(rates)
    return curve.t_ns[:-1][known], rates[known]


def _modelled(name: str, energy: EnergySource) -> Counted:
    t_ns, value = rates_of(energy.curve)
    return Counted(
        name=name, unit="W", group="power", status=energy.status.value,
        about=energy.source, t_ns=t_ns, value=value, gaps=_no_gaps(),
    )  # fmt: skip


def _from_table(run: Run, table: str, of: str, column: str, unit: str) -> Iterator[Counted]:
    """A small table of times, names and values: a series for each name."""
    rows = run.tables.table(table)
    names, t_ns = names_of(rows[of]), rows["t_ns"].to_numpy()
    value = rows[column].to_numpy(zero_copy_only=False).astype(np.float64)
    for code in np.unique(names.code).tolist():
        mine = np.flatnonzero(names.code == code)
        mine = mine[np.argsort(t_ns[mine], kind="stable")]
        mine = mine[np.isfinite(value[mine])]
        yield Counted(
            name=str(names.texts[code]), unit=unit, group=table, status="measured",
            about=f"{table}.parquet of the run", t_ns=t_ns[mine], value=value[mine],
            gaps=_no_gaps(),
        )  # fmt: skip


def _group(domain: str, unit: str) -> str:
    return RECORDING if domain == "sampler" else GROUPS.get(unit, "counts")


def _about(channel: Channel) -> str:
    parts = [f"{channel.status}: {channel.source}", channel.role, channel.note]
    return "; ".join(part for part in parts if part)


def _gaps(t_ns: IntArray, known: BoolArray, errno: IntArray) -> Slices:
    """From the last value before to the first after: failed reads, and far fewer than usual."""
    valid = np.flatnonzero(known)
    if not len(t_ns) or (known.all() and len(t_ns) < 3):
        return _no_gaps()
    edges = np.concatenate([[-1], valid, [len(t_ns)]])
    failed = np.diff(edges) > 1
    far = np.zeros(len(failed), bool)
    if len(valid) > 2:
        spacing = np.diff(t_ns[valid])
        far[1:-1] = spacing > GAP_PERIODS * np.median(spacing)
    chosen = np.flatnonzero(failed | far)
    before, after = np.maximum(edges[chosen], 0), np.minimum(edges[chosen + 1], len(t_ns) - 1)
    first = np.minimum(edges[chosen] + 1, len(t_ns) - 1)
    why = np.where(failed[chosen], errno[first].astype(np.int64), NO_SAMPLES)
    codes, code = np.unique(why, return_inverse=True)
    words = ["no samples" if each == NO_SAMPLES else reason_of(each) for each in codes.tolist()]
    return Slices(
        start_ns=t_ns[before],
        end_ns=t_ns[after],
        names=Names(code=code, texts=np.array([*(f"gap: {each}" for each in words), ""], object)),
        counted={
            "failed_reads": Masked(
                values=np.diff(edges)[chosen] - 1, mask=np.ones(len(chosen), bool)
            )
        },
    )


def _no_gaps() -> Slices:
    nothing = np.zeros(0, np.int64)
    return Slices(
        start_ns=nothing,
        end_ns=nothing,
        names=Names(code=nothing, texts=np.array([""], dtype=object)),
    )
