"""A labeling as rows and sentences, for terminal and page."""

from __future__ import annotations

from wattstep.labeling.cost import FLAME_MILLIJOULES, SAMPLES, LabelingCost
from wattstep.labeling.pacing import PaceReport
from wattstep.labeling.placed import PlacementReport, Share
from wattstep.labeling.placement import CPU
from wattstep.labeling.result import LabelingReport
from wattstep.report.values import plain, show
from wattstep.schema.figure import Figure


def heading(result: LabelingReport) -> str:
    """How many samples of which files, in one line."""
    files = len(result.data)
    return (
        f"{result.samples:,} samples of {files} file{'' if files == 1 else 's'}: "
        f"{result.labeled:,} labeled, {result.unknown:,} unknown, {result.total.abstained:,} withheld"
        + (f", {result.total.unreadable:,} unreadable" if result.total.unreadable else "")
    )


def rows(result: LabelingReport) -> list[tuple[str, int, str]]:
    """Label, samples and their share, the commonest first; then what got none."""
    whole = max(result.samples, 1)
    labels = sorted(result.total.by_label.items(), key=lambda item: (-item[1], item[0]))
    clusters = sorted(result.total.by_cluster.items())
    named = [(plain(name), count) for name, count in labels]
    named += [(called(result, name), n) for name, n in clusters]
    named += [("withheld: too unsure", result.total.abstained)]
    named += [("unreadable: a value is no finite number", result.total.unreadable)]
    return [(name, count, f"{100 * count / whole:.1f} %") for name, count in named if count]


def called(result: LabelingReport, name: str) -> str:
    """A label or new class as it is called now: the files have what it was called when they were written."""
    now = name
    for _ in result.decided:  # merged into one that was named: two steps, and so on
        now = result.decided.get(now) or now
    if not name:
        return "unknown, no new class"
    if result.decided.get(now) == "":
        return f"{plain(now)}: rejected, no class" + (
            f" ({plain(name)} then)" if now != name else ""
        )
    return plain(now) if now == name else f"{plain(now)} ({plain(name)} when it was labeled)"


def facts(result: LabelingReport) -> list[str]:
    """What is estimated, and what a person can decide, in sentences."""
    lines = []
    if not result.accuracy.missing:
        lines.append(
            f"labels expected to be right: {show(result.accuracy).text} (modelled, not checked)"
        )
    if not result.known.missing:
        lines.append(
            f"of classes that were known or named then: {show(result.known).text} of all samples (modelled)"
        )
    if result.new_classes:
        names = ", ".join(map(plain, result.new_classes))
        lines.append(
            f"new classes: {names}; decide with --name {result.new_classes[0]}=LABEL, --merge or --reject"
        )
    if result.drifts:
        lines.append(
            "something changed at sample "
            + ", ".join(f"{number:,}" for number in result.drifts[-10:])
        )
    if result.asked:
        lines.append(
            "samples whose label would help most, numbered from 0: "
            + ", ".join(map(str, result.asked))
        )
    return lines


def processors(placed: PlacementReport | None) -> list[str]:
    """Which processor looked up which share of the samples, at what cost, and what was predicted, in sentences."""
    if placed is None:
        return []
    lines = [_processor(each, placed.largest) for each in placed.shares]
    if placed.pieces:
        lines.append(
            f"looking up the samples of a piece was predicted to take {show(placed.predicted).text}, and took "
            f"{_told(placed.measured)}: mean of {placed.pieces:,}"
        )
    if not placed.shares[0].power.missing:
        lines += _energy(placed)
    return lines


def _energy(placed: PlacementReport) -> list[str]:
    """Energy of a piece, and whether the bound was held, in sentences."""
    told = (
        f"energy of looking up a piece, beyond what the idle device takes: {_told(placed.energy)}"
    )
    bound = placed.latency
    if bound is None or not placed.pieces:
        return [told]
    held = f"a bound of {1e3 * bound.seconds:g} ms can be held, by prediction, in {bound.held:,} of {placed.pieces:,} pieces"
    if bound.held < placed.pieces:
        held += ", and the others had the fastest shares"
    return [
        f"{told}; by the fastest shares {show(placed.energy_fastest).text}",
        f"{held}; within it were {bound.kept:,} (measured)",
    ]


def _processor(share: Share, largest: int) -> str:
    name = f"{plain(share.name)} ({plain(share.device)})"
    if share.sample.missing:
        return f"{name}: {share.samples:,} samples looked up; cost not known: {share.sample.reason}"
    cost = f"{show(share.sample).text} a sample, {show(share.piece).text} a piece" + (
        ""
        if share.name.partition(":")[0] == CPU
        else f", {show(share.hold).text} to get what they are looked up in"
    )
    if not share.slower.missing:
        cost += f", {show(share.slower, 'times').text} as long beside others"
    told = f"{name}: {100 * share.share:.1f} % of the samples looked up; {cost} (measured)"
    if not share.power.missing:
        told += f"; adds {show(share.power).text} while it works ({plain(share.power.source)})"
    if share.without.missing:
        return told
    return (
        f"{told}; a piece of {largest:,} takes {show(share.with_it).text} with it and "
        f"{show(share.without).text} without it (predicted)"
    )


def frames(pace: PaceReport | None) -> list[str]:
    """What labeling did to the frames of the foreground job, and how far it held back, in sentences."""
    if pace is None:
        return []
    return [
        f"a frame of the foreground job was done later by {_told(pace.frames['delay'])} while data were labeled; "
        f"{_verdict(pace.budget_ms, pace.kept())}",
        f"to that end labeling rested {100 * pace.rested:.0f} % of the time, at nice {pace.nice}; missed frames: "
        f"{_told(pace.frames['missed_beside'])}",
    ]


def costs(cost: LabelingCost) -> list[str]:
    """What 500 samples take beside what Flame states, and what labeling does to the foreground job, in sentences."""
    stated = " and ".join(f"{value:g} mJ on a {name}" for name, value in FLAME_MILLIJOULES.items())
    lines = [
        f"labeling {SAMPLES} samples, and learning from them: {_told(cost.time)}; energy: {_told(cost.energy)}",
        f"Flame states {stated}: measured there, on other data",
    ]
    if cost.delay is not None:
        lines.append(
            f"a frame of the foreground job is done later by {_told(cost.delay)}, the labeling at nice {cost.nice}; "
            f"{_verdict(cost.budget_ms, cost.kept())}"
        )
    return lines


def _verdict(budget_ms: float, kept: bool | None) -> str:
    word = {True: "kept", False: "not kept", None: "cannot be told"}[kept]
    return f"budget of {budget_ms:g} ms: {word}"


def _told(figure: Figure) -> str:
    shown = show(figure)
    if figure.missing:
        return f"not known: {shown.reason}"
    return f"{shown.text} ({shown.status})"
