"""Another engine on a CPU that was calibrated: for each group of operations, how many times as long as torch's it takes.

torch's calibration knows how times go with shapes and caches; few trainings on another engine tell by how
much it is faster or slower at convolutions, products and what only moves bytes, and at beginning each.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from wattstep.predict.cpu.time import (
    BACK,
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
from wattstep.schema.arrays import FloatArray

NORMALIZATION, POOLING = "normalization", "pooling"
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
        **{kind + back: kind for kind in (NORMALIZATION, POOLING) for back in ("", BACK)},
    }
)
OTHERS: Final = "others"
GROUPS: Final = (*dict.fromkeys(_GROUP_OF.values()), OTHERS)
START: Final = (
    "start of "  # and a group: of each of its operations, in torch's with what lies between two
)
# Kind of a device's file that holds them, so that they can be read.
TIMES: Final = "times torch"
# Of "step" and "memory": what torch's own values have not.
EXPORTED: Final = "exported"
TENSORS, GROWTH = "tensors_times", "growth_times"


def group_of(kind: str) -> str:
    """The group of a kind, of `cpu.time.KINDS`."""
    return _GROUP_OF.get(kind, OTHERS)


def values_to_compare(
    values: Mapping[str, Mapping[str, float]], *, own_kernels: bool
) -> Mapping[str, Mapping[str, float]]:
    """torch's values as what an engine's times are told in, each operation's start with what lies between two.

    Which of torch's kernels a convolution takes, and what these copy into their layouts, tells nothing of
    another engine's: its convolutions are told in the time of as many FLOPs in torch's matrix products.

    Args:
        values: torch's, by kind.
        own_kernels: Whether the engine's kernels are not torch's.
    """
    step = values["step"]
    between = sum(step[f"{phase}_start_s"] for phase in STARTING) / len(STARTING)
    compared = {}
    for kind in KINDS:
        own = dict(values[kind])
        if kind != LOOK:
            own["launch_s"] += between
        if own_kernels and kind.removesuffix(BACK) in _DENSE:
            own.update(dict.fromkeys(VALUES[2:], 0.0))
            own["second_per_flop"] = values[PRODUCT]["second_per_flop"]
        compared[kind] = own
    return compared


def group_seconds(work: CpuWork, values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Time of a step's operations without their starts in s by group.

    Args:
        work: Of a step.
        values: By kind, as `values_to_compare` makes them.
    """
    return _by_group(work, operation_seconds(work, values) - _launches(work, values))


def group_starts(work: CpuWork, values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Starts of a step's operations in s by group.

    Args:
        work: Of a step.
        values: By kind, as `values_to_compare` makes them.
    """
    return _by_group(work, _launches(work, values))


def _launches(work: CpuWork, values: Mapping[str, Mapping[str, float]]) -> FloatArray:
    launches: FloatArray = np.array([values[kind]["launch_s"] for kind in KINDS])[work.kinds]
    return launches


def _by_group(work: CpuWork, seconds: FloatArray) -> dict[str, float]:
    groups = np.array([GROUPS.index(group_of(kind)) for kind in KINDS])[work.kinds]
    sums = np.bincount(groups, seconds, minlength=len(GROUPS))
    return dict(zip(GROUPS, sums.tolist(), strict=True))


def values_of_engine(
    values: Mapping[str, Mapping[str, float]],
    times: Mapping[str, float],
    starts: Mapping[str, float],
    step_s: float,
) -> dict[str, dict[str, float]]:
    """Values by kind of an engine that takes so many times as long as torch.

    Args:
        values: By kind, as `values_to_compare` makes them.
        times: By group, of operations without their starts.
        starts: By group.
        step_s: Of each step, beside its operations.
    """
    kinds: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        group = group_of(kind)
        kinds[kind] = {
            name: values[kind][name] * (starts if name == "launch_s" else times)[group]
            for name in VALUES
        }
    kinds["step"] = {
        **{f"{phase}_start_s": 0.0 for phase in STARTING},  # within the operations' own
        FRESH: 0.0,
        "step_s": step_s,
    }
    return kinds
