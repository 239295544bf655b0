"""Power below 0 in a log: noise of a sensor that nothing is connected to, a battery that is charged, or a turned sign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.formats.recording import Recording
from wattstep.schema.channel import Channel

NOISE: Final = 0.02  # of the largest power in the log, on the mean: so little is an offset
NEGATIVE: Final = "power below 0 W"
TURNED: Final = (
    "{} is below 0 W in {} of {} values and is left out: what is drawn counts as above 0, so turn its sign if it is "
    "drawn"
)
OFFSET: Final = (
    "{} is below 0 W by little ({:.3g} W on the mean): is its sensor connected? It is kept as it is"
)
EITHER_SIGN: Final = (
    "{} is below 0 W in {} of {} values (down to {:.3g} W), as of a battery that is charged meanwhile: they are "
    "taken off its energy"
)


def without_negative(recording: Recording, file: str) -> Recording:
    """The recording without the values of channels whose power is below 0, where others tell of power or energy.

    What is left of such a channel is its name: a total that it belongs to is none without it.

    Args:
        recording: As its format was read.
        file: Its name, for the error.

    Raises:
        InvalidValueError: No other channel has power or energy.
    """
    powers = {c.name: c for c in recording.channels if c.unit == "W" and c.kind == "gauge"}
    known = {name: _known(recording.value[name]) for name in powers}
    largest = max((float(np.abs(each).mean()) for each in known.values() if len(each)), default=0.0)
    value, notes, count = dict(recording.value), [], 0
    for name, values in known.items():
        below = int((values < 0).sum())
        if not below:
            continue
        mean, lowest = float(values.mean()), float(values.min())
        if 2 * below > len(values) and -mean > NOISE * largest:
            value[name] = np.full(len(value[name]), np.nan)
            notes.append(TURNED.format(name, below, len(values)))
            count += len(values)
        elif 2 * below > len(values):
            notes.append(OFFSET.format(name, mean))
        elif -lowest > NOISE * largest:
            notes.append(EITHER_SIGN.format(name, below, len(values), lowest))
    if count and not any(_tells(channel, value) for channel in recording.channels):
        name = next(name for name, each in known.items() if 2 * int((each < 0).sum()) > len(each))
        below = int((known[name] < 0).sum())
        raise InvalidValueError(
            f"{file}: {name} is below 0 W in {below} of {len(known[name])} values: what is drawn counts as "
            f"above 0, so turn its sign ({powers[name].source})",
            id="negative-power",
        )
    return replace(
        recording, value=value, notes=(*recording.notes, *notes),
        ignored={**recording.ignored, **({NEGATIVE: count} if count else {})},
    )  # fmt: skip


def _known(values: np.ndarray) -> np.ndarray:
    known: np.ndarray = values[np.isfinite(values)]
    return known


def _tells(channel: Channel, value: Mapping[str, np.ndarray]) -> bool:
    return channel.unit in ("W", "J") and bool(np.isfinite(value[channel.name]).any())
