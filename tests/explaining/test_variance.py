"""The section of variance on runs made by hand: what was put in is said, with its numbers, and nothing else."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tests.run.made import MS, Sampled, Worked, busy, import_made, make_run
from tests.wording import saying

from wattstep.insight.explain import explain
from wattstep.insight.explain.section import Section
from wattstep.insight.explain.slow_instances import SlowInstances
from wattstep.insight.explain.variance import variance
from wattstep.report.json_document import dump
from wattstep.report.terminal.explain import print_section
from wattstep.run import Run, load
from wattstep.schema.channel import Channel
from wattstep.schema.figure import Figure

TRACE = {"file": "made.json", "format": "made", "steps": "marked"}
LOG = {"file": "made.csv", "format": "made"}
ONE_CLOCK = {"file": "made.csv", "method": "by marks", "uncertainty_s": 0.0}
FAULTS = Channel(
    name="process.minor_faults", unit="events", kind="counter", domain="process",
    role="minor_faults", source="made",
)  # fmt: skip
WAITS = Channel(
    name="process.main_thread.core_wait", unit="s", kind="counter", domain="process",
    role="core_wait", source="made",
)  # fmt: skip
STEPS = 100
LENGTH = 20.0  # of a step in ms
# Slow in 6 of 100 steps, and at which of them and of the others memory was fresh.
SLOW = (7, 23, 38, 61, 77, 90)
FRESH = (7, 23, 38, 61, 77, 12, 50)


def counter(rates: Callable[[float], float], until: float, every: float = 1.0) -> list[tuple[float, float]]:  # fmt: skip
    """A counter that grows at a rate a second which depends on the time in ms."""
    rows, total = [], 0.0
    for n in range(round(until / every) + 2):
        rows.append(((n - 1) * every, total))
        total += rates((n - 1) * every) * every * 1e-3
    return rows


def in_steps(chosen: Sequence[int], high: float, low: float = 0.0) -> Callable[[float], float]:
    return lambda ms: high if int(ms // LENGTH) in chosen else low


def made(
    path: Path,
    operations: Callable[[int, float], list[Worked]],
    samples: Sequence[tuple[Channel, list[tuple[float, float]]]] = (),
    steps: int = STEPS,
) -> Run:
    """Steps of 20 ms, all traced; `operations` gives those of a step that begins at so many ms."""
    begins = [n * LENGTH for n in range(steps)]
    found = {"trace": TRACE, "telemetry": [LOG], "alignment": [ONE_CLOCK]}
    return load(
        import_made(
            path / "r",
            found,
            steps=[(begin, begin + LENGTH) for begin in begins],
            operations=[row for n, begin in enumerate(begins) for row in operations(n, begin)],
            samples=[(channel, "made.csv", values) for channel, values in samples],
        )
    )


def wobble(number: int) -> float:
    """From -1 to 1, without any rhythm, the same each time."""
    return (number * 7919 % 199 - 99) / 99


def convolution(step: int, begin: float, slow: Sequence[int] = SLOW) -> list[Worked]:
    """1.2 ms, and 3.4 ms in the slow steps; and a linear layer that is never slow."""
    length = (3.4 if step in slow else 1.2) + 0.02 * wobble(step)
    other = 2.0 + 0.03 * wobble(step + 31)
    return [
        Worked(
            name="aten::conv2d", layer="layer3", step=step, start=begin + 1, end=begin + 1 + length,
            shapes="8x3x32x32",
        ),
        Worked(
            name="aten::linear", layer="fc", step=step, start=begin + 10, end=begin + 10 + other,
            shapes="8x64",
        ),
    ]  # fmt: skip


def text(section: Section) -> str:
    return "\n".join(section.sentences)


def table(section: Section, name: str) -> list[dict[str, Any]]:
    return [dict(row) for t in section.tables if t.name == name for row in t.rows]


def found_pairs(section: Section) -> list[tuple[str, str]]:
    rows = table(section, "coincidences")
    return [(row["operation"], row["condition"]) for row in rows if row.get("found") == "yes"]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Section:
    """Fresh memory in 5 of the 6 slow steps and in 2 of the 94 others; waiting in other steps."""
    until = STEPS * LENGTH
    samples = [
        (FAULTS, counter(in_steps(FRESH, 400_000.0), until)),
        (WAITS, counter(in_steps((3, 29, 44, 70, 85), 0.5), until)),
    ]
    return variance(made(tmp_path_factory.mktemp("faulty"), convolution, samples))


def test_the_slow_operation_is_named_with_its_times_and_its_share(faulty: Section) -> None:
    operation = "aten::conv2d of layer3 (forward, 8x3x32x32)"
    slow = ("1.2 ms", "3.39 ms", "6 % of 100 calls", "83 %", "minor page faults", "2.1 %")
    assert saying(faulty.sentences, operation, *slow)
    assert saying(faulty.sentences, "2 operations", "100 traced steps", "1 had slow")


def test_its_figures_are_those_that_were_put_in(faulty: Section) -> None:
    (row,) = [row for row in table(faulty, "operations") if row["name"] == "aten::conv2d"]
    assert row["median"].value == pytest.approx(1.2e-3, rel=0.01)
    assert row["slow_share"].value == pytest.approx(0.06)
    assert row["lost"].value == pytest.approx(6 * 2.2e-3 / 100, rel=0.02)
    assert row["lost_share"].value == pytest.approx(6 * 2.2 / (100 * 1.2 + 6 * 2.2), rel=0.02)
    assert row["coincided"] == "minor_faults"
    assert row["between_steps"] == "100 %"


def test_only_what_fell_together_is_found(faulty: Section) -> None:
    assert found_pairs(faulty) == [("aten::conv2d of layer3 (forward, 8x3x32x32)", "minor_faults")]
    (row,) = [row for row in table(faulty, "coincidences") if row.get("found") == "yes"]
    difference = row["difference"]
    assert isinstance(difference, Figure)
    assert difference.value == pytest.approx(5 / 6 - 2 / 94)
    assert difference.low is not None
    assert difference.low > 0.3
    waits = [r for r in table(faulty, "coincidences") if r["condition"] == "core_wait"]
    assert {r["found"] for r in waits} == {"no"}


def test_it_says_what_cannot_be_seen_and_how_coarse_the_rest_is(faulty: Section) -> None:
    unseen = {row["condition"] for row in table(faulty, "unwatched")}
    assert {"throttled", "steal", "low_frequency", "garbage_collection", "slow_data"} <= unseen
    assert "not to cause" in text(faulty)
    assert saying(faulty.sentences, "Conditions", "every 1 ms")
    (row,) = [row for row in table(faulty, "conditions") if row["condition"] == "minor_faults"]
    assert row["every_s"] == pytest.approx(1e-3)
    assert row["windows"] == "7 %"


def test_the_section_prints_and_makes_json(faulty: Section) -> None:
    shown, written = io.StringIO(), io.StringIO()
    print_section(faulty, Console(file=shown, width=150))
    dump(faulty.document(), written)
    assert "fell while" in shown.getvalue()
    document = json.loads(written.getvalue())
    assert document["tables"]["operations"][0]["median"]["unit"] == "s"
    assert document["figures"]["slow_operations"]["value"] == 1


def test_conditions_that_have_nothing_to_do_with_it_are_not_blamed(tmp_path: Path) -> None:
    until = STEPS * LENGTH
    samples = [
        (FAULTS, counter(in_steps((2, 19, 33, 48, 66, 71, 95), 400_000.0), until)),
        (WAITS, counter(in_steps((3, 29, 44, 70, 85), 0.5), until)),
    ]
    section = variance(made(tmp_path, convolution, samples))
    assert found_pairs(section) == []
    assert saying(section.sentences, "than by chance")


def test_an_undisturbed_run_has_no_slow_operation(tmp_path: Path) -> None:
    section = variance(made(tmp_path, lambda n, begin: convolution(n, begin, slow=())))
    assert saying(section.sentences, "2 operations", "100 traced steps", "0 had slow")
    assert saying(section.sentences, "None of 100", "was slow")
    assert found_pairs(section) == []
    assert section.figures["slow_operations"].value == 0


def test_faults_too_few_to_matter_are_no_condition(tmp_path: Path) -> None:
    """50 faults take at most 0.15 ms, where the slow ones lost 2.2 ms."""
    samples = [(FAULTS, counter(in_steps(SLOW, 12_500.0), STEPS * LENGTH))]
    section = variance(made(tmp_path, convolution, samples))
    assert found_pairs(section) == []


# --- shapes and places in the step --------------------------------------------------------------


def test_variation_between_input_shapes_is_said_to_be_that(tmp_path: Path) -> None:
    def operations(step: int, begin: float) -> list[Worked]:
        wide = step % 7 == 3
        length = (4.8 if wide else 1.2) + 0.02 * wobble(step)
        shapes = "32x3x32x32" if wide else "8x3x32x32"
        conv = Worked(
            name="aten::conv2d", layer="layer3", step=step, start=begin + 1,
            end=begin + 1 + length, shapes=shapes,
        )  # fmt: skip
        # The optimizer has no shapes of the batch, and is slow with the wide ones.
        took = (0.9 if wide else 0.3) + 0.01 * wobble(step + 5)
        update = Worked(
            name="aten::add_", layer="layer3", phase="optimizer", step=step, start=begin + 10,
            end=begin + 10 + took,
        )  # fmt: skip
        return [conv, update]

    section = variance(made(tmp_path, operations))
    shapes = ("8x3x32x32: 1.2 ms", "32x3x32x32: 4.8 ms")
    assert saying(
        section.sentences, "aten::conv2d of layer3 (forward)", "input shapes", *shapes, "100 %"
    )
    slow = [row["name"] for row in table(section, "operations") if row["slow_share"].value > 0]
    assert slow == ["aten::add_"]
    named = found_pairs(section)
    assert named == [("aten::add_ of layer3 (optimizer)", "other_shapes")]


def test_an_operation_that_has_another_shape_each_time_makes_no_step_unusual(
    tmp_path: Path,
) -> None:
    def operations(step: int, begin: float) -> list[Worked]:
        slice_ = Worked(
            name="aten::slice", step=step, start=begin + 15, end=begin + 15.1, shapes=str(step)
        )
        return [*convolution(step, begin), slice_]

    found = SlowInstances(made(tmp_path, operations))
    assert not found.instances.other_shapes.any()


def test_a_first_call_that_is_slow_in_every_step_is_told_as_such(tmp_path: Path) -> None:
    """Four calls of 0.5 ms, the first of them 1.5 ms: no instance is slow for its place."""

    def operations(step: int, begin: float) -> list[Worked]:
        starts = [begin + 1 + 3 * n for n in range(4)]
        lengths = [1.5 if n == 0 else 0.5 + 0.01 * wobble(step + n) for n in range(4)]
        return [
            Worked(name="aten::add", layer="block", step=step, start=s, end=s + length)
            for s, length in zip(starts, lengths, strict=True)
        ]

    section = variance(made(tmp_path, operations, steps=30))
    assert "0 had slow instances" in text(section)
    assert found_pairs(section) == [("aten::add of block (forward)", "first_call")]
    (row,) = table(section, "operations")
    assert row["between_positions"] == "100 %"


# --- the tracer's own cost ----------------------------------------------------------------------


def own(path: Path, **more: Any) -> Run:
    """A run of our own: 120 steps of 20 ms, every sixth traced, which adds 0.5 ms to each phase."""
    return load(make_run(path / "r", more.pop("sampled", []), steps=120, **more).path)


def test_steps_that_were_slow_are_told_with_what_they_coincided_with(tmp_path: Path) -> None:
    """Every ninth step takes 20 ms longer, 15 of them waiting."""
    slow = {n for n in range(120) if n % 9 == 4}
    longer: Callable[[int], int] = lambda index: 20 * MS if index in slow else 0  # noqa: E731
    same = make_run(tmp_path / "same", [], steps=120, slow=longer)
    waits = Channel(
        name="process.main_thread.core_wait", unit="s", kind="counter", domain="process",
        role="core_wait", source="made", scale=1e-9,
    )  # fmt: skip

    def raw(t_ns: int) -> int:
        """15 ms of waiting at the end of each slow step."""
        total = 0
        for index in sorted(slow):
            end = same.steps[index + 1][0]
            total += min(max(t_ns - (end - 15 * MS), 0), 15 * MS)
        return total

    run = own(tmp_path, sampled=[Sampled(channel=waits, raw=raw)], slow=longer)
    section = variance(run)
    steps = [row for row in table(section, "coincidences") if row["operation"] == "(steps)"]
    (hit,) = [row for row in steps if row.get("found") == "yes"]
    assert hit["condition"] == "core_wait"
    assert hit["with_slow"] == "100 %"
    assert hit["with_others"] == "0 %"
    share = section.figures["slow_step_share"]
    clean = load(run.path).series.steps.clean
    assert share.value == pytest.approx(sum(clean[n] for n in slow) / clean.sum())
    assert saying(section.sentences, "100 %", "main thread waited", "0 %")


def test_the_cost_of_events_inside_an_operation_is_taken_off(tmp_path: Path) -> None:
    """The phases of a traced step take 0.5 ms more: that is no part of the operations' times."""
    found = SlowInstances(own(tmp_path))
    traced = found.instances
    by_name = {str(traced.names["name"].of(n)): float(s) for n, s in enumerate(traced.seconds)}
    assert by_name["forward-op"] == pytest.approx(8e-3, rel=0.05)
    assert by_name["backward-op"] == pytest.approx(10e-3, rel=0.05)
    assert (traced.tracer_s == 0).all()  # nothing runs inside these


def test_an_operation_that_is_mostly_tracing_is_not_tested(tmp_path: Path) -> None:
    found = SlowInstances(made(tmp_path, convolution))
    traced = found.instances
    traced.tracer_s[:] = np.where(traced.names["name"].rows == "aten::conv2d", 1.0, 0.0)
    assert found.candidates == []
    assert any("the tracer's own" in s for s in _sentences(found))


def _sentences(found: SlowInstances) -> list[str]:
    from wattstep.insight.explain import variance as section

    return list(section._of_operations(found))


# --- bad input ------------------------------------------------------------------------------------


def test_without_operations_steps_are_still_told(tmp_path: Path) -> None:
    section = variance(own(tmp_path, trace="none"))
    assert saying(section.sentences, "Operations", "--trace none")
    assert saying(section.sentences, "None of 117", "was slow")
    assert section.reason is None


def test_without_operations_and_steps_there_is_a_reason(tmp_path: Path) -> None:
    run = load(import_made(tmp_path / "r", {"telemetry": [LOG]}, samples=[(WAITS, "made.csv", [(0, 0), (9, 1)])]))  # fmt: skip
    section = variance(run)
    assert section.reason
    assert section.sentences == ()


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_few_steps_say_that_they_are_few(tmp_path: Path, steps: int) -> None:
    section = variance(made(tmp_path, convolution, steps=steps))
    assert saying(section.sentences, "no slow instance", "at least 5")
    assert saying(section.sentences, "which of them")
    assert "slow_operations" not in section.figures
    for row in table(section, "operations"):
        assert row["cv"].low is None
        assert row["cv"].reason


def test_six_steps_tell_slow_ones_but_not_what_they_coincided_with(tmp_path: Path) -> None:
    run = made(tmp_path, lambda n, begin: convolution(n, begin, slow=(2, 4)), steps=6)
    assert saying(variance(run).sentences, "6 windows", 8)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "no telemetry"),
        ([(float(n), float("nan")) for n in range(2000)], "gave no values"),
        ([(float(n), 5.0) for n in range(2000)], "never held"),
        ([(float(n), 5.0 if n < 60 else float("nan")) for n in range(2000)], "windows are too"),
    ],
)
def test_a_channel_that_tells_nothing_is_blamed_for_nothing(
    tmp_path: Path, values: list[tuple[float, float]], reason: str
) -> None:
    section = variance(made(tmp_path, convolution, [(FAULTS, values)] if values else []))
    assert found_pairs(section) == []
    rows = table(section, "unwatched") + table(section, "coincidences")
    mine = [row for row in rows if row["condition"] == "minor_faults"]
    assert mine
    assert all(reason in (row.get("reason") or row["found"]) for row in mine)


def test_a_condition_that_always_held_is_said_to_tell_nothing(tmp_path: Path) -> None:
    samples = [(WAITS, counter(lambda _: 0.5, STEPS * LENGTH))]
    major = Channel(
        name="process.major_faults", unit="events", kind="counter", domain="process",
        role="major_faults", source="made",
    )  # fmt: skip
    samples.append((major, counter(lambda _: 100.0, STEPS * LENGTH)))
    section = variance(made(tmp_path, convolution, samples))
    assert found_pairs(section) == []
    assert saying(section.sentences, "major page faults", "cannot be determined")


def test_samples_whose_clock_is_not_known_are_not_used(tmp_path: Path) -> None:
    found = {"trace": TRACE, "telemetry": [LOG], "alignment": []}
    found["alignment"] = [{"file": "made.csv", "method": "not at all", "uncertainty_s": None}]
    begins = [n * LENGTH for n in range(20)]
    run = load(
        import_made(
            tmp_path / "r", found, steps=[(b, b + LENGTH) for b in begins],
            operations=[row for n, b in enumerate(begins) for row in convolution(n, b)],
            samples=[(FAULTS, "made.csv", counter(in_steps(SLOW, 4e5), 400.0))],
        )
    )  # fmt: skip
    (row,) = [r for r in table(variance(run), "unwatched") if r["condition"] == "minor_faults"]
    assert "clocks" in row["reason"]


def test_operations_of_no_length_are_counted_and_never_slow(tmp_path: Path) -> None:
    def operations(step: int, begin: float) -> list[Worked]:
        empty = Worked(name="aten::view", layer="fc", step=step, start=begin + 15, end=begin + 15)
        return [*convolution(step, begin), empty]

    section = variance(made(tmp_path, operations, [(FAULTS, counter(in_steps(SLOW, 4e5), 2000.0))]))
    (row,) = [row for row in table(section, "operations") if row["name"] == "aten::view"]
    assert row["median"].value == 0.0
    assert row["cv"].missing
    assert row["slow_share"].value == 0.0
    assert found_pairs(section) == [("aten::conv2d of layer3 (forward, 8x3x32x32)", "minor_faults")]


def test_a_disturbed_run_is_told_with_its_disturbance(tmp_path: Path) -> None:
    """Other processes have both cores from step 60 on: in all of one half, and in none of the other."""
    half = make_run(tmp_path / "same", [], steps=120).steps[60][0]
    own_time = Channel(
        name="process.cpu_time", unit="s", kind="counter", domain="process",
        role="process_cpu_time", source="made", scale=1e-9,
    )  # fmt: skip
    system = Channel(
        name="system.busy_time", unit="s", kind="counter", domain="cpu", role="system_busy_time",
        source="/proc/stat", scale=0.01,
    )  # fmt: skip
    begin = make_run(tmp_path / "again", [], steps=120).steps[0][0] - 20 * MS
    sampled = [
        Sampled(channel=own_time, raw=lambda t: t - begin),
        Sampled(channel=system, raw=lambda t: (t - begin + max(t - half, 0)) // (10 * MS)),
        Sampled(channel=busy(0), raw=lambda t: (t - begin) // (10 * MS)),
    ]
    section = variance(own(tmp_path, sampled=sampled))
    (row,) = [row for row in table(section, "conditions") if row["condition"] == "other_processes"]
    assert 40 <= float(row["steps"].split()[0]) <= 65
    assert found_pairs(section) == []


def test_the_command_knows_the_section(tmp_path: Path) -> None:
    run = made(tmp_path, convolution, steps=12)
    (section,) = explain(run, ["variance"])
    assert section.name == "variance"
