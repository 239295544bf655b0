"""Another engine on a CPU that was calibrated: for each group of operations, how many times as long as torch's it takes.

torch's calibration knows how times go with shapes and caches; few trainings on another engine tell by how
much it is faster or slower at convolutions, products and what only moves bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from wattstep.predict.cpu.time import (
    BACK,
    CODES,
    CONVOLUTIONS,
    DEPTHWISE,
    FRESH,
    KINDS,
    LOOK,
    PRODUCT,
    STARTING,
    VALUES,
    WIDE_DEPTHWISE,
    CpuWork,
    operation_seconds,
)

START: Final = "start"  # of an operation, and what lies between operations
_DENSE: Final = tuple(kind for kind in CONVOLUTIONS if kind != DEPTHWISE)
_GROUP_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(_DENSE, "convolution"),
        **{kind + BACK: "convolution backward" for kind in _DENSE},
        **{kind + back: DEPTHWISE for kind in (DEPTHWISE, WIDE_DEPTHWISE) for back in ("", BACK)},
        **{
            kind + back: PRODUCT
            for kind in (PRODUCT, "attention", "recurrent")
            for back in ("", BACK)
        },
        "optimizer": "optimizer",
    }
)
OTHERS: Final = "others"
GROUPS: Final = (*dict.fromkeys(_GROUP_OF.values()), OTHERS, START)
# Kind of a device's file that holds them, so that they can be read.
TIMES: Final = "times torch"
# Of "step" and "memory": what torch's own values have not.
EXPORTED: Final = "exported"
TENSORS, GROWTH = "tensors_times", "growth_times"


def group_of(kind: str) -> str:
    """The group of a kind, of `cpu.time.KINDS`."""
    return _GROUP_OF.get(kind, OTHERS)


def group_seconds(work: CpuWork, values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Time of a step's operations with torch in s by group, without `step_s` and pages.

    Args:
        work: Of a step.
        values: torch's, by kind.
    """
    launches = np.array([values[kind]["launch_s"] for kind in KINDS])[work.kinds]
    seconds = operation_seconds(work, values) - launches
    groups = np.array([GROUPS.index(group_of(kind)) for kind in KINDS])[work.kinds]
    sums = np.bincount(groups, seconds, minlength=len(GROUPS))
    between = sum(work.starts[phase] * values["step"][f"{phase}_start_s"] for phase in STARTING)
    by_group = dict(zip(GROUPS, sums.tolist(), strict=True))
    by_group[START] = float(launches.sum()) + between
    return by_group


def group_starts(work: CpuWork, values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """What of the group `START` belongs to operations of each other group, in s.

    Args:
        work: Of a step.
        values: torch's, by kind.
    """
    launches = np.array([values[kind]["launch_s"] for kind in KINDS])[work.kinds]
    computes = (work.kinds != CODES[LOOK]).astype(np.float64)
    between = sum(work.starts[phase] * values["step"][f"{phase}_start_s"] for phase in STARTING)
    launches = launches + between * computes / max(computes.sum(), 1.0)
    groups = np.array([GROUPS.index(group_of(kind)) for kind in KINDS])[work.kinds]
    sums = np.bincount(groups, launches, minlength=len(GROUPS))
    return {
        group: each for group, each in zip(GROUPS, sums.tolist(), strict=True) if group != START
    }


def values_of_engine(
    values: Mapping[str, Mapping[str, float]], times: Mapping[str, float], step_s: float
) -> dict[str, dict[str, float]]:
    """Values by kind of an engine that takes so many times as long as torch.

    Args:
        values: torch's, by kind.
        times: By group.
        step_s: Of each step, beside its operations.
    """
    kinds: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        factor = times[group_of(kind)]
        kinds[kind] = {
            name: values[kind][name] * (times[START] if name == "launch_s" else factor)
            for name in VALUES
        }
    between = {
        f"{each}_start_s": times[START] * values["step"][f"{each}_start_s"] for each in STARTING
    }
    kinds["step"] = {**between, FRESH: 0.0, "step_s": step_s}
    return kinds
