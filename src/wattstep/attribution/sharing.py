"""Shares of a curve (energy, CPU time) among compensated rows: over the mean clean step, or just when they ran."""

from __future__ import annotations

import numpy as np

from wattstep.attribution.correlation import Ranked, share_ranked
from wattstep.attribution.traced_rows import (
    Cells,
    CompensatedRows,
    Numbers,
    TracedRows,
    clock_of_steps,
    own_phases,
    within_steps,
)
from wattstep.recorded.curves import Curve, curve_of_clock
from wattstep.schema.arrays import FloatArray, IntArray

SAFE_GAP_NS = 1_000


class Sharing:
    """Shares curves out among the same rows, whose nesting is found once.

    Args:
        rows: The traced rows.
        compensated: The same on the mean clean step.
    """

    def __init__(self, rows: TracedRows, compensated: CompensatedRows) -> None:
        self._rows = rows
        self._compensated = compensated
        self._length: int | None = None  # of the steps that the rows are lined up on
        self._ranked: Ranked | None = None  # by cores, where these are known
        self._lasted: FloatArray | None = None

    def folded(self, curve: Curve) -> tuple[FloatArray, FloatArray]:
        """Shares of a curve of rows and unattributed time over the mean clean step.

        Each row takes the mean rate of the curve where it lies, times its time; phases are then scaled
        to what the curve gains in them, so that nothing is lost.

        Args:
            curve: Accumulated over the mean clean step, from 0 to its length in ns.

        Returns:
            What each row takes, shape (n,), and the rests, shape (windows, phases). The sum over the
            rows and rests of one window is the curve's total, on average over the windows.
        """
        length = int(curve.t_ns[-1]) + SAFE_GAP_NS
        windows = len(self._compensated.unattributed_s)
        if self._ranked is None or self._length != length:
            self._ranked = None  # two at once would be more memory than there need be
            self._ranked, self._length = _lined_up(self._rows, self._compensated, length), length
            self._lasted, _ = share_ranked(self._ranked, curve_of_clock(0, windows * length))
            if self._rows.cores is not None:
                self._ranked = _lined_up(self._rows, self._compensated, length, by_cores=True)
        assert self._lasted is not None
        gained, _ = share_ranked(self._ranked, _tiled(curve, windows, length))
        return _conserved(self._rows, self._compensated, curve, gained, self._lasted)

    def recorded(self, curve: Curve, rate: float) -> tuple[FloatArray, FloatArray]:
        """Shares of a curve of rows and unattributed time just when they ran, where all steps were traced.

        Time of steps that was not sampled is taken to be as all that was.

        Args:
            curve: As it was recorded.
            rate: What it gains in a second of these steps, mean over what was sampled.

        Returns:
            As `folded`.
        """
        if self._ranked is None or self._length is not None:
            self._ranked = self._lasted = None
            rows = self._rows
            self._ranked = rows.ranked(rows.start_ns, rows.end_ns, by_cores=True)
            self._length = None
        return within_steps(
            self._ranked, self._compensated.traced, _inside(curve, self._compensated, rate)
        )


def _inside(curve: Curve, compensated: CompensatedRows, rate: float) -> Curve:
    """A curve that stands still outside of steps and has no gap in them."""
    clock = clock_of_steps(compensated.traced)
    begin, end = clock.t_ns[0], clock.t_ns[-1]
    within = curve.t_ns[(curve.t_ns > begin) & (curve.t_ns < end)]
    t_ns = np.sort(np.concatenate([clock.t_ns, within]), kind="stable")  # two that are sorted
    t_ns = t_ns[np.append(True, t_ns[1:] > t_ns[:-1])]
    gains, covered = curve.difference(t_ns[:-1], t_ns[1:])
    seconds = np.diff(np.interp(t_ns - begin, clock.t_ns - begin, clock.total))
    gains = np.where(seconds > 0, np.nan_to_num(gains) + rate * (1 - covered) * seconds, 0.0)
    total = np.concatenate([[0.0], np.cumsum(gains)])
    return Curve(t_ns=t_ns, total=total, unit=curve.unit, covered_ns=t_ns - begin)


def _conserved(
    rows: TracedRows,
    compensated: CompensatedRows,
    curve: Curve,
    gained: FloatArray,
    lasted: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Shares by the rates at which rows gained, scaled to what the curve gains in each phase."""
    windows, phases = compensated.unattributed_s.shape
    gains = _gains(curve, compensated.edges_s)
    spans = np.diff(compensated.edges_s)
    mean_rate = np.divide(gains, spans, out=np.zeros(phases), where=spans > 0)
    rate = np.divide(gained, lasted, out=mean_rate[compensated.phase].copy(), where=lasted > 1e-9)
    shares = rate * compensated.time_s
    cells = Cells(rows, compensated.phase, windows, phases)
    left_gain = np.maximum(gains - cells.sums(gained), 0.0)
    left_span = np.maximum(spans - cells.sums(lasted), 0.0)
    rest_rate = np.divide(
        left_gain, left_span, out=np.broadcast_to(mean_rate, left_gain.shape).copy(),
        where=left_span > 0.01 * spans + 1e-12,
    )  # fmt: skip
    unattributed = rest_rate * compensated.unattributed_s
    sums = (cells.sums(shares) + unattributed).mean(axis=0)
    scale = np.divide(gains, sums, out=np.zeros(phases), where=sums > 0)
    unattributed = unattributed * scale
    unattributed[:, sums <= 0] = gains[sums <= 0]
    return shares * scale[compensated.phase], unattributed


def _lined_up(
    rows: TracedRows, compensated: CompensatedRows, length: int, *, by_cores: bool = False
) -> Ranked:
    """The rows on mean clean steps one after another, each `length` ns after the one before."""
    start, end = (
        _mapped(times, rows.window, compensated) for times in (rows.start_ns, rows.end_ns)
    )
    np.maximum(start, end, out=end)  # rounding may bring an end of next to no length before it
    offset = rows.window.astype(np.int64) * length
    return rows.ranked(start + offset, end + offset, by_cores=by_cores)


def _mapped(times: IntArray, window: Numbers, compensated: CompensatedRows) -> IntArray:
    """Times in traced steps on the axis of the mean clean step, in proportion within a phase."""
    mapped = np.zeros(len(times), np.int64)
    targets = compensated.edges_s * 1e9
    bounds = np.searchsorted(window, np.arange(len(compensated.traced.edges_ns) + 1))
    for number, edges in enumerate(compensated.traced.edges_ns):
        part = slice(bounds[number], bounds[number + 1])
        first, last = own_phases(edges)
        mine = slice(first, last + 2)
        position = np.interp(times[part] - edges[0], edges[mine] - edges[0], targets[mine])
        mapped[part] = np.rint(position).astype(np.int64)
    return mapped


def _tiled(curve: Curve, times: int, length: int) -> Curve:
    """The curve again and again, each `length` ns after the one before."""
    offsets = np.arange(times) * length
    total = curve.total - curve.total[0]
    t_ns = (curve.t_ns[None, :] + offsets[:, None]).ravel()
    totals = (total[None, :] + (np.arange(times) * total[-1])[:, None]).ravel()
    return Curve(t_ns=t_ns, total=totals, unit=curve.unit, covered_ns=t_ns - t_ns[0])


def _gains(curve: Curve, edges_s: FloatArray) -> FloatArray:
    at = np.interp(edges_s * 1e9, curve.t_ns, curve.total)
    at[0], at[-1] = curve.total[0], curve.total[-1]
    return np.diff(at)
