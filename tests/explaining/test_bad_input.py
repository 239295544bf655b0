"""Runs with nothing, little or damage in them: each section answers, or says why it cannot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.explaining.made import MS, Sampled, ceilings, imported, ran_on_gpu, trained, worked
from tests.explaining.test_processors import counter, machine
from tests.run.made import busy, import_made, watts

from wattstep.insight.explain import SECTIONS, explain
from wattstep.insight.explain.section import Section
from wattstep.run import load
from wattstep.schema.figure import Figure
from wattstep.schema.journal import MISSING
from wattstep.store.ceilings import keep

IMPORTED = {"trace": {"file": "t.json", "format": "Kineto trace"}}
OLD = Path(__file__).parents[1] / "fixtures" / "runs" / "schema-1"


def without_samples(path: Path) -> Path:
    return trained(path)


def without_operations(path: Path) -> Path:
    return trained(path, sampled=machine(1.0, 1.5), trace="none")


def one_step(path: Path) -> Path:
    return imported(path, [worked("aten::mm", 0, 1, 5)], end=10)


def one_clean_step(path: Path) -> Path:
    return trained(path, steps=7)


def no_lengths(path: Path) -> Path:
    return imported(path, [worked("a", 0, 1, 1), worked("b", 0, 4, 4)], end=10)


def a_step_of_no_length(path: Path) -> Path:
    return imported(path, [worked("a", 0, 0, 0)], end=0)


def silent_channels(path: Path) -> Path:
    """All values are gaps."""
    gone = [
        Sampled(channel=one.channel, raw=lambda t_ns: MISSING, every_ns=one.every_ns)
        for one in machine(1.0, 1.5)
    ]
    return trained(path, sampled=gone)


def now_and_then_silent(path: Path) -> Path:
    """Every third value is a gap."""

    def gappy(one: Sampled) -> Sampled:
        def raw(t_ns: int) -> int:
            return MISSING if t_ns // one.every_ns % 3 == 0 else one.raw(t_ns)

        return Sampled(channel=one.channel, raw=raw, every_ns=one.every_ns)

    return trained(path, sampled=[gappy(one) for one in machine(1.0, 1.5)])


def constant_channels(path: Path) -> Path:
    still = Sampled(channel=busy(0), raw=lambda t_ns: 7, every_ns=10 * MS)
    return trained(path, sampled=[still, counter("process_cpu_time", "process.cpu", 0.0)])


def telemetry_alone(path: Path) -> Path:
    values = [(float(ms), 5.0) for ms in range(100)]
    return import_made(
        path, {"telemetry": [{"file": "p.csv"}]}, samples=[(watts(), "p.csv", values)]
    )


def without_anything(path: Path) -> Path:
    return import_made(path, IMPORTED)


def all_warmup(path: Path) -> Path:
    return trained(path, steps=3)


def an_old_run(path: Path) -> Path:
    return OLD


RUNS: tuple[Callable[[Path], Path], ...] = (
    without_samples, without_operations, one_step, one_clean_step, no_lengths, a_step_of_no_length,
    silent_channels, now_and_then_silent, constant_channels, telemetry_alone, without_anything,
    all_warmup, ran_on_gpu, an_old_run,
)  # fmt: skip


def figures(thing: Any) -> Iterator[Figure]:
    if isinstance(thing, Figure):
        yield thing
    elif isinstance(thing, Mapping):
        for part in thing.values():
            yield from figures(part)
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            yield from figures(part)


def check(section: Section) -> None:
    """It says something, and every number in it is one, or says why not."""
    assert section.reason or section.sentences
    for figure in figures(section.document()):
        if figure.missing:
            assert figure.reason
            continue
        for number in (figure.value, figure.low, figure.high):
            assert number is None or math.isfinite(number), figure
        assert figure.unit != "s" or (figure.value or 0.0) >= 0, figure


@pytest.mark.parametrize("make", RUNS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("with_ceilings", [False, True], ids=["without_ceilings", "with_ceilings"])
def test_every_section_answers_or_says_why_not(
    tmp_path: Path, make: Callable[[Path], Path], with_ceilings: bool
) -> None:
    if with_ceilings:
        keep(ceilings(threads=1))
        keep(ceilings(threads=3))
    run = load(make(tmp_path / "run"))
    found = list(explain(run, SECTIONS))
    assert [section.name for section in found] == [*SECTIONS]
    for section in found:
        check(section)


@pytest.mark.parametrize(
    "make", [without_operations, telemetry_alone, without_anything, all_warmup]
)
@pytest.mark.parametrize("section", ["roofline", "gaps", "critical_path", "advice"])
def test_what_needs_operations_says_that_there_are_none(
    tmp_path: Path, make: Callable[[Path], Path], section: str
) -> None:
    (found,) = explain(load(make(tmp_path / "run")), [section])
    assert found.reason
    assert not found.tables


def test_operations_of_a_step_of_no_length_are_no_share_of_it(tmp_path: Path) -> None:
    rows = load(a_step_of_no_length(tmp_path / "run")).operations().rows
    assert rows
    assert all(row["share"].missing and row["share"].reason for row in rows)
