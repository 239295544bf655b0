"""What a run's plan of operations was to take, beside what no plan goes below and what its steps took."""

from __future__ import annotations

from dataclasses import replace

from wattstep.run.metrics import Parts
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.run_documents import ScheduleFacts

BOUND = (
    "the larger of the critical path, each operation as fast as it was measured to be on any number of threads, and "
    "the least work shared evenly among the cores; summed over updates of a step"
)


def predicted_step_time(run: Parts) -> Figure | None:
    """Time of a step in s as its plan was simulated; None where operations were not measured."""
    facts = run.info.schedule
    return Figure.from_dict(facts["predicted"]) if "predicted" in facts else None


def plan_bound(run: Parts) -> Figure | None:
    """Time of a step in s that no plan of its operations goes below; None as of `predicted_step_time`."""
    facts = run.info.schedule
    if "bound_s" not in facts:
        return None
    return Figure(
        value=facts["bound_s"], unit="s", status=Status.PREDICTED,
        method=f"{BOUND}; without batches and calls of workers, which are not planned and have no bound",
    )  # fmt: skip


def over_bound(run: Parts) -> Figure | None:
    """Step time over what no plan goes below; None as of `predicted_step_time`."""
    bound, step = plan_bound(run), run.metrics.figure("step_time")
    if bound is None or bound.value is None:
        return None
    if step is None or step.value is None:
        return missing("ratio", "the time of a step is not known")
    if bound.value <= 0:
        return missing("ratio", "the bound is no time at all")
    ends = [None if end is None else end / bound.value for end in (step.low, step.high)]
    return replace(
        step, value=step.value / bound.value, low=ends[0], high=ends[1], unit="ratio", status=Status.PREDICTED,
        method=f"step time ({step.status.value}) over {BOUND}",
    )  # fmt: skip


def plan_saving(run: Parts) -> Figure | None:
    """Part of the default plan's step that the plan saves, both simulated; None as of `predicted_step_time`."""
    facts = run.info.schedule
    saved = saved_share(facts)
    if saved is None:
        return None
    return Figure(
        value=saved, unit="ratio", status=Status.PREDICTED,
        method="1 less the plan's step over that of all operations one after the other on all cores, both simulated "
        "by the same measured times",
    )  # fmt: skip


def saved_share(facts: ScheduleFacts) -> float | None:
    """Part of the default plan's step that a plan saves; None where either is not known."""
    if "predicted" not in facts or "default" not in facts:
        return None
    planned, default = (Figure.from_dict(facts[key]).value for key in ("predicted", "default"))
    return None if planned is None or not default else 1 - planned / default
