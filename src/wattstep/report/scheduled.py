"""The plan by which a run's operations ran, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from wattstep.report.values import plain, quantity
from wattstep.schema.figure import Figure
from wattstep.schema.run_documents import PlannedUpdate, Relearning, ScheduleFacts
from wattstep.schema.run_report import RunReport

MOST: Final = 3  # times that operations were measured again


def schedule_sentences(report: RunReport) -> list[str]:
    """Plan, prediction and what became of it; none where the framework ran operations in its own order."""
    facts = report.schedule
    if not facts.get("updates"):
        return []
    texts = [" ".join(_plan(facts)), *_again(facts.get("relearned") or ())]
    return [plain(text) for text in texts]


def workers(count: int) -> str:
    """ "1 worker", "2 workers"."""
    return f"{count} worker{'' if count == 1 else 's'}"


def _plan(facts: ScheduleFacts) -> Iterator[str]:
    policy = facts.get("policy", "")
    plans = "; ".join(dict.fromkeys(_update(each, policy) for each in facts["updates"]))
    yield f"Plan: {policy}, {plans}."
    if kinds := facts.get("clusters"):
        shares = (
            f"{each['tasks']:,} on cores {each['cores']} ({quantity(each['tasks_s'], 's')})"
            for each in kinds
        )
        yield f"By kind of core: {', '.join(shares)}."
    if "predicted" not in facts or "default" not in facts:
        return
    step, default = (Figure.from_dict(facts[key]) for key in ("predicted", "default"))
    if step.value is None or not default.value:
        return
    saved = 1 - step.value / default.value
    ends = (
        ""
        if step.low is None
        else f" ({quantity(step.low, 's')} to {quantity(step.high or 0.0, 's')})"
    )
    beside = "as one operation after the other on all cores would take"
    if round(1000 * saved):
        beside = (
            f"{100 * abs(saved):.1f} % {'less' if saved > 0 else 'more'} than one operation after the other on all "
            "cores"
        )
    yield f"Predicted {quantity(step.value, 's')} a step{ends}, {beside}."
    apart = facts.get("beside_s", 0.0)
    bound, cores = facts.get("bound_s", 0.0), facts.get("cores", 1)
    if bound > 0:
        yield (
            f"No plan goes below {quantity(bound, 's')} (critical path {quantity(facts.get('path_s', 0.0), 's')}, "
            f"work over {cores} core{'' if cores == 1 else 's'} {quantity(facts.get('work_s', 0.0), 's')}, "
            f"as operations were measured): the plan is {max(100 * ((step.value - apart) / bound - 1), 0.0):.1f} % above. "
            f"Batches and calls of workers, {quantity(apart, 's')} when they were measured, come beside."
        )


def _update(update: PlannedUpdate, policy: str) -> str:
    """ "2 workers, 123 operations (120 on 1 thread, 3 on 2)"."""
    threads = list(update["threads"].items())
    head, *others = (f"{count:,} on {number}" for number, count in threads)
    head += " thread" if threads[0][0] == "1" else " threads"
    text = f"{workers(update['workers'])}, {update['tasks']:,} operations ({', '.join([head, *others])})"
    if update["pinned"]:
        text += ", kept to cores"
    if update["policy"] not in ("", policy):
        text += f", by the plan of {update['policy']}, which is no worse"
    return text


def _again(relearned: list[Relearning] | tuple[()]) -> Iterator[str]:
    for each in relearned[:MOST]:
        steps = f"After {each['step']:,} steps they took {each['steps_factor']:.2f} times as long as before"
        factor = each["operations_factor"]
        if factor is None:
            yield f"{steps}; operations measured again take what was known, so the plan stayed."
        else:
            plan = "another plan followed" if each["again"] else "the plan stayed"
            yield f"{steps}; operations measured again take {factor:.2f} times as long, {plan}."
    if len(relearned) > MOST:
        yield f"Operations were measured again {len(relearned) - MOST} more times."
