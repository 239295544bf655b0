"""The choice of a cap: a survey of a few caps, a fit of time and power, and pairs that test what it chose."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.schema.arrays import FloatArray
from wattstep.schema.figure import Figure, Status, weakest
from wattstep.stats.student import half_width

SURVEYED: Final = 4  # caps
# Of a step's time, the parts that go with the clock for which the survey's outermost caps would
# take just what is allowed.
_PARTS: Final = (0.15, 1.0)
LOOKS: Final = 3  # at the pairs of one cap, at most
ROUNDS: Final = 2  # of base, cap, cap, base before a look: four pairs
CONFIDENCE: Final = 0.95  # of all looks together: each has 1 - 0.05 / LOOKS (Bonferroni)
MOST_CAPS: Final = 3  # that are tested
RISE: Final = 0.25  # of the way to no cap, after one that was too slow
LEAST_MARGIN: Final = 0.1  # of the slowdown that is allowed, to which the fit keeps a distance
METHOD: Final = (
    "blocks of steps in the order base, cap, cap, base: Student's t over log ratios of neighbours"
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some steps at one cap.

    Attributes:
        share: Of the clock that the device's own governor would have allowed.
        steps: Number of them.
        seconds: From the begin of the first to the end of the last.
        joules: What was drawn meanwhile; NaN where that is not known.
    """

    share: float
    steps: int
    seconds: float
    joules: float = math.nan

    @property
    def step_s(self) -> float:
        """Time of a step."""
        return self.seconds / self.steps

    @property
    def step_j(self) -> float:
        """Energy of a step."""
        return self.joules / self.steps

    @property
    def watts(self) -> float:
        """Mean power."""
        return self.joules / self.seconds


@dataclass(frozen=True, kw_only=True)
class Law:
    """Time and power of a step at a share of the clock: a + b/share, and c + d·share + e·share³.

    Attributes:
        time: a and b in s.
        power: c, d and e in W.
        spread: Standard deviation of the logarithm of a block's time around the law.
    """

    time: tuple[float, float]
    power: tuple[float, float, float]
    spread: float

    def step_s(self, share: float) -> float:
        """Time of a step in s."""
        return self.time[0] + self.time[1] / share

    def step_j(self, share: float) -> float:
        """Energy of a step in J."""
        fixed, linear, cubic = self.power
        return self.step_s(share) * (fixed + linear * share + cubic * share**3)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What is done from here on, and what it rests on.

    Attributes:
        share: Cap that is held; 1: the device's own governor goes on.
        reason: Why nothing is capped; "" where something is.
        slowdown: Time of a step at the cap that was tested last over that without, less 1.
        saving: 1 less energy of a step at that cap over that without.
        tested: That cap; None: none was tested.
        base_steps: Steps without a cap that it was compared with.
        law: The fit; None: none was possible.
        blocks: All of them, in order.
    """

    share: float
    reason: str = ""
    slowdown: Figure | None = None
    saving: Figure | None = None
    tested: float | None = None
    base_steps: int = 0
    law: Law | None = None
    blocks: tuple[Block, ...] = ()


Plan = Generator["float | None", "Sequence[Block] | None", Decision]


def plan(allowed: float, offered: Sequence[float], statuses: tuple[Status, Status]) -> Plan:
    """Asks for blocks of steps, and decides.

    It yields the share of each block that it wants, one after the other, and None where it wants
    all blocks so far with their energies.

    Args:
        allowed: Slowdown that is allowed, e.g. 0.1.
        offered: Shares that can be set, rising to 1.
        statuses: Of times and of energies.
    """
    surveyed = survey_shares(allowed, offered)
    if not surveyed:
        return Decision(share=1.0, reason="the device offers no cap below the clock that it has")
    # Each cap lies as far before the middle as after it: what drifts evenly falls out.
    for share in (1.0, *surveyed, 1.0, *reversed(surveyed), 1.0):
        yield share
    blocks = yield None
    assert blocks is not None
    if not all(math.isfinite(block.joules) for block in blocks):
        return Decision(
            share=1.0, reason="the power sensors gave no values for all blocks of steps",
            blocks=tuple(blocks),
        )  # fmt: skip
    # The law is not trusted beyond what was surveyed.
    law, least = fit(blocks), surveyed[-1]
    decision = Decision(share=1.0, law=law, blocks=tuple(blocks))
    for _ in range(MOST_CAPS):
        chosen = choose(law, allowed, [share for share in offered if share >= least])
        if chosen is None:
            return _staying(decision, _nothing_saves(allowed, decision), law, blocks)
        first = len(blocks)
        for look in range(LOOKS):
            for _ in range(ROUNDS):
                for share in (1.0, chosen, chosen, 1.0):
                    yield share
            blocks = yield None
            assert blocks is not None
            decision = judged(chosen, blocks[first:], statuses)
            if _is_settled(decision, allowed, look):
                break
        assert decision.slowdown is not None
        assert decision.saving is not None
        law = fit(blocks)
        if not _above(decision.saving, 0.0):
            return _staying(decision, _no_saving(decision.saving), law, blocks)
        if _at_most(decision.slowdown, allowed):
            return Decision(
                share=chosen, slowdown=decision.slowdown, saving=decision.saving, tested=chosen,
                base_steps=decision.base_steps, law=law, blocks=tuple(blocks),
            )  # fmt: skip
        least = chosen + RISE * (1 - chosen)
    return _staying(decision, f"no cap was shown to slow it by at most {allowed:.3g}", law, blocks)


def survey_shares(allowed: float, offered: Sequence[float]) -> tuple[float, ...]:
    """Caps of the survey, falling.

    A step of which the part c goes with the clock is `allowed` slower at c / (c + allowed): these
    lie between where that is for a small part and where it is for all of it.
    """
    low, high = (part / (part + allowed) for part in _PARTS)
    wanted = np.linspace(high, low, SURVEYED)
    below = np.array([share for share in offered if share < 1])
    if not len(below):
        return ()
    nearest = {float(below[np.argmin(np.abs(below - each))]) for each in wanted}
    return tuple(sorted(nearest, reverse=True))


def fit(blocks: Sequence[Block]) -> Law:
    """Time and power of a step by the clock, by least squares; no part of either is negative."""
    from scipy.optimize import nnls

    share = np.array([block.share for block in blocks])
    seconds = np.array([block.step_s for block in blocks])
    watts = np.array([block.watts for block in blocks])
    ones = np.ones_like(share)
    # Relative to what was seen: a long step's second counts no more than a short one's.
    time, _ = nnls(np.stack([ones, 1 / share], axis=1) / seconds[:, None], ones)
    power, _ = nnls(np.stack([ones, share, share**3], axis=1) / watts[:, None], ones)
    left = np.log(seconds / (time[0] + time[1] / share))
    spread = float(np.sqrt((left**2).sum() / max(len(left) - 2, 1)))
    fixed, linear, cubic = map(float, power)
    return Law(time=(float(time[0]), float(time[1])), power=(fixed, linear, cubic), spread=spread)


def choose(law: Law, allowed: float, offered: Sequence[float]) -> float | None:
    """The cap of least energy by the law that keeps to what is allowed; None where none saves.

    From the limit it keeps a tenth, or the error that pairs of blocks will have, if that is more.
    """
    pairs = 2 * ROUNDS
    margin = max(LEAST_MARGIN * allowed, law.spread * math.sqrt(2 / pairs))
    most_s = law.step_s(1.0) * (1 + allowed - margin)
    fitting = [share for share in offered if share < 1 and law.step_s(share) <= most_s]
    best = min(fitting, key=law.step_j, default=None)
    return None if best is None or law.step_j(best) >= law.step_j(1.0) else best


def judged(share: float, blocks: Sequence[Block], statuses: tuple[Status, Status]) -> Decision:
    """Slowdown and saving at a cap by blocks in the order base, cap, cap, base, ..."""
    pairs = [
        (one, other) if one.share == 1 else (other, one)
        for one, other in zip(blocks[::2], blocks[1::2], strict=True)
    ]
    time = np.array([math.log(capped.step_s / base.step_s) for base, capped in pairs])
    energy = np.array([math.log(capped.step_j / base.step_j) for base, capped in pairs])
    of_time, of_energy = statuses
    return Decision(
        share=1.0,
        slowdown=_figure(time, 1.0, of_time),
        saving=_figure(energy, -1.0, weakest([of_time, of_energy])),
        tested=share,
        base_steps=sum(base.steps for base, _ in pairs),
    )


def _figure(logs: FloatArray, sign: float, status: Status) -> Figure:
    """Ratio less 1, or 1 less the ratio, of pairs whose logarithms these are."""
    if not np.isfinite(logs).all():
        logs = logs[np.isfinite(logs)]
    if len(logs) < 2:
        return Figure(
            value=None, unit="ratio", status=Status.MISSING, reason="its energy is not known"
        )
    half = half_width(logs, 1 - (1 - CONFIDENCE) / LOOKS)
    centre = float(logs.mean())
    low, high = sorted(sign * (math.exp(each) - 1) for each in (centre - half, centre + half))
    return Figure(
        value=sign * (math.exp(centre) - 1), low=low, high=high, confidence=CONFIDENCE,
        n=len(logs), unit="ratio", status=status, source="steps of this run", method=METHOD,
    )  # fmt: skip


def _is_settled(decision: Decision, allowed: float, look: int) -> bool:
    """True if more pairs would not, or hardly, change what is done."""
    slowdown, saving = decision.slowdown, decision.saving
    if look == LOOKS - 1 or slowdown is None or saving is None or saving.missing:
        return True
    if look and (slowdown.value or 0.0) > allowed:
        return True
    if (saving.high or 0.0) <= 0 or (slowdown.low or 0.0) > allowed:
        return True
    return _above(saving, 0.0) and _at_most(slowdown, allowed)


def _above(figure: Figure, limit: float) -> bool:
    return figure.low is not None and figure.low > limit


def _at_most(figure: Figure, limit: float) -> bool:
    return figure.high is not None and figure.high <= limit


def _no_saving(saving: Figure) -> str:
    if saving.missing:
        return "the power sensors gave no values for all blocks of steps"
    low, high = (100 * (end or 0.0) for end in (saving.low, saving.high))
    if high <= 0:
        return "no energy is saved"
    return f"what would be saved is within the noise ({low:.1f} to {high:.1f} %)"


def _nothing_saves(allowed: float, before: Decision) -> str:
    if before.tested is not None:
        return f"no higher cap saves energy and slows it by at most {100 * allowed:g} %"
    return f"by the fit no cap saves energy and slows it by at most {100 * allowed:g} %"


def _staying(decision: Decision, reason: str, law: Law, blocks: Sequence[Block]) -> Decision:
    return Decision(
        share=1.0, reason=reason, slowdown=decision.slowdown, saving=decision.saving,
        tested=decision.tested, base_steps=decision.base_steps, law=law, blocks=tuple(blocks),
    )  # fmt: skip
