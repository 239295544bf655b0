"""When temperature, frequency and throughput are steady: the criterion, and how it is judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

BUCKET_S: Final = 5.0  # frequency is averaged over so long before its range is taken
COARSEST_C: Final = 1.0  # a zone that has not moved yet is taken to step by so much
MOST_WINDOW_S: Final = 900.0

Sample = tuple[float, float]  # monotonic time in s, value in the channel's unit
_Series = Mapping[str, Sequence[Sample]]
_Window = Callable[[str, Sequence[Sample]], float]


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """Criterion of steadiness.

    Attributes:
        window_s: Time that is looked back upon. For a temperature it is longer where the sensor's steps
            are too coarse to show the slope within it.
        slope_c_per_min: Most slope of any temperature.
        frequency_range: Most range of any clock over the window, as part of its highest value.
        throughput_change: Most change of the throughput from the first half of the window to the
            second, as part of the first.
    """

    window_s: float
    slope_c_per_min: float
    frequency_range: float
    throughput_change: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, for the run."""
        return {key: value for key, value in asdict(self).items() if value is not None}


# Before a run: a room's draught is no reason to wait.
RESTING: Final = Criterion(window_s=30.0, slope_c_per_min=0.5, frequency_range=0.05)
# In a run whose end is to be the last state: a stage of ten minutes that is 1 °C from it still
# moves by 0.1 °C a minute.
SUSTAINED: Final = Criterion(
    window_s=300.0, slope_c_per_min=0.1, frequency_range=0.05, throughput_change=0.02
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Verdict on steadiness, with the reason for each part that is not steady.

    Attributes:
        steady: Whether all that is known is steady.
        moving: Channels that are not steady yet, in words with numbers.
        judged: Kinds that could be judged: "temperature", "frequency", "throughput".
        silent: Temperatures and clocks that gave nothing for a whole window, as those of parts
            that are powered down: not judged.
    """

    steady: bool
    moving: tuple[str, ...]
    judged: tuple[str, ...]
    silent: tuple[str, ...] = ()


class History:
    """Samples so far, as far back as a judgement may look.

    Args:
        criterion: Criterion of steadiness.
        temperatures: Channels that are sampled.
        clocks: Channels that are sampled, each judged by itself.
        resolutions: Documented steps in °C of temperatures, by channel.
    """

    def __init__(
        self,
        criterion: Criterion,
        *,
        temperatures: Sequence[str] = (),
        clocks: Sequence[str] = (),
        resolutions: Mapping[str, float] | None = None,
    ) -> None:
        self.criterion = criterion
        self._began_s = math.inf
        self._resolutions = dict(resolutions or {})
        self._temperatures: dict[str, list[Sample]] = {name: [] for name in temperatures}
        self._clocks: dict[str, list[Sample]] = {name: [] for name in clocks}
        self._rates: list[Sample] = []

    def temperatures(self, samples: Mapping[str, Sequence[Sample]]) -> None:
        """Takes new samples in °C, by channel."""
        for name, new in samples.items():
            _keep(self._temperatures[name], new, MOST_WINDOW_S)

    def frequencies(self, samples: Mapping[str, Sequence[Sample]]) -> None:
        """Takes new samples in Hz, by clock."""
        for name, new in samples.items():
            _keep(self._clocks[name], new, 2 * self.criterion.window_s)

    def throughput(self, now_s: float, rate: float) -> None:
        """Takes how many samples a second were trained on since it was last told."""
        _keep(self._rates, [(now_s, rate)], 2 * self.criterion.window_s)

    def judge(self, now_s: float) -> Verdict:
        """Judges steadiness at `now_s`, monotonic time in s."""
        self._began_s = min(self._began_s, now_s)
        moving, judged = [], []
        zones, silent_zones = self._judgeable(self._temperatures, self._window, now_s)
        clocks, silent_clocks = self._judgeable(self._clocks, self._clock_window, now_s)
        if zones:
            judged.append("temperature")
            moving += self._moving_temperatures(zones, now_s)
        if clocks:
            judged.append("frequency")
            for name, samples in clocks.items():
                moving += self._moving_frequency(name, samples, now_s)
        if self.criterion.throughput_change is not None:
            judged.append("throughput")
            moving += self._moving_throughput(now_s)
        return Verdict(
            steady=not moving,
            moving=tuple(moving),
            judged=tuple(judged),
            silent=(*silent_zones, *silent_clocks),
        )

    def _judgeable(
        self, series: _Series, window: _Window, now_s: float
    ) -> tuple[_Series, list[str]]:
        """Series that can be judged, and names of those that were silent for all of a window."""
        silent = []
        for name, samples in series.items():
            begin_s = now_s - window(name, samples)
            if begin_s >= self._began_s and not (samples and samples[-1][0] >= begin_s):
                silent.append(name)
        return {name: samples for name, samples in series.items() if name not in silent}, silent

    def _moving_temperatures(self, zones: _Series, now_s: float) -> list[str]:
        most = self.criterion.slope_c_per_min
        unseen: dict[str, float] = {}
        slopes: dict[str, float] = {}
        for name, samples in zones.items():
            window = self._window(name, samples)
            t_s, value = _since(samples, now_s - window)
            if not len(t_s) or samples[0][0] > now_s - window:
                unseen[name] = window
            elif abs(slope := 60 * _slope(t_s, value)) > most:
                slopes[name] = slope
        reasons = []
        if slopes:
            name = max(slopes, key=lambda name: abs(slopes[name]))
            others = f" ({len(slopes) - 1} more move, too)" * (len(slopes) > 1)
            reasons.append(f"{name} moves by {slopes[name]:+.2f} °C a minute{others}")
        if unseen:
            name = max(unseen, key=lambda name: unseen[name])
            others = f" ({len(unseen) - 1} more, too)" * (len(unseen) > 1)
            reasons.append(f"{name} was seen for less than {unseen[name]:.0f} s{others}")
        return reasons

    def _window(self, name: str, samples: Sequence[Sample]) -> float:
        """Window to look back on, in s: with steps of 1 °C, 0.5 °C a minute shows within two minutes."""
        if not samples:
            return self.criterion.window_s
        step = self._resolutions.get(name) or _step(samples)
        window = max(self.criterion.window_s, 60 * step / self.criterion.slope_c_per_min)
        return min(window, MOST_WINDOW_S)

    def _clock_window(self, name: str, samples: Sequence[Sample]) -> float:
        return self.criterion.window_s

    def _moving_frequency(self, name: str, samples: Sequence[Sample], now_s: float) -> list[str]:
        window = self.criterion.window_s
        t_s, value = _since(samples, now_s - window)
        if not len(t_s) or samples[0][0] > now_s - window:
            return [f"{name} was seen for less than {window:.0f} s"]
        bucket = ((t_s - t_s[0]) // BUCKET_S).astype(np.int64)
        count = np.bincount(bucket)
        means = np.bincount(bucket, value)[count > 0] / count[count > 0]
        highest = float(means.max())
        spread = (highest - float(means.min())) / highest if highest > 0 else 0.0
        if spread <= self.criterion.frequency_range:
            return []
        return [f"{name} ranges over {100 * spread:.0f} % of {highest / 1e6:.0f} MHz"]

    def _moving_throughput(self, now_s: float) -> list[str]:
        window = self.criterion.window_s
        t_s, rate = _since(self._rates, now_s - window)
        if not len(t_s) or self._rates[0][0] > now_s - window:
            return [f"throughput was seen for less than {window:.0f} s"]
        early, late = rate[t_s < now_s - window / 2], rate[t_s >= now_s - window / 2]
        if not len(early) or not len(late):
            return ["steps take too long to judge the throughput"]
        change = float(late.mean() / early.mean() - 1) if early.mean() > 0 else 0.0
        if abs(change) <= float(self.criterion.throughput_change or 0.0):
            return []
        return [f"throughput changed by {100 * change:+.1f} % within {window:.0f} s"]


def _keep(series: list[Sample], new: Sequence[Sample], back_s: float) -> None:
    """Adds samples, and forgets all but one of those that nobody looks back to."""
    series.extend(new)
    old = sum(1 for t_s, _ in series if t_s < series[-1][0] - back_s)
    del series[: max(old - 1, 0)]  # the one that stays shows that the window is covered


def _step(samples: Sequence[Sample]) -> float:
    distinct = np.diff(np.unique(np.round([value for _, value in samples], 4)))
    return min(float(distinct.min()), COARSEST_C) if len(distinct) else COARSEST_C


def _since(samples: Sequence[Sample], begin_s: float) -> tuple[Any, Any]:
    """Times and values from `begin_s` on."""
    table = np.array([sample for sample in samples if sample[0] >= begin_s]).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _slope(t_s: Any, value: Any) -> float:
    """Of the least-squares line, in units a second; 0 where there is one time only."""
    centred = t_s - t_s.mean()
    square = float(centred @ centred)
    return float(centred @ value) / square if square > 0 else 0.0
