"""Origin of the figures of runs, as far as it bars them from testing an observation."""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.insight.observe.evidence import Observed

HARDLY = 0.05  # a GPU that is busy for less of the time takes no part in the training
NOT_FOLLOWING = (
    "recorded sensors are played beside another training and do not follow it; import the log with "
    "the trace of its own training instead (wattstep import)"
)
CIRCULAR = (
    "power is computed from the activity of the cores, so that it would be circular: what the model "
    "was given is what it shows"
)
NO_PART = "the training ran on the CPU: the GPU takes no part in it"
AT_REST = f"the GPU was busy for less than {100 * HARDLY:.0f} % of the time: it took no part in the training"


COMPUTED = (
    "energy is computed from the activity of the cores: what is seen is how time and load of a step "
    "grow, not what a sensor says"
)
PLAYED = "the power is that of a recording, of whatever ran when it was made"


def not_following(runs: Sequence[Observed]) -> str | None:
    """Reason why their sensors say nothing of the training; None where they may."""
    return NOT_FOLLOWING if replayed(runs) else None


def circular(runs: Sequence[Observed]) -> str | None:
    """Reason why their power is no evidence of what draws it; None where it may be."""
    return CIRCULAR if computed_power(runs) else None


def replayed(runs: Sequence[Observed]) -> bool:
    """True if sensors of any of them are a recording's."""
    return any(run.scheme == "replay" for run in runs)


def computed_power(runs: Sequence[Observed]) -> bool:
    """True if a model of the cores' activity stands in for a power sensor that is not there."""
    return any(run.info.power_model and _power_is_modelled(run) for run in runs)


def _power_is_modelled(run: Observed) -> bool:
    source = run.figure("mean_power", "W").source or ""
    return "power model" in source


def without_gpu(run: Observed) -> str | None:
    """Reason why a run says nothing of a GPU in training; None where it may.

    A run that says it trained on the CPU is believed where its sensors are its own: the GPU of such
    a machine serves the screen. Elsewhere the load decides.
    """
    load = run.figure("gpu_utilization", "ratio")
    if load.value is None:
        return load.reason
    itself = run.info.processor == "cpu" or "opencl" in run.info.device  # a CPU by OpenCL, too
    on_cpu = itself and run.scheme not in ("emulate", "replay")
    hardly = (load.high if load.high is not None else load.value) < HARDLY
    if on_cpu:
        return NO_PART
    return AT_REST if hardly and run.info.processor not in ("cuda", "gpu", "opencl") else None


def without_gpus(runs: Sequence[Observed]) -> str | None:
    """Reasons why none of the runs says anything of a GPU; None where one does."""
    reasons = [without_gpu(run) for run in runs]
    if not reasons or None in reasons:
        return None
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))
