"""Another engine on a calibrated machine: what its trainings show is found, stands in the file, and predicts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from math import log
from pathlib import Path

import numpy as np
import pytest
from tests.calibrating.test_calibration import calibrate
from tests.predicting.steps import family
from tests.refusals import refused

from wattstep import devices
from wattstep.devices.table import framework_of
from wattstep.predict import CpuPredictor, check_device, predictor_for
from wattstep.predict.cpu.engine_memory import MASK, MemoryAmounts, memory_amounts
from wattstep.predict.cpu.engines import (
    GROUPS,
    NORMALIZATION,
    OTHERS,
    POOLING,
    group_seconds,
    group_starts,
    values_of_engine,
    values_to_compare,
)
from wattstep.predict.cpu.memory import Growth
from wattstep.predict.cpu.time import (
    BACK,
    COLUMNS,
    CONVOLUTION,
    DEPTHWISE,
    KINDS,
    POINTWISE,
    PRODUCT,
    operation_seconds,
    work_of,
)
from wattstep.predict.cpu.values import cpu_values
from wattstep.schema.exported import batches_of
from wattstep.train.calibration.engine import with_engine
from wattstep.train.calibration.engine_fitting import EngineTraining, fit_engine, fit_times
from wattstep.train.calibration.engine_groups import TimedOperation, middle_shares, shares_by_group
from wattstep.train.calibration.engine_probe import EngineProbe

MB = 1_000_000
GROWN = Growth(allocated=1e6, steady=1e6, first=1e6, stays=0.0, fresh=0.0)
NAMES = ("lenet", "resnet8", "squeezenet", "ds-cnn", "autoencoder", "char-cnn")
# Of the engine that plays the real one: so many times as long as torch.
TRUE = dict(zip(GROUPS, (2.0, 3.0, 0.5, 1.0, 1.5, 1.2, 0.7, 0.8), strict=True))
BEGUN = dict(zip(GROUPS, (0.05, 0.1, 0.1, 0.3, 0.5, 0.4, 0.2, 0.1), strict=True))  # likewise starts
STEP_S = 5e-5


def trainings(times: Mapping[str, float] = TRUE) -> list[EngineTraining]:
    """Two batch sizes of each: 50 MB beside 3 times its tensors, 0.5 times what a step takes, its batches."""
    made = []
    for seed, name in enumerate(NAMES):
        random = np.random.default_rng(seed)
        weights = 10 ** random.uniform(5, 7.5)
        shares = random.uniform(0.2, 1.0, len(GROUPS)) * 10 ** random.uniform(-4, -2)
        for batch in (4, 32):
            seconds = {
                group: float(share) * (1 if group == "optimizer" else batch / 4)
                for group, share in zip(GROUPS, shares, strict=True)
            }
            starts = {
                group: float(share) for group, share in zip(GROUPS, shares[::-1], strict=True)
            }
            step = STEP_S + sum(
                times[group] * seconds[group] + BEGUN[group] * starts[group] for group in GROUPS
            )
            amounts = MemoryAmounts(tensors=weights, growth=2 * weights + 1e5 * batch, batches=1e6)
            peak = 40 * MB + 10 * MB + 3 * amounts.tensors + 0.5 * amounts.growth + 1e6
            probe = EngineProbe(
                engine="mnn", workload=name, batch_size=batch, loaded=40 * MB, peak=peak,
                steps=(1.2 * step, step, 1.1 * step),
            )  # fmt: skip
            made.append(
                EngineTraining(
                    probe=probe,
                    seconds=seconds,
                    starts=starts,
                    amounts=amounts,
                    work=work_of(family().at(batch), cache=MB),
                )
            )
    return made


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def calibrated(tmp_path: Path) -> Path:
    calibrate(tmp_path / "mine.toml", [])
    return tmp_path / "mine.toml"


def add(path: Path, key: str, *, exported: bool = True) -> None:
    """Adds the engine that is played to a device's file."""
    made = trainings()
    text = path.read_text(encoding="utf-8")
    device = devices.find(str(path))
    path.write_text(
        with_engine(text, key, made, fit_engine(made), device, exported), encoding="utf-8"
    )


def test_steps_of_the_trainings_are_told_by_the_times_that_are_found() -> None:
    times = fit_times(trainings())
    for one in trainings():
        assert times.of(one) == pytest.approx(one.probe.seconds, rel=0.1)


def test_a_workload_that_the_fit_never_saw_is_predicted() -> None:
    fit = fit_engine(trainings())
    assert len(fit.errors["step_time"]) == 12
    assert float(np.median(np.abs(fit.errors["step_time"]))) < 0.1
    assert max(map(abs, fit.errors["system"])) < 0.02
    assert fit.floor == 40 * MB


def told(one: EngineTraining, seconds: Mapping[str, float]) -> EngineTraining:
    """A training whose groups take so long with torch, on an engine that tells its operations."""
    took = {
        group: TRUE[group] * seconds[group] + BEGUN[group] * one.starts[group] for group in GROUPS
    }
    shares = {group: each / sum(took.values()) for group, each in took.items()}
    probe = replace(one.probe, steps=(STEP_S + sum(took.values()),), shares=shares)
    return replace(one, seconds=seconds, probe=probe)


def test_shares_of_groups_tell_apart_what_whole_steps_do_not() -> None:
    """Convolutions and products take as long as each other with torch in every training."""
    apart = [told(one, {**one.seconds, PRODUCT: one.seconds["convolution"]}) for one in trainings()]
    alike = [replace(one, probe=replace(one.probe, shares={})) for one in apart]
    known, unknown = fit_times(apart), fit_times(alike)
    for group in ("convolution", PRODUCT):
        assert known.times[group] == pytest.approx(TRUE[group], rel=0.1)
    assert unknown.times[PRODUCT] > 1.2 * TRUE[PRODUCT]


def test_starts_of_a_group_are_its_own() -> None:
    """Of small networks, where starts are most of a step: the optimizer's take ten times a convolution's."""
    small = [
        replace(one, starts={group: 10 * each for group, each in one.starts.items()})
        for one in trainings()
    ]
    found = fit_times([told(one, one.seconds) for one in small])
    assert found.starts["optimizer"] > 2.5 * found.starts["convolution"]
    assert found.starts["optimizer"] > 2.5 * found.starts[OTHERS]


def test_what_an_engine_writes_out_has_the_factors_of_others() -> None:
    """Its normalisations are told among the others."""
    made = []
    for one in trainings():
        each = told(one, one.seconds)
        shares = {**each.probe.shares, NORMALIZATION: 0.0}
        shares[OTHERS] += each.probe.shares[NORMALIZATION]
        made.append(replace(each, probe=replace(each.probe, shares=shares)))
    found = fit_times(made)
    assert found.times[NORMALIZATION] == found.times[OTHERS] != found.times[PRODUCT]
    for each in made:
        assert found.of(each) == pytest.approx(each.probe.seconds, rel=0.15)


def test_operations_belong_to_groups_by_kind_phase_and_layer() -> None:
    def one(
        name: str, kind: str, layer: str, phase: str, shapes: str, share: float
    ) -> TimedOperation:
        return TimedOperation(
            name=name, kind=kind, layer=layer, phase=phase, shapes=shapes, share=share
        )

    shares = shares_by_group(
        [
            one("Conv", "convolution", "first", "forward", "4x1x28x28;6x1x5x5;6", 0.08),
            one("Raster", "data movement", "first", "backward", "", 0.2),  # windows of the image
            one("MatMul", "convolution weight gradient", "first", "backward", "", 0.1),
            one("BinaryOp", "elementwise", "first", "forward", "", 0.02),  # its bias
            one("Pool", "pooling", "pool", "backward", "", 0.01),
            one("Raster", "data movement", "pool", "backward", "", 0.02),
            one("BatchNormalization", "normalization", "norm", "forward", "4x6", 0.01),
            one("Reduction", "reduction", "norm", "forward", "4x6", 0.02),
            one("Raster", "data movement", "flat", "backward", "", 0.03),
            one("Conv", "convolution", "deep", "forward", "4x64x9x9;64x1x3x3", 0.1),
            one("ConvGrad", "convolution", "", "backward", "4x64x9x9;4x64x9x9;64x1x3x3", 0.1),
            one("Gemm", "matrix product", "last", "forward", "4x84;84x10", 0.02),
            one("Gemm", "matrix product", "last", "backward", "4x10;10x84", 0.03),
            one("ReduceSum", "reduction", "last", "backward", "4x10", 0.02),
            one("Sum", "reduction", "", "forward", "4", 0.04),
            one("Mul", "elementwise", "last", "optimizer", "840", 0.12),
            # Of an engine that tells no layers.
            one("aten::permute_copy", "data movement", "", "backward", "84x10", 0.03),
        ]
    )
    assert shares == pytest.approx(
        {
            "convolution": 0.1, "convolution backward": 0.3, DEPTHWISE: 0.2, PRODUCT: 0.1,
            NORMALIZATION: 0.03, POOLING: 0.03, OTHERS: 0.07, "optimizer": 0.12,
        }
    )  # fmt: skip


def test_a_step_in_which_an_operation_lost_the_core_changes_no_share() -> None:
    seconds = np.array([[2e-3, 6e-3], [2e-3, 6e-3], [2e-3, 9.0], [3.0, 6e-3], [2e-3, 6e-3]])
    assert middle_shares(seconds) == pytest.approx([0.25, 0.75])


def test_what_reads_runs_is_not_in_the_process_whose_memory_is_measured() -> None:
    code = (
        "import wattstep.train.calibration.engine_probe, sys; assert 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_an_odd_workload_widens_the_interval() -> None:
    usual = trainings()
    odd = [
        replace(one, probe=replace(one.probe, steps=tuple(4 * each for each in one.probe.steps)))
        if one.probe.workload == "lenet"
        else one
        for one in usual
    ]
    assert fit_engine(odd).reach["step_time"] > max(log(2), fit_engine(usual).reach["step_time"])


def test_too_few_workloads_are_no_fit() -> None:
    with refused("too-few-trainings", 3):
        fit_engine([one for one in trainings() if one.probe.workload in NAMES[:3]])


def test_a_probe_comes_back_from_its_document() -> None:
    probe = trainings()[0].probe
    assert EngineProbe.from_dict(asdict(probe)) == probe


def test_an_engine_of_equal_times_predicts_torchs_operations(calibrated: Path) -> None:
    torch = cpu_values(devices.find(str(calibrated)), None, "fp32").values
    compared = values_to_compare(torch, own_kernels=False)
    same = dict.fromkeys(GROUPS, 1.0)
    values = values_of_engine(compared, same, same, torch["step"]["step_s"])
    work = work_of(family().at(4), cache=1e6)
    sums = group_seconds(work, compared), group_starts(work, compared)
    predicted = operation_seconds(work, values).sum()
    assert sum(sum(each.values()) for each in sums) == pytest.approx(predicted)
    between = [torch["step"][f"{phase}_start_s"] for phase in work.starts]
    assert predicted == pytest.approx(operation_seconds(work, torch).sum() + 4 * np.mean(between))
    assert set(values) == {*KINDS, "step"}


def test_convolutions_of_another_engine_go_with_their_flops(calibrated: Path) -> None:
    """Which of torch's kernels runs, and what it copies into its layouts, is torch's alone."""
    torch = cpu_values(devices.find(str(calibrated)), None, "fp32").values
    compared = values_to_compare(torch, own_kernels=True)
    flop = torch[PRODUCT]["second_per_flop"]
    for kind in (POINTWISE, COLUMNS, CONVOLUTION, CONVOLUTION + BACK):
        assert compared[kind]["second_per_flop"] == flop
        assert compared[kind]["second_per_byte"] == compared[kind]["second_per_cached_byte"] == 0
    for kind in (DEPTHWISE, PRODUCT):
        assert compared[kind]["second_per_byte"] == torch[kind]["second_per_byte"] > 0


def test_masks_of_dropout_lie_in_an_export_beside_the_batches() -> None:
    graph = family().at(4)
    plain = memory_amounts(graph, GROWN, exported=True).batches
    dropped = replace(graph, names=(MASK, *graph.names[1:]), written_bytes=np.full(4, 1e5))
    more = memory_amounts(dropped, GROWN, exported=True).batches
    assert more == plain + 20 * 1e5  # 3.2 MB a batch, 20 of them in 64 MiB


def test_predictions_take_the_engines_values_and_torchs_stay(calibrated: Path) -> None:
    before = predictor_for(family(), devices.find(str(calibrated))).at(4)
    for key in ("mnn-3.6", "torch-compile-2.13"):
        add(calibrated, key)
    device = devices.find(str(calibrated))
    assert predictor_for(family(), device).at(4).time.total == before.time.total
    predictor = predictor_for(family(), device, engine="mnn")
    assert isinstance(predictor, CpuPredictor)
    predicted = predictor.at(4)
    assert predicted.engine == "mnn-3.6"
    stages = {stage: float(figure) for stage, figure in predicted.memory_by_stage.items()}
    assert set(stages) == {"framework", "steady step"}
    assert predicted.memory.used == stages["steady step"] > 50 * MB
    assert "data" not in predicted.phase_times
    assert (
        predictor_for(family(), device, engine="torch-compile").fitted.engine
        == "torch-compile-2.13"
    )


def test_measuring_an_engine_again_replaces_its_tables_alone(calibrated: Path) -> None:
    add(calibrated, "torch-compile-2.13")
    add(calibrated, "mnn-3.5")
    add(calibrated, "mnn-3.6")
    once = calibrated.read_text(encoding="utf-8")
    assert "mnn-3.5" not in once
    add(calibrated, "mnn-3.6")
    assert calibrated.read_text(encoding="utf-8") == once
    assert set(devices.find(str(calibrated)).kinds) >= {"torch-compile-2.13", "mnn-3.6"}


def test_an_engine_without_values_is_refused_by_name_with_what_to_run(calibrated: Path) -> None:
    for engine in ("mnn", "onnxruntime"):
        with refused("engine-not-calibrated", engine, f"calibrate-device --engine {engine}"):
            check_device(devices.find(str(calibrated)), engine=engine)


@pytest.mark.parametrize(
    ("key", "name"),
    [("torch-2.13", "torch"), ("torch-compile-2.13", "torch-compile"), ("mnn", "mnn")],
)
def test_a_key_names_its_framework(key: str, name: str) -> None:
    assert framework_of(key) == name


@pytest.mark.parametrize(
    ("size", "number"), [(1e3, 64), (65 << 20, 1), (4 << 20, 16), (5 << 20, 12), (0, 64)]
)
def test_an_export_holds_up_to_sixty_four_batches_in_64_mib(size: float, number: int) -> None:
    assert batches_of(size) == number
