"""A step captured without values has the operations and the memory of the step that runs."""

from __future__ import annotations

import gc
import random
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.refusals import refused
from tests.wording import assert_says
from torch._subclasses.fake_tensor import FakeTensorMode

from wattstep import devices, workloads
from wattstep.engines.torch.capture import capture, captured_as_it_can
from wattstep.engines.torch.memory import MemoryTracker, tensors_there
from wattstep.engines.torch.module_workload import ModuleWorkload
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.predict.offload import offload_notes
from wattstep.predict.work import work_of
from wattstep.schema.step_graph import StepGraph, alike
from wattstep.schema.workload import ModuleSource, OptimizerSettings, Preparation
from wattstep.workloads.torch import TorchWorkload


def peaks(graph: StepGraph) -> dict[str, int]:
    """Bytes by category at the moment when most are in use."""
    number = int(graph.levels().argmax())
    return {name: round(size) for name, size in graph.by_category(number).items() if size}


def capture_at(workload: Any, preparation: Preparation, precision: str = "fp32") -> StepGraph:
    return captured_as_it_can(workload, preparation, precision, tensors_there)[0]


def ran(workload: Any, preparation: Preparation, precision: str) -> dict[str, int]:
    """The same of the third step of a training that really runs."""
    trainer = TorchTrainer(workload, preparation, precision=precision)
    for _ in range(2):
        trainer.step()
    tracker = MemoryTracker(trainer.model, [each.optimizer for each in trainer.updates])
    with tracker:
        trainer.step(tracker.phase)
    categories = tracker.result().categories
    return {key: size for key, size in categories.items() if size and key != "held_tensors"}


@pytest.mark.parametrize(
    ("name", "batch", "accumulate", "precision"),
    [
        ("lenet", 4, 1, "fp32"),
        ("squeezenet", 4, 2, "fp32"),
        ("char-cnn", 8, 1, "fp32"),
        ("autoencoder", 4, 1, "fp32"),
        ("dcgan", 16, 1, "fp32"),
        ("squeezenet", 8, 1, "bf16"),
        ("lenet", 16, 1, "amp"),
    ],
)
def test_its_peak_is_that_of_the_step_that_runs(
    name: str, batch: int, accumulate: int, precision: str
) -> None:
    preparation = Preparation(batch_size=batch, accumulate=accumulate)
    workload = TorchWorkload(workloads.find(name))
    graph = capture_at(workload, preparation, precision=precision)
    mine, theirs = peaks(graph), ran(workload, preparation, precision)
    for category, size in theirs.items():
        # Of a mean, torch first makes what it is of; nobody who sees shapes alone can know.
        assert mine[category] == pytest.approx(size, rel=0.01, abs=16 * 1024), category
    assert mine.keys() - theirs.keys() <= {"held_tensors"}
    assert graph.notes == ()


@pytest.mark.parametrize(
    ("name", "batch", "strategy"),
    [
        ("squeezenet", 16, {"checkpointing": True}),
        ("squeezenet", 16, {"offload": True}),
        ("resnet8", 16, {"checkpointing": True}),
        ("resnet8", 16, {"train_last": 2}),
        ("autoencoder", 4, {"lora": 4}),
        ("autoencoder", 4, {"optimizer": OptimizerSettings.parse("sgd")}),
    ],
)
def test_strategies_against_memory_are_captured_as_they_run(
    name: str, batch: int, strategy: dict[str, Any]
) -> None:
    preparation = Preparation(batch_size=batch, **strategy)
    graph = capture_at(TorchWorkload(workloads.find(name)), preparation)
    mine, theirs = peaks(graph), ran(TorchWorkload(workloads.find(name)), preparation, "fp32")
    for category, size in theirs.items():
        assert mine[category] == pytest.approx(size, rel=0.01, abs=16 * 1024), category
    plain = capture_at(TorchWorkload(workloads.find(name)), Preparation(batch_size=batch))
    if "lora" not in strategy:  # whose updates have activations of their own
        assert sum(mine.values()) < sum(peaks(plain).values())
    moved = offload_notes(graph, devices.find("raspberry-pi-4"))
    assert bool(moved) == ("offload" in strategy)


@pytest.mark.parametrize("name", ["squeezenet", "gpt", "dcgan"])
def test_other_batch_sizes_follow_from_two(name: str) -> None:
    workload = TorchWorkload(workloads.find(name))
    family = capture(workload, Preparation(batch_size=1))
    direct = capture_at(workload, Preparation(batch_size=7))
    other = family.at(7)
    assert alike(other, direct)
    for each in ("sizes", "flops", "read_bytes", "written_bytes"):
        np.testing.assert_allclose(getattr(other, each), getattr(direct, each), rtol=1e-9)


def test_products_of_matrices_are_counted_as_by_hand() -> None:
    workload = Module(torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.Linear(20, 5)), (10,))
    graph = capture_at(workload, Preparation(batch_size=3))
    phases = np.array(graph.phases)
    # Backward has the gradients of both weights and of the input of the second layer alone.
    assert graph.flops[phases == "forward"].sum() == 2 * 3 * (10 * 20 + 20 * 5)
    assert graph.flops[phases == "backward"].sum() == 2 * 3 * (10 * 20 + 2 * 20 * 5)
    assert graph.counts["parameters"] == 10 * 20 + 20 + 20 * 5 + 5


class Decides(torch.nn.Module):
    """Takes a second layer where the first gives more than nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 4), torch.nn.Linear(4, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.first(inputs)
        return self.second(made) if float(made.abs().sum()) >= 0 else made


def test_what_depends_on_values_is_run_and_says_so() -> None:
    family = capture(Module(Decides(), (6,)), Preparation(batch_size=1))
    graph = family.at(5)
    [note] = graph.notes
    assert "batch 2, 3 and 8" in note
    phases = np.array(graph.phases)
    assert graph.flops[phases == "forward"].sum() == 2 * 5 * (6 * 4 + 4 * 4)


def test_what_a_capture_that_failed_left_is_none_of_the_training_s() -> None:
    family = capture(Module(Decides(), (6,)), Preparation(batch_size=1))
    held = [
        float(graph.sizes[graph.categories.index("held_tensors")])
        for graph in (family.small, family.large)
    ]
    assert held[0] == held[1]  # nothing that grows with the batch is there before a step


class DecidesByBatch(Decides):
    """Does so in large batches more often."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        made = super().forward(inputs)
        return self.second(made) if len(inputs) > 5 else made  # type: ignore[no-any-return]


def test_what_depends_on_values_and_on_the_batch_is_refused() -> None:
    with refused("data-dependent"):
        capture(Module(DecidesByBatch(), (6,)), Preparation(batch_size=1))


class Branches(Decides):
    """Goes one way or another by a value, which follows from its size."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        made = self.first(inputs)
        if torch.ones(len(made)).sum() > 2:
            made = self.second(made)
        return made  # type: ignore[no-any-return]


def test_a_branch_on_values_is_refused_with_its_line_and_what_is_true_of_it() -> None:
    with refused("data-dependent", "in line ", " of test_torch_capture.py", "branch") as told:
        capture(Module(Branches(), (6,)), Preparation(batch_size=1))
    assert "of one size" not in str(told.value)


class AsManyTimesAsSamples(Decides):
    """Takes its second layer a value of times, which grows with the batch."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        made = self.first(inputs)
        for _ in range(int(torch.ones(len(inputs)).sum())):
            made = self.second(made)
        return made  # type: ignore[no-any-return]


def test_a_step_of_other_operations_at_each_batch_is_refused_with_its_line() -> None:
    with refused("data-dependent", "in line ", " of test_torch_capture.py"):
        capture(Module(AsManyTimesAsSamples(), (6,)), Preparation(batch_size=1))


class OfUser(torch.nn.Module):
    """Two layers; what its operations are follows from values of what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 200), torch.nn.Linear(200, 200)


class BranchesOnInput(OfUser):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        made = self.first(inputs)
        return self.second(made) if inputs.abs().sum() > 0 else made  # type: ignore[no-any-return]


class ChoosesOfInput(OfUser):
    """Rows that are there: all of them."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        there = (inputs.abs().sum(dim=1) >= 0).nonzero()[:, 0]
        return self.second(self.first(inputs[there]))  # type: ignore[no-any-return]


class ChoosesOfActivation(OfUser):
    """Rows of which a feature is positive: who knows how many."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        made = self.first(inputs)
        chosen = made[(made[:, 0] > 0).nonzero()[:, 0]]
        return self.second(made + self.second(chosen).sum())  # type: ignore[no-any-return]


class Packs(torch.nn.Module):
    """An LSTM over sequences of which the first number says how long they are."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = torch.nn.Embedding(7, 5), torch.nn.LSTM(5, 3, batch_first=True)
        self.scores = torch.nn.Linear(3, 7)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            self.words(inputs), inputs[:, 0].clamp(min=1), batch_first=True, enforce_sorted=False
        )
        _, (last, _) = self.lstm(packed)
        return self.scores(last[-1])  # type: ignore[no-any-return]


def of_user(
    make: Any, shape: tuple[int, ...], *, integers: bool = False, classes: int | None = None
) -> ModuleWorkload:
    return ModuleWorkload(
        ModuleSource(
            make=make, name="a model", input_shape=shape, classes=classes or (7 if integers else None),
            optimizer=OptimizerSettings.parse("sgd"), integers=integers,
        )
    )  # fmt: skip


@pytest.mark.parametrize("make", [BranchesOnInput, ChoosesOfInput])
def test_what_a_batch_decides_is_captured_without_a_run(make: Any) -> None:
    family = capture(of_user(make, (6,)), Preparation(batch_size=1))
    graph = family.at(5)
    [note] = graph.notes
    assert "values of its" in note
    assert " of test_torch_capture.py" in note
    phases = np.array(graph.phases)
    assert graph.flops[phases == "forward"].sum() == 2 * 5 * (6 * 200 + 200 * 200)


class Truncated(OfUser):
    """Begins as vision transformers do: with weights that torch draws until they fit."""

    def __init__(self) -> None:
        super().__init__()
        torch.nn.init.trunc_normal_(self.first.weight, std=0.02)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(inputs))  # type: ignore[no-any-return]


class Copied(torch.nn.Module):
    """Its encoder makes each layer as a copy of one."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)
        self.last = torch.nn.Linear(8, 7)

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(self.encoder(x).mean(1))


def test_peak_of_copied_layers() -> None:
    workload, preparation = of_user(Copied, (5, 8)), Preparation(batch_size=64)
    family = capture(workload, preparation)
    assert family.capture is None
    assert peaks(family.at(64)) == ran(workload, preparation, "fp32")


def test_an_epoch_that_ends_within_the_largest_batch_changes_no_other_one() -> None:
    # Of 480 samples: the second of two batches of 256 draws anew.
    family = capture(
        TorchWorkload(workloads.find("ds-cnn")), Preparation(batch_size=256, accumulate=2)
    )
    assert family.capture is None


def test_weights_that_are_drawn_until_they_fit_need_no_run() -> None:
    assert capture(of_user(Truncated, (6,)), Preparation(batch_size=1)).at(4).notes == ()
    weight = torch.zeros(1000)
    torch.nn.init.trunc_normal_(weight, std=1.0)  # as before, once the capture is over
    assert 0 < float(weight.abs().max()) <= 2


def test_what_activations_decide_is_refused_with_its_line_where_it_is_not_in_proportion() -> None:
    torch.manual_seed(0)
    with refused("data-dependent", "nonzero", "in line ", " of test_torch_capture.py"):
        capture(of_user(ChoosesOfActivation, (6,)), Preparation(batch_size=1))


def test_sequences_of_a_batch_are_packed_as_long_as_they_are() -> None:
    workload = of_user(Packs, (7,), integers=True)
    family = capture(workload, Preparation(batch_size=1))
    assert family.capture is not None  # another batch has other lengths
    graph = family.at(4)
    products = [
        flops
        for name, layer, flops, phase in zip(
            graph.names, graph.layers, graph.flops, graph.phases, strict=True
        )
        if (layer, phase) == ("lstm", "forward") and flops
    ]
    # Of each word: four gates of 3 units, from 5 inputs at once for all, from 3 of the state step by step.
    words = products[0] / (2 * 4 * 3 * 5)
    assert sum(products[1:]) == words * 2 * 4 * 3 * 3
    assert 4 <= words <= 4 * 7
    assert "in line " in graph.notes[0]


class DropsLayers(torch.nn.Module):
    """Sixteen layers, each left out as a coin of Python's or numpy's falls."""

    def __init__(self, *, of_numpy: bool = False) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(16))
        self.of_numpy = of_numpy

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if (np.random.random() if self.of_numpy else random.random()) < 0.5:
                inputs = layer(inputs)
        return inputs


@pytest.mark.parametrize(
    ("make", "shape", "integers", "note"),
    [
        (Packs, (7,), True, "batch"),
        (DropsLayers, (6,), False, "draw"),
        (partial(DropsLayers, of_numpy=True), (6,), False, "draw"),
    ],
)
def test_captures_of_one_seed(make: Any, shape: tuple[int, ...], integers: bool, note: str) -> None:
    workload = of_user(make, shape, integers=integers)

    def captured(seed: int) -> StepGraph:
        random.random(), np.random.random(), torch.rand(1)  # whatever was drawn before
        before = random.getstate(), np.random.get_state()[2], torch.get_rng_state()
        graph = capture(workload, Preparation(batch_size=1, seed=seed)).at(5)
        assert before[:2] == (random.getstate(), np.random.get_state()[2])
        assert torch.equal(before[2], torch.get_rng_state())
        return graph

    first, again = captured(0).to_dict(), captured(0).to_dict()
    assert first == again
    assert any(note in each for each in first["notes"])
    assert captured(1).flops.tolist() != first["flops"]


def test_an_evaluation_is_its_forward_pass_without_gradients() -> None:
    preparation = Preparation(batch_size=4)
    family = capture(TorchWorkload(workloads.find("lenet")), preparation, evaluated=True)
    graph = family.evaluation_at(32)
    assert graph is not None
    assert set(graph.phases) == {"data", "forward"}
    whole = family.at(32)
    forward = whole.flops[[phase == "forward" for phase in whole.phases]].sum()
    assert graph.flops.sum() == pytest.approx(forward)
    assert family.small.evaluation_batch == 32
    # Most is there when the first activation is made of the first convolution: 6 maps of 28x28 in 32 images.
    assert peaks(graph)["workspace"] == 2 * 32 * 6 * 28 * 28 * 4
    assert "feature_maps" not in peaks(graph)


class TrainsAlone(torch.nn.Module):
    """A network that does not evaluate."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = torch.nn.Linear(6, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if not self.training:
            raise ValueError("it only trains")
        return self.scores(inputs)  # type: ignore[no-any-return]


def test_an_evaluation_that_fails_says_why() -> None:
    family = capture(Module(TrainsAlone(), (6,)), Preparation(batch_size=4), evaluated=True)
    assert family.evaluation_at(4) is None
    [note] = family.at(4).notes
    assert_says(note, "evaluation", "ValueError", "it only trains", "line")


class Gated(torch.nn.Module):
    """A GRU in two directions over ten time steps of six values, and scores of its last."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = torch.nn.GRU(6, 5, 2, batch_first=True, bidirectional=True)
        self.scores = torch.nn.Linear(10, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.scores(self.gru(inputs)[0][:, -1])  # type: ignore[no-any-return]


def test_a_recurrent_module_is_a_few_kernels_of_a_gpu_whatever_a_cpu_takes() -> None:
    graph = capture(Module(Gated(), (10, 6)), Preparation(batch_size=4)).at(4)
    work = work_of(graph, gradients_stay=False)
    # Multiply-adds of a time step: 3 gates of 5 units, over input and state, in two directions.
    products = 2 * 3 * 5 * (6 + 5) + 2 * 3 * 5 * (10 + 5)
    rows = [graph.layers[i] == "gru" for i in work.operations.tolist()]
    needless = 2 * 10 * 4 * (2 * 3 * 5 * 6) + 2 * 4 * (
        4 * 3 * 5 * 5
    )  # gradients of input, first state
    assert work.flops[rows].sum() == 3 * 2 * 10 * 4 * products - needless
    assert sum(rows) == 2 * 4  # a pass forward and back, of each layer in each direction
    assert work.counts[rows].tolist() == [2 * 10 + 1] * 4 + [2 * 10 + 2] * 4
    assert work.starts["forward"] < 20


class Module:
    """A model of the user's: as much of a workload as a capture needs."""

    def __init__(self, model: torch.nn.Module, shape: tuple[int, ...]) -> None:
        self._model, self._shape = model, shape
        self.specification = workloads.find("lenet")
        self.facts = replace(self.specification.facts, name="a model")

    def prepare(self, preparation: Preparation) -> Any:
        return Training(self._model, self._shape, preparation.batch_size)


class Training:
    """Random inputs, two classes."""

    def __init__(self, model: torch.nn.Module, shape: tuple[int, ...], batch: int) -> None:
        self.model, self._shape = model, (batch, *shape)
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)
        self.data = None

    @property
    def updates(self) -> list[Training]:
        return [self]

    def next_batch(self, phase: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(self._shape), torch.zeros(self._shape[0], dtype=torch.long)

    def loss(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        inputs, targets = batch
        return torch.nn.functional.cross_entropy(self.model(inputs), targets)


class Nothing:
    """A meter to which all memory is there, and none in use; it reads each tensor's address."""

    def begin(self) -> int:
        return 0

    def end(self) -> int:
        return 0

    def absent(self, address: int, size: int) -> int:
        return 0

    def cache(self) -> None:
        pass


def test_tensors_without_values_are_none_of_a_real_step_s_memory() -> None:
    gc.collect()  # trainings of other tests
    with FakeTensorMode():
        left = torch.empty(10**6)
    trainer = TorchTrainer(TorchWorkload(workloads.find("lenet")), Preparation(batch_size=2))
    tracker = trainer.memory_tracker(Nothing())
    assert tracker is not None
    with tracker:
        trainer.step(tracker.phase)
    assert sum(tracker.result().categories.values()) < left.numel() * 4
