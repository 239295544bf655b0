"""A run on one screen: what it says, how long it is, that nothing stands there twice."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console
from tests.reports import synthetic
from tests.wording import assert_says

from wattstep.insight.advise.advice import Advice
from wattstep.report.divisions import divisions
from wattstep.report.terminal.summary import print_summary
from wattstep.schema.figure import Figure, Status, missing

BEST = Advice(
    title="Train batches of 8 instead of 4",
    why="Costs that do not grow with the batch are 40 % of a step.",
    gain=Figure(value=0.2, unit="ratio", low=0.1, high=0.3, status=Status.PREDICTED),
    how="wattstep run lenet --batch 8",
)


def shown(width: int, *advice: Advice, encoding: str = "utf-8", **changes: Any) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    console = Console(file=stream, width=width, no_color=True)
    print_summary(synthetic.report(synthetic.document(**changes)), console, advice)
    stream.seek(0)
    return stream.read()


@pytest.mark.parametrize(("width", "lines"), [(80, 40), (120, 32)])
def test_a_run_takes_one_screen_and_stays_within_it(width: int, lines: int) -> None:
    text = shown(width, BEST)
    assert len(text.splitlines()) <= lines, text
    *screen, path, more = text.splitlines()  # paths are never broken
    assert max(map(len, [*screen, more])) <= width
    assert path.startswith("run: runs/lenet-")


def test_kinds_of_steps_add_up_and_disturbed_ones_are_among_the_clean() -> None:
    steps = {
        "recorded": 58,
        "warmup": 3,
        "clean": 34,
        "traced": 11,
        "settling": 10,
        "disturbed": 30,
    }
    (line,) = [each for each in shown(200, steps=steps).splitlines() if "58 steps: " in each]
    kinds = line.partition("58 steps: ")[2].rstrip()
    assert_says(kinds, "3 warmup", "34 clean (30 disturbed)", "11 traced", "10 settling")
    assert sum(int(part.split()[0]) for part in kinds.split(", ")) == 58


def test_figures_come_with_interval_and_status() -> None:
    text = " ".join(shown(120).split())
    assert "(mean) 3.41 ms 3.30 to 3.52 measured" in text
    assert "≈ 14.2 mJ 12.1 to 16.9; sensor ± 20 % modelled" in text


def test_a_reason_stands_there_once() -> None:
    metrics = synthetic.document()["metrics"]
    metrics |= dict.fromkeys(("energy_per_step", "energy_per_sample"), synthetic.missing("J"))
    text = " ".join(shown(120, metrics=metrics).split())
    assert text.count(synthetic.NO_RAPL) == 1
    assert f"Energy per step — {synthetic.NO_RAPL}" in text


def test_energy_of_few_parts_where_there_is_no_total() -> None:
    metrics = {"energy_per_step": synthetic.missing("J", "only parts of the machine are measured")}
    rails = {"gpu0.energy": synthetic.figure(1.27, "J"), "gpu1.energy": synthetic.missing("J")}
    text = shown(120, metrics=metrics, energy_by_rail=rails)
    assert re.search(r"Energy per step, gpu0 +1\.27 J +measured", text)
    assert "gpu1" not in text
    alone = {"gpu1.energy": synthetic.missing("J", "record more steps")}
    text = shown(120, metrics=metrics, energy_by_rail=alone)
    assert re.search(r"step, gpu1 +— record more", text)
    many = {f"rail.{number}": synthetic.figure(1.0, "J") for number in range(4)}
    assert "Energy per step," not in shown(120, metrics=metrics, energy_by_rail=many)


def test_a_phase_and_what_is_unattributed_in_it_are_told_apart() -> None:
    phases = [{"phase": name, "time": synthetic.figure(seconds, "s", "attributed")}
              for name, seconds in (("forward", 6e-3), ("data", 3e-3))]  # fmt: skip
    rests = {"data": {"time": synthetic.figure(1e-3, "s", "attributed")}}
    report = synthetic.report(synthetic.document(phases=phases, rests=rests))
    (by_phase,) = [each for each in divisions(report) if each.title == "time by phase"]
    parts = {part.name: part.share for part in by_phase.parts}
    assert parts == pytest.approx({"forward": 0.6, "data": 0.3, "data, no operation": 0.1})


def test_bars_divide_the_step_by_the_time_of_its_parts() -> None:
    phases = [{"phase": name, "time": synthetic.figure(seconds, "s", "attributed")}
              for name, seconds in (("forward", 3e-3), ("backward", 6e-3))]  # fmt: skip
    rests = {"data": {"time": synthetic.figure(1e-3, "s", "attributed")}}
    text = shown(120, phases=phases, rests=rests)
    told = re.findall(r"(backward|forward|data)\s(\d+)\s%", text)[:3]
    assert told == [("backward", "60"), ("forward", "30"), ("data", "10")]
    (bar,) = re.findall(r"time by phase\s+([█▓▒]+)", text)
    assert [bar.count(glyph) for glyph in "█▓▒"] == [18, 9, 3]


@pytest.mark.parametrize("width", [80, 120])
def test_a_part_has_its_sign_and_its_name_on_one_line_and_none_where_it_rounds_to_nothing(
    width: int,
) -> None:
    seconds = {"backward": 5e-3, "forward": 3e-3, "optimizer": 1.5e-3, "data": 0.5e-3, "idle": 1e-6}
    phases = [{"phase": name, "time": synthetic.figure(value, "s", "attributed")}
              for name, value in seconds.items()]  # fmt: skip
    lines = shown(width, phases=phases, rests={}).splitlines()
    for name, share in (("backward", 50), ("forward", 30), ("optimizer", 15), ("data", 5)):
        assert any(re.search(f"[█▓▒░] {name} {share} %", line) for line in lines), name
    assert not any("idle 0" in line for line in lines)
    assert max(map(len, lines[:-2])) <= width


def test_the_costliest_operations_are_those_of_most_time() -> None:
    operations = [
        synthetic.operation(f"op{n}", "fc", "forward", 1e-6 * (n + 1), None) for n in range(9)
    ]
    assert re.findall(r"op\d", shown(120, operations=operations)) == ["op8", "op7", "op6"]


def test_the_layer_that_costs_most_energy_comes_first_forward_and_backward_together() -> None:
    def row(name: str, seconds: float, joules: float | None) -> dict[str, Any]:
        energy = (
            synthetic.missing("J") if joules is None else synthetic.figure(joules, "J", "modelled")
        )
        return {
            "layer": name,
            "time": synthetic.figure(seconds, "s", "attributed"),
            "energy": energy,
        }

    text = shown(80, layers=[row("features.5.expand3x3", 3e-3, 0.001), row("fc", 1e-3, 0.009)])
    (line,) = [line.split() for line in text.splitlines() if line.startswith("top layer")]
    assert line[2:] == ["fc", "1.00", "ms", "≈", "9.00", "mJ", "modelled"]
    text = shown(80, layers=[row("features.5.expand3x3", 3e-3, None), row("fc", 1e-3, None)])
    assert re.search(r"top layer +features\.5\.expand3x3 +3\.00 ms", text)  # in one piece


def test_names_of_layers_and_operations_are_never_cut_within() -> None:
    name = "ConvolutionBackward0"
    operations = [synthetic.operation(name, "features.10.expand1x1", "backward", 1e-3, 1e-3)]
    for width in (40, 60, 80, 120):
        assert {name, "(features.10.expand1x1,"} <= set(shown(width, operations=operations).split())


def test_operations_outside_of_all_layers_are_no_layer() -> None:
    layers = [
        {"layer": layer, "time": synthetic.figure(seconds, "s", "attributed")}
        for layer, seconds in (("", 9e-3), ("(outside modules)", 8e-3), ("fc", 1e-3))
    ]
    assert re.search(r"top layer +fc +1\.00 ms", shown(80, layers=layers))


def test_a_layer_that_is_a_number_is_called_a_layer() -> None:
    layers = [{"layer": "2", "time": synthetic.figure(1e-3, "s", "attributed")}]
    assert re.search(r"top layer +layer 2 +1\.00 ms", shown(80, layers=layers))


def test_a_reason_moves_no_other_row_and_folds_in_what_room_there_is() -> None:
    metrics = {
        "step_time": synthetic.figure(0.01, "s"),
        "energy_per_step": synthetic.missing("J", "there is no sensor of power, " * 4),
    }
    for width in (80, 200):
        (line,) = [each for each in shown(width, metrics=metrics, energy_by_rail={}).splitlines()
                   if each.startswith("Step time")]  # fmt: skip
        assert re.fullmatch(r"Step time \(mean\) {2}10\.0 ms {2}measured", line.rstrip())


def test_the_best_advice_says_what_it_saves_and_how_to_try_it() -> None:
    text = " ".join(shown(120, BEST, BEST).split())
    assert_says(text, "> Train batches of", "save ~ 20.0 % (10.0 to 30.0)")
    assert "(1 more: wattstep explain RUN)" in text
    assert "wattstep run lenet --batch 8" in text


def test_a_gain_that_nobody_knows_is_no_number() -> None:
    untold = Advice(title="Quiet the machine", why="", gain=missing("ratio", "no"), how="stop them")
    assert_says(shown(120, untold), "Quiet the machine:", "only a run")


def test_a_gain_that_may_be_nothing_is_not_promised() -> None:
    gain = Figure(value=0.5, unit="ratio", status=Status.PREDICTED, low=0.0, high=1.0)
    unsure = Advice(title="Train with 1 thread", why="", gain=gain, how="")
    assert_says(shown(120, unsure), "with 1 thread:", "save ~ 50.0 % (0 to 100)")


def test_the_reason_of_a_missing_figure_is_no_caution_as_well() -> None:
    reason = "no steps were found in the power: the log holds no power"
    metrics = {"step_time": synthetic.missing("s", f"no trace was imported; {reason}")}
    text = " ".join(shown(80, metrics=metrics, notes=(reason,)).split())
    assert text.count(reason[1:]) == 1  # in one of them the first letter is a capital


def test_cautions_come_gravest_first_and_each_once() -> None:
    notes = ["The sampler was lost at 12.3 s; samples end there."] * 2
    marked = [line for line in shown(120, status_notes=notes).splitlines() if line.startswith("!")]
    assert marked[0].startswith("! This run")
    assert sum("sampler was lost" in line for line in marked) == 1


def test_no_sentence_stands_there_twice() -> None:
    text = " ".join(shown(120, BEST).split())
    sentences = [one for one in re.split(r"(?<=[.:;!])\s", text) if len(one) > 30]
    assert len(sentences) == len(set(sentences))


def test_names_are_harmless_and_unicode_is_not_needed() -> None:
    text = shown(200)
    assert "\x1b" not in text
    assert "█" not in shown(120, encoding="ascii")


def test_the_head_says_the_batch_and_its_accumulation_once() -> None:
    head = shown(200, options={"accumulate": 3}).strip().splitlines()[0]
    assert (head.count("batch 4"), head.count("accumulated 3 times")) == (1, 1), head
