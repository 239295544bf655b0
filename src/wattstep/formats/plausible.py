"""Values of a log that nothing can have: left out as failed reads where they are few, refused where they are many.

Counters that go back as often as forward are none; those that go back a little, for a few reads, are noisy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.formats.recording import Recording
from wattstep.formats.rows import FEW, SHARE
from wattstep.schema.channel import Channel
from wattstep.schema.checks import LEAST_NUMBER, MOST_W

# By unit: least and most. Far beyond any machine that a network is trained on, so that what lies
# outside is a mistake of a unit, or of a digit.
LIMITS: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "W": (-MOST_W, MOST_W), "J": (-1e18, 1e18), "V": (-1e6, 1e6), "A": (-1e6, 1e6), "°C": (-274.0, 1e4),
        "Hz": (0.0, 1e13), "ratio": (-1e3, 1e3), "B": (-1e18, 1e18), "s": (-1e12, 1e12),
    }
)  # fmt: skip
OTHERS: Final = (-1e30, 1e30)  # as `schema.checks.MOST_NUMBER`
IMPLAUSIBLE: Final = "value that nothing can have"
LEFT_OUT: Final = "{} values of {} are left out, which nothing can have: {:.4g} {}"
ODD: Final = "{} reads of {} are left out: it stood where it was before right after them, which a counter cannot"
DIPS: Final = "{} reads of {} are below one before, by up to {:.3g} {}, and it was back there within {} more: they are taken as that"
FALLS: Final = 4  # times as many steps forward, at least, has a counter that is reset now and then
NO_COUNTER: Final = (
    "{} falls in {} of {} steps: it is no counter that only grows, and nothing is worked out from it (of "
    "energy in each interval, give the running sum, or power)"
)


def plausible(recording: Recording, file: str) -> Recording:
    """The recording without values that nothing can have; counters that are none are no counters.

    Args:
        recording: As its format was read.
        file: Its name, for the error.

    Raises:
        InvalidValueError: More than three values of a channel, and more than one in a hundred, are
            such, or all of them.
    """
    value = {name: _measurable(values) for name, values in recording.value.items()}
    channels: list[Channel] = []
    notes: list[str] = []
    count = 0
    for channel in recording.channels:
        least, most = LIMITS.get(channel.unit, OTHERS)
        values = np.asarray(value[channel.name])
        counter = channel.kind == "counter" and channel.wrap is None
        if counter:
            odd = _odd_reads(values)
            if 0 < odd.sum() <= max(FEW, int(np.isfinite(values).sum()) // SHARE):
                values = np.where(odd, np.nan, values)
                notes.append(ODD.format(int(odd.sum()), channel.name))
                count += int(odd.sum())
        with np.errstate(invalid="ignore"):
            wrong = (values < least) | (values > most)
        if wrong.any():
            first, known = float(values[wrong][0]), int((~np.isnan(values)).sum())
            if wrong.sum() >= known or wrong.sum() > max(FEW, known // SHARE):
                raise InvalidValueError(
                    f"{file}: {channel.name} is {first:.4g} {channel.unit}, which nothing can have: is "
                    f"the unit right? ({channel.source})",
                    id="implausible-values",
                )
            values = np.where(wrong, np.nan, values)
            notes.append(LEFT_OUT.format(int(wrong.sum()), channel.name, first, channel.unit))
            count += int(wrong.sum())
        if counter:
            channel, values, said = _counter(channel, values)
            notes += said
        channels.append(channel)
        value[channel.name] = values
    return replace(
        recording, channels=tuple(channels), value=value, notes=(*recording.notes, *notes),
        ignored={**recording.ignored, **({IMPLAUSIBLE: count} if count else {})},
    )  # fmt: skip


def _measurable(values: np.ndarray) -> np.ndarray:
    """The values, 0 in place of what is too small for its square to be a number."""
    small = np.abs(values) < LEAST_NUMBER
    return np.where(small, 0.0, values) if (small & (values != 0)).any() else values


def _odd_reads(values: np.ndarray) -> np.ndarray:
    """Mask of single reads of a counter that are below the one before or above the next, which go on from there."""
    places = np.flatnonzero(np.isfinite(values))
    before, read, after = (
        values[places][part] for part in (slice(-2), slice(1, -1), slice(2, None))
    )
    odd = np.zeros(len(values), bool)
    odd[places[1:-1]] = (before <= after) & ((read < before) | (read > after))
    return odd


def _counter(channel: Channel, values: np.ndarray) -> tuple[Channel, np.ndarray, list[str]]:
    """A counter and its values as they are taken, and what is said of that."""
    if reason := _no_counter(channel, values):
        return replace(channel, kind="gauge", role="unknown"), values, [reason]
    held = _held(values) if channel.unit == "J" else values
    with np.errstate(invalid="ignore"):
        dips = held > values
    if not dips.any():
        return channel, values, []
    deepest = float((held - values)[dips].max())
    note = DIPS.format(int(dips.sum()), channel.name, deepest, channel.unit, FEW)
    notes = "; ".join(filter(None, [channel.note, note]))
    return replace(channel, note=notes), held, [note]


def _held(values: np.ndarray) -> np.ndarray:
    """The values, of reads of a counter that fell back for a few the highest before: that is noise, and no reset."""
    places = np.flatnonzero(np.isfinite(values))
    known = values[places]
    held: np.ndarray = values.copy()
    ahead = np.full(len(known), -np.inf)
    for by in range(1, FEW + 1):
        ahead[:-by] = np.maximum(ahead[:-by], known[by:])
    falls = np.flatnonzero(np.diff(known) < 0) + 1
    before = known[falls - 1]
    resets = falls[(ahead[falls] < before) | (known[falls] < before / 2)]
    held[places] = np.concatenate([np.maximum.accumulate(part) for part in np.split(known, resets)])
    return held


def _no_counter(channel: Channel, values: np.ndarray) -> str:
    """Reason why a counter is none: it falls too often to be one that is reset; "" where it is."""
    steps = np.diff(values[np.isfinite(values)])
    falls, rises = int((steps < 0).sum()), int((steps > 0).sum())
    if falls <= max(FEW, rises // FALLS) and (rises or not falls):
        return ""
    return NO_COUNTER.format(channel.name, falls, len(steps))
