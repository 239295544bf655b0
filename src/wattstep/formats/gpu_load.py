"""Load of a phone's GPU as the drivers of Adreno, Mali and MediaTek's GED write it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wattstep.formats.recording import FormatError, decoded

_PAIR = re.compile(r"\s*([0-9]{1,18})\s+([0-9]{1,18})\s*")
_PERCENT = re.compile(r"\s*([0-9]{1,3})\s*%?\s*")
_GED = re.compile(r"\s*([0-9]{1,3})\s+([0-9]{1,3})\s+([0-9]{1,3})\s*")


@dataclass(frozen=True, kw_only=True)
class Busy:
    """Adreno's `gpubusy`: of the last window that ended, in µs."""

    busy_us: int
    total_us: int

    @property
    def share(self) -> float | None:
        """None where there was no window: the GPU is powered down."""
        return self.busy_us / self.total_us if self.total_us else None


def parse_gpubusy(data: bytes | str) -> Busy:
    """Two padded integers, busy and total; "0 0" while the GPU is powered down.

    Raises:
        FormatError: It is something else, or busy is more than total.
    """
    text = decoded(data)
    match = _PAIR.fullmatch(text)
    if match is None:
        raise FormatError("gpubusy", 1, f"{text[:40]!r}")
    busy, total = int(match[1]), int(match[2])
    if busy > total:
        raise FormatError("gpubusy", 1, f"busy {busy} of {total} µs")
    return Busy(busy_us=busy, total_us=total)


def parse_percent(data: bytes | str) -> float:
    """ "13 %", "13%" or "13" of Exynos, Mali and Adreno, as a ratio.

    Raises:
        FormatError: It is something else, or more than 100.
    """
    text = decoded(data)
    match = _PERCENT.fullmatch(text)
    if match is None or int(match[1]) > 100:
        raise FormatError("GPU load", 1, f"{text[:40]!r}")
    return int(match[1]) / 100


def parse_ged(data: bytes | str) -> float:
    """MediaTek's "loading block idle" in percent, or the first alone: loading as a ratio.

    Raises:
        FormatError: It is something else, or more than 100.
    """
    text = decoded(data)
    match = _GED.fullmatch(text)
    if match is None:
        return parse_percent(text)
    if max(int(part) for part in match.groups()) > 100:
        raise FormatError("GPU load", 1, f"{text[:40]!r}")
    return int(match[1]) / 100
