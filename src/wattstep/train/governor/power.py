"""Energy of stretches of a run that is being recorded, from the channels of its total."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.live.journals import SampleRows
from wattstep.live.meters import chosen_meters, own_cpu_time, weakest_status
from wattstep.record.recorder import Recorder
from wattstep.recorded.curves import Curve, add_curves, curve_of
from wattstep.recorded.plausible import glitches, tells_power
from wattstep.recorded.power import modelled
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Status
from wattstep.schema.journal import JOURNAL
from wattstep.schema.settings import PowerModel

GAP_PERIODS: Final = 20  # periods without a sample are a gap
COVERED: Final = 0.95  # of a stretch
KEPT_NS: Final = 3600 * 10**9  # 6 MB a channel


class PowerLog:
    """Samples of power or energy of a run's total; by a power model, of the training's CPU time.

    Args:
        recorder: Is recording.

    Attributes:
        status: Of its energies.
        source: The sensors, or the model.
        by_model: True if a power model gives them.
        window_s: Longest time that a sensor averages over before each value.

    Raises:
        InvalidValueError: Nothing tells the power.
    """

    def __init__(self, recorder: Recorder) -> None:
        info = recorder.info
        planned = [channel for read in info.reads for channel in read.channels]
        meters = [c for c in chosen_meters(planned) if c.role != "battery_current"]
        model = info.power_model
        self._model = None if meters or model is None else PowerModel.from_dict(model)
        self.by_model = self._model is not None
        channels = meters or (own_cpu_time(planned) if self._model else [])
        if not channels:
            raise InvalidValueError(
                "--governor energy: nothing here tells the power: --power-model models it, and "
                "wattstep doctor says what was looked for",
                id="governor-needs-power",
            )
        names = {channel.name for channel in channels}
        self._rows = SampleRows(
            recorder.path.absolute() / JOURNAL, info.reads, lambda channel: channel.name in names
        )
        self._channels = {channel.name: channel for channel in channels}
        self._period_ns = {
            channel.name: round(read.every * info.interval_s * 1e9)
            for read in info.reads
            for channel in read.channels
        }
        empty: tuple[IntArray, FloatArray] = (np.empty(0, np.int64), np.empty(0))
        self._samples = dict.fromkeys(names, empty)
        self.status = Status.MODELLED if self._model else weakest_status(channels)
        self.source = (
            f"power model {self._model.name}"
            if self._model
            else " + ".join(channel.source for channel in channels)
        )
        self.window_s = max((channel.window_s or 0.0) for channel in channels)

    def look(self) -> int:
        """Takes in what was sampled since; the time in ns until which all channels have values."""
        while True:
            for name, (t_ns, value) in self._rows.new().items():
                old_t, old_value = self._samples[name]
                first = int(np.searchsorted(old_t, int(t_ns[-1]) - KEPT_NS))
                self._samples[name] = (
                    np.concatenate([old_t[first:], t_ns]),
                    np.concatenate([old_value[first:], value]),
                )
            if not self._rows.behind:
                break
        return min(int(t_ns[-1]) if len(t_ns) else 0 for t_ns, _ in self._samples.values())

    def energies(self, spans: Sequence[tuple[int, int]]) -> list[float]:
        """Energy in J of stretches from begin to end in ns; NaN where too little was sampled."""
        curves = [self._curve(channel) for channel in self._channels.values()]
        if self._model:
            curves = [modelled(add_curves(curves), self._model, "").curve]
        begin, end = np.array(spans, np.int64).T
        total = np.zeros(len(begin))
        for curve in curves:
            gain, covered = curve.difference(begin, end)
            # What a gap of some samples hides drew as much as the rest.
            total += np.where(covered >= COVERED, gain / np.maximum(covered, COVERED), np.nan)
        joules: list[float] = total.tolist()
        return joules

    def _curve(self, channel: Channel) -> Curve:
        t_ns, value = self._samples[channel.name]
        t_ns, first = np.unique(t_ns, return_index=True)
        value = value[first]
        if tells_power(channel):
            value = np.where(glitches(value), np.nan, value)
        spacing = float(np.median(np.diff(t_ns))) if len(t_ns) > 1 else 0.0
        gap_ns = GAP_PERIODS * max(self._period_ns[channel.name], round(spacing))
        return curve_of(channel, t_ns, value, max(gap_ns, 1))
