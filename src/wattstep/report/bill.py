"""What a training comes to: time, watt-hours, and money and CO2 at a price and an intensity that somebody states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.run_report import RunReport

JOULES_PER_WH: Final = 3600.0
LEAST_STEPS: Final = 1000  # what a training has at least; a recording is often shorter


@dataclass(frozen=True, kw_only=True)
class Bill:
    """Time and energy of some steps or samples, and what the energy comes to.

    Attributes:
        count: Number of steps or samples that it is of.
        of: "steps" or "samples".
        time: In s, with the status of a step's time.
        energy: In Wh, with the status of the energy of a step.
        carbon: In g of CO2 equivalents, or None where no intensity was stated.
        cost: In the currency of the price, or None where none was stated.
    """

    count: int
    of: str
    time: Figure
    energy: Figure
    carbon: Figure | None = None
    cost: Figure | None = None

    def to_dict(self) -> dict[str, object]:
        """JSON-ready but for figures."""
        return {
            self.of: self.count, "time": self.time, "energy": self.energy, "carbon": self.carbon,
            "cost": self.cost,
        }  # fmt: skip


def bill(
    report: RunReport,
    *,
    grid: float | None = None,
    price: float | None = None,
    steps: int | None = None,
    samples: int | None = None,
) -> Iterator[Bill]:
    """What is asked for; else a run's steps, and a thousand where it had fewer.

    Args:
        report: Of the run.
        grid: Carbon intensity of the grid in g of CO2 equivalents a kWh.
        price: Of a kWh, in any currency.
        steps: Number of steps asked for.
        samples: Number of samples asked for.
    """
    recorded = report.steps.to_dict().get("recorded") or 0
    if samples is not None:
        yield _one(report, samples, "samples", grid, price)
    if steps is not None:
        yield _one(report, steps, "steps", grid, price)
    if steps is None and samples is None:
        for count in dict.fromkeys((recorded, max(recorded, LEAST_STEPS))):
            if count:
                yield _one(report, count, "steps", grid, price)


def _one(report: RunReport, count: int, of: str, grid: float | None, price: float | None) -> Bill:
    time = _time(report, count, of)
    name = "energy_per_step" if of == "steps" else "energy_per_sample"
    each = report.metrics.figure(name)
    if each is None or each.value is None:
        reason = (each and each.reason) or f"{name.replace('_', ' ')} is not known"
        return Bill(count=count, of=of, time=time, energy=missing("Wh", reason))
    method = f"{name.replace('_', ' ')} x {count:,}"
    return Bill(
        count=count,
        of=of,
        time=time,
        energy=_scaled(each, count / JOULES_PER_WH, "Wh", method),
        carbon=None if grid is None else _stated(each, count, grid, "g", f"{grid:g} g/kWh"),
        cost=None if price is None else _stated(each, count, price, "", f"{price:g} a kWh"),
    )


def _time(report: RunReport, count: int, of: str) -> Figure:
    """Time of training alone: without evaluations and what else is beside the steps."""
    if of == "steps":
        step = report.metrics.figure("step_time")
        if step is None or step.value is None:
            return missing("s", (step and step.reason) or "step time is not known")
        return _scaled(step, count, "s", f"step time x {count:,}")
    rate = report.metrics.figure("throughput")
    if rate is None or not rate.value:
        return missing("s", (rate and rate.reason) or "throughput is not known")
    return Figure(
        value=count / rate.value, unit="s", low=count / rate.high if rate.high else None,
        high=count / rate.low if rate.low else None, confidence=rate.confidence, n=rate.n,
        status=rate.status, source=rate.source, method=f"{count:,} by throughput",
    )  # fmt: skip


def _stated(step: Figure, steps: int, per_kwh: float, unit: str, what: str) -> Figure:
    """A product with a number that nobody measured: it is modelled, whatever the energy was."""
    figure = _scaled(step, steps * per_kwh / JOULES_PER_WH / 1000, unit, f"at {what}, as stated")
    return Figure(
        value=figure.value, unit=unit, low=figure.low, high=figure.high,
        confidence=figure.confidence, n=figure.n, status=Status.MODELLED,
        source=f"{step.source}; {what} as stated", method=figure.method,
    )  # fmt: skip


def _scaled(step: Figure, factor: float, unit: str, method: str) -> Figure:
    def times(value: float | None) -> float | None:
        return None if value is None else value * factor

    return Figure(
        value=times(step.value), unit=unit, low=times(step.low), high=times(step.high),
        confidence=step.confidence, n=step.n, status=step.status, source=step.source,
        method=method, reason=step.reason,
    )  # fmt: skip
