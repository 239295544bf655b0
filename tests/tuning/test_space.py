"""What is turned follows from the machine and the training, and what is not says why."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.plan.file import TUNED
from wattstep.schema.training_hooks import ScriptTuning
from wattstep.train.allocators import ALLOCATORS, find_allocator
from wattstep.train.governor.governor import NOT_THE_CLOCK
from wattstep.train.script import ProfileSettings
from wattstep.train.settings import TrainingSettings
from wattstep.tune.folder import TuneFolder
from wattstep.tune.snippet import snippet_of
from wattstep.tune.space import DEFAULT, KNOBS, Place, parse_allowed, parse_turned, searched
from wattstep.tune.tuning import Question, check_given, clocks_of, goal_of, settings_of
from wattstep.tune.tuning import _place as place_of

OPTIONS = ("channels_last", "compiled", "optimizer_kernel", "policy", "interop_threads")


def place(**more: object) -> Place:
    given = {"cores": (0, 1, 2, 3, 4, 5), "threads": 6, "options": OPTIONS, **more}
    return Place(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cores", "default", "others", "tried"),
    [
        (1, 1, 0.0, None),
        (2, 2, 0.0, (1,)),
        (2, 2, 1.2, (1,)),
        (6, 6, 0.0, (1, 2, 4)),
        (6, 6, 2.5, (1, 2, 3, 4)),  # three are free
        (8, 4, 0.0, (1, 2, 8)),  # with two hyperthreads a core
    ],
)
def test_threads_are_powers_of_two_all_cores_and_those_that_others_leave(
    cores: int, default: int, others: float, tried: tuple[int, ...] | None
) -> None:
    values, left_out = searched(place(cores=tuple(range(cores)), threads=default, others=others))
    assert values.get("threads") == tried
    assert ("threads" in left_out) is (tried is None)


def test_precision_is_turned_where_the_user_allows_it_alone() -> None:
    kinds = {"precision": "fp32", "precisions": ("fp32", "tf32", "bf16", "amp")}
    values, left_out = searched(place(**kinds))
    assert "precision" not in values
    assert "--allow precision" in left_out["precision"]
    values, _ = searched(place(**kinds, allow=frozenset({"precision"})))
    assert values["precision"] == ("bf16", "amp")  # a CPU has no TF32


def test_what_the_user_names_stands_in_place_of_what_is_found() -> None:
    values, _ = searched(place(given={"threads": (3,), "cores": ("0-1",)}, clusters=("4-5", "0-3")))
    assert values["threads"] == (3,)
    assert values["cores"] == ("0-1",)
    values, _ = searched(place(clusters=("4-5", "0-3")))
    assert values["cores"] == ("4-5", "0-3")
    assert "cores" in searched(place())[1]


def test_a_set_of_cores_has_no_more_threads_than_cores() -> None:
    few = DEFAULT.with_value("cores", "0+2")
    assert few.makes_sense
    assert few.with_value("threads", 2).makes_sense
    assert not few.with_value("threads", 4).makes_sense


def test_loaders_are_a_scripts() -> None:
    assert searched(place(script=True))[0]["loader_workers"] == (1, 6)
    assert "loader" in searched(place())[1]["loader_workers"]


def test_only_what_is_to_be_turned_is() -> None:
    values, left_out = searched(place(turned=parse_turned("threads,compile")))
    assert set(values) == {"threads", "compiled"}
    assert_says(left_out["allocator"], "--turn")
    with refused("unknown-knob", "thread", "channels-last"):
        parse_turned("thread")
    with refused("unknown-allowance", "batch"):
        parse_allowed("precision,batch")


def test_every_knob_is_a_setting_and_can_stand_in_a_plan() -> None:
    settings = {each.name for each in dataclasses.fields(TrainingSettings)}
    script = {each.name for each in dataclasses.fields(ScriptTuning)}
    for knob in KNOBS:
        assert knob.name in settings or knob.name in script
        assert knob.name in (*TUNED, "threads", "precision")


def test_a_candidate_is_called_by_its_values_in_the_order_of_the_knobs() -> None:
    candidate = DEFAULT.with_value("allocator", "keep").with_value("threads", 1)
    assert candidate.text == "1 thread, allocator keep"
    assert candidate == DEFAULT.with_value("threads", 1).with_value("allocator", "keep")
    assert DEFAULT.text == "the default"


def test_threads_above_the_cores_and_cores_that_are_not_ours_are_refused() -> None:
    with refused("threads-above-cores", "--threads 4096"):
        check_given([1, 4096], [])
    with refused("threads-above-cores", "--threads 0"):
        check_given([0], [])
    with refused("core-refused", "9998-9999"):
        check_given([], ["9998-9999"])


def test_a_snippet_says_all_that_was_turned() -> None:
    lines = snippet_of(
        {
            "threads": 1,
            "channels_last": True,
            "optimizer_kernel": "fused",
            "allocator": "keep",
            "cores": "0+2",
        }
    )
    for part in (
        "MALLOC_MMAP_MAX_=0", "taskset -c 0,2 python", "torch.set_num_threads(1)", "torch.channels_last",
        "fused=True",
    ):  # fmt: skip
        assert part in lines
    assert snippet_of({}).startswith("# keep the default")
    compile(lines, "snippet", "exec")


def test_allocators_are_found_where_the_loader_would_and_refused_by_name(tmp_path: Path) -> None:
    with refused("no-such-allocator", "jemalloc", "libjemalloc.so.2", "apt install libjemalloc2"):
        find_allocator("jemalloc", tmp_path, {})
    library = tmp_path / "usr/lib/libjemalloc.so.2"
    library.parent.mkdir(parents=True)
    library.touch()
    assert find_allocator("jemalloc", tmp_path, {}) == {"LD_PRELOAD": str(library)}
    own = find_allocator("jemalloc", tmp_path, {"LD_PRELOAD": "libx.so"})
    assert own == {"LD_PRELOAD": f"libx.so:{library}"}
    with refused("no-such-allocator", "huge pages"):
        find_allocator("keep-huge", tmp_path, {})  # whose kernel says nothing of them
    with refused("unknown-allocator", "hoard", "tcmalloc"):
        find_allocator("hoard")


def test_plans_that_share_out_threads_are_tried_where_there_are_several() -> None:
    values, _ = searched(place())
    assert values["policy"] == ("default", "per-kind", "co-run", "fill", "critical-path")
    assert "joules" in searched(place(energy=True))[0]["policy"]
    assert searched(place(cores=(0,), threads=1))[0]["policy"] == ("default",)
    for lacking in ({"options": ()}, {"processor": "cuda"}):
        assert_says(searched(place(**lacking))[1]["policy"], "CPU")
    assert_says(searched(place(script=True))[1]["policy"], "script")
    one = DEFAULT.with_value("threads", 1)
    assert one.with_value("policy", "default").makes_sense
    assert not one.with_value("policy", "fill").makes_sense
    plan = DEFAULT.with_value("policy", "fill")
    assert plan.makes_sense
    assert not plan.with_value("compiled", True).makes_sense


def test_an_allocator_that_is_not_here_is_named_once() -> None:
    values, left_out = searched(place())
    for name in ALLOCATORS:
        assert (name in values["allocator"]) is (f"allocator {name}" not in left_out)
    assert "allocator tcmalloc" not in searched(place(turned=parse_turned("threads")))[1]


def test_settings_that_are_none_or_a_scripts_own_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    with refused("unknown-setting", "batchsize"):
        settings_of("lenet", batchsize=4)
    with refused("not-of-a-script", "--batch", "--seed"):
        settings_of(str(script), batch_size=4, seed=3)
    with refused("unknown-goal", "heat"):
        goal_of("heat")
    assert settings_of("lenet", seed=3).seed == 3  # type: ignore[union-attr]
    made = settings_of(str(script), ("--epochs", "3"), power_model="vcpu")
    assert isinstance(made, ProfileSettings)
    assert (made.arguments, made.power_model) == (("--epochs", "3"), "vcpu")


def test_a_knob_turned_back_is_as_it_was() -> None:
    candidate = DEFAULT.with_value("allocator", "keep").with_value("threads", 1)
    assert candidate.with_value("threads", None) == DEFAULT.with_value("allocator", "keep")
    assert DEFAULT.with_value("threads", None) == DEFAULT


def test_cores_of_others_are_looked_at_once_and_warned_of(tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    question = Question(settings=TrainingSettings(workload="lenet", threads=2, trace="none"))
    for seen in (float(cores), 0.0):  # what goes on counts the machine as it was when it began
        with TuneFolder(tmp_path, question.document(), "cpu", print) as folder:
            folder.remember("others", lambda seen=seen: seen)  # type: ignore[misc]
            found, warning = place_of(question, folder)
        assert found.others == cores
        assert_says(warning, f"{cores}.0 of {cores}", "2 threads", "fewer are tried: 1")
        assert searched(found)[0]["threads"][0] == 1


def test_clocks_are_left_to_the_governor_of_a_run_where_somebody_may_set_them() -> None:
    def none(processor: str, target: str | None) -> None:
        raise InvalidValueError("--governor: no clocks here")

    def all_of_them(processor: str, target: str | None) -> None:
        """Refuses nothing."""

    sensed, modelled = settings_of("lenet"), settings_of("lenet", power_model="vcpu")
    energy = Question(settings=sensed, goal="energy")
    assert clocks_of(energy, all_of_them) is None
    assert_says(clocks_of(energy, none), "no clocks here")
    assert_says(clocks_of(Question(settings=sensed), all_of_them), "--for energy")
    assert clocks_of(Question(settings=modelled, goal="energy"), all_of_them) == NOT_THE_CLOCK
