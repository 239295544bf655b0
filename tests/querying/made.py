"""A run with known power for queries."""

from __future__ import annotations

from pathlib import Path

from tests.run.made import Made, Sampled, make_run, power

WATTS = 5.0


def made(path: Path) -> Made:
    """A run of 60 steps at 5 W."""
    return make_run(path, [Sampled(channel=power(), raw=lambda t_ns: int(1000 * WATTS))])
