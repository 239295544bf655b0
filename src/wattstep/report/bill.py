"""What a run's energy comes to in watt-hours, money and CO2, at an intensity and a price that somebody states."""

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
    """Energy of some steps, and what it comes to.

    Attributes:
        steps: Number of steps that it is of.
        energy: In Wh, with the status of the energy of a step.
        carbon: In g of CO2 equivalents, or None where no intensity was stated.
        cost: In the currency of the price, or None where none was stated.
    """

    steps: int
    energy: Figure
    carbon: Figure | None = None
    cost: Figure | None = None

    def to_dict(self) -> dict[str, object]:
        """JSON-ready but for figures."""
        return {
            "steps": self.steps, "energy": self.energy, "carbon": self.carbon, "cost": self.cost
        }  # fmt: skip


def bill(
    report: RunReport, *, grid: float | None = None, price: float | None = None
) -> Iterator[Bill]:
    """A run's steps, and a thousand where it had fewer.

    Args:
        report: Of the run.
        grid: Carbon intensity of the grid in g of CO2 equivalents a kWh.
        price: Of a kWh, in any currency.
    """
    step = report.metrics.figure("energy_per_step")
    recorded = report.steps.to_dict().get("recorded") or 0
    for steps in dict.fromkeys((recorded, max(recorded, LEAST_STEPS))):
        if not steps:
            continue
        if step is None or step.value is None:
            reason = (step and step.reason) or "energy per step is not known"
            yield Bill(steps=steps, energy=missing("Wh", reason))
            continue
        yield Bill(
            steps=steps,
            energy=_scaled(step, steps / JOULES_PER_WH, "Wh", f"energy per step x {steps:,}"),
            carbon=None if grid is None else _stated(step, steps, grid, "g", f"{grid:g} g/kWh"),
            cost=None if price is None else _stated(step, steps, price, "", f"{price:g} a kWh"),
        )


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
