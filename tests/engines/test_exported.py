"""An exported training is what it says; an engine that trains something else is refused; rewrites are identities."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refused

from wattstep import workloads
from wattstep.engines import ENGINES, MODULES, find
from wattstep.engines.exported.conformance import (
    STEPS,
    Course,
    Reference,
    check,
    check_finite,
    judge,
)
from wattstep.engines.exported.folder import (
    FACTS,
    WEIGHTS,
    ExportedFolder,
    ExportedInput,
    ExportedOptimizer,
    ExportedParameter,
    ExportedTraining,
    save_arrays,
    write_facts,
)
from wattstep.engines.exported.trainer import ExportedTrainer
from wattstep.errors import DamagedRunError, RecordingError
from wattstep.schema.engine import Engine
from wattstep.schema.workload import DataFacts, Preparation

torch = pytest.importorskip("torch")
from torch.nn import functional  # noqa: E402

from wattstep.engines.torch.export import exporting  # noqa: E402
from wattstep.engines.torch.export.rewrites import Rewriting  # noqa: E402
from wattstep.engines.torch.export.source import IN_MEMORY, Source, copied  # noqa: E402

FACTS_OF_DATA = DataFacts(name="noise", stand_in=False, stands_for=None, sha256="0" * 64, samples=8)


def training(**of: Any) -> ExportedTraining:
    plain = ExportedTraining(
        engine="far", made_with=("far 1", "torch 2"), workload="lenet",
        settings={
            "batch_size": 2, "seed": 0, "classes": None, "image_size": None, "rate_rule": "linear",
            "optimizer": None,
        },
        parameters=[ExportedParameter(name="w", shape=(3,), trainable=True, decay=0.1)],
        inputs=[ExportedInput(name="inputs", file="inputs.npy", shape=(2, 3), dtype="float32")],
        batches=2, losses=[1.0, 0.5], allowed=[0.1, 0.1], loss="cross entropy",
        optimizer=ExportedOptimizer(name="sgd", rate=0.1, options={"momentum": 0.9}),
        data=FACTS_OF_DATA, model={"parameters": 3}, files={},
    )  # fmt: skip
    return replace(plain, **of)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "inputs.npy", np.arange(12, dtype=np.float32).reshape(2, 2, 3))
    write_facts(tmp_path, training())
    return tmp_path


def test_weights_that_are_none_or_of_another_shape_are_refused_by_name(folder: Path) -> None:
    """Whoever makes a folder can make its hashes."""
    for values in (b"no archive", {"v": np.zeros(3)}, {"w": np.zeros(4)}):
        if isinstance(values, bytes):
            (folder / WEIGHTS).write_bytes(values)
        else:
            save_arrays(folder / WEIGHTS, values)
        write_facts(folder, training())
        with refused("damaged-export", WEIGHTS):
            ExportedFolder(folder).weights()
    save_arrays(folder / WEIGHTS, {"w": np.arange(3.0)})
    write_facts(folder, training())
    assert list(ExportedFolder(folder).weights()["w"]) == [0.0, 1.0, 2.0]


def test_what_was_written_is_read(folder: Path) -> None:
    known = ExportedFolder(folder)
    read = known.training
    assert list(read.files) == ["inputs.npy"]
    assert (read.parameters, read.inputs, read.optimizer) == (
        training().parameters, training().inputs, training().optimizer,
    )  # fmt: skip
    assert (read.batch_size, read.losses, read.data) == (2, [1.0, 0.5], FACTS_OF_DATA)
    assert known.arrays["inputs"][1, 0].tolist() == [6.0, 7.0, 8.0]


def test_a_folder_that_was_cut_changed_or_linked_is_refused(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "inputs.npy").read_bytes()
    for damaged in (whole[:-1], whole[:-1] + b"\x01"):
        (folder / "inputs.npy").write_bytes(damaged)
        with refused("damaged-export", "inputs.npy"):
            ExportedFolder(folder)
    (folder / "inputs.npy").unlink()
    with refused("damaged-export", str(folder / "inputs.npy")):
        ExportedFolder(folder)
    elsewhere = tmp_path / "elsewhere.npy"
    elsewhere.write_bytes(whole)
    (folder / "inputs.npy").symlink_to(elsewhere)
    with refused("damaged-export"):
        ExportedFolder(folder)


def test_names_of_files_stay_in_the_folder(folder: Path) -> None:
    document = json.loads((folder / FACTS).read_text())
    document["inputs"][0]["file"] = "../inputs.npy"
    (folder / FACTS).write_text(json.dumps(signed(document)))
    with refused("damaged-export", "../inputs.npy"):
        ExportedFolder(folder)


def signed(document: dict[str, Any]) -> dict[str, Any]:
    """The facts of somebody who makes the hash as well."""
    facts = {key: value for key, value in document.items() if key not in ("version", "sha256")}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return {"version": document["version"], "sha256": digest, **facts}


def test_facts_that_were_changed_or_contradict_each_other_are_refused(folder: Path) -> None:
    document = json.loads((folder / FACTS).read_text())
    for changed in (
        {"settings": {**document["settings"], "batch_size": 80_000}},
        {"losses": [], "allowed": []},
        {"allowed": [1e9]},
        {"inputs": 2 * document["inputs"]},
        {"strange": 1},
    ):
        (folder / FACTS).write_text(json.dumps({**document, **changed}))
        with refused("damaged-export", FACTS):
            ExportedFolder(folder)
        (folder / FACTS).write_text(json.dumps(signed({**document, **changed})))
        with refused("damaged-export", FACTS):
            ExportedFolder(folder)


def test_another_version_and_no_export_are_told_apart(folder: Path, tmp_path: Path) -> None:
    document = json.loads((folder / FACTS).read_text())
    (folder / FACTS).write_text(json.dumps({**document, "version": 99}))
    with refused("other-export-version"):
        ExportedFolder(folder)
    with refused("no-export"):
        ExportedFolder(tmp_path / "nothing")
    for garbage in ("", "{", "[1]", "{}"):
        (folder / FACTS).write_text(garbage)
        with refused("damaged-export", FACTS):
            ExportedFolder(folder)
    (folder / FACTS).unlink()
    os.mkfifo(folder / FACTS)
    with refused("no-export"):
        ExportedFolder(folder)


def test_objects_are_never_loaded_from_a_folder(folder: Path) -> None:
    np.save(folder / "inputs.npy", np.array([{"a": 1}]), allow_pickle=True)
    write_facts(folder, training())
    with pytest.raises(DamagedRunError):
        ExportedFolder(folder).arrays  # noqa: B018


class Far(Engine):
    name = "far"

    def prepare(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class Told(ExportedTrainer):
    """Gives the losses that it was told."""

    def take(self, batch: Any, mark: Any) -> float:
        self.seen.append(batch["inputs"][0, 0])
        return self.losses[len(self.seen) - 1]

    def weights(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("wrong", [0.6001, 0.39, float("nan"), float("inf")])
def test_a_training_whose_first_losses_are_wrong_ends(folder: Path, wrong: float) -> None:
    trainer = Told(Far(), ExportedFolder(folder))
    trainer.seen, trainer.losses = [], [1.05, 0.55, 7.0]
    assert [trainer.step() for _ in range(3)] == [1.05, 0.55, 7.0]  # the third is not known
    assert trainer.seen == [0.0, 6.0, 0.0]  # batches come again
    trainer = Told(Far(), ExportedFolder(folder))
    trainer.seen, trainer.losses = [], [1.0, wrong]
    trainer.step()
    with refused("trains-wrongly") as caught:
        trainer.step()
    assert isinstance(caught.value, RecordingError)


# A training by hand: w <- w - 0.1 (w - x), loss (w - x)^2 / 2, in the precision that is asked for.
def course(kind: type, *, moved: float = 0.0, of: float = 1.0, still: bool = False) -> Course:
    w = (np.array([1.0, 2.0]) * (1 + moved)).astype(kind)
    b = np.array([0.5], kind)
    losses, first = [], {}
    for step in range(STEPS):
        x = np.array([step % 3, -1.0], kind)
        losses.append(float(np.square(w + b - x).sum() / 2))
        gradient = w + b - x
        w = (w - kind(0.1) * gradient * kind(of)).astype(kind)
        if not still:
            b = (b - kind(0.1) * gradient.sum(keepdims=True)).astype(kind)
        if step == 0:
            first = {"w": w.copy(), "b": b.copy()}
    return Course(losses=losses, first=first, last={"w": w, "b": b})


REFERENCE = Reference(
    begin={"w": np.array([1.0, 2.0]), "b": np.array([0.5])},
    trainable=["w", "b"],
    exact=course(np.float64),
    rounded=[course(np.float32), course(np.float32, moved=6e-8)],
)


def test_an_engine_that_rounds_otherwise_is_right() -> None:
    verdict = judge("far", REFERENCE, course(np.float32, moved=-6e-8))
    assert not verdict.problems
    assert max(verdict.loss, verdict.update, verdict.weights) < 1
    check("far", "lenet", verdict)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (course(np.float64, of=1.001), "first update"),  # a gradient that is a thousandth too large
        (course(np.float64, still=True), "b"),  # no gradient at all
        (course(np.float16), "loss"),
        (replace(course(np.float64), losses=[float("nan")] * STEPS), "loss"),
    ],
)
def test_an_engine_that_trains_something_else_is_refused(wrong: Course, what: str) -> None:
    verdict = judge("far", REFERENCE, wrong)
    assert any(what in problem for problem in verdict.problems)
    with refused("wrong-training", "lenet"):
        check("far", "lenet", verdict)


@pytest.mark.parametrize(
    ("part", "broken", "words"),
    [
        ("exact", {"losses": [1.0, float("nan"), *[1.0] * 8]}, ("float64", "step 2", "nan")),
        ("rounded", {"losses": [*[1.0] * 9, 3e38]}, ("float32", "step 10", "3e+38")),
        ("rounded", {"last": {"w": np.array([np.inf])}}, ("float32", "weights")),
    ],
)
def test_a_training_that_diverges_on_torch_is_refused(
    part: str, broken: dict[str, Any], words: tuple[str, ...]
) -> None:
    check_finite("lenet", REFERENCE)
    wrong = replace(course(np.float32), **broken)
    reference = replace(REFERENCE, **{part: wrong if part == "exact" else [wrong]})
    with refused("diverging-training", "lenet", *words):
        check_finite("lenet", reference)


REWRITTEN = {
    "flatten": lambda v: torch.flatten(v, 1),
    "global average": lambda v: functional.adaptive_avg_pool2d(v, 1).flatten(1),
    "max pool": lambda v: functional.max_pool2d(v, 2),
    "average pool": lambda v: functional.avg_pool2d(v, (3, 2)),
    "average to size": lambda v: functional.adaptive_avg_pool2d(v, (5, 9)),
    "attention": lambda v: functional.scaled_dot_product_attention(v, 2 * v, v + 1, is_causal=True),
    "hard sigmoid": lambda v: functional.hardsigmoid(4 * v),
    "hard swish": lambda v: functional.hardswish(4 * v),
    "local response norm": lambda v: functional.local_response_norm(v, 3, 0.1, 0.75, 2.0),
    "fixed batch norm": lambda v: functional.batch_norm(
        v,
        torch.tensor([0.3, -1]).double(),
        torch.tensor([1.5, 0.7]).double(),
        torch.tensor([1.0, 2.0]).double(),
        torch.tensor([0.5, 0.1]).double(),
    ),
    "batch norm": lambda v: functional.batch_norm(
        v, None, None, torch.tensor([1.0, 2.0]).double(), torch.tensor([0.5, 0.1]).double(), True
    ),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_rewrite_gives_the_same_values_and_gradients(name: str) -> None:
    draw = torch.Generator().manual_seed(0)
    values = torch.randn(2, 2, 7, 6, dtype=torch.float64, generator=draw, requires_grad=True)
    weight = torch.randn(500, dtype=torch.float64, generator=draw)

    def both(*, rewritten: bool) -> tuple[Any, Any]:
        mode = Rewriting([name] if rewritten else [])
        with mode:
            out = REWRITTEN[name](values)
        assert len(mode.applied) == rewritten
        (gradient,) = torch.autograd.grad((out.flatten() * weight[: out.numel()]).sum(), values)
        return out, gradient

    # torch's own gradient of the hard sigmoid has its sixth in float32.
    allowed = 1e-7 if name == "hard sigmoid" else 1e-12
    for plain, other in zip(both(rewritten=False), both(rewritten=True), strict=True):
        assert other.shape == plain.shape
        torch.testing.assert_close(other, plain, rtol=allowed, atol=1e-12)


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (3, 1), ((3, 2), (2, 3))])
def test_a_chosen_maximum_is_the_one_that_torch_picks_also_of_equal_values(
    kernel: Any, stride: Any, padding: int, ceil: bool
) -> None:
    draw = torch.Generator().manual_seed(1)
    drawn = torch.randint(-2, 3, (2, 2, 7, 6), generator=draw)  # of which many are equal
    values = drawn.double().requires_grad_()
    plain = functional.max_pool2d(values, kernel, stride, padding, ceil_mode=ceil)
    with Rewriting(["chosen max pool"]) as mode:
        chosen = functional.max_pool2d(values, kernel, stride, padding, ceil_mode=ceil)
    assert len(mode.applied) == 1
    weights = torch.randn(plain.shape, dtype=torch.float64, generator=draw)
    gradients = [torch.autograd.grad((out * weights).sum(), values)[0] for out in (plain, chosen)]
    assert torch.equal(chosen, plain)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda v: functional.max_pool2d(v, 3, stride=2),  # windows overlap
        lambda v: functional.max_pool2d(v, 2, padding=1),
        lambda v: functional.avg_pool2d(v, 2, ceil_mode=True),
        lambda v: functional.batch_norm(v, torch.zeros(2), torch.ones(2)),
        lambda v: functional.local_response_norm(
            v, 4
        ),  # as many channels before as after are not asked
        lambda v: functional.adaptive_avg_pool2d(v, (7, 1)),  # which windows of one size make
    ],
)
def test_what_is_not_the_same_is_left_as_it_is(call: Any) -> None:
    mode = Rewriting(
        ["max pool", "average pool", "batch norm", "local response norm", "average to size"]
    )
    with mode:
        call(torch.ones(1, 2, 7, 7))
    assert mode.applied == []


def test_batches_hold_what_dropout_draws_and_the_network_is_as_it_was() -> None:
    source = Source(workloads.find("squeezenet"), Preparation(batch_size=2))
    before = source.initial()
    batches = source.batches
    assert set(batches) == {"inputs", "targets", "mask0"}
    assert set(np.unique(batches["mask0"])) == {0.0, 2.0}  # half is dropped, the rest is doubled
    assert all(np.array_equal(value, before[name]) for name, value in source.initial().items())


def test_batches_take_64_mib_at_most_unless_one_alone_is_larger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wattstep.engines.torch.export.source.MOST_BYTES", 3 * 2 * (784 * 4 + 8))
    source = Source(workloads.find("lenet"), Preparation(batch_size=2))
    assert len(source.batches["inputs"]) == 3  # two images of 28×28 in float32, two targets, each
    first, fourth = source.batch(0), source.batch(3)  # after the last comes the first
    assert all(torch.equal(a, b) for a, b in zip(first, fourth, strict=True))
    monkeypatch.setattr("wattstep.engines.torch.export.source.MOST_BYTES", 1)
    source = Source(workloads.find("lenet"), Preparation(batch_size=2))
    assert len(source.batches["inputs"]) == 1


def test_an_export_to_a_full_disk_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError("81920 requested and 76768 written")  # as numpy says it

    monkeypatch.setattr(np, "save", full)
    source = Source(workloads.find("lenet"), Preparation(batch_size=2))
    with refused("cannot-write-export", "76768 written"):
        exporting.export(
            find("mnn"), workloads.find("lenet"), Preparation(batch_size=2),
            tmp_path / "out", lambda stage: None, source,
        )  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_a_batch_that_is_too_large_is_refused_before_it_is_made() -> None:
    with refused("batch-too-large-to-export", "--batch 100000000", "lenet", "299,835 MiB"):
        Source(workloads.find("lenet"), Preparation(batch_size=10**8))


def test_torchs_own_course_in_float32_conforms_and_a_slower_rate_does_not() -> None:
    source = Source(workloads.find("lenet"), Preparation(batch_size=2))
    reference = source.reference()
    assert not judge("torch", reference, source.course(torch.float32)).problems
    wrong = {
        name: reference.begin[name] + 0.99 * (value - reference.begin[name])
        for name, value in reference.exact.first.items()
    }
    assert judge("torch", reference, replace(reference.exact, first=wrong)).problems


def test_what_more_than_one_loss_trains_is_not_exported() -> None:
    with refused("cannot-export", "dcgan"):
        Source(workloads.find("dcgan"), Preparation(batch_size=2))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("gelu", functional.gelu),
        (
            "fixed batch norm by steps",
            lambda v: functional.batch_norm(
                v,
                torch.tensor([0.1, 0.2, 0.3]),
                torch.tensor([0.5, 1.0, 2.0]),
                torch.tensor([0.3, 0.6, 0.9]),
                torch.tensor([1.0, -1.0, 0.5]),
            ),
        ),
        ("layer norm", lambda v: functional.layer_norm(v, (7, 9), torch.ones(7, 9) / 2)),
        ("index", lambda v: v[:, 1]),
        ("index", lambda v: v[:, :, 2:5]),
        ("same type", lambda v: v.float() + v.to(torch.float32)),
        ("chosen max pool", lambda v: functional.max_pool2d(v, 3, 2)),
        ("chosen max pool", lambda v: functional.max_pool2d(v, 3, 2, ceil_mode=True)),
        ("chosen max pool", lambda v: functional.max_pool2d(v, 2, 2, padding=1, ceil_mode=True)),
        ("chosen max pool", lambda v: functional.max_pool2d(v, 3, 1, padding=1)),
    ],
)
def test_rewrites_for_mnn_give_the_same_within_rounding(name: str, call: Any) -> None:
    values = torch.randn(2, 3, 7, 9, generator=torch.Generator().manual_seed(1), requires_grad=True)
    plain = call(values)
    (slope,) = torch.autograd.grad(plain.square().sum(), values)
    with Rewriting([name]) as mode:
        rewritten = call(values)
    assert mode.applied
    torch.testing.assert_close(rewritten, plain, rtol=3e-6, atol=1e-6)
    (mine,) = torch.autograd.grad(rewritten.square().sum(), values)
    torch.testing.assert_close(mine, slope, rtol=3e-5, atol=1e-5)
    assert call(torch.ones(2, 3, 7, 9)).shape == rewritten.shape


def test_of_equal_values_in_a_window_one_is_the_largest() -> None:
    values = torch.full((1, 1, 7, 7), 0.5, requires_grad=True)
    with Rewriting(["chosen max pool"]):
        pooled = functional.max_pool2d(values, 3, 2)
    assert pooled.shape == (1, 1, 3, 3)
    (slope,) = torch.autograd.grad(pooled.sum(), values)
    assert float(slope.sum()) == pytest.approx(9.0, abs=1e-4)


def test_modules_of_engines_are_those_that_they_name_themselves() -> None:
    assert {name: MODULES.get(name, name) for name in ENGINES.own} == {
        name: find(name).module for name in ENGINES.own
    }


def test_copies_of_large_parameters_are_in_files_and_stay_as_they_were() -> None:
    for count in (8, IN_MEMORY // 4):
        weight = torch.arange(count, dtype=torch.float32)
        kept = copied(weight)
        weight.zero_()
        assert isinstance(kept, np.memmap) == (count > 8)
        assert np.array_equal(kept, np.arange(count, dtype=np.float32))
