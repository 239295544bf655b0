"""Growth of a quantity with the batch size: from the smallest batch of a group to the largest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from wattstep.insight.observe.estimates import Estimate, difference, of_processes, over
from wattstep.insight.observe.evidence import Reader
from wattstep.insight.observe.groups import NO_BATCH, Group
from wattstep.schema.figure import Figure, Missing

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

    def between(self, least: int, most: int) -> Ends:
        """Growth between two batch sizes alone."""
        return Ends(by_batch={size: self.by_batch[size] for size in (least, most)})

    def falls(self) -> list[tuple[int, int, Figure]]:
        """Neighbouring batch sizes between which it falls beyond doubt, with the ratio.

        Each pair is judged at a confidence that allows for how many pairs there are.
        """
        pairs = list(pairwise(sorted(self.by_batch)))
        ratios = [self.between(*pair).change for pair in pairs]
        return [
            (*pair, ratio.figure())
            for pair, ratio in zip(pairs, ratios, strict=True)
            if ratio.interval(1 - 0.05 / len(pairs))[1] < 0
        ]


def ends_of(group: Group, read: Reader, *, logarithm: bool, between: float = 0.0) -> Ends | Missing:
    """A figure of a group by batch size, or why it cannot be compared.

    Batch sizes at which no run has the figure are left out.

    Args:
        group: Runs that differ in batch size only.
        read: The figure of a run.
        logarithm: True if its ratios count, else its differences.
        between: As `of_processes` takes it.
    """
    estimates = {
        batch: of_processes([read(run) for run in runs], logarithm=logarithm, between=between)
        for batch, runs in group.known.items()
    }
    by_batch = {batch: one for batch, one in estimates.items() if isinstance(one, Estimate)}
    if len(by_batch) >= 2:
        return Ends(by_batch=by_batch)
    reasons = [one for one in estimates.values() if isinstance(one, Missing)]
    return Missing(("; ".join(dict.fromkeys(reasons)) or ONE_BATCH) if estimates else NO_BATCH)
