"""Simulated plans of a step on a terminal: a row for each policy."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.schedule.policies import POLICIES
from wattstep.schedule.study import Study
from wattstep.schema.sanitize import plain
from wattstep.schema.spelling import quantity


def print_study(study: Study, console: Console) -> None:
    """Prints time, energy and idle share of each policy's plan, with the bounds and what was assumed.

    Args:
        study: The plans.
        console: Where to print.
    """
    machine, default_s = study.machine, study.default_s
    console.print()
    head = f"{study.title} on {machine.title}, {len(study.graph.tasks)} operations: simulated"
    console.print(Text(plain(head), style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for heading in ("policy", "step", "of default", "idle", "energy", "copies", "what it does"):
        side = "left" if heading in ("policy", "what it does") else "right"
        table.add_column(heading, justify=side, overflow="fold")  # type: ignore[arg-type]  # one of rich's words
    for one in study.plans:
        timeline = one.timeline
        table.add_row(
            one.policy,
            quantity(timeline.makespan_s, "s"),
            "" if default_s is None else f"{timeline.makespan_s / default_s:.0%}",
            f"{timeline.idle_share:.0%}",
            quantity(timeline.joules, "J"),
            quantity(timeline.copy_s, "s") if timeline.copy_s else "",
            POLICIES[one.policy][1],
        )
    console.print(Padding(table, (0, 0, 0, 2)))
    console.print(
        f"  No plan is below {quantity(study.bound_s, 's')}: critical path {quantity(study.path_s, 's')}, "
        f"least work shared among all processors {quantity(study.work_s, 's')}."
    )
    console.print(
        "  Nothing was measured: times follow from the machine's rates, each within a factor of 2 "
        "(docs/scheduling.md)."
    )
    for line in machine.assumptions:
        console.print(f"  assumed: {line}", markup=False)
