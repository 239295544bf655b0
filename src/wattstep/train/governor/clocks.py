"""Clocks of a machine that may be capped, by their files."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from wattstep.errors import InvalidValueError
from wattstep.record.sensors import read_text
from wattstep.record.sensors.tegra_gpu import find_clock
from wattstep.schema.channel import Absent
from wattstep.train.environment.device_state import nearest_clock
from wattstep.train.environment.keeper import CPUFREQ

Part = Literal["cpu", "gpu"]
REMEDY: Final = "--governor can be tried on an emulated board: --target emulate:jetson-tx2,slow=0.7"
LOWEST_SHARE: Final = 0.2  # of the highest clock: no slowdown that anybody allows goes below


@dataclass(frozen=True, kw_only=True)
class Clock:
    """A clock whose cap can be written; frequencies are in the unit of its file.

    Attributes:
        path: Its cap: `scaling_max_freq`, or `max_freq` of a devfreq device.
        part: What it drives.
        lowest: Least cap.
        cap: What its file says now: the highest that the device's own governor takes.
        offered: Those that its driver takes, in order; empty: any.
        unit_hz: Hz of the file's unit.
    """

    path: Path
    part: Part
    lowest: int
    cap: int
    offered: tuple[int, ...]
    unit_hz: float

    def at(self, share: float) -> int:
        """The cap that comes next to a share of the present one: on offer and not above it."""
        wanted = max(self.lowest, round(share * self.cap))
        if not self.offered:
            return wanted
        nearest = nearest_clock(wanted, self.offered)
        return self.lowest if nearest is None else round(nearest)


def find_clocks(root: Path, part: Part) -> tuple[Clock, ...]:
    """The clocks of the cores or of the GPU, each of which can be capped.

    Args:
        root: Of the file system.
        part: "cpu" or "gpu".

    Raises:
        InvalidValueError: There are none, or they may not be written.
    """
    clocks = _of_cores(root) if part == "cpu" else _of_gpu(root)
    if not clocks:
        looked = f"/{CPUFREQ}/policy*" if part == "cpu" else "/sys/class/devfreq/*/max_freq"
        raise InvalidValueError(
            f"--governor: no {looked}: this machine lets nobody set a clock (virtual machines and "
            f"containers usually do not). {REMEDY}",
            id="no-clock-control",
        )
    for clock in clocks:
        _check_writable(root, clock.path)
    return clocks


def offered_shares(clocks: Sequence[Clock]) -> tuple[float, ...]:
    """Caps that can be set, as shares of the present one, rising to 1: those of the highest clock.

    Where its driver takes any, a hundredth apart.
    """
    leading = max(clocks, key=lambda clock: clock.cap * clock.unit_hz)
    if not leading.offered:
        least = max(LOWEST_SHARE, leading.lowest / leading.cap)
        shares = [n / 100 for n in range(1, 101) if n / 100 >= least]
    else:
        shares = [each / leading.cap for each in leading.offered if each <= leading.cap]
        shares = [share for share in shares if share >= LOWEST_SHARE]
    return tuple(sorted({*shares, 1.0}))


def _of_cores(root: Path) -> tuple[Clock, ...]:
    clocks = []
    for folder in sorted((root / CPUFREQ).glob("policy[0-9]*")):
        path = folder / "scaling_max_freq"
        lowest = _numbers(folder / "cpuinfo_min_freq")
        cap = _numbers(path)
        if path.is_file() and lowest and cap:
            clocks.append(
                Clock(
                    path=_real(root, path), part="cpu", lowest=lowest[0], cap=cap[0],
                    offered=_numbers(folder / "scaling_available_frequencies"), unit_hz=1e3,
                )
            )  # fmt: skip
    return tuple(clocks)


def _of_gpu(root: Path) -> tuple[Clock, ...]:
    folder = find_clock(root)
    if folder is None:
        return ()
    path, cap = folder / "max_freq", _numbers(folder / "max_freq")
    lowest, offered = _numbers(folder / "min_freq"), _numbers(folder / "available_frequencies")
    if not (cap and (lowest or offered)):
        return ()
    return (
        Clock(
            path=_real(root, path), part="gpu", lowest=min(offered or lowest), cap=cap[0],
            offered=offered, unit_hz=1.0,
        ),
    )  # fmt: skip


def _numbers(path: Path) -> tuple[int, ...]:
    """Numbers of a file in order of size; none where it cannot be read."""
    text = read_text(path)
    return () if isinstance(text, Absent) else tuple(sorted(map(int, re.findall(r"\d+", text))))


def _real(root: Path, path: Path) -> Path:
    """The file behind links of folders, as /sys/class has them; one outside of the root is refused.

    Raises:
        InvalidValueError: The file itself is a link, or lies outside.
    """
    real = path.parent.resolve() / path.name
    if path.is_symlink() or not real.is_relative_to(root.resolve()):
        raise InvalidValueError(
            f"--governor: {path} leads elsewhere: nothing is written through it",
            id="clock-is-a-link",
        )
    return real


def _check_writable(root: Path, path: Path) -> None:
    """Refuses a cap that cannot be written.

    Raises:
        InvalidValueError: With what forbids it.
    """
    shown = f"/{path.relative_to(root.resolve())}"
    try:
        file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        mode = os.fstat(file).st_mode
        os.close(file)
        reason = "" if stat.S_ISREG(mode) and mode & 0o222 else "nobody may write it"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    if reason:
        raise InvalidValueError(
            f"--governor: {shown} cannot be written ({reason}): on a board of your own use sudo. "
            f"{REMEDY}",
            id="clock-not-writable",
        )
