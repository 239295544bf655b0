"""Attribution of clean steps' time and sampled quantities to the traced rows compensated for overhead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from wattstep.attribution.codes import Codes
from wattstep.attribution.folding import fold, mean_gain, stand_alone
from wattstep.attribution.quantities import RAIL, AttributedQuantity, Bounds, Moved
from wattstep.attribution.sharing import Sharing
from wattstep.attribution.step_energy import not_told
from wattstep.attribution.tables.taking_part import TakingPart
from wattstep.attribution.traced_rows import CompensatedRows, TracedRows
from wattstep.recorded.clock_error import ClockError, shifted
from wattstep.recorded.curves import Curve
from wattstep.recorded.imported import TRACED, UNKNOWN, WHOLE_TRACE, Alignment, Imported
from wattstep.recorded.log_notes import cut_short
from wattstep.recorded.power import EnergySource
from wattstep.recorded.series import Series, clock_of
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.channel import TRAINING_CPU
from wattstep.schema.figure import Figure, Missing, Status, weakest
from wattstep.schema.spelling import rounded

ONLY_WHOLE = "not resolvable: samples show power late and averaged"
NO_BYTES = "its bytes are not known: by time"
LEAST = 0.01  # of its time a rail draws no more than what counts as its idle draw
LITTLE = 0.1  # and no more than what is more than its idle draw
Shares = tuple[FloatArray, FloatArray]  # of rows and rests


class Attributor:
    """Attributes what clean steps took to traced rows.

    Args:
        series: Samples of the run.
        clean: Positions of its clean steps.
        step_time: Of the mean clean step, which has a value.
        imported: How it was imported.
        traced_by: What traced the rows.
        rows: The traced rows.
        compensated: The same on the mean clean step.
        alike: Gives a number of each row, the same for rows that no table tells apart, and how many
            there are; only asked for where a clock is uncertain.
        shared: What is attributed beside time; None: everything.
        kinds: The kind of each clean step, where kinds that take turns were put side by side.
        part: Gives, by the name of a quantity, the rows that it can belong to; None: all.
        moved_bytes: Bytes that each row moved, NaN where not known, by which the energy of memory
            is attributed; None: they are not known.
    """

    def __init__(
        self,
        series: Series,
        clean: IntArray,
        step_time: Figure,
        imported: Imported,
        traced_by: str,
        rows: TracedRows,
        compensated: CompensatedRows,
        alike: Callable[[], tuple[Codes, int]],
        shared: Collection[str] | None = None,
        kinds: IntArray | None = None,
        part: Callable[[str], TakingPart | None] = lambda name: None,
        moved_bytes: Callable[[str], FloatArray | None] = lambda name: None,
    ) -> None:
        assert step_time.value is not None
        self._series, self._clean = series, clean
        self._step_s = step_time.value
        self._imported, self._traced_by, self._shared = imported, traced_by, shared
        self._rows, self._compensated, self._alike = rows, compensated, alike
        self._kinds = kinds
        self._part, self._moved_bytes = part, moved_bytes

    def _fold(self, curve: Curve, gauge: tuple[IntArray, FloatArray] | None = None) -> Curve | None:
        """A curve over the mean clean step, or None where nothing was sampled in clean steps.

        Kinds of steps that take turns stand on it one after the other, each as long as its share.
        """
        steps = self._series.steps
        start, end = steps.start_ns[self._clean], steps.end_ns[self._clean]
        if self._kinds is None:
            return fold(curve, start, end, self._step_s, gauge)
        parts = []
        for kind in range(int(self._kinds.max()) + 1):
            mine = self._kinds == kind
            length = float((end - start)[mine].sum()) * 1e-9 / len(mine)
            folded = fold(curve, start[mine], end[mine], length, gauge)
            if folded is None:
                return None
            parts.append((folded, float(mine.mean())))
        return _joined(parts)

    def quantities(self) -> tuple[dict[str, AttributedQuantity], dict[str, str]]:
        """Attributed quantities by name ("time", "energy", ...), and the reason for each that was not."""
        compensated = self._compensated
        time = AttributedQuantity(
            unit="s",
            rows=compensated.time_s,
            unattributed=compensated.unattributed_s,
            status=weakest([Status.ATTRIBUTED, self._series.steps.status]),
            source=self._traced_by,
            method="traced time less the cost of its events, on the scale of clean steps",
        )
        if self._series.steps.only_traced:
            time = replace(time, method=f"wall time; {self._scope}")
        quantities = {"time": time}
        if self._shared is None:
            unattributed = np.zeros_like(compensated.unattributed_s)
            quantities["busy_time"] = replace(
                time, rows=compensated.busy_s, unattributed=unattributed, shared=False
            )
        sharing = Sharing(self._rows, compensated)
        absent: dict[str, str] = {}
        energy = self._series.energy
        if isinstance(energy, Missing):
            absent["energy"] = energy
        else:
            self._share("energy", energy, time, sharing, quantities, absent)
        for name, rail in self._series.rails.items():
            self._share(f"{RAIL}{name}", rail, time, sharing, quantities, absent)
        if self._series.process_cpu is None:
            absent["cpu_time"] = self._series.without("the CPU time of the process was not sampled")
        else:
            curve, source = self._series.process_cpu
            clock = clock_of(self._alignment_of("cpu_time"))
            cpu = EnergySource(
                curve=curve, status=Status.MEASURED, source=source, clock=clock, sensed=False
            )
            self._share("cpu_time", cpu, time, sharing, quantities, absent)
        return quantities, absent

    def _share(
        self,
        name: str,
        source: EnergySource,
        time: AttributedQuantity,
        sharing: Sharing,
        quantities: dict[str, AttributedQuantity],
        absent: dict[str, str],
    ) -> None:
        """Shares a sampled quantity out among the rows, or says why it cannot be."""
        if self._shared is not None and name not in self._shared:
            absent[name] = "not asked for"
            return
        alignment = self._alignment_of(name)
        if alignment is not None and alignment.uncertainty_s is None:
            absent[name] = UNKNOWN
            return
        counted = self._series.steps.counted
        # As the step's own energy has it: rows and rests make the step.
        late_ns = round(source.late_s[0] * 1e9)
        curve, gauge = shifted(source.curve, source.gauge, -late_ns)
        gain = self._series.steps.counted.mean_gain(curve)
        if gain is None:
            absent[name] = f"no samples of {source.source} in {self._series.steps.figures_of}"
            return
        reason = source.too_little(float(counted.seconds.sum()), gain * counted.count)
        # Rows and rests have nothing to make that the step itself does not have.
        if reason or (reason := not_told(source, self._series.steps)):
            absent[name] = reason
            return
        if self._imported.trace_is_one_step and (cut := cut_short(self._series)):
            absent[name] = f"not known: {cut[0]}"
            return
        part = self._part(name)
        shares = self._shares(sharing, curve, gauge, part)
        assert shares is not None
        rows, unattributed = shares
        folded = "" if self._one_by_one(curve, gauge) else "folded by phase and "
        quantities[name] = replace(
            time,
            unit=source.curve.unit,
            rows=rows,
            unattributed=unattributed,
            status=weakest([source.status, Status.ATTRIBUTED]),
            source=source.source,
            method=f"what {self._series.steps.figures_of} gained, {folded}attributed by time",
            sensor=source,
            moved=None
            if source.clock is None
            else self._moved(sharing, source, source.clock, part),
            only_whole=ONLY_WHOLE if source.by_regression else None,
            taking=None if part is None else part.taking(len(self._rows.window)),
        )
        if (size := self._moved_bytes(name)) is not None:
            quantities[name] = self._by_bytes(quantities[name], source, time, size)

    def _one_by_one(self, curve: Curve, gauge: tuple[IntArray, FloatArray] | None) -> bool:
        """True if samples are attributed just where they were, without folding steps."""
        start, end = (
            self._series.steps.start_ns[self._clean],
            self._series.steps.end_ns[self._clean],
        )
        return self._series.steps.only_traced and stand_alone(curve, start, end, gauge)

    def _by_bytes(
        self,
        quantity: AttributedQuantity,
        source: EnergySource,
        time: AttributedQuantity,
        size: FloatArray,
    ) -> AttributedQuantity:
        """The energy of memory by what rows moved: an idle draw for all time, the rest for bytes.

        The idle draw lies between nothing and little more than the least that was seen, which is
        taken.

        Args:
            quantity: As it is attributed by time.
            source: Of the energy.
            time: Of rows and rests.
            size: Bytes that each row moved, NaN where not known.
        """
        windows = len(time.unattributed)
        known, total = np.isfinite(size), quantity.rows.sum() + quantity.unattributed.sum()
        mean_w = total / (windows * self._step_s)
        idle_w, most_w = (min(_least_power(source, rank), mean_w) for rank in (LEAST, LITTLE))
        moved = np.where(known, size, 0.0)
        by_time = mean_w * time.rows[~known].sum()

        def shares(watts: float) -> Shares:
            rows, rests = watts * time.rows, watts * time.unattributed
            left = max(total - by_time - rows[known].sum() - rests.sum(), 0.0)
            rows = np.where(known, rows + left * moved / moved.sum(), mean_w * time.rows)
            scale = total / (rows.sum() + rests.sum())
            return rows * scale, rests * scale

        rows, unattributed = shares(idle_w)
        others_rows, others_rests = zip(shares(0.0), shares(most_w), strict=True)
        return replace(
            quantity,
            rows=rows,
            unattributed=unattributed,
            method=f"what {self._series.steps.figures_of} gained: {rounded(idle_w)} W, the least that it "
            "drew, by time, and the rest by bytes moved; the interval holds 0 to "
            f"{rounded(most_w)} W by time",
            sensor=replace(source, carries_s=0.0, limit="", clock=None),
            moved=None,
            only_whole=None,
            bounds=Bounds(
                rows=np.stack(others_rows),
                unattributed=np.stack(others_rests),
                known=known,
                otherwise=NO_BYTES,
            ),
        )

    def _shares(
        self,
        sharing: Sharing,
        curve: Curve,
        gauge: tuple[IntArray, FloatArray] | None,
        part: TakingPart | None,
    ) -> Shares | None:
        """Shares of a curve of rows and unattributed time; None where nothing of it was sampled in steps."""
        count = len(self._rows.window)
        if not self._one_by_one(curve, gauge):
            folded = self._fold(curve, gauge)
            if folded is None:
                return None
            if self._series.steps.thinned is not None:
                # Of single steps its shape; how much it is, of all.
                whole = self._series.steps.counted.mean_gain(curve)
                if whole is None or not folded.total[-1]:
                    return None
                folded = replace(folded, total=folded.total * (whole / folded.total[-1]))
            return sharing.folded(folded) if part is None else part.folded(folded, count)
        gain = mean_gain(
            curve, self._series.steps.start_ns[self._clean], self._series.steps.end_ns[self._clean]
        )
        if gain is None:
            return None
        rate = gain / self._step_s
        return sharing.recorded(curve, rate) if part is None else part.recorded(curve, rate, count)

    def _moved(
        self, sharing: Sharing, source: EnergySource, clock: ClockError, part: TakingPart | None
    ) -> Moved:
        """Shares of a curve with the samples moved; only sums of it are kept."""
        windows, phases = self._compensated.unattributed_s.shape
        code, count = self._alike()
        sums = np.full((len(clock.shifts_ns), count), np.nan)
        unattributed = np.full((len(clock.shifts_ns), phases), np.nan)
        for number, by_ns in enumerate(clock.shifts_ns):
            by_ns -= round(source.late_s[0] * 1e9)
            shares = self._shares(sharing, *shifted(source.curve, source.gauge, by_ns), part)
            if shares is not None:
                sums[number] = np.bincount(code, shares[0], minlength=count) / windows
                unattributed[number] = shares[1].mean(axis=0)
        return Moved(clock=clock, code=code, sums=sums, unattributed=unattributed)

    @property
    def _scope(self) -> str:
        """Basis of the operations of an imported trace."""
        return WHOLE_TRACE if self._imported.trace_is_one_step else TRACED

    def _alignment_of(self, quantity: str) -> Alignment | None:
        """Relation of the clock behind an attributed quantity to that of the trace."""
        series = self._series
        if quantity == "energy":
            return series.power_alignment
        if quantity == "cpu_time":
            return series.alignment(series.with_role(*TRAINING_CPU))
        return series.alignment([series.channels[quantity.removeprefix(RAIL)]])


def _least_power(source: EnergySource, rank: float) -> float:
    """Power in W that a rail had no more than for a share of its time."""
    if source.gauge is not None:
        power = source.gauge[1]
    else:
        power = np.diff(source.curve.total) / np.maximum(np.diff(source.curve.t_ns) * 1e-9, 1e-9)
    power = power[np.isfinite(power)]
    return max(float(np.quantile(power, rank)), 0.0) if len(power) else 0.0


def _joined(parts: Sequence[tuple[Curve, float]]) -> Curve:
    """Curves of kinds of steps one after the other, each counted with its share of the steps."""
    t_ns, total = [np.zeros(1, np.int64)], [np.zeros(1)]
    for curve, share in parts:
        t_ns.append(t_ns[-1][-1] + curve.t_ns[1:] - curve.t_ns[0])
        total.append(total[-1][-1] + share * (curve.total[1:] - curve.total[0]))
    times = np.concatenate(t_ns)
    return Curve(t_ns=times, total=np.concatenate(total), unit=parts[0][0].unit, covered_ns=times)
