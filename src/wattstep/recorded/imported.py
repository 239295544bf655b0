"""Files of a run that other tools recorded, and how their clocks fit together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wattstep.recorded.power import spoken
from wattstep.recorded.steps import Steps
from wattstep.schema.figure import Figure, Status, weakest
from wattstep.schema.run_info import RunInfo

NO_TELEMETRY = "no telemetry was imported"
NO_TRACE = "no trace was imported: there are no steps"
NO_OPERATIONS = "no trace was imported: there are no operations"
ELSEWHERE = "another tool recorded it: what that cost is not known"
ONLY_TOTALS = "the trace keeps totals only: there are no steps"
NO_STEPS = "the trace holds no step"
ATTACHED = (
    "it was recorded from outside, while it ran: no steps are marked, figures are of the whole"
)
UNMARKED = (
    "the trace marks no steps: say which of its annotations are steps (--step-name; torch.profiler "
    "marks them where it has a schedule); figures are "
    "of the whole trace"
)
TRACED = "traced steps: the profiler's own cost is in them"
WHOLE_TRACE = "over the whole trace, the profiler's own cost in it"
FOUND = "steps found from the period of the power, not marked"
WHOLE = "over the whole recording"
UNKNOWN = (
    "not resolvable: how exactly the clocks of trace and telemetry fit together is not known; "
    "align them by load, by marks or by an offset (--align)"
)
_WHOLE = "whole"  # what a trace without marked steps says of them


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Alignment of a file's clock with that of the trace.

    Attributes:
        file: Which file.
        method: In words that go on from "clocks aligned": "by load".
        uncertainty_s: Half of the interval in which its times may be shifted, in s; None: not known.
    """

    file: str
    method: str
    uncertainty_s: float | None

    @property
    def words(self) -> str:
        """Note on figures that rest on both files."""
        if self.uncertainty_s is None:
            return f"clocks aligned {self.method}, how exactly is not known"
        return f"clocks aligned to ± {spoken(self.uncertainty_s)} {self.method}"

    @property
    def by_load(self) -> bool:
        """True if it was placed by load, which takes half of what a value averages over off."""
        return self.method.startswith("by load")

    @property
    def reach_s(self) -> float:
        """The uncertainty, to compare with; infinite where it is not known."""
        return math.inf if self.uncertainty_s is None else self.uncertainty_s


class Imported:
    """The imported files of a run; `{}` of a run of our own is none at all.

    Args:
        info: Of the run; its `imported` holds "trace" (a mapping), "telemetry" and "alignment"
            (lists of mappings), each of which may be left out.
    """

    def __init__(self, info: RunInfo) -> None:
        imported = info.imported
        self.is_import = bool(imported)
        self.trace: Mapping[str, Any] = imported.get("trace") or {}
        self.telemetry: tuple[Mapping[str, Any], ...] = tuple(imported.get("telemetry") or ())
        self.power_steps: Mapping[str, Any] = imported.get("steps") or {}
        self._alignments = tuple(map(_alignment, imported.get("alignment") or ()))
        self._file_of = {
            channel.name: read.path for read in info.reads for channel in read.channels
        }

    @property
    def trace_is_one_step(self) -> bool:
        """True if no step was marked in the trace, so that it stands as one."""
        return self.trace.get("steps") == _WHOLE

    @property
    def traced_by(self) -> str:
        """Name of the trace, for the source of figures."""
        parts = (self.trace.get("format"), self.trace.get("file"))
        return ", ".join(str(part) for part in parts if part) or "imported trace"

    def without_steps(self, totals: bool) -> str:
        """Reason why there are no steps.

        Args:
            totals: Whether there are totals of operations.
        """
        if totals:
            return ONLY_TOTALS
        if reason := self.power_steps.get("reason"):
            return f"no trace was imported; {reason}"
        return NO_STEPS if self.trace else NO_TRACE

    @property
    def found_by_power(self) -> bool:
        """True if the steps are those of the period of the power."""
        return bool(self.power_steps.get("found"))

    def with_period(self, thing: Any, *, inverse: bool = False) -> Any:
        """A figure of a step, or a mapping of some, with what the period of the power leaves open.

        Args:
            thing: The figure, or figures by name.
            inverse: Whether it is less where steps take longer, as throughput is.
        """
        if not self.found_by_power:
            return thing
        if isinstance(thing, Mapping):
            return {name: self.with_period(part, inverse=inverse) for name, part in thing.items()}
        ends = [self.power_steps.get(key) for key in ("low_s", "period_s", "high_s")]
        if not all(map(_is_length, ends)) or thing.value is None:
            return thing
        low_s, period_s, high_s = (float(end or 0.0) for end in ends)
        value = thing.value
        least, most = low_s / period_s, high_s / period_s
        if inverse:
            least, most = 1 / most, 1 / least
        # The power's own interval and that of the period, added in squares.
        below = math.hypot(value * (1 - least), value - _or(thing.low, value))
        above = math.hypot(value * (most - 1), value - _or(thing.high, value))
        return replace(
            thing,
            low=value - below,
            high=value + above,
            confidence=thing.confidence or 0.95,
            status=weakest([thing.status, Status.ATTRIBUTED]),
            method="; ".join(part for part in (FOUND, thing.method) if part),
        )

    def file_of(self, channel: str) -> str:
        """The file that a channel came from; "" where none is known."""
        return self._file_of.get(channel, "")

    def alignment(self, channels: Iterable[str]) -> Alignment | None:
        """The loosest alignment of some channels with the trace; None where they share its clock.

        A channel of a file that nothing is said of may be as loose as the loosest of all.
        """
        if not self.trace:
            return None
        alignments = [self._alignment_of(self.file_of(name)) for name in channels]
        known = [each for each in alignments if each is not None]
        return max(known, key=lambda each: each.reach_s, default=None)

    def _alignment_of(self, file: str) -> Alignment | None:
        if file and file == self.trace.get("file"):
            return None
        own = [each for each in self._alignments if each.file == file] or self._alignments
        nothing = Alignment(file=file, method="by nothing that is recorded", uncertainty_s=None)
        return max(own, key=lambda each: each.reach_s, default=nothing)


def _alignment(entry: Mapping[str, Any]) -> Alignment:
    return Alignment(
        file=str(entry.get("file", "")),
        method=str(entry.get("method") or "in a way that is not recorded"),
        uncertainty_s=entry.get("uncertainty_s"),
    )


def is_span(value: Any) -> bool:
    """True if a value of `run.json` is a begin and a later end in ns."""
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(isinstance(each, int) and abs(each) < 1 << 62 for each in value)
        and value[0] < value[1]
    )


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _is_length(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0


def scope_of(steps: Steps, imported: Imported) -> str | None:
    """Basis of an imported run's figures, in words for their method; None for clean steps."""
    if steps.absent:
        return WHOLE
    if not steps.only_traced:
        return None
    return WHOLE_TRACE if imported.trace_is_one_step else TRACED


def with_scope(thing: Any, scope: str | None) -> Any:
    """Figures, in whatever lists and mappings, with what they are of before their method."""
    if scope is None:
        return thing
    if isinstance(thing, Mapping):
        return {name: with_scope(part, scope) for name, part in thing.items()}
    if isinstance(thing, list):
        return [with_scope(part, scope) for part in thing]
    if not isinstance(thing, Figure) or thing.missing:
        return thing
    if scope in (thing.method or "") or (thing.method or "").startswith((WHOLE, WHOLE_TRACE)):
        return thing  # it says what it is of: the energy of a whole log has no tracer's cost in it
    return replace(thing, method="; ".join(part for part in (scope, thing.method) if part))
