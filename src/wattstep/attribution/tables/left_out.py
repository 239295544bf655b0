"""Choice of the traced steps that stand for clean ones: those that waited for a core are left out, and what none showed is noted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.tables.clean_phases import seconds_beside
from wattstep.recorded.steps import Steps
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.spelling import rounded

WAITED: Final = 0.1  # of a traced step that its thread was kept from running
AS_OFTEN: Final = 3.0  # times as long as traced steps of this run usually wait
BEYOND: Final = 1.5  # times the longest that clean steps are beside their neighbours
BEYOND_FEW: Final = 2.5
LEAST_CLEAN: Final = 30  # steps: what fewer never showed may come in one of ten
SLOW: Final = 0.1  # longer than its neighbours, at least
OFTEN_SLOW: Final = 0.03  # of clean steps: what is rarer cannot be determined from few windows
NOTICED: Final = 0.01  # of the clean time
ENOUGH_WINDOWS: Final = 5


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Use of the traced steps.

    Attributes:
        representative: Which of those that did not wait for a core stand for clean ones, shape (windows,).
        preempted: How many were left out because their thread waited for a core.
        disturbed: How many because they took longer than any clean step.
        unseen: Share of the clean time by which steps are longer than any that was traced.
    """

    representative: BoolArray
    preempted: int = 0
    disturbed: int = 0
    unseen: float = 0.0

    def notes(self) -> list[str]:
        """In words."""
        lines = []
        traced, left = len(self.representative) + self.preempted, int(self.representative.sum())
        if self.preempted:
            lines.append(
                f"{self.preempted} of {traced} traced steps were left out: the thread that trains "
                "waited for a core in them, and operations took the blame"
            )
        if self.disturbed:
            lines.append(
                f"{self.disturbed} of {traced} traced steps were left out: they took far longer "
                "than any clean step"
            )
        if self.unseen:
            lines.append(
                f"clean steps are longer now and then than any of the {left} that were traced: "
                f"what ran in {rounded(100 * self.unseen, 2)} % of the time is not known, and widens "
                "every interval"
            )
        if left < ENOUGH_WINDOWS:
            lines.append(
                f"operations rest on {left} traced step{'' if left == 1 else 's'}: too few for "
                "narrow intervals (record longer, or trace more often)"
            )
        return lines


def not_preempted(steps: Steps, windows: IntArray) -> BoolArray:
    """Mask of the traced steps that did not wait for a core for much of their time.

    Where all of them wait (more threads than cores), waiting is how this training runs.

    Args:
        steps: All steps.
        windows: Positions of the traced ones.
    """
    if steps.waited_s is None or not len(windows):
        return np.ones(len(windows), bool)
    share = np.nan_to_num(steps.waited_s[windows]) / np.maximum(steps.seconds[windows], 1e-12)
    usual = float(np.sort(share)[(len(share) - 1) // 4])
    undisturbed: BoolArray = share <= max(WAITED, AS_OFTEN * usual)
    return undisturbed


def like_clean(
    steps: Steps, clean: IntArray, windows: IntArray, of_step: IntArray, preempted: int
) -> LeftOut:
    """Traced steps that are like clean ones, and what clean ones have that no traced one showed.

    Each is held against clean steps of its kind beside it; the tracer makes all of them longer
    alike.

    Args:
        steps: All steps.
        clean: Positions of the clean ones.
        windows: Positions of the traced ones.
        of_step: The kind of each step, -1 where it is not known.
        preempted: How many traced steps were left out before.
    """
    alike = np.ones(len(windows), bool)
    if not len(clean) or len(windows) < 2:
        return LeftOut(representative=alike, preempted=preempted)
    longer = _beside(steps, clean, clean, of_step)
    traced = _beside(steps, clean, windows, of_step)
    traced = traced / max(float(np.sort(traced)[(len(traced) - 1) // 4]), 1e-12)
    few = len(clean) < LEAST_CLEAN  # which may not have shown how long they can be
    alike = traced <= (BEYOND_FEW if few else BEYOND) * max(float(longer.max()), 1.0)
    if few:
        return LeftOut(representative=alike, preempted=preempted, disturbed=int((~alike).sum()))
    slow_from = 1 + max(SLOW, 5 * 1.4826 * float(np.median(np.abs(longer - np.median(longer)))))
    slow = longer > slow_from
    seconds = steps.seconds[clean]
    excess = float((seconds[slow] * (1 - 1 / longer[slow])).sum()) / max(
        float(seconds.sum()), 1e-12
    )
    seen = bool((traced > slow_from).any()) or preempted > 0
    tells = not seen and slow.mean() >= OFTEN_SLOW and excess >= NOTICED
    return LeftOut(
        representative=alike,
        preempted=preempted,
        disturbed=int((~alike).sum()),
        unseen=excess if tells else 0.0,
    )


def _beside(steps: Steps, clean: IntArray, chosen: IntArray, of_step: IntArray) -> FloatArray:
    """Lengths of some steps relative to clean ones of their kind around them."""
    ratios = np.ones(len(chosen))
    for kind in np.unique(of_step[chosen]):
        mine, its = of_step[chosen] == kind, clean[of_step[clean] == kind]
        if not len(its):
            continue
        around = seconds_beside(steps, its, chosen[mine], float(np.median(steps.seconds[its])))
        ratios[mine] = steps.seconds[chosen[mine]] / np.maximum(around, 1e-12)
    return ratios
