"""The performance model of one device, learned from what its operations took: threads, changes of threads, neighbours."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from math import exp, log, sqrt
from pathlib import Path
from statistics import median
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.schedule.curve import MOST_VALUES, SURE, Curve, Point
from wattstep.schedule.page import PageTest
from wattstep.schedule.tasks import Task
from wattstep.schedule.times import ALONE, Factor, Running, Seconds, Times
from wattstep.schema.checks import at_least, listed, parse_json, record, string, whole, yes_no
from wattstep.store.folder import read_plain, replacing

FORMAT: Final = 4  # 4: factors of states that came and went do not multiply
MOST_THREADS: Final = 4096
BELONGS: Final = 3  # deviations of a curve's own that say more of it than those of all
MOST_FACTOR: Final = (
    20.0  # of neighbours: an estimate is no larger, and one as large as that is none
)
UNSTEADY: Final = 0.1  # of a factor of neighbours as it is estimated once, as a logarithm

Key = tuple[str, str, int]  # kind, shape, cluster


class TaskTimes:
    """A performance model of measurements, as `Times`.

    Args:
        device: Whose, as its file names it.
        most: Threads of an operation at most, by cluster. Of several, what was measured on the cores of all
            together is that of a cluster behind the last (`together`), and counts for operations of more threads
            than their cluster has cores.
        prior: Answers for operations that were never measured; None: they are refused.
    """

    def __init__(self, device: str, most: Sequence[int], *, prior: Times | None = None) -> None:
        self.device, self.most, self.prior = device, tuple(most), prior
        self._curves: dict[Key, Curve] = {}
        self._switches: dict[tuple[int, int], list[float]] = defaultdict(list)
        self._beside: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._handovers: list[float] = []
        self._page = PageTest[Key]()

    @property
    def together(self) -> int:
        """The number for all clusters together, where there are several."""
        return len(self.most)

    # What is measured

    def add(self, kind: str, shape: str, threads: int, seconds: float, cluster: int = 0) -> None:
        """One measurement of an operation alone.

        Args:
            kind: Of the operation.
            shape: Of its inputs.
            threads: That it had.
            seconds: That it took.
            cluster: Where it ran.

        Raises:
            InvalidValueError: There is no such cluster or number of threads, or it took no time.
        """
        self._check(threads, cluster)
        if not 0 < seconds < float("inf"):
            raise InvalidValueError(
                f"{kind} on {threads} threads took {seconds} s, which cannot be"
            )
        key = (kind, shape, cluster)
        curve = self._curves.setdefault(key, Curve(self._most(cluster)))
        point = curve.points.get(threads)
        if point is not None and not point.is_stale:
            self._watch(key, seconds, point, curve.noise())
        curve.add(threads, seconds)

    def add_switch(self, from_threads: int, to_threads: int, seconds: float) -> None:
        """What one change of a worker's number of threads cost."""
        self._switches[from_threads, to_threads] = [
            *self._switches[from_threads, to_threads],
            max(0.0, seconds),
        ][-MOST_VALUES:]

    def add_beside(self, kind: str, other_kind: str, factor: float) -> None:
        """How many times as long an operation took while one of another kind ran beside it."""
        self._beside[kind, other_kind] = [*self._beside[kind, other_kind], factor][-MOST_VALUES:]

    def add_handover(self, seconds: float) -> None:
        """What passed from the end of a task to the begin of one that another worker had waited with."""
        self._handovers = [*self._handovers, max(0.0, seconds)][-MOST_VALUES:]

    def next_to_try(self, kind: str, shape: str, cluster: int = 0) -> int | None:
        """The number of threads to measure next, as of `Curve`."""
        return self._curves.get((kind, shape, cluster), Curve(self.most[cluster])).next_to_try()

    # What is asked

    def seconds(self, task: Task, threads: int, cluster: int = 0) -> Seconds:
        """As `Times`.

        Raises:
            InvalidValueError: There is no such number of threads, or nothing is known of such a task.
        """
        spans = cluster < len(self.most) > 1 and threads > self.most[cluster]
        place = self.together if spans else cluster
        self._check(threads, place)
        curve = self._curves.get((task.kind, task.shape, place))
        if curve is not None:
            return curve.at(threads)
        if self.prior is None:
            raise InvalidValueError(
                f"nothing was measured of {task.kind} {task.shape} on {self.device}", id="unmeasured-operation"
            )  # fmt: skip
        return self.prior.seconds(task, threads, cluster)

    @property
    def known(self) -> int:
        """Number of operations that were measured."""
        return len(self._curves)

    def knows(self, kind: str, shape: str, cluster: int = 0) -> bool:
        """True if an operation was measured."""
        return (kind, shape, cluster) in self._curves

    def best(self, kind: str, shape: str, cluster: int = 0) -> int:
        """The number of threads with which an operation that was measured takes least."""
        return self._curves[kind, shape, cluster].best()

    def switch_s(self, from_threads: int, to_threads: int) -> float:
        """As `Times`: of changes that nobody measured, the median of those that were."""
        if from_threads == to_threads:
            return 0.0
        own = self._switches.get((from_threads, to_threads))
        if own:
            return median(own)
        if self._switches:
            return median(one for values in self._switches.values() for one in values)
        return 0.0 if self.prior is None else self.prior.switch_s(from_threads, to_threads)

    def slowdown(self, one: Running, others: Sequence[Running]) -> Factor:
        """As `Times`: the factors of pairs of kinds multiply; of pairs that nobody measured, the prior's."""
        factor, unknown = ALONE, []
        for other in others:
            pair = self.beside(one.task.kind, other.task.kind)
            if pair is None:
                unknown.append(other)
            else:
                factor = _product(factor, pair)
        if unknown and self.prior is not None:
            factor = _product(factor, self.prior.slowdown(one, unknown))
        return factor

    def beside(self, kind: str, other_kind: str) -> Factor | None:
        """How many times as long an operation takes beside one of another kind; None: nobody measured it."""
        values = self._beside.get((kind, other_kind))
        if not values:
            return None
        middle = median(values)
        if max(values) >= MOST_FACTOR * 0.999:  # something else held them up, who knows how long
            return Factor(max(1.0, middle), 1.0, MOST_FACTOR)
        squares = sum(log(one / middle) ** 2 for one in values)
        # The spread of so few is drawn towards what such estimates spread by.
        spread = sqrt((squares + 2 * UNSTEADY**2) / (len(values) + 1))
        half = SURE * spread / sqrt(len(values))
        ends = (middle, middle * exp(-half), middle * exp(half))
        return Factor(*(max(1.0, one) for one in ends))

    def pairs(self) -> dict[tuple[str, str], Factor]:
        """How kinds slow each other down, as far as that was measured, by kind and the one beside it."""
        return {pair: each for pair in sorted(self._beside) if (each := self.beside(*pair))}

    def handover_s(self) -> float:
        """As `Times`."""
        if self._handovers:
            return median(self._handovers)
        return 0.0 if self.prior is None else self.prior.handover_s()

    # A change of the device's state

    def disturbed(self) -> bool:
        """True once measurements have moved away from the model further than noise does: `relearn` is due."""
        return self._page.alarmed

    def change(self) -> float:
        """Times as long as by the model that operations take since they have moved away from it."""
        deviations = self._page.moved()
        return exp(median(deviation for _, deviation in deviations)) if deviations else 1.0

    def relearn(self) -> float:
        """Takes what was measured for that of another state: scaled to this one, and to be measured again.

        Returns:
            How many times as long operations take now.
        """
        deviations, factor = self._page.moved(), self.change()
        own: dict[Key, list[float]] = defaultdict(list)
        for key, deviation in deviations:
            own[key].append(deviation)
        for key, curve in self._curves.items():
            enough = len(own[key]) >= BELONGS
            curve.scale(exp(median(own[key])) if enough else factor)
        self._page.clear()
        return factor

    def settle(self) -> None:
        """What was seen of a change so far counts no more: a model that was read begins anew."""
        self._page.clear()

    def _watch(self, key: Key, seconds: float, point: Point, noise: float) -> None:
        """Adds a measurement's deviation from those before to Page's sums."""
        deviation = log(seconds / point.value)
        self._page.add(key, deviation, deviation / (noise * sqrt(1 + 1 / len(point.seconds))))

    def _check(self, threads: int, cluster: int) -> None:
        if not 0 <= cluster < self._places:
            raise InvalidValueError(
                f"{self.device} has no cluster {cluster}: it has {len(self.most)}"
            )
        most = self._most(cluster)
        if not 1 <= threads <= most:
            raise InvalidValueError(
                f"{threads} threads: cluster {cluster} of {self.device} has 1 to {most}",
                id="too-many-threads",
            )

    @property
    def _places(self) -> int:
        """Clusters, with that of all together."""
        return len(self.most) + (len(self.most) > 1)

    def _most(self, cluster: int) -> int:
        return self.most[cluster] if cluster < len(self.most) else sum(self.most)

    # On disk

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "format": FORMAT,
            "device": self.device,
            "most": list(self.most),
            "operations": [
                {
                    "kind": kind, "shape": shape, "cluster": cluster,
                    "points": [
                        {"threads": threads, "seconds": list(point.seconds), "stale": point.is_stale}
                        for threads, point in sorted(curve.points.items())
                    ],
                }
                for (kind, shape, cluster), curve in sorted(self._curves.items())
            ],
            "switches": [
                {"from": first, "to": second, "seconds": values}
                for (first, second), values in sorted(self._switches.items())
            ],
            "beside": [
                {"kind": kind, "other": other, "factors": values}
                for (kind, other), values in sorted(self._beside.items())
            ],
            "handovers": self._handovers,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, document: Any, *, prior: Times | None = None) -> TaskTimes:
        """The inverse of `to_dict`.

        Raises:
            ValueError: It is no such document.
        """
        checked = _DOCUMENT(document)
        model = cls(checked["device"], checked["most"], prior=prior)
        for each in checked["operations"]:
            if each["cluster"] >= model._places:
                raise ValueError(f"there is no cluster {each['cluster']}")
            curve = model._curves.setdefault(
                (each["kind"], each["shape"], each["cluster"]), Curve(model._most(each["cluster"]))
            )
            for point in each["points"]:
                if point["threads"] > curve.most or not point["seconds"]:
                    raise ValueError(f"{each['kind']}: no point of {point['threads']} threads")
                curve.points[point["threads"]] = Point(
                    seconds=list(point["seconds"]), is_stale=point["stale"]
                )
        for each in checked["switches"]:
            model._switches[each["from"], each["to"]] = list(each["seconds"])
        for each in checked["beside"]:
            model._beside[each["kind"], each["other"]] = list(each["factors"])
        model._handovers = list(checked["handovers"])
        return model

    def save(self, path: Path) -> None:
        """Writes it as JSON, whole or not at all.

        Raises:
            OSError: It cannot be written.
        """
        with replacing(path) as file:
            file.write(json.dumps(self.to_dict()).encode())

    @classmethod
    def load(cls, path: Path, device: str, *, prior: Times | None = None) -> TaskTimes:
        """What `save` wrote.

        Args:
            path: Of the file.
            device: Whose model is wanted.
            prior: As of the class.

        Raises:
            InvalidValueError: There is no such file, it is no model, or one of another device.
        """
        try:
            model = cls.from_dict(parse_json(read_plain(path)), prior=prior)
        except (OSError, ValueError) as error:
            raise InvalidValueError(
                f"{path} is no performance model: {error}", id="damaged-performance-model"
            ) from error
        if model.device != device:
            raise InvalidValueError(
                f"{path} is the performance model of {model.device}, not of {device}",
                id="other-performance-model",
            )
        return model


def _product(one: Factor, other: Factor) -> Factor:
    return Factor(one.value * other.value, one.low * other.low, one.high * other.high)


_THREADS: Final = whole(1, MOST_THREADS)
_POSITIVE: Final = at_least(1e-12)
_DOCUMENT: Final = record(
    {
        "format": whole(FORMAT, FORMAT),
        "device": string,
        "most": listed(_THREADS),
        "operations": listed(
            record(
                {
                    "kind": string,
                    "shape": string,
                    "cluster": whole(0, 64),
                    "points": listed(
                        record({"threads": _THREADS, "seconds": listed(_POSITIVE), "stale": yes_no})
                    ),
                }
            )
        ),
        "switches": listed(
            record({"from": _THREADS, "to": _THREADS, "seconds": listed(at_least(0.0))})
        ),
        "beside": listed(record({"kind": string, "other": string, "factors": listed(_POSITIVE)})),
        "handovers": listed(at_least(0.0)),
    }
)
