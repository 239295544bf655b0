"""Operations of runs under ceilings: numbers that were put in, and FLOPs counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.explaining.made import ceilings, trained, worked
from tests.explaining.test_processors import machine
from tests.run.made import import_made
from tests.wording import assert_says, saying

from wattstep.insight.explain.roofline import roofline
from wattstep.insight.explain.section import Section
from wattstep.run import load
from wattstep.schema.figure import Figure
from wattstep.store.ceilings import keep

# 80 MFLOP in 8 ms; 10 MB in 10 ms; next to nothing in 2 ms.
WORK = {
    "forward-op": {"kind": "convolution", "flops": 80_000_000, "bytes": 100_000},
    "backward-op": {"kind": "elementwise", "bytes": 10_000_000},
    "data-op": {"kind": "data movement", "bytes": 1000},
}


def row(section: Section, name: str) -> dict[str, Figure]:
    return next(dict(one) for one in section.tables[0].rows if one["name"] == name)


def value(figure: Figure) -> float:
    assert figure.value is not None, figure.reason
    return figure.value


def test_each_operation_is_set_against_the_ceiling_that_binds_it(tmp_path: Path) -> None:
    keep(ceilings(flops=20e9, bandwidth=2e9))
    found = roofline(load(trained(tmp_path / "run", WORK)))
    forward, backward = row(found, "forward-op"), row(found, "backward-op")
    assert value(forward["flops_rate"]) == pytest.approx(10e9, rel=0.01)
    assert forward["bound"] == "compute"
    assert value(forward["of_ceiling"]) == pytest.approx(0.5, rel=0.01)
    assert value(forward["least_time"]) == pytest.approx(0.004)
    assert value(forward["intensity"]) == pytest.approx(800)
    assert backward["bound"] == "memory"
    assert value(backward["bytes_rate"]) == pytest.approx(1e9, rel=0.01)
    assert value(backward["of_ceiling"]) == pytest.approx(0.5, rel=0.01)
    assert backward["flops"].missing
    assert row(found, "data-op")["bound"] == "overhead"


def test_time_by_bound_and_between_operations_make_the_step(tmp_path: Path) -> None:
    keep(ceilings())
    run = load(trained(tmp_path / "run", WORK))
    figures = roofline(run).figures
    bounds = ("compute", "memory", "overhead", "unknown")
    parts = [figures[f"{bound}_bound_time"] for bound in bounds]
    assert [value(part) for part in parts] == pytest.approx([0.008, 0.010, 0.002, 0], abs=1e-6)
    whole = sum(value(part) for part in parts) + value(figures["between_operations_time"])
    assert whole == pytest.approx(value(run.metrics()["step_time"]))


def test_the_time_at_the_ceilings_is_predicted(tmp_path: Path) -> None:
    keep(ceilings())
    figure = roofline(load(trained(tmp_path / "run", WORK))).figures["time_at_ceilings"]
    assert value(figure) == pytest.approx(0.004 + 0.005 + 5e-7)
    assert figure.status.value == "predicted"


def test_time_in_which_it_did_not_run_is_told_with_the_times_of_operations(tmp_path: Path) -> None:
    run = load(trained(tmp_path / "run", WORK, machine(0.75, 1.75), steps=120))
    assert saying(roofline(run).sentences, "25 % of a step", "on no core")
    quiet = load(trained(tmp_path / "quiet", WORK, machine(0.99, 1.0), steps=120))
    assert not saying(roofline(quiet).sentences, "on no core")


def test_without_ceilings_nothing_is_assumed(tmp_path: Path) -> None:
    found = roofline(load(trained(tmp_path / "run", WORK)))
    assert "wattstep ceilings --for" in found.sentences[0]
    assert value(row(found, "forward-op")["flops_rate"]) == pytest.approx(10e9, rel=0.01)
    assert row(found, "forward-op")["of_ceiling"].missing
    assert found.figures["compute_bound_time"].missing


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"threads": 2}, "threads (1), the run used 2"),
        ({"engine": "torch 1.0"}, "the run used 1.0"),
        ({"device": {"model": "phone", "cores": 8}}, "another machine"),
        ({"threads": None}, "how many threads"),
        ({"processor": "cuda"}, "used cuda"),
        ({"engine": "mnn 3.6.1"}, "no command"),
    ],
)
def test_ceilings_of_something_else_are_refused(
    tmp_path: Path, info: dict[str, object], words: str
) -> None:
    keep(ceilings())
    found = roofline(load(trained(tmp_path / "run", WORK, info=info)))
    assert words in found.sentences[0]
    assert row(found, "forward-op")["of_ceiling"].missing


def test_bf16_is_set_against_its_own_ceiling(tmp_path: Path) -> None:
    keep(ceilings(flops=20e9, matrix_product_bf16=10e9))
    found = roofline(load(trained(tmp_path / "run", WORK, info={"precision": "amp"})))
    assert value(row(found, "forward-op")["of_ceiling"]) == pytest.approx(1.0, rel=0.01)


def test_operations_without_flops_or_bytes_are_not_judged(tmp_path: Path) -> None:
    keep(ceilings())
    found = roofline(load(trained(tmp_path / "run")))
    assert {one["bound"] for one in found.tables[0].rows} == {"unknown"}
    assert value(found.figures["unknown_bound_time"]) == pytest.approx(0.020, rel=0.01)
    assert "No FLOPs are known" in " ".join(found.sentences)


def test_a_run_without_traced_steps_says_why(tmp_path: Path) -> None:
    found = roofline(load(trained(tmp_path / "run", trace="none")))
    assert_says(found.reason, "--trace none")


def test_operations_of_no_length_have_no_rate(tmp_path: Path) -> None:
    path = import_made(
        tmp_path / "run", {"trace": {"file": "t"}}, steps=[(0, 10), (10, 20)],
        operations=[worked("a", 0, 1, 1), worked("a", 1, 11, 11)],
    )  # fmt: skip
    found = roofline(load(path))
    assert row(found, "a")["flops_rate"].missing


def test_flops_of_convolutions_and_products_are_those_counted_by_hand(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from wattstep.record.recorder import Recorder

    # x: 2×3×8×8; 4 kernels of 3×3, padded: output 2×4×8×8. Then 256 features to 5.
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(256, 5)
    )
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    with Recorder(tmp_path / "run", model=model, trace="every:2", warmup=1) as recorder:
        for _ in range(12):
            with recorder.step(samples=2):
                recorder.phase("forward")
                loss = model(x).sum()
                recorder.phase("backward")
                loss.backward()
                model.zero_grad()
    found = roofline(load(tmp_path / "run"))
    convolution = 2 * 2 * 4 * 8 * 8 * 3 * 3 * 3  # a multiply-add is two
    product = 2 * 2 * 256 * 5
    assert value(row(found, "aten::conv2d")["flops"]) == convolution
    assert value(row(found, "aten::linear")["flops"]) == product
    # Backward: gradients of the input and of the weights, each as many as forward.
    assert value(row(found, "ConvolutionBackward0")["flops"]) == 2 * convolution
    assert value(row(found, "AddmmBackward0")["flops"]) == 2 * product
    # Input, weights, bias read and the output written, in floats of four bytes.
    read_and_written = 4 * (2 * 3 * 8 * 8 + 4 * 3 * 3 * 3 + 4 + 2 * 4 * 8 * 8)
    assert value(row(found, "aten::conv2d")["bytes"]) == read_and_written
