"""Observation 9: intermediate data decide whether a batch size fits; the rest stays constant.

DenseNet40's intermediate data take 2.2 GB with batch 4 and 5.9 GB with 64 in the paper, while
parameters, gradients and input stay as they are; with 128 and 256 nothing fits. The tensors of a
step are counted here, so that nothing has to be estimated. What is observed is that the batch size
decides whether a model can be trained at all: without any configuration that failed to fit there is
nothing that was decided, and it is undecided at best. What must hold for each group of runs
that differ in batch size only, from the smallest batch to the largest: (a) parameters, gradients
and optimizer state together change by less than 1 %; (b) intermediate data (feature maps and
workspace, each at its highest within a step) grow by more than batch to the power 0.18, half of the
paper's exponent (2.2 to 5.9 GB for 16 times the batch: 0.36), which is 1.64 times for 16 times the
batch: it calls the growth significant; (c) more than half of the
growth of all counted tensors is theirs. It does not hold where one of these fails. The input of a
step is counted, too: it grows in proportion to the batch, though the paper's page says that it
stays; its share of the growth is told, and (c) says whether it matters. Outcomes of sweeps tell the
rest: (d) of a model that ran out of memory at some batch size, a smaller batch trained. A model of
which even the smallest batch tried did not fit is no failure of (d): smaller ones were not tried,
or it is the parameters that do not fit, and it is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from wattstep.observations.concluding import conclude, held_back, listed
from wattstep.observations.deciding import Part, Region
from wattstep.observations.estimates import Estimate, exact
from wattstep.observations.evidence import Attempt, Evidence, Observed
from wattstep.observations.groups import NO_BATCH, NO_RUNS, Group, groups_of
from wattstep.observations.growth import ONE_BATCH, above
from wattstep.observations.observation import (
    About,
    Case,
    Column,
    Judged,
    Observation,
    Published,
)
from wattstep.observations.wording import across, in_how_many, percent, times
from wattstep.records.figure import Figure

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
ABOUT = About(
    number=9,
    title="Intermediate data decide whether a batch size fits",
    claim="Parameters and gradients stay as they are with the batch size; intermediate data grow, "
    "and decide what fits.",
    criterion="Holds where, from the smallest batch to the largest, parameters, gradients and optimizer state "
    f"change by less than {100 * STAYS:.0f} %, intermediate data grow by more than batch to the power "
    f"{GROWS:.2f} (1.64 times for 16 times the batch), "
    f"and more than {100 * MOST:.0f} % of the growth of all tensors is theirs, for every model; of "
    "models that ran out of memory in a sweep, a smaller batch trained; undecided where nothing "
    "failed to fit. Counted, so that no interval is needed.",
    metrics=(METRIC, "memory_breakdown"),
    columns=(
        Column("fixed_growth", "parameters, gradients", "times"),
        Column("growth", "intermediate", "times"),
        Column("growth_share", "of the growth"),
    ),
    published=(
        Published(what="DenseNet40, intermediate data, batch 4", value=2.2e9, unit="B"),
        Published(what="DenseNet40, intermediate data, batch 64", value=5.9e9, unit="B"),
        Published(what="the same, growth", value=5.9 / 2.2, notation="times"),
    ),
)  # fmt: skip


def observe(evidence: Evidence) -> Observation:
    """The verdict on these runs and sweeps."""
    cases = [_case(group) for group in groups_of(evidence.runs)]
    found = conclude(ABOUT, [*cases, *_feasible(evidence.attempts)], _sentences, NO_RUNS)
    seen = {name for each in found.cases for name in each.figures() if not each.reason}
    if "fits_below" not in seen:
        return held_back(found, NOTHING_FAILED)
    return found if "growth" in seen else held_back(found, NOT_COUNTED)


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
    found: dict[str, float] = {}
    for run in runs:
        for name, figure in dict(run.metrics.get(METRIC) or {}).items():
            found[name] = max(found.get(name, 0.0), figure.value or 0.0)
    return found if any(found.get(name) for name in INTERMEDIATE) else {}


def _sum(sizes: Mapping[str, float], names: Sequence[str]) -> float:
    return sum(sizes.get(name, 0.0) for name in names)


def _parts(
    small: Mapping[str, float], large: Mapping[str, float], count: int, grows: float
) -> tuple[Part, ...]:
    def part(name: str, words: str, estimate: Estimate | str, region: Region) -> Part:
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


def _ratio(large: float, small: float, count: int) -> Estimate | str:
    if small <= 0:
        return "there are no such tensors"
    return exact(large / small, "ratio", SOURCE, count)


def _share(
    small: Mapping[str, float], large: Mapping[str, float], names: Sequence[str], count: int
) -> Estimate | str:
    whole = (*FIXED, *INTERMEDIATE, INPUT)
    growth = _sum(large, whole) - _sum(small, whole)
    if growth <= 0:
        return "all tensors together do not grow"
    return exact((_sum(large, names) - _sum(small, names)) / growth, "ratio", SOURCE, count)


def _figures(
    small: Mapping[str, float], large: Mapping[str, float], count: int
) -> dict[str, Figure]:
    """In bytes, and what the input does."""
    found = {
        "intermediate_smallest": exact(_sum(small, INTERMEDIATE), "B", SOURCE, count).figure(),
        "intermediate_largest": exact(_sum(large, INTERMEDIATE), "B", SOURCE, count).figure(),
    }
    share = _share(small, large, (INPUT,), count)
    ratio = _ratio(large.get(INPUT, 0.0), small.get(INPUT, 0.0), count)
    if isinstance(share, Estimate) and isinstance(ratio, Estimate):
        found |= {"input_growth": ratio.figure(), "input_share": share.figure()}
    return found


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


def _sentences(tested: Sequence[Judged]) -> list[str]:
    counted = [each for each in tested if each.figures().get("growth") is not None]
    tried = [each for each in tested if "fits_below" in each.figures()]
    told = []
    if counted:
        grown = [each for each in counted if (_value(each, "input_growth") or 0.0) > 1 + STAYS]
        told += [
            f"{in_how_many(counted, 'model')} what grows with the batch is intermediate data, "
            f"{across(counted, 'growth', times)} from the smallest batch to the largest, while "
            "parameters, gradients and optimizer state stay as they are.",
            f"Of all growth, {across(counted, 'growth_share', percent)} is theirs.",
        ]
        if grown:
            told.append(
                f"The input grows as well, {across(grown, 'input_growth', times)}, where the paper "
                f"has it constant: {across(grown, 'input_share', percent)} of the growth."
            )
    if tried:
        names = listed([each.case.label.partition(" in ")[0] for each in tried])
        told.append(
            f"The batch size decides what fits: with a large one {names} ran out of memory."
        )
    return told


def _value(judged: Judged, name: str) -> float | None:
    figure = judged.figures().get(name)
    return None if figure is None else figure.value
