"""Whether an engine trains as torch does: losses and weights of ten steps beside those in float64.

Rounding in float32 differs between engines, and a step of training makes a small difference
larger. So what is allowed is measured, network by network: torch takes the same steps in float32,
from initial weights that are moved by a rounding error, and what it is off by itself, times
`FACTOR`, is what an engine may be off. A network that magnifies rounding is judged by its first
update, parameter by parameter, where nothing has been magnified yet. There a single value that lies
within rounding of zero before a rectifier may still fall on the other side, which no small error of
the weights tells: so torch also trains with all kinks moved a little, to either side, and an engine
may be off by as much, times `OF_KINKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wattstep.errors import InvalidValueError
from wattstep.schema.checks import MOST_NUMBER

STEPS: Final = 10
FACTOR: Final = 8.0
OF_KINKS: Final = 2.0
# Where torch rounds nothing at all an engine that adds in another order still may.
LEAST_OF_LOSS: Final = 1e-5  # of the loss
LEAST_OF_UPDATE: Final = 1e-4  # of the update's norm
Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Course:
    """The first steps of a training.

    Attributes:
        losses: Of each step, before its update.
        first: Parameters after one step, by name.
        last: Parameters after all.
        gradients: Of the first step, by name; empty where nobody asks.
    """

    losses: Sequence[float]
    first: Mapping[str, Array]
    last: Mapping[str, Array]
    gradients: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What an engine is held against.

    Attributes:
        begin: Initial parameters, by name.
        trainable: Names of those that train.
        exact: The course in float64.
        rounded: Courses of torch in float32.
        kinked: Courses of torch whose kinks (of rectifiers, of maxima) lie a little lower, or higher.
    """

    begin: Mapping[str, Array]
    trainable: Sequence[str]
    exact: Course
    rounded: Sequence[Course]
    kinked: Sequence[Course] = ()

    def spread(self, off: Callable[[Course], float]) -> float:
        """By how much an engine may be off.

        Args:
            off: By how much a course of torch's is.
        """
        rounded = FACTOR * max(map(off, self.rounded))
        return max(rounded, OF_KINKS * max(map(off, self.kinked), default=0.0))

    def doubt(self, name: str) -> float:
        """Norm by which a parameter may be off since the sign of some gradients is not known.

        An optimizer that divides a gradient by its own size makes a whole step of one that is almost
        zero, in a direction that rounding decides.
        """
        exact = self.exact.gradients.get(name)
        if exact is None:
            return 0.0
        noise = FACTOR * max(
            float(np.sqrt(np.mean(np.square(each.gradients[name] - exact))))
            for each in self.rounded
        )
        unknown = int(np.count_nonzero(np.abs(exact) <= noise))
        # In float64 nothing may be left of a gradient of which float32 makes a whole step.
        farthest = max(
            float(np.max(np.abs(each.first[name] - self.begin[name]), initial=0.0))
            for each in (self.exact, *self.rounded)
        )
        return 2 * farthest * float(np.sqrt(unknown))

    @property
    def allowed(self) -> list[float]:
        """By how much the loss of each step may be off."""
        return [self._allowed(i, loss) for i, loss in enumerate(self.exact.losses)]

    def _allowed(self, step: int, loss: float) -> float:
        spread = self.spread(lambda course: abs(course.losses[step] - loss))
        return spread + LEAST_OF_LOSS * max(abs(loss), 1.0)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How far an engine was off.

    Attributes:
        loss: Largest difference of a loss over what is allowed.
        update: Likewise of a parameter's first update.
        weights: Likewise of the parameters after all steps.
        problems: What is wrong, a line each; empty: it trains as torch does.
    """

    loss: float
    update: float
    weights: float
    problems: Sequence[str] = ()


def check_finite(workload: str, reference: Reference) -> None:
    """Refuses a training that diverges on torch itself: nothing can be held against it.

    Raises:
        InvalidValueError: With the first loss that is no number to calculate with, or the weights.
    """
    in_words = [("float64", reference.exact), *(("float32", each) for each in reference.rounded)]
    for precision, course in in_words:
        for step, loss in enumerate(course.losses, start=1):
            if not abs(loss) <= MOST_NUMBER:
                raise InvalidValueError(
                    f"{workload} diverges on torch itself: in {precision} the loss of step {step} is {loss:.3g}; "
                    "choose a smaller learning rate (--optimizer NAME,lr=...)",
                    id="diverging-training",
                )
        if not all(np.isfinite(weights).all() for weights in course.last.values()):
            raise InvalidValueError(
                f"{workload} diverges on torch itself: in {precision} its weights are not finite after "
                f"{len(course.losses)} steps; choose a smaller learning rate (--optimizer NAME,lr=...)",
                id="diverging-training",
            )


def judge(engine: str, reference: Reference, course: Course) -> Verdict:
    """Holds the course of an engine against torch's.

    Args:
        engine: Its name, for what is said.
        reference: Torch's.
        course: The engine's, of as many steps.
    """
    problems = []
    of_loss = [
        abs(mine - exact) / allowed if np.isfinite(mine) else np.inf
        for mine, exact, allowed in zip(
            course.losses, reference.exact.losses, reference.allowed, strict=True
        )
    ]
    if max(of_loss) > 1:
        at = int(np.argmax(np.array(of_loss) > 1))
        problems.append(
            f"the loss of step {at + 1} is {course.losses[at]:.7g}, torch's in float64 is "
            f"{reference.exact.losses[at]:.7g} and may be off by {reference.allowed[at]:.2g}"
        )
    still = [
        name
        for name in reference.trainable
        if _moved(reference, course, name) == 0
        and min(_moved(reference, each, name) for each in reference.rounded) > 0
    ]
    if still:
        problems.append(
            f"{len(still)} of {len(reference.trainable)} parameters get no gradient on {engine}: "
            + ", ".join(still[:3])
            + ("" if len(still) <= 3 else ", ...")
        )
    of_update = {name: _off(reference, course, name, first=True) for name in reference.trainable}
    of_weights = {name: _off(reference, course, name, first=False) for name in reference.trainable}
    for what, off in (("first update", of_update), ("weights after all steps", of_weights)):
        wrong = [name for name in off if off[name] > 1 and name not in still]
        if wrong:
            worst = max(wrong, key=lambda name: off[name])
            problems.append(
                f"{what} of {len(wrong)} parameters are further off than float32 allows, most "
                f"{worst}: {off[worst]:.3g} times"
            )
    return Verdict(
        loss=max(of_loss),
        update=max(of_update.values(), default=0.0),
        weights=max(of_weights.values(), default=0.0),
        problems=problems,
    )


def check(engine: str, workload: str, verdict: Verdict) -> None:
    """Refuses an engine that trains something else.

    Raises:
        InvalidValueError: With what is wrong.
    """
    if verdict.problems:
        raise InvalidValueError(
            f"{engine} does not train {workload} as torch does: " + "; ".join(verdict.problems),
            id="wrong-training",
        )


def _moved(reference: Reference, course: Course, name: str) -> float:
    moved = np.asarray(course.first[name], np.float64) - reference.begin[name]
    return float(np.linalg.norm(moved))


def _off(reference: Reference, course: Course, name: str, *, first: bool) -> float:
    """By how much a parameter is off, over what it may be."""

    def distance(one: Course, other: Course) -> float:
        mine, theirs = (one.first, other.first) if first else (one.last, other.last)
        return float(np.linalg.norm(np.asarray(mine[name], np.float64) - theirs[name]))

    exact = reference.exact
    update = (exact.first if first else exact.last)[name] - reference.begin[name]
    allowed = reference.spread(lambda each: distance(each, exact))
    allowed += LEAST_OF_UPDATE * float(np.linalg.norm(update))
    # A weight itself is rounded when it is stored.
    allowed += float(np.linalg.norm(reference.begin[name])) * float(np.finfo(np.float32).eps)
    # A direction that is not known may be the wrong one in every step.
    allowed += reference.doubt(name) * (1 if first else len(exact.losses))
    off = distance(course, exact)
    if not np.isfinite(off):
        return float("inf")
    return off / allowed if allowed > 0 else (0.0 if off == 0 else float("inf"))
