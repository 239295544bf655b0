"""Tensors that a step holds, by category and batch size, and batch sizes that did not fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from wattstep.insight.observe.deciding import Part, Region, above
from wattstep.insight.observe.estimates import Estimate, exact
from wattstep.insight.observe.evidence import Attempt, Evidence, Observed
from wattstep.insight.observe.groups import NO_BATCH, Group, groups_of
from wattstep.insight.observe.growth import ONE_BATCH
from wattstep.insight.observe.observation import Case, Judged, Observation
from wattstep.insight.observe.wording import across, in_how_many, listed, percent, times
from wattstep.schema.figure import Figure, Missing

FIXED = ("parameters", "buffers", "gradients", "optimizer_state")
INTERMEDIATE = ("feature_maps", "workspace")
INPUT = "input"
STAYS = 0.01
GROWS = math.log(5.9 / 2.2) / math.log(64 / 4) / 2  # exponent of the batch
MOST = 0.5
METRIC = "memory_highest"
SOURCE = "tensors of a step, each category at its highest"
NOT_FOLLOWED = "memory by category is not known: no step was followed (record with tracing, or wattstep memory)"
NOTHING_FAILED = (
    "nothing was seen that does not fit: sweep batch sizes up to one that runs out of memory (wattstep "
    "sweep --batch 4,64,256 --memory-limit 2GiB, say), and give its folder as well"
)
NOT_COUNTED = (
    "memory by category was not seen: give runs of two batch sizes whose step was followed"
)
ALL_FIT = "every batch size fits: no sweep shows one that does not"


def cases(evidence: Evidence) -> list[Case]:
    """Of runs whose step was followed, and of sweeps in which something did not fit."""
    return [*map(_case, groups_of(evidence.runs)), *_feasible(evidence.attempts)]


def unseen(observation: Observation) -> str:
    """Advice where nothing failed to fit, or no tensors were counted; "" else."""
    seen = {name for each in observation.cases for name in each.figures() if not each.reason}
    if "fits_below" not in seen:
        return NOTHING_FAILED
    return "" if "growth" in seen else NOT_COUNTED


def sentences(tested: Sequence[Judged]) -> list[str]:
    """The answer, of what was counted and of what was tried."""
    counted = [each for each in tested if each.figures().get("growth") is not None]
    tried = [each for each in tested if "fits_below" in each.figures()]
    lines = []
    if counted:
        grown = [each for each in counted if (_value(each, "input_growth") or 0.0) > 1 + STAYS]
        lines += [
            f"{in_how_many(counted, 'model')} what grows with the batch is intermediate data, "
            f"{across(counted, 'growth', times)} from the smallest batch to the largest, while "
            "parameters, gradients and optimizer state stay as they are.",
            f"Of all growth, {across(counted, 'growth_share', percent)} is theirs.",
        ]
        if grown:
            lines.append(
                f"The input grows as well, {across(grown, 'input_growth', times)}, where the paper "
                f"has it constant: {across(grown, 'input_share', percent)} of the growth."
            )
    if tried:
        names = listed([each.case.label.partition(" in ")[0] for each in tried])
        lines.append(
            f"The batch size decides what fits: with a large one {names} ran out of memory."
        )
    return lines


def _value(judged: Judged, name: str) -> float | None:
    figure = judged.figures().get(name)
    return None if figure is None else figure.value


# --- what was counted -----------------------------------------------------------------------------


def _case(group: Group) -> Case:
    sizes = {batch: _sizes(runs) for batch, runs in group.known.items()}
    known = {batch: own for batch, own in sizes.items() if own}
    if len(known) < 2:
        reason = NO_BATCH if not sizes else NOT_FOLLOWED if not known else ONE_BATCH
        return Case(label=group.label, runs=group.runs, reason=reason)
    least, most = min(known), max(known)
    small, large, count = known[least], known[most], len(group.runs)
    return Case(
        label=group.label, batches=f"{least} to {most}", runs=group.runs,
        parts=_parts(small, large, count, (most / least) ** GROWS), figures=_figures(small, large, count),
    )  # fmt: skip


def _sizes(runs: Iterable[Observed]) -> dict[str, float]:
    """Bytes by category at its highest: the most of any process; empty where none was followed."""
    sizes: dict[str, float] = {}
    for run in runs:
        for name, figure in run.metrics.parts(METRIC).items():
            sizes[name] = max(sizes.get(name, 0.0), figure.value or 0.0)
    return sizes if any(sizes.get(name) for name in INTERMEDIATE) else {}


def _sum(sizes: Mapping[str, float], names: Sequence[str]) -> float:
    return sum(sizes.get(name, 0.0) for name in names)


def _parts(
    small: Mapping[str, float], large: Mapping[str, float], count: int, grows: float
) -> tuple[Part, ...]:
    def part(name: str, words: str, estimate: Estimate | Missing, region: Region) -> Part:
        needed = name != "growth_share"  # where nothing grows, the growth itself says so
        return Part(name=name, words=words, estimate=estimate, region=region, needed=needed)

    return (
        part("fixed_growth", "parameters, gradients and optimizer state, largest batch over smallest",
             _ratio(_sum(large, FIXED), _sum(small, FIXED), count),
             Region(low=1 - STAYS, high=1 + STAYS)),
        part("growth", "intermediate data, largest batch over smallest",
             _ratio(_sum(large, INTERMEDIATE), _sum(small, INTERMEDIATE), count), above(grows)),
        part("growth_share", "share of intermediate data in the growth of all tensors",
             _share(small, large, INTERMEDIATE, count), above(MOST)),
    )  # fmt: skip


def _ratio(large: float, small: float, count: int) -> Estimate | Missing:
    if small <= 0:
        return Missing("there are no such tensors")
    return exact(large / small, "ratio", SOURCE, count)


def _share(
    small: Mapping[str, float], large: Mapping[str, float], names: Sequence[str], count: int
) -> Estimate | Missing:
    whole = (*FIXED, *INTERMEDIATE, INPUT)
    growth = _sum(large, whole) - _sum(small, whole)
    if growth <= 0:
        return Missing("all tensors together do not grow")
    return exact((_sum(large, names) - _sum(small, names)) / growth, "ratio", SOURCE, count)


def _figures(
    small: Mapping[str, float], large: Mapping[str, float], count: int
) -> dict[str, Figure]:
    """In bytes, and what the input does."""
    figures = {
        "intermediate_smallest": exact(_sum(small, INTERMEDIATE), "B", SOURCE, count).figure(),
        "intermediate_largest": exact(_sum(large, INTERMEDIATE), "B", SOURCE, count).figure(),
    }
    share = _share(small, large, (INPUT,), count)
    ratio = _ratio(large.get(INPUT, 0.0), small.get(INPUT, 0.0), count)
    if isinstance(share, Estimate) and isinstance(ratio, Estimate):
        figures |= {"input_growth": ratio.figure(), "input_share": share.figure()}
    return figures


# --- what fits --------------------------------------------------------------------------------------


def _feasible(attempts: Sequence[Attempt]) -> list[Case]:
    """A case for each model of a sweep of which some batch size did not fit."""
    families: dict[tuple[str, tuple[object, ...], str], list[Attempt]] = {}
    for each in attempts:
        families.setdefault((each.sweep, each.family, each.limit), []).append(each)
    cases = [_tried(members) for members in families.values()]
    if not attempts or any(case.parts for case in cases):
        return [case for case in cases if case.parts or case.notes]
    return [Case(label="sweeps", reason=ALL_FIT)] if not any(c.notes for c in cases) else cases


def _tried(members: Sequence[Attempt]) -> Case:
    trained = sorted({each.batch_size for each in members if each.status == "trained"})
    failed = sorted({each.batch_size for each in members if each.status == "out of memory"})
    label = f"{members[0].workload} in {members[0].sweep}"
    if not failed:
        return Case(label=label, reason=ALL_FIT)
    limit = f" under {members[0].limit}" if members[0].limit else ""
    if not trained:
        note = f"{label}: no batch size tried fits{limit} (the smallest: {failed[0]})"
        return Case(label=label, reason="no batch size tried fits", notes=(note,))
    part = Part(
        name="fits_below", words="largest batch that trained over smallest that ran out of memory",
        estimate=exact(max(trained) / min(failed), "1", "outcomes of the sweep", len(members)),
        region=Region(low=0.0, high=1.0), unit="1",
    )  # fmt: skip
    note = f"{label}: batch {max(trained)} trains{limit}, batch {min(failed)} runs out of memory"
    return Case(label=label, parts=(part,), notes=(note,))
