"""What is said of logs of power that tell less than they seem to: pauses, ends before the steps', a value that never moves."""

from __future__ import annotations

import numpy as np

from wattstep.recorded.power import spoken
from wattstep.recorded.sampled import GAP_PERIODS
from wattstep.recorded.series import Series
from wattstep.schema.arrays import FloatArray, IntArray

MANY = 100  # values: a load that moves shows in them
CUT_SHORT = (
    "{} {}: its power covers {:.0f} % of the {}, and what was drawn in the rest is not known"
)
MOST = 0.95  # of the steps' time: a log that covers so much is not cut short
STANDS_STILL = "{} showed {:.3g} {} in all {:,} values: it may stand still, whatever the load does"
UNREAD = "{} has no reading for {} of {} ({:.3g} %): what was drawn then is in no figure"
SAMPLED = 0.999  # of a log: rounding apart, all of it


def unread(series: Series) -> list[str]:
    """Notes on what another tool's log does not tell of its power: failed reads, cells without a value, pauses."""
    if not series.imported.is_import:
        return []
    names: dict[tuple[int, int], list[str]] = {}
    for channel in series.power_channels():
        t_ns, value = series.raw(channel.name)
        longest_ns = GAP_PERIODS * float(np.median(np.diff(t_ns)))
        read_ns, whole_ns = _read_ns(t_ns, value, None if channel.kind == "counter" else longest_ns)
        if read_ns < SAMPLED * whole_ns:
            names.setdefault((whole_ns - read_ns, whole_ns), []).append(channel.name)
    return [
        UNREAD.format(
            f"{each[0]}{f' and {len(each) - 1} more' * (len(each) > 1)}", spoken(unread_ns * 1e-9),
            spoken(whole * 1e-9), 100 * unread_ns / whole,
        )
        for (unread_ns, whole), each in names.items()
    ]  # fmt: skip


def cut_short(series: Series) -> list[str]:
    """Notes on logs of power of other tools that begin after the first step or end before the last."""
    clean = series.steps.clean
    if not series.imported.telemetry or not clean.any():
        return []
    start, end = series.steps.start_ns[clean], series.steps.end_ns[clean]
    what = "trace" if series.imported.trace_is_one_step else series.steps.figures_of
    notes = {}
    for channel in series.power_channels():
        file, curve = series.imported.file_of(channel.name), series.curve(channel)
        if file in notes or not len(curve.t_ns):
            continue
        late_s, early_s = (start[0] - curve.t_ns[0]) * -1e-9, (end[-1] - curve.t_ns[-1]) * 1e-9
        beyond = [
            f"begins {spoken(late_s)} after the {what}" if late_s > 0 else "",
            f"ends {spoken(early_s)} before the end of the {what}" if early_s > 0 else "",
        ]
        share = float((curve.covered_ratio(start, end) * (end - start)).sum() / (end - start).sum())
        if any(beyond) and share < MOST:
            words = " and ".join(filter(None, beyond))
            notes[file] = CUT_SHORT.format(file, words, 100 * share, what)
    return list(notes.values())


def standing_still(series: Series) -> list[str]:
    """Notes on gauges of power that always showed the same: nothing says that they look at this load."""
    channels = []
    for channel in series.channels.values():
        if channel.kind != "gauge" or channel.unit != "W" or channel.status == "modelled":
            continue
        if channel.name not in series.samples:
            continue
        value = series.raw(channel.name)[1]
        value = value[np.isfinite(value)]
        if len(value) >= MANY and not np.ptp(value):
            channels.append(STANDS_STILL.format(channel.name, value[0], channel.unit, len(value)))
    return channels


def _read_ns(t_ns: IntArray, value: FloatArray, longest_ns: float | None) -> tuple[int, int]:
    """Time between reads that succeeded one after the other, and from the first row to the last."""
    known = np.flatnonzero(np.isfinite(value))
    length = np.diff(t_ns[known])
    between = np.diff(known) == 1
    if longest_ns is not None:
        between &= length <= longest_ns
    return int(length[between].sum()), int(t_ns[-1] - t_ns[0])
