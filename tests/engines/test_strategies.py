"""Strategies against running out of memory compute what plain training computes, or train what they say."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.refusals import refused
from torch import nn

from wattstep.engines.torch.checkpointing import checkpoint_blocks, explaining, find_blocks
from wattstep.engines.torch.offload import LEAST_BYTES, Offload
from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import OptimizerSettings, Preparation
from wattstep.workloads.torch import find
from wattstep.workloads.torch.freezing import freeze

CPU = torch.device("cpu")


class Block(nn.Module):
    """Two layers and a norm, with a way around them and noise."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.second, self.noise = nn.Conv2d(width, width, 1), nn.Dropout(0.5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu_(self.norm(self.first(images)))
        return images + self.noise(self.second(hidden))


class Net(nn.Module):
    def __init__(self, blocks: int = 4, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))
        self.head = nn.Linear(width, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.blocks(self.stem(images)).mean((2, 3)))
        return scores


def stepped(
    make: Callable[[], nn.Module],
    change: Callable[[nn.Module], Any] = lambda model: None,
    saving: Callable[[nn.Module], Any] | None = None,
) -> nn.Module:
    """The model after three steps from the same seed."""
    torch.manual_seed(3)
    model = make()
    change(model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1, 0.9)
    images, classes = torch.randn(8, 3, 12, 12), torch.arange(8) % 5
    context = saving(model) if saving else None
    for _ in range(3):
        optimizer.zero_grad()
        if context is None:
            loss = nn.functional.cross_entropy(model(images), classes)
        else:
            with context.active():
                loss = nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
    return model


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(mine, theirs) for mine, theirs in pairs)


def sequence() -> nn.Sequential:
    """A chain of nine layers without blocks of its own, each with an activation in place."""
    layers: list[nn.Module] = [nn.Conv2d(3, 8, 1)]
    for _ in range(7):
        layers += [nn.ReLU(inplace=True), nn.Conv2d(8, 8, 3, padding=1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


def repeating() -> nn.Sequential:
    """Twelve calls of nine modules: an activation, a layer and a block with noise are at several places."""
    act, layer, block = nn.Tanh(), nn.Conv2d(8, 8, 1), Block(8)
    calls = [nn.Conv2d(3, 8, 1), act, layer, act, block, layer, act, nn.Conv2d(8, 8, 3), block]
    return nn.Sequential(*calls, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


# --- checkpointing -----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Net, sequence, repeating])
def test_checkpointing_leaves_weights_statistics_and_noise_bit_for_bit(
    make: Callable[[], nn.Module],
) -> None:
    plain = stepped(make)
    checkpointed = stepped(make, lambda model: checkpoint_blocks(model, "net"))
    assert same(plain, checkpointed)
    if make is Net:  # each batch counted once
        assert {int(each.norm.num_batches_tracked) for each in checkpointed.blocks} == {3}  # type: ignore[union-attr]


def test_checkpointing_saves_inputs_of_blocks_alone() -> None:
    """Of a block that keeps seven images of its size, one is left, and of the last one at a time all."""
    model = Net(blocks=6)
    images = torch.randn(4, 3, 34, 34)

    def saved(model: nn.Module) -> int:
        sizes: dict[int, int] = {}
        own = {each.data_ptr() for each in model.parameters()}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.data_ptr() not in own:
                sizes[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(images).sum().backward()
        return sum(size for size in sizes.values() if size >= image)

    image = 4 * 8 * 32 * 32 * 4
    plain = saved(model)
    checkpoint_blocks(model, "net")
    assert plain >= 6 * 3 * image  # at the least: input, result of the first layer, of the norm
    assert saved(model) <= 7 * image  # of each block its input, and what the stem and the head keep


def test_blocks_are_the_parts_that_repeat() -> None:
    model = Net(blocks=5)
    blocks = find_blocks(model)
    assert [modules for _, modules in blocks] == [[each] for each in model.blocks]


def test_a_chain_is_cut_into_runs_that_begin_with_layers() -> None:
    """Nine layers alike: three runs of three, by the root of their number."""
    model = sequence()
    runs = [list(modules) for parent, modules in find_blocks(model) if parent is model]
    assert [sum(bool(list(each.parameters())) for each in run) for run in runs] == [3, 3, 3]
    assert all(list(run[0].parameters()) for run in runs)


def test_modules_at_several_places_are_called_at_each() -> None:
    """Named once by `children()`, they would be left out of the forward pass from the second place on."""
    model = repeating()
    calls: list[str] = []
    for module in model.children():
        module.register_forward_hook(lambda module, *_: calls.append(type(module).__name__))
    images = torch.randn(2, 3, 12, 12)
    model(images)
    plain = calls[:]
    calls.clear()
    checkpoint_blocks(model, "net")
    model(images)
    assert calls == plain
    assert len(plain) == 12


def test_what_is_never_trained_is_not_computed_again() -> None:
    model = Net()
    calls: list[int] = []
    model.blocks[0].register_forward_hook(lambda *_: calls.append(1))
    inner = model.blocks[0].first
    inner.register_forward_hook(lambda *_: calls.append(2))  # type: ignore[union-attr]
    checkpoint_blocks(model, "net")
    with torch.no_grad():
        model(torch.randn(2, 3, 8, 8))
    assert calls == [2, 1]
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    assert calls == [2, 1, 2, 1, 2]


class Changing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.second(self.first(states.mul_(2)))
        return scores


class Counting(Changing):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        scores: torch.Tensor = self.second(self.first(states * self.seen))
        return scores


def test_blocks_that_cannot_be_computed_again_are_refused() -> None:
    changing = nn.Sequential(nn.Linear(8, 8), Changing(), nn.Linear(8, 5))
    checkpoint_blocks(changing, "net")
    with refused("input-changed", "net"), explaining("net"):
        changing(torch.randn(2, 8)).sum().backward()
    counting = nn.Sequential(nn.Linear(8, 8), Counting(), nn.Linear(8, 5))
    checkpoint_blocks(counting, "net")
    with refused("state-changed", "seen", "Counting"):
        counting(torch.randn(2, 8))
    with refused("no-blocks", "net"):
        checkpoint_blocks(nn.Linear(8, 5), "net")


# --- offload -----------------------------------------------------------------------------------


def offloaded(model: nn.Module) -> Offload:
    return Offload(model, CPU, shared=True)


def test_offloading_leaves_weights_bit_for_bit() -> None:
    def make() -> nn.Module:
        return Net(width=32)

    assert same(stepped(make), stepped(make, saving=offloaded))


class Conjugating(nn.Module):
    """Saves complex and real numbers whose sign is a bit of the view, not in the storage."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(12, 12), nn.Linear(3 * 12 * 7, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        waves = torch.fft.rfft(self.first(images)).conj()
        scores: torch.Tensor = self.head(
            (waves.imag * waves.imag - (waves * waves).real).flatten(1)
        )
        return scores


def test_offloaded_views_keep_their_conjugate_and_their_sign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wattstep.engines.torch.offload.LEAST_BYTES", 1)  # all of it leaves
    assert same(stepped(Conjugating), stepped(Conjugating, saving=offloaded))


class ChangingItsInput(Block):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images.mul_(2))


def test_what_stays_is_refused_where_it_was_changed_since() -> None:
    """Torch leaves that to who packs: a block would be computed again from what it was not given."""

    def make() -> nn.Module:
        model = Net()
        model.blocks[0] = ChangingItsInput(8)
        return model

    with refused("input-changed", "net"), explaining("net"):
        stepped(make, lambda model: checkpoint_blocks(model, "net"), saving=offloaded)


def test_offloaded_activations_are_in_a_file_without_a_name(tmp_path: Path) -> None:
    """So that a process that is killed leaves none behind; and each storage goes once."""
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
    with folder_of(tmp_path):
        offload = Offload(model, CPU, shared=True)
    inputs = torch.randn(256, 256)
    with offload.active():
        loss = model(inputs).sum()
    assert not list(tmp_path.iterdir())
    # Its input, and two activations that two operations each save: 256 KiB apiece, the parameters stay.
    assert written(tmp_path) == 3 * 256 * 256 * 4
    loss.backward()
    with offload.active():
        model(inputs).sum().backward()
    assert written(tmp_path) == 3 * 256 * 256 * 4  # room that is free again is used


def test_what_is_small_stays(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    with folder_of(tmp_path):
        offload = Offload(model, CPU, shared=True)
    assert LEAST_BYTES > 4 * 4 * 4
    with offload.active():
        model(torch.randn(4, 4)).sum().backward()
    assert written(tmp_path) == 0


def test_a_disk_without_room_is_one_line(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(256, 1024), nn.Tanh(), nn.Linear(1024, 256))
    with folder_of(tmp_path):
        offload = Offload(model, CPU, shared=True)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limit[1]))
    try:
        with refused("offload-disk", tmp_path), offload.active():
            model(torch.randn(1024, 256))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_folders_in_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir():
        pytest.skip("no file system in memory here")
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    monkeypatch.setattr("wattstep.engines.torch.offload._ON_DISK", str(shared))
    with refused("offload-in-memory", shared, "TMPDIR"):
        Offload(nn.Linear(2, 2), CPU, shared=True)


@contextmanager
def folder_of(path: Path) -> Iterator[None]:
    before, tempfile.tempdir = tempfile.tempdir, str(path)
    try:
        yield
    finally:
        tempfile.tempdir = before


def written(path: Path) -> int:
    """Bytes of the files below a folder that this process has open."""
    sizes = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue  # the folder's own, which is closed again
        if target.startswith(str(path)):
            sizes.append(entry.stat().st_size)
    return sum(sizes)


# --- what trains -------------------------------------------------------------------------------


def test_the_last_layers_train_and_all_else_stays() -> None:
    torch.manual_seed(3)
    fresh = Net().state_dict()
    model = stepped(Net, lambda net: freeze(net, Preparation(batch_size=8, train_last=2)))
    after = model.state_dict()
    changed = {name for name in fresh if not torch.equal(fresh[name], after[name])}
    # In the order of registration: the last block's second convolution, and the head.
    assert changed == {f"blocks.3.second.{each}" for each in ("weight", "bias")} | {
        "head.weight",
        "head.bias",
    }


def test_more_layers_than_there_are_cannot_train() -> None:
    with refused("too-few-layers", "15", "14"):  # stem, four blocks of three, head
        freeze(Net(), Preparation(batch_size=8, train_last=15))
    freeze(Net(), Preparation(batch_size=8, train_last=14))


def test_lora_begins_with_the_frozen_model_and_trains_its_updates_alone() -> None:
    torch.manual_seed(3)
    net = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2
    )
    tokens = torch.randn(4, 6, 16)
    before = net(tokens)
    fresh = {name: each.clone() for name, each in net.state_dict().items()}
    freeze(net, Preparation(batch_size=4, lora=3))
    assert torch.equal(net(tokens), before)
    trained = {name for name, each in net.named_parameters() if each.requires_grad}
    # Two linear layers of each of two; attention never calls its projection as a module.
    assert len(trained) == 2 * 2 * 2
    assert sum(p.numel() for p in net.parameters() if p.requires_grad) == 2 * 2 * 3 * (16 + 32)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(tokens).square().sum().backward()
        optimizer.step()
    after = net.state_dict()
    assert all(torch.equal(fresh[name], after[name]) for name in fresh)
    layer = net.layers[0].linear1
    update = layer.adapter.up.weight @ layer.adapter.down.weight  # type: ignore[union-attr, operator]
    merged = tokens @ (layer.weight + update).T + layer.bias  # type: ignore[operator]
    assert torch.allclose(layer(tokens), merged, atol=1e-5)  # type: ignore[operator]
    net.eval()
    with torch.no_grad():  # torch's fast path knows no updates: it is not taken
        assert torch.allclose(net(tokens), net.train()(tokens), atol=1e-5)


def test_lora_needs_linear_layers_and_a_rank() -> None:
    with refused("no-linear-layers", "Sequential"):
        freeze(nn.Sequential(nn.Conv2d(3, 3, 1)), Preparation(batch_size=1, lora=4))
    facts = find("lenet").facts
    for name in ("lora", "train_last"):
        with refused("out-of-range", "0"):
            Preparation(batch_size=1, **{name: 0}).check(facts)  # type: ignore[arg-type]
    with refused("two-that-train"):
        Preparation(batch_size=1, lora=1, train_last=1).check(facts)
    with refused("compiled-strategy", "--offload"):
        Preparation(batch_size=1, compiled=True, offload=True).check(facts)


def test_a_trainer_takes_them_all() -> None:
    """Of the suite's LeNet with its noise-free steps; batches that are added up make the large one."""

    def weights(**given: Any) -> list[torch.Tensor]:
        trainer = TorchTrainer(find("lenet"), Preparation(**{"batch_size": 8, **given}))
        for _ in range(2):
            trainer.step()
        return [each.detach() for each in trainer.model.parameters()]

    plain = weights()
    for way in ({"checkpointing": True}, {"offload": True}):
        assert all(map(torch.equal, plain, weights(**way)))
    parts = weights(batch_size=2, accumulate=4)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(plain, parts, strict=True))
    other = TorchTrainer(
        find("lenet"), Preparation(batch_size=2, optimizer=OptimizerSettings.parse("adam,lr=0.1"))
    )
    (update,) = other.updates
    assert type(update.optimizer) is torch.optim.Adam
    assert update.optimizer.param_groups[0]["lr"] == 0.1


def test_optimizers_of_8_bits_come_from_their_library() -> None:
    """A state of 2 bytes a parameter in tensors from 4,096 numbers on, and 2 scales of 4 a block of 256."""
    settings = OptimizerSettings.parse("adamw8bit,lr=0.001")
    preparation = Preparation(batch_size=2, optimizer=settings)
    if find_spec("bitsandbytes") is None:
        with refused("missing-extra", "wattstep[bits]"):
            TorchTrainer(find("lenet"), preparation)
        return
    trainer = TorchTrainer(find("lenet"), preparation)
    trainer.step()
    sizes = [each.numel() for each in trainer.model.parameters()]
    state = sum(2 * n + 8 * -(-n // 256) if n >= 4096 else 8 * n for n in sizes)
    assert trainer.memory()["optimizer_state"] == state + 2 * 256 * 4  # and two tables


def test_an_optimizer_that_pages_needs_a_gpu() -> None:
    paged = OptimizerSettings.parse("paged-adamw8bit")
    with refused("needs-gpu", "adamw8bit"):
        TorchTrainer(find("lenet"), Preparation(batch_size=2, optimizer=paged))
    with refused("unknown-optimizer", "sdg", "sgd"):
        OptimizerSettings.parse("sdg")
