"""The figures of Cai et al. from runs of their five networks, on MNN or any other engine: time, memory, energy, cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from wattstep.insight.observe.groups import Group
from wattstep.report.html.paper.by_batch import draw_lines
from wattstep.report.html.paper.figures import PaperFigure, growth
from wattstep.report.html.paper.readings import Readings

_CAVEAT: Final = (
    "Theirs is a phone's CPU with MNN of 2021, 4 threads; their GoogLeNet had no activations, their "
    "AlexNet 30 M parameters."
)


def _of(name: str, unit: str, what: str, *remarks: str) -> PaperFigure:
    """A figure of one quantity by batch size, a line for each network and engine."""
    title = f"{what[:1].upper()}{what[1:]}"

    def sentences(_: Readings, groups: Sequence[Group]) -> list[str]:
        return [*remarks, *growth(groups, name, unit, what)]

    return PaperFigure(
        title=f"{title} by batch size",
        draw=draw_lines(f"cai-{_KEYS[name]}", {name: title}, unit, sentences),
    )


_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "step_time": "time", "peak_memory": "memory", "energy_per_step": "energy",
        "process_cpu_cores": "cores",
    }
)  # fmt: skip
CAI_FIGURES: Final[Mapping[str, PaperFigure]] = MappingProxyType(
    {
        "cai-time": _of("step_time", "s", "time of a step", _CAVEAT),
        "cai-memory": _of("peak_memory", "B", "memory of the process", _CAVEAT),
        "cai-energy": _of("energy_per_step", "J", "energy of a step"),
        "cai-cores": _of("process_cpu_cores", "cores", "cores kept busy"),
    }
)
