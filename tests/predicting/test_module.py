"""A module of the user's is captured as it is, and nothing of it runs or changes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
import torch
from tests.refusals import refused
from torch import nn

import wattstep
from wattstep.engines import find
from wattstep.predict.predictor import NO_ATTENTION
from wattstep.schema.step_graph import Convolution
from wattstep.schema.workload import ModuleSource, OptimizerSettings, Preparation

SGD = OptimizerSettings.parse("sgd,momentum=0.9")


class Net(nn.Module):
    """Two convolutions, side by side, and scores; it counts how often tensors with values pass."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.Conv2d(3, 6, 1, 2)
        self.norm, self.scores = nn.BatchNorm2d(14), nn.Linear(14, 5)
        self.ran = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if type(images) is torch.Tensor:
            self.ran += 1
        both = self.norm(torch.cat((self.left(images), self.right(images)), 1))
        made: torch.Tensor = self.scores(both.mean((2, 3)))
        return made


def source(make: object) -> ModuleSource:
    return ModuleSource(
        make=make,  # type: ignore[arg-type]
        name="net", input_shape=(3, 16, 16), classes=5, optimizer=SGD,
    )  # fmt: skip


def test_a_module_is_copied_and_never_run() -> None:
    net = Net()
    before = {name: each.clone() for name, each in net.state_dict().items()}
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    predicted = wattstep.predict(net, (4, 3, 16, 16), device="tx2", optimizer=optimizer)
    assert predicted.fits()
    assert not any("was run" in note for note in predicted.notes)
    assert net.ran == 0
    assert all(torch.equal(each, before[name]) for name, each in net.state_dict().items())
    weights = sum(each.numel() for each in net.parameters())
    breakdown = predicted.memory_breakdown
    assert float(breakdown["parameters"]) == 4 * weights
    steps = 4 * len(list(net.parameters()))  # AdamW counts steps, one number a parameter
    assert float(breakdown["optimizer_state"]) == 2 * 4 * weights + steps


def test_strategies_against_memory_are_predicted_of_it() -> None:
    """The head alone trains, by momentum: 14 × 5 weights and 5 biases; two batches of 4 a step."""
    predicted = wattstep.predict(Net(), (4, 3, 16, 16), device="tx2", train_last=1, accumulate=2)
    assert float(predicted.memory_breakdown["optimizer_state"]) == 4 * (14 * 5 + 5)
    assert predicted.samples == 8
    report = predicted.report(workload="net")
    assert report.options["accumulate"] == 2
    throughput, step = report.metrics["throughput"], report.metrics["step_time"]
    assert float(throughput) == pytest.approx(8 / float(step))  # type: ignore[arg-type]


def test_shapes_of_convolutions_are_those_of_the_layers() -> None:
    graph = find("torch").capture(source(Net), Preparation(batch_size=1), "fp32").at(7)
    left = Convolution(
        images=7, inputs=3, outputs=8, kernel=(3, 3), stride=(2, 2), groups=1,
        input_size=(16, 16), output_size=(8, 8),
    )  # fmt: skip
    right = Convolution(
        images=7, inputs=3, outputs=6, kernel=(1, 1), stride=(2, 2), groups=1,
        input_size=(16, 16), output_size=(8, 8), bias=True,
    )  # fmt: skip
    shapes = {(graph.phases[i], one.outputs): one for i, one in sorted(graph.convolutions.items())}
    assert shapes["forward", 8] == left
    assert shapes["forward", 6] == right
    # A part of what was put together comes back in pieces.
    assert shapes["backward", 8].scattered
    assert (shapes["backward", 8].bias, shapes["backward", 6].bias) == (False, True)


@pytest.mark.parametrize(
    ("make", "id", "named"),
    [(nn.ReLU, "nothing-to-train", ""), (lambda: 3, "not-a-module", "int")],
)
def test_what_is_no_network_is_refused(make: object, id: str, named: str) -> None:
    with refused(id, named):
        find("torch").capture(source(make), Preparation(batch_size=1), "fp32")


def test_several_outputs_are_judged_together() -> None:
    class Two(Net):
        def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
            made = super().forward(images)
            return made, made * 2

    names = find("torch").capture(source(Two), Preparation(batch_size=1), "fp32").small.names
    assert names.count("aten::nll_loss_forward") == 2


class Distances(nn.Module):
    """Each sample beside each other one, and one more layer in large batches."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 4), nn.Linear(4, 4)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.first(samples)
        made = self.second(made) if len(made) > 40 else made
        return (made[:, None] - made[None]).sum(1)


def test_what_does_not_grow_in_proportion_is_captured_at_each_batch() -> None:
    predicted = wattstep.predict(Distances(), (128, 8), device="tx2", optimizer="sgd")
    assert max(predicted.graph.sizes) == 4 * 128 * 128 * 4
    assert "second" in predicted.graph.layers
    assert any("captured by itself" in note for note in predicted.notes)
    few = wattstep.predict(Distances(), (4, 8), device="tx2", optimizer="sgd")
    assert "second" not in few.graph.layers
    assert max(few.graph.sizes) == 4 * 4 * 4 * 4


def other_optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD(Net().parameters(), 0.1)


@pytest.mark.parametrize(
    ("model", "inputs", "optimizer", "id", "named"),
    [
        (Net(), (), "sgd", "malformed-shape", "(16, 3, 224, 224)"),
        (Net(), (4.5, 3, 16, 16), "sgd", "malformed-shape", "(16, 3, 224, 224)"),
        (Net(), (0, 3, 16, 16), "sgd", "malformed-shape", "(16, 3, 224, 224)"),
        (Net(), "4x3x16x16", "sgd", "malformed-shape", "(16, 3, 224, 224)"),
        (5, (4, 3, 16, 16), "sgd", "not-a-module", "5"),
        (Net(), (4, 3, 16, 16), None, "not-an-optimizer", "None"),
        (Net(), (4, 3, 16, 16), other_optimizer(), "other-optimizer", "0 of the model's 7"),
    ],
)
def test_wrong_arguments_are_one_line(
    model: object, inputs: object, optimizer: object, id: str, named: str
) -> None:
    with refused(id, named) as caught:
        wattstep.predict(model, inputs, device="tx2", optimizer=optimizer)
    assert len(str(caught.value).splitlines()) == 1


def test_devices_are_a_name_of_the_package() -> None:
    code = "import wattstep; print(wattstep.devices.find('tx2').name)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "jetson-tx2\n"


class Recurrent(nn.Module):
    """Scores of the last of 20 steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps, self.scores = nn.LSTM(16, 64, 2, batch_first=True), nn.Linear(64, 5)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.scores(self.steps(values)[0][:, -1])
        return made


def test_time_of_a_recurrent_pass_at_its_products() -> None:
    """They are those of oneDNN's recurrent layer, or of single operations where torch has none for it."""
    predicted = wattstep.predict(Recurrent(), (64, 20, 16), device="tx2")
    graph = predicted.graph
    seconds, flops = Counter[str](), Counter[str]()
    for kind, taken, each in zip(
        graph.kinds, predicted.operation_seconds, graph.flops, strict=True
    ):
        seconds[kind] += taken
        flops[kind] += each
    (longest, _), (largest, _) = *seconds.most_common(1), *flops.most_common(1)
    assert longest == largest
    assert longest in ("recurrent", "matrix product")
    assert NO_ATTENTION not in predicted.notes


def test_precisions_that_gpus_alone_have() -> None:
    predicted = {
        name: wattstep.predict(Net(), (64, 3, 16, 16), device="jetson-orin-nano", precision=name)
        for name in ("fp32", "tf32", "amp", "amp-fp16")
    }
    for name, like in (("tf32", "fp32"), ("amp-fp16", "amp")):
        assert predicted[name].memory == predicted[like].memory
        assert predicted[name].precision == name
    assert float(predicted["tf32"].step_time) <= float(predicted["fp32"].step_time)
    assert not any("scaling" in note for note in predicted["amp"].notes)
    assert any("scaling" in note for note in predicted["amp-fp16"].notes)


def test_attention_under_an_old_torch() -> None:
    block = nn.TransformerEncoderLayer(32, 2, 64, 0.0, batch_first=True)
    model = nn.Sequential(block, nn.Flatten(), nn.Linear(8 * 32, 5))
    told = {
        engine: wattstep.predict(model, (4, 8, 32), device="tx2", engine=engine).notes
        for engine in ("torch-1.6", "torch")
    }
    assert NO_ATTENTION in told["torch-1.6"]
    assert NO_ATTENTION not in told["torch"]
