"""How a quantity grows with the batch size: from the smallest batch of a group to the largest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from wattstep.observations.deciding import Region
from wattstep.observations.estimates import Estimate, difference, of_processes, over
from wattstep.observations.groups import NO_BATCH, Group
from wattstep.records.figure import Figure

ONE_BATCH = "one batch size only: give runs of at least two"


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Estimates at the smallest and the largest batch size, and all between them.

    Attributes:
        by_batch: The estimate of each batch size, the smallest first.
    """

    by_batch: Mapping[int, Estimate]

    @property
    def least(self) -> int:
        """Smallest batch size."""
        return min(self.by_batch)

    @property
    def most(self) -> int:
        """Largest batch size."""
        return max(self.by_batch)

    @property
    def change(self) -> Estimate:
        """At the largest less at the smallest; of logarithms, that of the ratio."""
        return difference(self.by_batch[self.least], self.by_batch[self.most])

    @property
    def exponent(self) -> Estimate:
        """e in "grows as batch to the power e", by both ends; estimates must be logarithms."""
        growth = math.log(self.most / self.least)
        return over(self.change, growth, "1", "logarithm of the ratio over that of the batch sizes")

    @property
    def batches(self) -> str:
        """ "4 to 64"."""
        return f"{self.least} to {self.most}"

    def falls(self) -> list[tuple[int, int, Figure]]:
        """Neighbouring batch sizes between which it falls beyond doubt, with the ratio.

        Each pair is judged at a confidence that allows for how many pairs there are.
        """
        sizes = sorted(self.by_batch)
        pairs = list(pairwise(sizes))
        found = []
        for small, large in pairs:
            ratio = difference(self.by_batch[small], self.by_batch[large])
            if ratio.interval(1 - 0.05 / len(pairs))[1] < 0:
                found.append((small, large, ratio.figure()))
        return found


def ends_of(
    group: Group, metric: str, unit: str, *, logarithm: bool, between: float = 0.0
) -> Ends | str:
    """A metric of a group by batch size, or why it cannot be compared.

    Batch sizes at which no run has the figure are left out.

    Args:
        group: Runs that differ in batch size only.
        metric: Its name.
        unit: Its unit.
        logarithm: Whether its ratios count, or its differences.
        between: As `of_processes` takes it.
    """
    by_batch: dict[int, Estimate] = {}
    reasons: list[str] = []
    for batch in group.known:
        figures = group.figures(metric, batch, unit)
        found = of_processes(figures, logarithm=logarithm, between=between)
        if isinstance(found, str):
            reasons.append(found)
        else:
            by_batch[batch] = found
    if len(by_batch) >= 2:
        return Ends(by_batch=by_batch)
    if not group.known:
        return NO_BATCH
    if reasons:
        return "; ".join(dict.fromkeys(reasons))
    return ONE_BATCH


def above(margin: float) -> Region:
    """Everything above a margin."""
    return Region(low=margin)
