"""Watches temperature and frequency in the journals of a run that is being recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from wattstep.live.journals import SampleRows
from wattstep.schema.run_info import PlannedRead
from wattstep.train.environment.steadiness import Criterion, History, Sample, Verdict


class Watch:
    """Judges, each time it looks, whether the machine is steady.

    Args:
        reads: Sampled reads.
        journal: Folder of the run's journals.
        criterion: Criterion of steadiness.
    """

    def __init__(self, reads: Sequence[PlannedRead], journal: Path, criterion: Criterion) -> None:
        self._temperature = RoleSamples(journal, reads, "temperature")
        self._frequency = RoleSamples(journal, reads, "frequency")
        self._clocks = {c.name: f"{c.domain} frequency" for c in self._frequency.channels}
        steps = {c.name: c.resolution for c in self._temperature.channels if c.resolution}
        self.history = History(
            criterion,
            temperatures=[channel.name for channel in self._temperature.channels],
            clocks=list(dict.fromkeys(self._clocks.values())),
            resolutions=steps,
        )
        self.hottest: float | None = None  # of the last look, in °C

    @property
    def sees(self) -> bool:
        """True if there is anything to look at."""
        return bool(self._temperature.channels or self._frequency.channels)

    def look(self, now_s: float) -> Verdict:
        """Takes in what is new, and judges at `now_s`, monotonic time in s."""
        new = self._temperature.new_samples()
        if new:
            self.hottest = max(samples[-1][1] for samples in new.values())
        self.history.temperatures(new)
        self.history.frequencies(_by_second(self._frequency.new_samples(), self._clocks))
        return self.history.judge(now_s)


class RoleSamples(SampleRows):
    """Samples of the channels of a role."""

    def __init__(self, journal: Path, reads: Sequence[PlannedRead], role: str) -> None:
        super().__init__(journal, reads, lambda channel: channel.role == role)

    def new_samples(self) -> dict[str, list[Sample]]:
        """New samples since the last call, by channel; failed reads are left out."""
        samples = {}
        for name, (t_ns, value) in self.new().items():
            known = np.isfinite(value)
            if known.any():
                times = (t_ns[known] / 1e9).tolist()
                samples[name] = list(zip(times, value[known].tolist(), strict=True))
        return samples


def _by_second(
    samples: Mapping[str, Sequence[Sample]], clocks: Mapping[str, str]
) -> dict[str, list[Sample]]:
    """The mean over the channels of a clock in each second: over the cores, over the GPU's."""
    seconds: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, series in samples.items():
        for t_s, value in series:
            seconds[clocks[name]][int(t_s)].append(value)
    return {
        clock: [(second + 0.5, fmean(values)) for second, values in sorted(by_second.items())]
        for clock, by_second in seconds.items()
    }
