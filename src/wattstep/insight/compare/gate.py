"""A side against a baseline, for continuous integration: whether anything became worse by more than a tolerance."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from wattstep.errors import InvalidValueError
from wattstep.insight.compare.answer import joined, mentioned_by, percent, sentence
from wattstep.insight.compare.comparing import drift_of, side_document, warnings_of
from wattstep.insight.compare.drift import Drift
from wattstep.insight.compare.metrics import Compared, compare_metric
from wattstep.insight.compare.sides import Side, read, why_not
from wattstep.schema.figure import Figure

METRICS: Final = ("step_time", "energy_per_step", "peak_memory")
BY_SAMPLE: Final = {"step_time": "throughput", "energy_per_step": "energy_per_sample"}
ONE_EACH: Final = "one process of each cannot tell what the configuration does"
REGRESSION: Final = 1  # the exit code
Outcome = Literal["regression", "cannot exclude", "no regression", "not compared"]


@dataclass(frozen=True, kw_only=True)
class Gated:
    """A metric held against a baseline.

    Attributes:
        compared: The baseline as A, the runs as B.
        outcome: "regression": the whole interval lies beyond the tolerance, and knows how processes
            differ. "no regression": none of it does. "cannot exclude": anything else. "not
            compared": neither side has it.
        line: In words.
    """

    compared: Compared
    outcome: Outcome
    line: str


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Verdict on the metrics of some runs against a baseline."""

    sides: tuple[Side, Side]
    tolerance: float
    strict: bool
    metrics: dict[str, Gated]
    drift: Drift
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """1 where a regression is shown, and with `strict` where one cannot be excluded; else 0."""
        failing = {"regression", *(["cannot exclude"] if self.strict else [])}
        failed = any(gated.outcome in failing for gated in self.metrics.values())
        return REGRESSION if failed else 0

    @property
    def verdict(self) -> str:
        """Over all metrics, with what made it so: "fail: step_time became worse by ..."."""
        worse, open_ = self._with("regression"), self._with("cannot exclude")
        beyond = f"beyond {percent(self.tolerance)}"
        if worse:
            return f"fail: {joined(worse)} became worse {beyond}"
        if open_ and self.strict:
            return f"fail: a worsening of {joined(open_)} {beyond} cannot be excluded (--strict)"
        if open_:
            return (
                f"pass: no worsening {beyond} is shown; that of {joined(open_)} cannot be excluded "
                "(with --strict: fail)"
            )
        if fine := self._with("no regression"):
            return f"pass: no worsening of {joined(fine)} {beyond}"
        return "pass: nothing could be compared"

    def _with(self, outcome: Outcome) -> list[str]:
        return [name for name, gated in self.metrics.items() if gated.outcome == outcome]

    def document(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "baseline": side_document(self.sides[0]),
            "runs": side_document(self.sides[1]),
            "tolerance": self.tolerance,
            "strict": self.strict,
            "exit_code": self.exit_code,
            "verdict": self.verdict,
            "metrics": {
                name: {"outcome": gated.outcome, "line": gated.line, **gated.compared.document()}
                for name, gated in self.metrics.items()
            },
            "drift": self.drift.document(),
            "warnings": list(self.warnings),
        }


def hold(
    baseline: Side,
    runs: Side,
    *,
    tolerance: float,
    strict: bool,
    across: frozenset[str] = frozenset(),
    metrics: Sequence[str] = METRICS,
) -> Gate:
    """Holds runs against a baseline.

    Args:
        baseline: Runs that they must not be worse than.
        runs: Runs that are judged.
        tolerance: Relative worsening that is accepted, 0.05 for 5 %.
        strict: True if a regression that cannot be excluded fails, too.
        across: Facets that may differ.
        metrics: Metrics that are judged.

    Raises:
        InvalidValueError: They cannot be compared.
        DamagedRunError: A run cannot be read.
    """
    if (reason := why_not(baseline, runs, across)) is not None:
        raise InvalidValueError(reason, id="other-configuration")
    a, b = read((baseline, runs), operations=False)
    drift = drift_of(a, b)
    effect = tolerance or 0.02
    counts = (len(a), len(b))
    gated: dict[str, Gated] = {}
    mentioned: set[str] = set()
    sizes = {process.samples for process in (*a, *b)}
    for asked in metrics:
        name = BY_SAMPLE.get(asked, asked) if len(sizes) > 1 else asked
        compared = compare_metric(name, a, b, drift, effect)
        outcome = judge(compared, tolerance)
        line = _line(compared, outcome, tolerance, counts, mentioned)
        gated[name] = Gated(compared=compared, outcome=outcome, line=line)
        mentioned.update(mentioned_by(compared, line))
    return Gate(
        sides=(baseline, runs),
        tolerance=tolerance,
        strict=strict,
        metrics=gated,
        drift=drift,
        warnings=(
            *([ONE_EACH] if counts == (1, 1) else []),
            *warnings_of((baseline, runs), (a, b)),
        ),
    )


def judge(compared: Compared, tolerance: float) -> Outcome:
    """Outcome of a comparison for a worsening beyond the tolerance."""
    if compared.ratio.missing:
        both = compared.a.missing and compared.b.missing
        return "not compared" if both else "cannot exclude"
    ends = worsening(compared)
    if ends is None or compared.not_claimed:
        return "cannot exclude"
    low, high = ends
    if low > 1 + tolerance:
        return "regression"
    return "no regression" if high <= 1 + tolerance else "cannot exclude"


def worsening(compared: Compared) -> tuple[float, float] | None:
    """The interval of how many times as bad it became; None where there is none."""
    ratio = compared.ratio
    if ratio.low is None or ratio.high is None:
        return None
    beside = ratio.systematic or 0.0
    low, high = ratio.low * (1 - beside), ratio.high * (1 + beside)
    if compared.name == "throughput":
        return 1 / high, 1 / low if low > 0 else float("inf")
    return low, high


def _line(
    compared: Compared,
    outcome: Outcome,
    tolerance: float,
    counts: tuple[int, int],
    mentioned: Collection[str],
) -> str:
    head = f"{compared.name}: {outcome}"
    if outcome == "not compared":
        return f"{head}: {compared.ratio.reason}"
    beyond = f"a worsening beyond {percent(tolerance)}"
    if outcome == "cannot exclude":
        head = f"{compared.name}: cannot exclude {beyond}"
    value = _worse(compared.ratio, compared.name)
    words = sentence(compared, counts, mentioned).partition(": ")[2]
    return f"{head}; {value}{words[:1].upper()}{words[1:]}"


def _worse(ratio: Figure, name: str) -> str:
    if ratio.value is None:
        return ""
    times = 1 / ratio.value if name == "throughput" and ratio.value else ratio.value
    return f"{'+' if times >= 1 else '-'}{percent(times - 1)}. "
