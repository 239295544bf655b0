"""What each processor did while samples were labeled, why one did nothing, and the energy, as figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wattstep.labeling.costs import every_set, fastest
from wattstep.labeling.placement import LEAST, REPEATS, Placement, Tally
from wattstep.labeling.power import CONFIDENCE
from wattstep.schema.figure import CLOCK, Figure, Status, missing


@dataclass(frozen=True, kw_only=True)
class Share:
    """A processor's part.

    Attributes:
        name: As the user calls it.
        device: What it is.
        samples: That were looked up on it, without those of measurements.
        share: Of all that were looked up.
        sample: Time of a sample, while no other processor works.
        piece: Time that each piece takes beside that of its samples.
        hold: Time until it holds what samples are looked up in, each time that this has changed.
        slower: Times as long while others work as well.
        power: That it adds to the idle device's while it works; missing where nobody said it.
        with_it: Time of a piece of `PlacementReport.largest` samples that it has a share in, at best.
        without: Time of one that it has none in, at best; missing where there is no other.
    """

    name: str
    device: str
    samples: int
    share: float
    sample: Figure
    piece: Figure
    hold: Figure
    slower: Figure
    power: Figure
    with_it: Figure
    without: Figure

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready but for figures."""
        names = (
            "name", "device", "samples", "share", "sample", "piece", "hold", "slower", "power",
            "with_it", "without",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Within which pieces were to be looked up.

    Attributes:
        seconds: The bound.
        held: Pieces that were predicted to end within it, with the least energy; others had the fastest shares.
        kept: Pieces that ended within it, as measured.
    """

    seconds: float
    held: int
    kept: int


@dataclass(frozen=True, kw_only=True)
class PlacementReport:
    """Of all that one command labeled.

    Attributes:
        shares: By processor.
        pieces: That were shared by measured costs.
        largest: Samples of the largest of them.
        predicted, measured: Time of looking up a piece, mean over all.
        energy: Of looking up a piece, beyond what the idle device takes, mean over all.
        energy_fastest: The same by the shares that would have ended first.
        latency: None: no bound was stated.
    """

    shares: tuple[Share, ...]
    pieces: int
    largest: int
    predicted: Figure
    measured: Figure
    energy: Figure
    energy_fastest: Figure
    latency: Bound | None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready but for figures."""
        return {
            "processors": [each.to_dict() for each in self.shares],
            "pieces": self.pieces,
            "largest": self.largest,
            "predicted": self.predicted,
            "measured": self.measured,
            "energy": self.energy,
            "energy_fastest": self.energy_fastest,
            "latency": None if self.latency is None else asdict(self.latency),
        }


def placement_report(placement: Placement) -> PlacementReport:
    """What came of a placement so far."""
    whole = sum(each.samples for each in placement.tallies)
    pieces, largest, bound = placement.pieces, placement.largest, placement.latency_s
    mean = f"mean over {pieces} pieces"
    return PlacementReport(
        shares=tuple(
            _share(placement, number, whole) for number in range(len(placement.tallies))
        ),
        pieces=pieces,
        largest=largest,
        predicted=_predicted(placement.planned / pieces, mean) if pieces else _none(),
        measured=_measured(placement.taken / pieces, "s", pieces, mean) if pieces else _none(),
        energy=_energy(placement, [each.busy for each in placement.tallies]),
        energy_fastest=_energy(placement, [each.busy_fastest for each in placement.tallies]),
        latency=None if bound is None else Bound(seconds=bound, held=placement.held, kept=placement.kept),
    )  # fmt: skip


def _share(placement: Placement, number: int, whole: int) -> Share:
    tally = placement.tallies[number]
    sets = every_set(len(placement.tallies))
    return Share(
        name=tally.processor.name,
        device=tally.processor.device,
        samples=tally.samples,
        share=tally.samples / whole if whole else 0.0,
        power=tally.power,
        with_it=_best(placement, [each for each in sets if number in each]),
        without=_best(placement, [each for each in sets if number not in each]),
        **_costs(tally),
    )


def _costs(tally: Tally) -> dict[str, Figure]:
    cost = tally.cost
    if cost is None:
        return {name: _none() for name in ("sample", "piece", "hold")} | {"slower": _none("ratio")}
    told = f"least of {REPEATS} each, of a piece and of a quarter of it"
    return {
        "sample": _measured(cost.changed * cost.sample, "s", REPEATS, told),
        "piece": _measured(cost.changed * cost.piece, "s", REPEATS, told),
        "hold": _measured(cost.hold, "s", 1, "once"),
        "slower": _measured(
            cost.slower / cost.changed, "ratio", len(tally.beside),
            "median over recent pieces that were shared, of measured over calibrated",
        )
        if len(tally.beside)
        else missing("ratio", "no piece that it shared lately"),
    }  # fmt: skip


def _best(placement: Placement, sets: list[tuple[int, ...]]) -> Figure:
    if not placement.pieces:
        return _none()
    if not sets:
        return missing("s", "there is no other processor")
    split = fastest(placement.costs(), placement.largest, sets)
    return _predicted(split.seconds, "by measured costs, all shares side by side")


def _energy(placement: Placement, seconds: Sequence[float]) -> Figure:
    """Of a piece, mean over all.

    Args:
        placement: Has powers.
        seconds: That each processor was to work on all pieces.
    """
    powers = [each.power for each in placement.tallies]
    unknown = next((power.reason for power in powers if power.missing), None)
    if unknown is not None:
        return missing("J", unknown)
    if not placement.pieces:
        return _none("J")
    joules = [
        power.scaled(each / placement.pieces, "J")
        for power, each in zip(powers, seconds, strict=True)
    ]
    ranged = any(each.low is not None for each in joules)

    def summed(ends: Iterable[float | None]) -> float:
        pairs = zip(joules, ends, strict=True)
        return sum(float(one) if end is None else end for one, end in pairs)

    return Figure(
        value=sum(map(float, joules)),
        unit="J",
        low=summed(each.low for each in joules) if ranged else None,
        high=summed(each.high for each in joules) if ranged else None,
        confidence=CONFIDENCE if ranged else None,
        status=Status.PREDICTED,
        source="; ".join(dict.fromkeys(str(power.source) for power in powers)),
        n=placement.pieces,
        method="predicted seconds of work of each processor, times the power that it adds; interval of the powers alone",
    )


def _measured(value: float, unit: str, n: int, method: str) -> Figure:
    return Figure(value=value, unit=unit, status=Status.MEASURED, source=CLOCK, n=n, method=method)


def _predicted(value: float, method: str) -> Figure:
    return Figure(
        value=value, unit="s", status=Status.PREDICTED, source="costs of processors", method=method
    )


def _none(unit: str = "s") -> Figure:
    return missing(unit, f"no piece had {LEAST} readable samples")
