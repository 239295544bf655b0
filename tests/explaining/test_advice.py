"""Advice: its conditions, what it promises, and that it never promises more than was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.explaining.made import MS, ceilings, ran_on_gpu, trained
from tests.explaining.test_processors import machine
from tests.wording import assert_says

from wattstep.insight.advise import ADVICE
from wattstep.insight.advise.advice import gain_of
from wattstep.insight.advise.section import advice
from wattstep.insight.explain import explain
from wattstep.insight.explain.operations import work_of
from wattstep.insight.explain.section import Section
from wattstep.insight.explain.threads import is_cut
from wattstep.report.divisions import divisions
from wattstep.run import load
from wattstep.schema.figure import Figure, Missing, Status
from wattstep.stats.speedup import Saving
from wattstep.store.ceilings import keep

WORK = {
    "forward-op": {"kind": "convolution", "flops": 80_000_000, "bytes": 100_000},
    "backward-op": {"kind": "elementwise", "bytes": 10_000_000},
    "data-op": {"kind": "data movement", "bytes": 1000},
}
OPTIMIZER = (("forward", 8 * MS), ("optimizer", 12 * MS))


def given(section: Section) -> dict[str, Any]:
    return {row["name"]: row for row in section.tables[0].rows}


def refused(section: Section) -> dict[str, str]:
    return {row["name"]: row["reason"] for row in section.tables[1].rows}


def value(figure: Figure) -> float:
    assert figure.value is not None, figure.reason
    return figure.value


def test_every_piece_of_advice_is_given_or_refused_with_a_reason(tmp_path: Path) -> None:
    found = advice(load(trained(tmp_path / "run", WORK)))
    names = {*given(found), *(name.replace(" ", "_") for name in refused(found))}
    assert names == set(ADVICE)
    assert all(refused(found).values())


def test_gains_are_predicted_ranked_and_within_the_step(tmp_path: Path) -> None:
    keep(ceilings())
    run = trained(tmp_path / "run", WORK, info={"options": {"script": "-m my.train"}})
    found = advice(load(run))
    gains = [row["gain"] for row in found.tables[0].rows]
    values = [value(gain) for gain in gains]
    assert values == sorted(values, reverse=True)
    for gain in gains:
        assert gain.status is Status.PREDICTED
        assert 0 <= gain.low <= gain.value <= gain.high <= 1
    assert all("wattstep profile -m my.train" in row["how"] for row in found.tables[0].rows)


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({"script": "train.py"}, " in train.py, then wattstep profile train.py"),
        (
            {"script": "train.py", "arguments": "--epochs 3 --data ..."},
            " in train.py, then wattstep profile train.py --epochs 3 --data ...",
        ),
        ({"script": "-m my.train"}, " in my.train, then wattstep profile -m my.train"),
        ({}, ", then record the training again"),
    ],
)
def test_a_change_to_the_code_names_the_script_and_the_command(
    tmp_path: Path, options: dict[str, str], command: str
) -> None:
    run = trained(tmp_path / "run", WORK, info={"options": options})
    row = given(advice(load(run)))["prefetch_data"]
    assert row["how"] == f"DataLoader(..., num_workers=1, prefetch_factor=2){command}"


@pytest.mark.parametrize(
    ("target", "option"),
    [
        ("local", ""),
        ("emulate:jetson-tx2,averaging=422ms", " --target emulate:jetson-tx2,averaging=422ms"),
        ("ssh:board", " --target ssh:..."),  # which board is not in the record
    ],
)
def test_a_command_trains_where_the_run_was_trained(
    tmp_path: Path, target: str, option: str
) -> None:
    info = {"options": {"rate_rule": "linear"}, "workload": "lenet", "target": target}
    run = load(trained(tmp_path / "run", phases=OPTIMIZER, info=info))
    assert (
        given(advice(run))["larger_batch"]["how"]
        == f"wattstep run lenet --batch 8 --threads 1{option}"
    )


def test_a_command_changes_nothing_but_what_it_is_for(tmp_path: Path) -> None:
    options = {"rate_rule": "linear", "policy": "co-run", "accumulate": 2, "channels_last": True}
    info = {"options": options, "workload": "lenet", "precision": "bf16"}
    run = load(trained(tmp_path / "run", phases=OPTIMIZER, info=info))
    assert given(advice(run))["larger_batch"]["how"] == (
        "wattstep run lenet --batch 8 --threads 1 --precision bf16 --channels-last --policy co-run "
        "--accumulate 2"
    )


def test_a_command_keeps_to_the_run_s_cores_and_what_a_tune_turned(tmp_path: Path) -> None:
    options = {
        "rate_rule": "linear", "cores": "0-3+6", "allocator": "jemalloc", "optimizer_kernel": "fused",
        "interop_threads": 2,
    }  # fmt: skip
    info = {"options": options, "workload": "lenet"}
    run = load(trained(tmp_path / "run", phases=OPTIMIZER, info=info))
    how = given(advice(run))["larger_batch"]["how"]
    assert_says(how, "--cores 0-3+6", "--allocator jemalloc", "--optimizer-kernel fused")
    assert_says(how, "--interop-threads 2")


def test_of_an_exported_training_the_command_is_the_one_that_trains_from_a_folder(
    tmp_path: Path,
) -> None:
    options = {"rate_rule": "linear", "exported": True, "optimizer": "sgd,lr=0.1"}
    info = {"options": options, "workload": "lenet"}
    run = load(trained(tmp_path / "run", phases=OPTIMIZER, info=info))
    # A batch is exported, threads are chosen where it trains.
    assert_says(
        given(advice(run))["larger_batch"]["how"],
        "export lenet",
        "--batch 8",
        "--optimizer sgd,lr=0.1",
        "-o lenet-batch-8",
        "run --from lenet-batch-8 --threads 1",
    )


def test_data_loading_can_be_hidden_as_far_as_the_rest_lasts(tmp_path: Path) -> None:
    found = given(advice(load(trained(tmp_path / "run", WORK))))["prefetch_data"]
    assert value(found["gain"]) == pytest.approx(0.1, rel=0.05)  # 2 ms of 20
    longer = (("data", 15 * MS), ("forward", 5 * MS))
    found = given(advice(load(trained(tmp_path / "longer", phases=longer))))["prefetch_data"]
    assert value(found["gain"]) == pytest.approx(0.25, rel=0.05)  # 5 ms of the 15 hide


def test_a_larger_batch_saves_half_of_what_does_not_grow(tmp_path: Path) -> None:
    # Of 20 ms the optimizer takes 12, whatever the batch: twice the batch saves 6 of 20.
    found = given(advice(load(trained(tmp_path / "run", phases=OPTIMIZER))))["larger_batch"]
    assert value(found["gain"]) == pytest.approx(0.3, rel=0.05)
    assert "--batch 8" in found["how"] or "batches of 8" in found["how"]


def test_runs_with_other_batches_tell_the_fixed_cost(tmp_path: Path) -> None:
    # 20 ms at batch 4, 32 ms at batch 8: 8 ms fixed, 3 ms a sample; twice the batch saves 4 of 20.
    one = load(trained(tmp_path / "one", WORK))
    phases = (("data", 2 * MS), ("forward", 20 * MS), ("backward", 10 * MS))
    two = load(trained(tmp_path / "two", WORK, info={"batch_size": 8}, phases=phases))
    (found,) = explain(one, ["advice"], [two])
    row = given(found)["larger_batch"]
    assert value(row["gain"]) == pytest.approx(0.2, rel=0.05)
    assert "through the runs" in row["gain"].method


def test_a_run_of_other_threads_is_no_part_of_the_line(tmp_path: Path) -> None:
    one = load(trained(tmp_path / "one", phases=OPTIMIZER))
    two = load(trained(tmp_path / "two", info={"batch_size": 8, "threads": 4}))
    (found,) = explain(one, ["advice"], [two])
    assert "line through" not in given(found)["larger_batch"]["gain"].method


def test_bfloat16_is_advised_only_where_it_was_measured_to_be_faster(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", WORK)
    keep(ceilings(flops=20e9, matrix_product_bf16=10e9))
    assert "no faster here" in refused(advice(load(path)))["bfloat16"]
    keep(ceilings(flops=20e9, matrix_product_bf16=80e9))
    found = given(advice(load(path)))["bfloat16"]
    # The convolution, 8 ms of 20 and near its ceiling, four times as fast.
    assert value(found["gain"]) == pytest.approx(0.4 * 3 / 4, rel=0.05)


def test_without_ceilings_neither_precision_nor_layout_is_advised(tmp_path: Path) -> None:
    found = refused(advice(load(trained(tmp_path / "run", WORK))))
    assert "wattstep ceilings" in found["bfloat16"]
    assert "wattstep ceilings" in found["channels last"]


def test_channels_last_is_advised_by_convolutions_in_both_layouts(tmp_path: Path) -> None:
    kinds = {"convolution_fp32": 20e9, "convolution_channels_last_fp32": 40e9}
    keep(ceilings(flops=20e9, **kinds))
    found = given(advice(load(trained(tmp_path / "run", WORK))))["channels_last"]
    assert value(found["gain"]) == pytest.approx(0.4 / 2, rel=0.05)


def test_gradients_that_are_filled_with_zeros_are_seen(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", phases=OPTIMIZER)
    _rename(path, "optimizer-op", "aten::zero_")
    found = given(advice(load(path)))["zero_gradients"]
    assert value(found["gain"]) == pytest.approx(0.6, rel=0.05)


def test_a_fused_optimizer_is_not_advised_again(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", phases=OPTIMIZER)
    assert "fused_optimizer" in given(advice(load(path)))
    _rename(path, "optimizer-op", "aten::_fused_sgd_")
    assert "at once already" in refused(advice(load(path)))["fused optimizer"]


def test_a_fused_optimizer_promises_no_more_than_the_optimizer_takes_in_clean_steps(
    tmp_path: Path,
) -> None:
    """Its phase lasts 5 of 20 ms by the marks, whatever operations are said to be of it."""
    phases = (("forward", 8 * MS), ("backward", 7 * MS), ("optimizer", 5 * MS))
    path = trained(tmp_path / "run", phases=phases)
    _rename(path, "backward", "optimizer", column="phase")
    gain = given(advice(load(path)))["fused_optimizer"]["gain"]
    assert gain.high <= 5 / 20 * 1.05
    assert value(gain) <= 5 / 20 * 1.05


TOY = {"engine": "toyframe 0.3"}


def test_calls_of_torch_are_advised_where_torch_trains_alone(tmp_path: Path) -> None:
    kinds = {
        "convolution_fp32": 20e9, "convolution_channels_last_fp32": 40e9,
        "convolution_bf16": 90e9,
    }  # fmt: skip
    for threads, flops in ((1, 20e9), (3, 60e9)):
        keep(replace(ceilings(threads, flops, **kinds), engine=TOY["engine"]))
    script = {**TOY, "options": {"script": "train.py"}}
    zeros = trained(tmp_path / "zeros", info=script, phases=OPTIMIZER)
    _rename(zeros, "optimizer-op", "aten::zero_")
    paths = [
        trained(tmp_path / "work", WORK, info=script),
        trained(tmp_path / "ours", WORK, info={**TOY, "options": {"rate_rule": "linear"}}),
        trained(tmp_path / "optimizer", info=script, phases=OPTIMIZER),
        trained(tmp_path / "idle", WORK, machine(1.0, 1.5), script, steps=120),
        trained(tmp_path / "crowded", WORK, machine(2.5, 3.5), {**TOY, "threads": 4}, steps=120),
        zeros,
    ]
    rows = [row for path in paths for row in advice(load(path)).tables[0].rows]
    assert {row["name"] for row in rows} >= {
        "prefetch_data", "zero_gradients", "fused_optimizer", "bfloat16", "channels_last",
        "larger_batch", "fewer_threads", "more_threads",
    }  # fmt: skip
    for row in rows:
        shown = f"{row['do']} {row['why']} {row['how']} {row['gain']!r} {row['evidence']!r}"
        assert "torch" not in shown
        assert "DataLoader" not in shown
    assert any("--engine toyframe --batch 8" in row["how"] for row in rows)


def _rename(path: Path, old: str, new: str, column: str = "name") -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = path / "operations.parquet"
    table = pq.read_table(file)
    names = [new if n == old else n for n in table[column].cast(pa.string()).to_pylist()]
    at = table.schema.get_field_index(column)
    pq.write_table(table.set_column(at, column, pa.array(names)), file)


def test_crowded_threads_are_advised_against_without_a_made_up_gain(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", WORK, machine(2.5, 3.5), {"threads": 4}, steps=120)
    found = advice(load(path))
    row = given(found)["fewer_threads"]
    assert set(given(found)) == {"fewer_threads"}  # all other times are mostly waits
    assert "wait for each" in refused(found)["larger batch"]
    assert_says(row["do"], "3 threads", 4)
    assert row["gain"].missing
    assert "only a run" in row["gain"].reason


def test_threads_of_an_opencl_device_are_asked_of_its_driver(tmp_path: Path) -> None:
    """`--threads` is refused there, and an export has no mode."""
    info = {
        "threads": 4, "engine": "opencl 2026.1", "processor": "opencl",
        "options": {"rate_rule": "linear", "opencl_mode": "fused", "exported": True},
    }  # fmt: skip
    path = trained(tmp_path / "run", WORK, machine(2.5, 3.5), info, steps=120)
    how = given(advice(load(path)))["fewer_threads"]["how"]
    assert how.startswith("POCL_MAX_PTHREAD_COUNT=3 wattstep run --from")
    assert "EXPORTED-FOLDER" in how
    assert how.endswith("--opencl-mode fused")
    assert "--threads" not in how


def test_idle_cores_ask_for_more_threads(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", WORK, machine(1.0, 1.0), {"threads": 1}, steps=120)
    keep(ceilings(threads=1, flops=20e9))
    assert_says(refused(advice(load(path)))["more threads"], "0.0 %", "68 % at most", "ceilings")
    keep(ceilings(threads=4, flops=60e9))
    row = given(advice(load(path)))["more_threads"]
    assert_says(row["do"], "4 threads", 1)
    # Forward and backward are large enough to be cut: 18 ms of 20.
    assert row["gain"].high == pytest.approx(0.9 * 3 / 4, rel=0.05)


def test_a_gpu_that_waits_for_the_host_wants_more_at_once(tmp_path: Path) -> None:
    row = given(advice(load(ran_on_gpu(tmp_path / "run"))))["feed_the_gpu"]
    # Of 50 ms without work, 10 were after the launch.
    assert value(row["gain"]) == pytest.approx(0.4)
    assert_says(row["how"], "CUDA graphs", "trace and import")


def test_what_only_asks_a_gpu_wants_no_threads(tmp_path: Path) -> None:
    run = load(ran_on_gpu(tmp_path / "run"))
    work = work_of(run)
    assert not isinstance(work, Missing)
    asks = {row.name for row, asks in zip(work.rows, work.asks, strict=True) if asks}
    assert asks == {"aten::mm"}  # a product, whose parts threads would share
    assert not is_cut(work).any()


def test_a_run_without_operations_says_why(tmp_path: Path) -> None:
    found = advice(load(trained(tmp_path / "run", trace="none")))
    assert_says(found.reason, "--trace none")


def test_free_cores_are_those_of_the_processors_section(tmp_path: Path) -> None:
    run = load(trained(tmp_path / "run", WORK, machine(1.0, 3.5), {"threads": 1}, steps=120))
    (cores,) = explain(run, ["processors"])
    free = value(cores.figures["cores_free"])
    assert_says(refused(advice(run))["fewer threads"], f"{free:.2g} of 4 cores", "1 thread")


def test_what_only_may_not_grow_with_the_batch_is_said_to_be_less_sure(tmp_path: Path) -> None:
    # The optimizer takes 12 of 20 ms; the rest is an operation far below both ceilings.
    keep(ceilings(flops=20e12))
    path = trained(tmp_path / "run", WORK, phases=OPTIMIZER)
    row = given(advice(load(path)))["larger_batch"]
    assert row["gain"].low == pytest.approx(0.3, rel=0.05)
    assert value(row["gain"]) == pytest.approx(0.5, rel=0.05)
    assert_says(row["why"], "the optimizer, 60 %")
    assert "what operations take" in row["why"]


def test_the_optimizers_share_in_the_advice_is_the_one_of_the_bar(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", phases=OPTIMIZER, slow=lambda index: index % 2 * 30 * MS)
    run = load(path)
    (bar,) = [each for each in divisions(run.report()) if each.title == "time by phase"]
    share = {part.name: part.share for part in bar.parts}["optimizer"]
    why = given(advice(run))["fused_optimizer"]["why"]
    assert_says(why, "optimizer's operations", f"{100 * share:.0f} %")


def test_a_gain_of_steps_that_differ_is_less_sure_than_its_own_value(tmp_path: Path) -> None:
    path = trained(tmp_path / "run", phases=OPTIMIZER, slow=lambda index: index % 7 * 10 * MS)
    gain = given(advice(load(path)))["larger_batch"]["gain"]
    assert 0 < gain.low < 0.95 * value(gain)


def test_the_lower_end_of_a_gain_is_as_unsure_as_the_time_it_is_a_part_of() -> None:
    time = Figure(value=8.0, low=2.0, high=14.0, unit="s", status=Status.ATTRIBUTED)
    gain = gain_of(Saving(value=4.0, low=4.0, high=8.0), 20.0, "half of it", time)
    assert (gain.low, gain.value, gain.high) == (0.05, 0.2, 0.4)  # a quarter of the time is sure
