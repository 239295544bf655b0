"""Protocol of maps between clocks: times, their uncertainty, and the rate."""

from __future__ import annotations

from typing import Any, Protocol


class Clock(Protocol):
    """The times of one clock (a tracer's, a phone's, a log's) as times of the run's, in ns.

    The map is piecewise linear: what lies between two moments that are known on both clocks stays
    between them. Beyond the outermost it goes on, and its uncertainty grows.
    """

    @property
    def rate(self) -> float:
        """Seconds of the run's clock in one of this clock, over all that is known."""
        ...

    def map(self, t_ns: Any) -> Any:
        """Times of this clock as times of the run's.

        Args:
            t_ns: An integer, or an array of int64; what is returned is the same.
        """
        ...

    def uncertainty_at(self, t_ns: Any) -> Any:
        """By how much `map` may be off on either side at times of this clock, in ns.

        Args:
            t_ns: As `map` takes it.
        """
        ...
