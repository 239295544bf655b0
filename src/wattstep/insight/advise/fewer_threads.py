"""Do not use more threads than there are free cores."""

from __future__ import annotations

from wattstep.insight.advise.advice import Advice, gain_of
from wattstep.insight.advise.facts import Facts
from wattstep.insight.explain.threads import fewer_threads as saved
from wattstep.schema.ceilings import spoken_threads
from wattstep.schema.figure import Missing, missing


def fewer_threads(facts: Facts) -> Advice | Missing:
    """Advises fewer threads where other processes take cores: with a thread for each, all wait for the slowest."""
    cores = facts.cores
    if cores.threads is None:
        return Missing("the run does not say how many threads its operations used")
    if not cores.crowded:
        if cores.free.value is None:
            return Missing(cores.free.reason or "how many cores were free is not known")
        free = f"{cores.free.value:.2g} of {cores.count} cores"
        return Missing(f"{free} were free for {spoken_threads(cores.threads)}")
    saving, most = saved(facts.run, facts.work, cores.fitting)
    if saving is not None:
        gain = gain_of(
            saving,
            facts.step_s,
            "steps in which nothing else took a core beside all; the upper end is the step at the "
            f"ceilings of {cores.fitting} threads",
        )
        if not gain.value:  # "0 %, of 0 to 100" would tell nobody anything
            gain = missing(
                "ratio", "the steps that were undisturbed were no faster; only a run can tell"
            )
    else:
        bound = "" if most is None else f"; {100 * most / facts.step_s:.0f} % at most"
        gain = missing("ratio", f"no step was undisturbed{bound}; only a run can tell")
    return Advice(
        title=f"Train with {spoken_threads(cores.fitting)} instead of {cores.threads}",
        why=f"Of {cores.count} cores {cores.taken_words}: fewer were free than threads used, and every "
        "operation waits for its slowest thread.",
        gain=gain,
        evidence={"other_cpu": cores.others, "cores_free": cores.free},
        how=_how(facts),
    )


def _how(facts: Facts) -> str:
    threads = facts.cores.fitting
    if facts.ours:
        return facts.run_with(threads=threads)
    if not facts.script:
        return facts.in_code(
            f"{spoken_threads(threads)} for an operation", f"torch.set_num_threads({threads})"
        )
    return f"OMP_NUM_THREADS={threads} {facts.tried_by}"
