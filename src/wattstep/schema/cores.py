"""Sets of CPU cores as options name them, e.g. "0-3+5"."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from wattstep.errors import InvalidValueError


def parse_cores(text: str, named: str | None = None) -> tuple[int, ...]:
    """A set of cores from "0-3+5".

    Args:
        text: The set.
        named: What the user wrote; None: it as `--cores`.

    Raises:
        InvalidValueError: It is none.
    """
    cores: set[int] = set()
    for part in text.split("+"):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise InvalidValueError(f"{named or f'--cores {text!r}'}: write sets like 0-3 or 0+2")
        cores.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(cores))


def parse_clusters(text: str) -> tuple[tuple[int, ...], ...]:
    """Sets of cores of several kinds from "0-3,4-7"; one set is of one kind.

    Raises:
        InvalidValueError: One is none, or has a core of another.
    """
    named = f"--cores {text!r}"
    clusters = tuple(parse_cores(part, named) for part in text.split(","))
    if len({core for each in clusters for core in each}) < sum(map(len, clusters)):
        raise InvalidValueError(f"{named}: a core is in one set alone")
    return clusters


def check_cores(text: str, named: str | None = None) -> tuple[int, ...]:
    """A set of cores that this process may run on, as `parse_cores` reads it.

    Raises:
        InvalidValueError: It is none, or some are not there or not allowed.
    """
    allowed = os.sched_getaffinity(0)
    cores = parse_cores(text, named)
    if refused := [core for core in cores if core not in allowed]:
        raise InvalidValueError(
            f"{named or f'--cores {text}'}: {spell_cores(refused)} {'is' if len(refused) == 1 else 'are'} not among "
            f"those that this process may run on ({spell_cores(allowed)})",
            id="core-refused",
        )
    return cores


def spell_cores(cores: Iterable[int]) -> str:
    """The inverse of `parse_cores`: runs of cores as ranges."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return "+".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
