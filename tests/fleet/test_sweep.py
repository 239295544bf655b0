"""The order of a sweep, what it skips, how it continues, and what outlives a torn line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from tests.fleet.made import MACHINE, Measured, Watched, opened, outcome, plan
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.cli.sweep import _sweep
from wattstep.errors import RecordingError
from wattstep.schema.outcome import Evidence, Outcome
from wattstep.sweep.folder import OUTCOMES, SWEEP, SweepFolder, load_sweep, read_outcomes
from wattstep.sweep.outcomes import Tally
from wattstep.sweep.plan import SweepPlan
from wattstep.sweep.sweep import sweep_here


def test_rounds_are_interleaved_and_batch_sizes_ascend() -> None:
    chosen = plan(workloads=("lenet", "dqn"), batches=(4, 1), repeats=2)
    assert [one.name for one in chosen.configurations()] == [
        "lenet-b1-t1-fp32-r1", "lenet-b4-t1-fp32-r1", "dqn-b1-t1-fp32-r1", "dqn-b4-t1-fp32-r1",
        "lenet-b1-t1-fp32-r2", "lenet-b4-t1-fp32-r2", "dqn-b1-t1-fp32-r2", "dqn-b4-t1-fp32-r2",
    ]  # fmt: skip


def test_engines_are_an_axis_and_one_alone_names_no_run(tmp_path: Path) -> None:
    several = plan(batches=(4,), engines=("mnn", "torch"))
    assert [one.name for one in several.configurations()] == [
        "lenet-b4-t1-fp32-mnn-r1", "lenet-b4-t1-fp32-torch-r1",
    ]  # fmt: skip
    assert [several.settings_of(one, "").engine for one in several.configurations()] == [
        "mnn", "torch",
    ]  # fmt: skip
    (alone,) = plan(batches=(4,), more={"engine": "mnn"}).configurations()
    assert alone.name == "lenet-b4-t1-fp32-r1"
    with refused("unknown-engine", "foo"):
        plan(engines=("torch", "foo"))


@pytest.mark.parametrize(
    ("wrong", "id", "named"),
    [
        ({"batches": (4, 0)}, "out-of-range", "--batch 0"),
        ({"repeats": 0}, "out-of-range", "--repeat 0"),
        ({"precisions": ("fp12",)}, "unknown-precision", "--precision fp12"),
        ({"cooldown": "soon"}, "malformed-cooldown", "--cooldown soon"),
    ],
)
def test_what_no_workload_can_take_is_refused_before_anything_runs(
    wrong: dict[str, object], id: str, named: str
) -> None:
    with refused(id, named):
        plan(**wrong)


def test_what_ends_badly_is_an_outcome_and_not_the_end(tmp_path: Path) -> None:
    folder, watched = opened(tmp_path, plan(batches=(1, 2, 4, 8))), Watched()
    ends = {
        "lenet-b1-t1-fp32-r1": "killed",
        "lenet-b2-t1-fp32-r1": "crashed",
        "lenet-b4-t1-fp32-r1": "refused",
    }
    sweep_here(plan(batches=(1, 2, 4, 8)), folder, watched, Measured(ends))
    assert [status for _, status in watched.ended] == ["killed", "crashed", "refused", "trained"]


def test_larger_batches_of_what_ran_out_of_memory_are_skipped_in_every_round(
    tmp_path: Path,
) -> None:
    chosen = plan(batches=(1, 2, 4), threads=(1, 2), repeats=2)
    measured = Measured({"lenet-b2-t1-fp32-r1": "out of memory"})
    folder = opened(tmp_path, chosen)
    sweep_here(chosen, folder, Watched(), measured)
    skipped = {name: one for name, one in folder.outcomes.items() if one.status == "skipped"}
    assert sorted(skipped) == ["lenet-b4-t1-fp32-r1", "lenet-b4-t1-fp32-r2"]
    (reason,) = {one.reason for one in skipped.values()}
    assert_says(reason, "batch 2", "memory")
    # The same batch is tried again in the next round, and other threads are another matter.
    assert "lenet-b2-t1-fp32-r2" in measured.done
    assert "lenet-b4-t2-fp32-r1" in measured.done
    assert len(folder.outcomes) == 12


def test_the_same_sweep_continues_where_it_was_stopped(tmp_path: Path) -> None:
    chosen = plan(batches=(1, 2, 4))
    folder, first = opened(tmp_path, chosen), Measured({"lenet-b2-t1-fp32-r1": "Ctrl-C"})
    with pytest.raises(KeyboardInterrupt):
        sweep_here(chosen, folder, Watched(), first)
    folder.close()
    second = Measured()
    sweep_here(chosen, opened(tmp_path, chosen), Watched(), second)
    assert second.done == ["lenet-b2-t1-fp32-r1", "lenet-b4-t1-fp32-r1"]


def test_an_interrupted_outcome_stops_the_sweep_and_runs_again(tmp_path: Path) -> None:
    chosen = plan()
    folder = opened(tmp_path, chosen)
    with pytest.raises(KeyboardInterrupt):
        sweep_here(chosen, folder, Watched(), Measured({"lenet-b1-t1-fp32-r1": "interrupted"}))
    folder.close()
    again = Measured()
    sweep_here(chosen, opened(tmp_path, chosen), Watched(), again)
    assert again.done == ["lenet-b1-t1-fp32-r1", "lenet-b2-t1-fp32-r1"]


def test_more_of_the_same_continues_and_keeps_what_was_there(tmp_path: Path) -> None:
    folder = opened(tmp_path, plan())
    sweep_here(plan(), folder, Watched(), Measured())
    folder.close()
    more = plan(workloads=("dqn",), batches=(4, 2), repeats=2)
    folder = opened(tmp_path, more)
    sweep_here(more, folder, Watched(), Measured())
    folder.close()
    axes = json.loads((tmp_path / SWEEP).read_text())["axes"]
    assert axes["workloads"] == ["lenet", "dqn"]
    assert axes["batches"] == [1, 2, 4]
    assert len(read_outcomes(tmp_path, print)) == 6


def test_what_was_asked_of_each_device_is_kept_over_turns(tmp_path: Path) -> None:
    first = replace(
        plan(workloads=("lenet", "dqn")), devices=("a", "b"), only={"a": ("lenet", "vgg16")}
    )
    opened(tmp_path, first).close()
    opened(tmp_path, replace(plan(workloads=("vgg16",)), devices=("b",))).close()
    kept = json.loads((tmp_path / SWEEP).read_text())
    assert kept["workloads_of"] == {"a": ["lenet"], "b": ["lenet", "dqn", "vgg16"]}
    del kept["workloads_of"]  # as a sweep was written before: everything went everywhere
    (tmp_path / SWEEP).write_text(json.dumps(kept))
    opened(tmp_path, first).close()
    kept = json.loads((tmp_path / SWEEP).read_text())
    assert kept["workloads_of"] == {name: ["lenet", "dqn", "vgg16"] for name in "ab"}


def test_other_settings_in_the_same_folder_are_refused_by_name(tmp_path: Path) -> None:
    opened(tmp_path, plan()).close()
    with refused("other-settings", "--memory-limit", "8589934592"):
        opened(tmp_path, plan(memory_limit=2**33))
    with refused("other-settings", "--warmup was 3, now 5"):
        opened(tmp_path, plan(more={"warmup": 5}))
    with refused("other-settings", "device was board", "now lake"):
        SweepFolder(tmp_path, plan(), {"model": "lake"}, print)
    with refused("other-settings", "one machine", "cluster"):
        SweepFolder(tmp_path, plan(), {"where": "a cluster"}, print)
    opened(tmp_path, plan()).close()


def test_another_clock_mode_than_before_is_refused_as_in_a_comparison(tmp_path: Path) -> None:
    SweepFolder(tmp_path, plan(), {**MACHINE, "clocks": "power mode MAXN"}, print).close()
    with refused("other-settings", "clock mode", "MAXN", "MAXQ"):
        SweepFolder(tmp_path, plan(), {**MACHINE, "clocks": "power mode MAXQ"}, print)


def test_two_sweeps_never_write_into_one_folder(tmp_path: Path) -> None:
    folder = opened(tmp_path, plan())
    with refused("being-written", "sweep"):
        opened(tmp_path, plan())
    folder.close()
    opened(tmp_path, plan()).close()


def test_a_run_is_no_folder_for_a_sweep_and_strangers_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_text("{}")
    with refused("run-as-folder"):
        opened(tmp_path / "run", plan())
    mine = tmp_path / "sweep/lenet-b1-t1-fp32-r1"
    mine.mkdir(parents=True)
    (mine / "thesis.tex").write_text("mine")
    with refused("in-the-way", "lenet-b1-t1-fp32-r1"):
        opened(tmp_path / "sweep", plan()).clear("lenet-b1-t1-fp32-r1")
    assert (mine / "thesis.tex").exists()


def test_an_empty_folder_of_a_run_that_was_ended_while_it_began_is_not_in_the_way(
    tmp_path: Path,
) -> None:
    folder = opened(tmp_path, plan())
    (tmp_path / "lenet-b1-t1-fp32-r1").mkdir()
    assert folder.clear("lenet-b1-t1-fp32-r1") == str(tmp_path / "lenet-b1-t1-fp32-r1")
    assert not (tmp_path / "lenet-b1-t1-fp32-r1").exists()
    folder.close()


def test_where_nothing_can_be_recorded_the_sweep_stops_and_the_same_one_continues(
    tmp_path: Path,
) -> None:
    chosen = plan()
    folder = opened(tmp_path, chosen)
    with refused("sweep-stopped", "lenet-b1-t1-fp32-r1: "):
        sweep_here(chosen, folder, Watched(), Measured({"lenet-b1-t1-fp32-r1": "unrecorded"}))
    folder.close()
    again = Measured()
    sweep_here(chosen, opened(tmp_path, chosen), Watched(), again)
    assert again.done == ["lenet-b1-t1-fp32-r1", "lenet-b2-t1-fp32-r1"]


def test_other_versions_than_before_are_said(tmp_path: Path) -> None:
    chosen = plan()
    folder, watched = opened(tmp_path, chosen), Watched()
    folder.add(outcome(batch=1, versions={"wattstep": "0.0.1", "torch": "1.0"}))
    sweep_here(chosen, folder, watched, Measured())
    folder.close()
    (said,) = watched.warnings
    assert_says(said, "lenet-b1-t1-fp32-r1", "wattstep was 0.0.1")
    assert "torch was 1.0, now " in said


def test_a_limit_that_bounds_nothing_is_said(tmp_path: Path) -> None:
    chosen = plan(memory_limit=2**60)
    folder, watched = opened(tmp_path, chosen), Watched()
    sweep_here(chosen, folder, watched, Measured())
    folder.close()
    (warning,) = watched.warnings
    assert "the machine that" in warning


def test_the_document_says_what_the_paper_says_of_a_workload(tmp_path: Path) -> None:
    opened(tmp_path, plan(workloads=("lenet", "vgg19", "vgg16"))).close()
    paper = load_sweep(tmp_path, print).to_dict()["sweep"]["paper"]
    assert paper["trains"] == {"vgg19": "never starts", "vgg16": "yes"}
    assert "1906.04278" in paper["source"]


@pytest.mark.parametrize(
    "damage", [b'{"name": "lenet', b"\xff\xfe\n", b"[1]\n", b'{"status": 1}\n']
)
def test_a_damaged_line_is_passed_over_with_a_warning_and_runs_again(
    tmp_path: Path, damage: bytes
) -> None:
    folder = opened(tmp_path, plan())
    folder.add(outcome(batch=1))
    folder.close()
    with (tmp_path / OUTCOMES).open("ab") as file:
        file.write(damage)
    warnings: list[str] = []
    folder, measured = opened(tmp_path, plan(), warnings), Measured()
    assert ["line 2 of" in warning for warning in warnings] == [True]
    sweep_here(plan(), folder, Watched(), measured)
    folder.close()
    assert measured.done == ["lenet-b2-t1-fp32-r1"]
    found = load_sweep(tmp_path, warn=lambda text: None)
    names = [one.configuration.name for one in found.outcomes]
    assert names == ["lenet-b1-t1-fp32-r1", "lenet-b2-t1-fp32-r1"]


def test_an_outcome_survives_being_written_and_read() -> None:
    full = outcome(
        status="out of memory",
        reason="why",
        evidence=Evidence(signal=9, kernel="line", oom_kills=1, steps=3, notes=("hot",)),
        figures={"step_time": {"value": 1.0, "unit": "s", "status": "measured"}},
        limit="8 GiB",
        temperature=41.5,
        attempts=2,
        machine={"model": "board", "memory": 8},
        versions={"torch": "2"},
        finite=False,
    )
    assert Outcome.from_dict(json.loads(json.dumps(full.to_dict()))) == full


def test_time_left_is_that_of_the_most_similar_ones() -> None:
    chosen = plan(workloads=("lenet", "dqn"), batches=(1, 4), repeats=2)
    configurations = list(chosen.configurations())
    assert Tally().time_left(configurations) is None
    done = [
        outcome("lenet", 1, started=0, ended=10),
        outcome("lenet", 4, started=0, ended=30),
        outcome("dqn", 1, started=0, ended=100),
    ]
    # lenet: 10 and 30 once more. dqn: batch 4 twice, as long as its batch 1, and that once more.
    assert Tally(done).time_left(configurations) == 10 + 30 + 3 * 100
    ran_out = outcome("dqn", 1, "out of memory", started=0, ended=100)
    left = Tally([*done[:2], ran_out]).time_left(configurations)
    assert left == 10 + 30 + 100  # its batch 4 will be skipped


def test_how_long_it_took_adds_up_over_interruptions(tmp_path: Path) -> None:
    for seconds in (2.0, 3.5):
        folder = opened(tmp_path, plan())
        folder.save(seconds)
        folder.close()
    assert load_sweep(tmp_path, print).duration == 5.5
    assert load_sweep(tmp_path, print).machine == MACHINE


def test_what_a_sweep_has_stands_with_its_refusal_in_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def sweep(chosen: SweepPlan, folder: SweepFolder, progress: Watched) -> None:
        folder.add(outcome())
        raise RecordingError("1 of 2 stay open", id="left-open")

    with pytest.raises(typer.Exit) as ended:
        _sweep(plan(batches=(1, 2)), tmp_path / "sweep", MACHINE, True, Watched(), sweep)
    assert ended.value.exit_code == 2
    out, error = capsys.readouterr()
    document = json.loads(out)
    assert [each["status"] for each in document["outcomes"]] == ["trained"]
    assert (document["error"], document["id"]) == ("1 of 2 stay open", "left-open")
    assert error.endswith(f"wattstep: {document['error']}\n")
