"""Let operations use cores that are idle."""

from __future__ import annotations

from wattstep.insight.advise.advice import Advice, gain_of
from wattstep.insight.advise.facts import WORTH, Facts
from wattstep.insight.explain.threads import is_cut
from wattstep.insight.explain.threads import more_threads as saved
from wattstep.schema.ceilings import Ceilings, spoken_threads
from wattstep.schema.figure import Missing


def more_threads(facts: Facts) -> Advice | Missing:
    """Advises more threads where cores are idle: operations that the framework cuts into parts can use them."""
    cores, step = facts.cores, facts.step_s
    if facts.run.info.options.get("one_thread"):
        return Missing("an operation never has more than one thread on this engine")
    if cores.threads is None:
        return Missing("the run does not say how many threads its operations used")
    if cores.free.value is None:
        return Missing(cores.free.reason or "how many cores were free is not known")
    threads = min(cores.fitting, cores.count)
    if threads <= cores.threads:
        return Missing(
            f"{cores.free.value:.2g} of {cores.count} cores were free for {spoken_threads(cores.threads)}"
        )
    ceilings = facts.ceilings if isinstance(facts.ceilings, Ceilings) else None
    saving = saved(facts.run, facts.work, ceilings, threads)
    if saving.high < WORTH * step:
        return Missing("its operations are too small to be cut into parts for threads")
    from_ceilings = ceilings is not None and saving.value > 0
    return Advice(
        title=f"Train with {threads} threads instead of {cores.threads}",
        why=f"{cores.idle.value or 0.0:.2g} cores stayed idle, and {100 * saving.high / step:.0f} % of a step "
        "at most would be saved if operations that can be cut used them fully.",
        gain=gain_of(
            saving,
            step,
            "operations that are cut for threads, as their ceilings with that many threads are "
            "higher; the upper end is Amdahl's bound"
            if from_ceilings
            else "the ceilings with so many threads were not measured or are not higher; the upper "
            "end is Amdahl's bound",
            facts.time_of(is_cut(facts.work), "operations that are cut for threads"),
        ),
        evidence={"cores_idle": cores.idle, "cores_free": cores.free},
        how=_how(facts, threads),
    )


def _how(facts: Facts, threads: int) -> str:
    if facts.ours:
        return facts.run_with(threads=threads)
    return facts.in_code(
        f"{spoken_threads(threads)} for an operation", f"torch.set_num_threads({threads})"
    )
