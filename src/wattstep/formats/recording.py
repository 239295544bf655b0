"""Recording of sensors, whatever the format of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wattstep.errors import InvalidValueError
from wattstep.schema.channel import Channel

if TYPE_CHECKING:  # sensors use formats in the process that trains, where numpy may be absent
    import numpy as np


def decoded(data: bytes | str) -> str:
    """What a tool wrote as text; bytes that are none become U+FFFD."""
    return data if isinstance(data, str) else data.decode(errors="replace")


class FormatError(InvalidValueError):
    """Text that is not of the format, with the line at which it stops being so."""

    id = "malformed-line"

    def __init__(self, format_name: str, line: int, problem: str, id: str = "") -> None:
        super().__init__(f"line {line} is no {format_name}: {problem}", id=id)
        self.line = line


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """Recorded values of one device.

    Attributes:
        format: Name of the format, e.g. "tegrastats".
        channels: As a live sensor of that device would give them, but with `scale` 1: values are
            in the channel's unit.
        t_ns: By channel: times in ns, strictly increasing, int64. They count from the first row
            where the file has no clock of its own.
        value: By channel: values, float64; NaN where the file says that there is none.
        clock: "wall" (ns since 1970), "monotonic", or "counted" (rows at the stated interval).
        board: Name of the board's table where the file tells, else None.
        notes: What a reader must know ("interval asked 5 ms; lines came 18 ms apart").
        ignored: What stands in the file and became no value, by reason: how often.
        aside: By heading of a column that is not read: in which rows of the others it has a value, bool.
    """

    format: str
    channels: tuple[Channel, ...]
    t_ns: Mapping[str, np.ndarray]
    value: Mapping[str, np.ndarray]
    clock: str
    board: str | None = None
    notes: tuple[str, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)
    aside: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """From the first value to the last."""
        times = [t for t in self.t_ns.values() if len(t)]
        if not times:
            return 0.0
        return float(max(t[-1] for t in times) - min(t[0] for t in times)) * 1e-9

    @property
    def values(self) -> int:
        """Number of finite values."""
        import numpy as np

        return sum(int(np.isfinite(v).sum()) for v in self.value.values())
