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
from wattstep.schedule.curve import MOST_VALUES, Curve, Point
from wattstep.schedule.tasks import Task
from wattstep.schedule.times import Running, Seconds, Times
from wattstep.schema.checks import at_least, listed, parse_json, record, string, whole, yes_no

FORMAT: Final = 1
MOST_THREADS: Final = 4096
# Page's test: what deviations of measurements from the model add up to, in standard deviations.
ALLOWANCE: Final = 0.5  # of each that is let pass
ALARM: Final = 8.0  # a false one every several thousand measurements
BELONGS: Final = 3  # deviations of a curve's own that say more of it than those of all

Key = tuple[str, str, int]  # kind, shape, cluster


class TaskTimes:
    """A performance model of measurements, as `Times`.

    Args:
        device: Whose, as its file names it.
        most: Threads of an operation at most, by cluster.
        prior: Answers for operations that were never measured; None: they are refused.
    """

    def __init__(self, device: str, most: Sequence[int], *, prior: Times | None = None) -> None:
        self.device, self.most, self.prior = device, tuple(most), prior
        self._curves: dict[Key, Curve] = {}
        self._switches: dict[tuple[int, int], list[float]] = defaultdict(list)
        self._beside: dict[tuple[str, str], list[float]] = defaultdict(list)
        # Page's sums of what is above and below, and the deviations since each was 0.
        self._sums = {1: 0.0, -1: 0.0}
        self._since: dict[int, list[tuple[Key, float]]] = {1: [], -1: []}

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
        curve = self._curves.setdefault(key, Curve(self.most[cluster]))
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
        self._beside[kind, other_kind] = [*self._beside[kind, other_kind], max(1.0, factor)][
            -MOST_VALUES:
        ]

    def next_to_try(self, kind: str, shape: str, cluster: int = 0) -> int | None:
        """The number of threads to measure next, as of `Curve`."""
        return self._curves.get((kind, shape, cluster), Curve(self.most[cluster])).next_to_try()

    # What is asked

    def seconds(self, task: Task, threads: int, cluster: int = 0) -> Seconds:
        """As `Times`.

        Raises:
            InvalidValueError: There is no such number of threads, or nothing is known of such a task.
        """
        self._check(threads, cluster)
        curve = self._curves.get((task.kind, task.shape, cluster))
        if curve is not None:
            return curve.at(threads)
        if self.prior is None:
            raise InvalidValueError(
                f"nothing was measured of {task.kind} {task.shape} on {self.device}", id="unmeasured-operation"
            )  # fmt: skip
        return self.prior.seconds(task, threads, cluster)

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

    def slowdown(self, one: Running, others: Sequence[Running]) -> float:
        """As `Times`: the factors of pairs of kinds multiply; of pairs that nobody measured, the prior's."""
        factor, unknown = 1.0, []
        for other in others:
            values = self._beside.get((one.task.kind, other.task.kind))
            if values:
                factor *= median(values)
            else:
                unknown.append(other)
        if unknown and self.prior is not None:
            factor *= self.prior.slowdown(one, unknown)
        return factor

    # A change of the device's state

    def disturbed(self) -> bool:
        """True once measurements have moved away from the model further than noise does: `relearn` is due."""
        return max(self._sums.values()) > ALARM

    def relearn(self) -> float:
        """Takes what was measured for that of another state: scaled to this one, and to be measured again.

        Returns:
            How many times as long operations take now.
        """
        deviations = _changed(self._since[max(self._sums, key=lambda sign: self._sums[sign])])
        common = median(deviation for _, deviation in deviations) if deviations else 0.0
        own: dict[Key, list[float]] = defaultdict(list)
        for key, deviation in deviations:
            own[key].append(deviation)
        for key, curve in self._curves.items():
            values = own[key] if len(own[key]) >= BELONGS else [common]
            curve.scale(exp(median(values)))
        for sign in self._sums:
            self._sums[sign] = 0.0
            self._since[sign].clear()
        return exp(common)

    def _watch(self, key: Key, seconds: float, point: Point, noise: float) -> None:
        """Adds a measurement's deviation from those before to Page's sums."""
        deviation = log(seconds / point.value)
        scaled = deviation / (noise * sqrt(1 + 1 / len(point.seconds)))
        for sign in self._sums:
            self._sums[sign] = max(0.0, self._sums[sign] + sign * scaled - ALLOWANCE)
            if self._sums[sign] == 0.0:
                self._since[sign].clear()
            else:
                self._since[sign].append((key, deviation))

    def _check(self, threads: int, cluster: int) -> None:
        if not 0 <= cluster < len(self.most):
            raise InvalidValueError(
                f"{self.device} has no cluster {cluster}: it has {len(self.most)}"
            )
        if not 1 <= threads <= self.most[cluster]:
            raise InvalidValueError(
                f"{threads} threads: cluster {cluster} of {self.device} has 1 to {self.most[cluster]}",
                id="too-many-threads",
            )

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
            if each["cluster"] >= len(model.most):
                raise ValueError(f"there is no cluster {each['cluster']}")
            curve = model._curves.setdefault(
                (each["kind"], each["shape"], each["cluster"]), Curve(model.most[each["cluster"]])
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
        return model

    def save(self, path: Path) -> None:
        """Writes it as JSON, whole or not at all."""
        beside = path.with_name(path.name + ".part")
        beside.write_text(json.dumps(self.to_dict()), encoding="utf-8")
        beside.replace(path)

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
            model = cls.from_dict(parse_json(path.read_bytes()), prior=prior)
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


def _changed(deviations: Sequence[tuple[Key, float]]) -> Sequence[tuple[Key, float]]:
    """The last of them, from where they most likely are of another level than 0: least squares."""
    total, best, first = 0.0, 0.0, len(deviations)
    for place in range(len(deviations) - 1, -1, -1):
        total += deviations[place][1]
        explained = total**2 / (len(deviations) - place)
        if explained > best:
            best, first = explained, place
    return deviations[first:]


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
        "beside": listed(
            record({"kind": string, "other": string, "factors": listed(at_least(1.0))})
        ),
    }
)
