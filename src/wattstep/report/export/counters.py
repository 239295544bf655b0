"""Sampled channels of a run as series for a timeline: values of gauges, rates of counters, gaps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.tables.naming import Names, names_of
from wattstep.recorded.curves import Curve, curve_across, curve_of
from wattstep.recorded.power import EnergySource
from wattstep.recorded.sampled import GAP_PERIODS
from wattstep.recorded.series import Series
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
MEANS: Final = (
    "where single samples were thinned (--keep), the mean of each stretch of up to 10 s, from its "
    "first read on"
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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """What is known of a channel in the order of time: samples, and stretches in place of thinned ones.

    Attributes:
        t_ns: Of a stretch just behind its first read, which is a sample, too.
        value: NaN where reads failed; of a stretch its mean over the time.
        errno: Error numbers.
        reads: How many each stands for.
        thinned: Mask of stretches.
    """

    t_ns: IntArray
    value: FloatArray
    errno: IntArray
    reads: IntArray
    thinned: BoolArray

    @property
    def known(self) -> BoolArray:
        """Mask of those that have a value."""
        return np.isfinite(self.value)


def _rows(series: Series, name: str) -> _Rows:
    t_ns, value, errno = series.samples[name]
    reads, thinned = np.ones(len(t_ns), np.int64), np.zeros(len(t_ns), bool)
    if (stretches := series.stretches.get(name)) is not None:
        # In place of the samples without a value that mark where they are.
        own = ~stretches.marks(t_ns, value)
        lasting = (stretches.end_ns - stretches.begin_ns) * 1e-9
        mean = np.where(stretches.known, stretches.integral / lasting, np.nan)
        t_ns = np.concatenate([t_ns[own], stretches.begin_ns + 1])
        order = np.argsort(t_ns, kind="stable")
        value = np.concatenate([value[own], mean])[order]
        errno = np.concatenate([errno[own], stretches.errno])[order]
        reads = np.concatenate([reads[own], stretches.reads])[order]
        thinned = np.concatenate([thinned[own], np.ones(len(mean), bool)])[order]
        t_ns = t_ns[order]
    return _Rows(t_ns=t_ns, value=value, errno=errno.astype(np.int64), reads=reads, thinned=thinned)


def _channel(series: Series, name: str) -> Counted:
    rows = _rows(series, name)
    channel = series.channels.get(name)
    if channel is not None and channel.kind == "counter":
        return _rate(series, channel, rows)
    note = f"; {MEANS}" if rows.thinned.any() else ""
    known, gaps = rows.known, _gaps(rows)
    if channel is None:
        return Counted(
            name=name, unit=own_unit(name), group=RECORDING, status="measured",
            about=f"what the sampler notes of itself{note}", t_ns=rows.t_ns[known],
            value=rows.value[known], gaps=gaps,
        )  # fmt: skip
    return Counted(
        name=name, unit=channel.unit, group=_group(channel.domain, channel.unit),
        status=channel.status, about=f"{_about(channel)}{note}", t_ns=rows.t_ns[known],
        value=rows.value[known], gaps=gaps,
    )  # fmt: skip


def own_unit(name: str) -> str:
    """Unit of what the sampler notes of itself."""
    return OWN.get(name, "s" if name.startswith("cost:") else "events")


def _rate(series: Series, channel: Channel, rows: _Rows) -> Counted:
    unit = RATES.get(channel.unit, f"{channel.unit}/s")
    t_ns, value = rows.t_ns[~rows.thinned], rows.value[~rows.thinned]
    times, rates = t_ns[:0], value[:0]
    if (stretches := series.stretches.get(channel.name)) is not None:
        times, rates = rates_of(curve_across(channel, t_ns, value, stretches, max_gap_ns=0))
    elif len(t_ns):
        times, rates = rates_of(curve_of(channel, t_ns, value, max_gap_ns=0))
    return Counted(
        name=f"{channel.name}, rate", unit=unit, group=_group(channel.domain, unit),
        status=channel.status,
        about=f"{DIFFERENCES.format(f'in {channel.unit}')}; {_about(channel)}",
        t_ns=times, value=rates, gaps=_gaps(rows),
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


def _gaps(rows: _Rows) -> Slices:
    """From the last value before to the first after: failed reads, and far fewer than usual."""
    t_ns, known, errno = rows.t_ns, rows.known, rows.errno
    valid = np.flatnonzero(known)
    if not len(t_ns) or (known.all() and len(t_ns) < 3):
        return _no_gaps()
    edges = np.concatenate([[-1], valid, [len(t_ns)]])
    failed = np.diff(edges) > 1
    far = np.zeros(len(failed), bool)
    if len(valid) > 2:
        spacing = np.diff(t_ns[valid])
        of_stretch = rows.thinned[valid]
        single = ~(of_stretch[:-1] | of_stretch[1:])
        usual = np.median(spacing[single]) if single.any() else np.inf
        far[1:-1] = single & (spacing > GAP_PERIODS * usual)
    chosen = np.flatnonzero(failed | far)
    before, after = np.maximum(edges[chosen], 0), np.minimum(edges[chosen + 1], len(t_ns) - 1)
    first = np.minimum(edges[chosen] + 1, len(t_ns) - 1)
    why = np.where(failed[chosen], errno[first].astype(np.int64), NO_SAMPLES)
    reads = np.append(0, np.cumsum(rows.reads))
    codes, code = np.unique(why, return_inverse=True)
    words = ["no samples" if each == NO_SAMPLES else reason_of(each) for each in codes.tolist()]
    return Slices(
        start_ns=t_ns[before],
        end_ns=t_ns[after],
        names=Names(code=code, texts=np.array([*(f"gap: {each}" for each in words), ""], object)),
        counted={
            "failed_reads": Masked(
                values=reads[edges[chosen + 1]] - reads[edges[chosen] + 1],
                mask=np.ones(len(chosen), bool),
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
