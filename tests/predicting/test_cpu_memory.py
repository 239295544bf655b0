"""Memory of a training's process on a CPU, with sizes worked out by hand."""

from __future__ import annotations

import gc
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.predicting.plain_arena import PlainArena
from tests.predicting.steps import family

from wattstep.predict.cpu.arena import Arena, Chunk, chunk_size
from wattstep.predict.cpu.memory import layouts_of, least_growth, replay, takes_onednn
from wattstep.predict.cpu.time import kinds_of
from wattstep.schema.step_graph import Convolution, StepGraph

MIB = 1 << 20
NEVER_MAPPED = 1 << 40


@pytest.mark.parametrize(("request_", "chunk"), [(1, 32), (24, 32), (25, 48), (100, 112)])
def test_a_chunk_is_the_request_and_8_bytes_in_multiples_of_16(request_: int, chunk: int) -> None:
    assert chunk_size(request_) == chunk


def test_a_large_block_has_pages_of_its_own_until_one_as_large_was_freed() -> None:
    arena = Arena(128 * 1024)
    block = arena.allocate(MIB)
    assert arena.resident == 257 * 4096  # 1 MiB, its header, and what is left of the last page
    arena.release(block)
    assert arena.resident == 0
    arena.release(arena.allocate(MIB))
    assert arena.resident == MIB + 16  # of the heap now, which keeps it


def test_a_heap_shrinks_once_twice_the_threshold_is_free_at_its_end() -> None:
    arena = Arena(MIB)
    blocks = [arena.allocate(MIB // 2) for _ in range(5)]
    for block in reversed(blocks[1:]):
        arena.release(block)
    # Four blocks of half a MiB were free: 2 MiB and 128 KiB of padding are more than 2 MiB.
    assert arena.resident < MIB
    assert arena.peak == 5 * (MIB // 2 + 16)


def test_a_block_that_stays_between_two_keeps_their_room_apart() -> None:
    def resident(*, between: bool) -> int:
        arena = Arena(NEVER_MAPPED)
        first = arena.allocate(1_000_000)
        if between:
            arena.allocate(2000)
        second = arena.allocate(1_000_000)
        arena.release(first)
        arena.release(second)
        arena.allocate(1_500_000)
        return arena.resident

    assert resident(between=False) == 2 * 1_000_016
    assert resident(between=True) == 1_000_016 + 2016 + 1_500_016


def test_the_smallest_hole_that_fits_is_taken() -> None:
    arena = Arena(NEVER_MAPPED)
    blocks = [arena.allocate(size) for size in (90_000, 2000, 30_000, 2000, 50_000, 2000)]
    for number in (0, 2, 4):
        arena.release(blocks[number])
    assert arena.allocate(40_000).address == blocks[4].address
    assert arena.allocate(30_000).address == blocks[2].address
    assert arena.allocate(40_000).address == blocks[0].address


def test_room_before_an_aligned_block_is_used_by_small_ones() -> None:
    arena = Arena(NEVER_MAPPED)
    arena.allocate(24)  # 32 bytes: the next block begins at 48, not at a multiple of 64
    aligned = arena.allocate_aligned(1000).address
    assert (aligned + 16) % 64 == 0
    small = arena.allocate(aligned - 32 - 8)
    assert small.address == 32


def graph(**changes: object) -> StepGraph:
    """Three operations; a parameter, its gradient, momentum, and two feature maps."""
    values = {
        "batch_size": 1.0,
        "names": ("aten::relu", "aten::relu", "aten::relu_backward", "aten::add_"),
        "kinds": ("activation", "activation", "activation", "optimizer"),
        "phases": ("forward", "forward", "backward", "optimizer"),
        "layers": ("",) * 4,
        "flops": np.zeros(4),
        "read_bytes": np.ones(4),
        "written_bytes": np.ones(4),
        "sizes": np.array([1.0, 1.0, 4.0, 2.0, 1.0]) * MIB,
        "categories": ("parameters", "optimizer_state", "feature_maps", "feature_maps", "gradients"),
        "made": np.array([0, 0, 1, 2, 3]),
        "freed": np.array([5, 5, 3, 3, 5]),
        "counts": {},
    }  # fmt: skip
    return StepGraph(**{**values, **changes})  # type: ignore[arg-type]


def test_most_of_a_step_is_feature_maps_and_what_the_first_step_left() -> None:
    # First step: 4 + 2, then gradient and momentum. Later: momentum is there, 1 + 4 + 2 MiB.
    assert replay(graph(), threshold=MIB).allocated == 7 * MIB


def test_resident_memory_is_never_less_than_its_tensors() -> None:
    growth = replay(graph(), threshold=MIB)
    assert growth.steady >= growth.allocated


def test_tensors_alone_are_a_bound_of_the_replay() -> None:
    assert least_growth(graph()).allocated == 7 * MIB
    for batch in (1, 4, 64):
        one = family().at(batch)
        least, growth = least_growth(one), replay(one, threshold=MIB)
        assert least.allocated <= growth.allocated
        assert least.steady <= growth.steady
        # Input, output, momentum, and later the gradients of the weights and the input.
        assert least.allocated == 3 * batch * 64 * 56 * 56 * 4 + 2 * 64 * 64 * 9 * 4


def convolution(**changes: object) -> Convolution:
    values = {
        "images": 2.0, "inputs": 20, "outputs": 10, "kernel": (3, 3), "stride": (1, 1), "groups": 1,
        "input_size": (8, 8), "output_size": (8, 8),
    }  # fmt: skip
    return Convolution(**{**values, **changes})  # type: ignore[arg-type]


def test_onednn_fills_channels_up_to_multiples_of_16() -> None:
    sizes = layouts_of(convolution())
    assert sizes.taken == 2 * 64 * 32 * 4
    assert sizes.given == 2 * 64 * 16 * 4
    assert sizes.weights == 32 * 16 * 9 * 4


def test_images_of_three_channels_stay_as_they_are() -> None:
    sizes = layouts_of(convolution(inputs=3))
    assert sizes.taken == 0
    assert sizes.weights == 3 * 16 * 9 * 4


def test_a_convolution_takes_copies_of_input_weights_and_output() -> None:
    step = graph(
        kinds=("convolution", "activation", "activation", "optimizer"),
        sizes=np.array([0.0, 0.0, 5120.0, 64.0, 64.0]),
        convolutions={0: convolution()},
    )
    assert replay(step, threshold=MIB).allocated == 16384 + 18432 + 8192


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ({}, True),
        ({"images": 1.0}, False),  # 20 × 64 values are few
        ({"images": 1.0, "kernel": (5, 5)}, True),
        ({"kernel": (1, 1)}, False),  # with one thread, below 16 images
        ({"kernel": (1, 1), "images": 16.0}, True),
        ({"kernel": (1, 1), "stride": (2, 2)}, True),
        ({"groups": 10, "images": 1.0}, True),
    ],
)
def test_torch_gives_onednn_what_is_large(changes: dict[str, object], taken: bool) -> None:
    assert takes_onednn(convolution(**changes)) is taken


def frozen(layers: int) -> StepGraph:
    """Convolutions of which nothing is differentiated, each of shapes of its own: a tensor goes once the next is there."""
    channels = [16 * (2 + 7 * k % 5 + k // 5) for k in range(layers + 1)]
    return StepGraph(
        batch_size=64.0,
        names=("aten::convolution",) * layers,
        kinds=("convolution",) * layers,
        phases=("forward",) * layers,
        layers=("",) * layers,
        flops=np.zeros(layers),
        read_bytes=np.ones(layers),
        written_bytes=np.ones(layers),
        sizes=np.array([64 * 32 * 32 * 4.0 * each for each in channels[1:]]),
        categories=("workspace",) * layers,
        made=np.arange(1, layers + 1),
        freed=np.minimum(np.arange(3, layers + 3), layers + 1),
        counts={},
        convolutions={
            k: convolution(
                images=64.0, inputs=channels[k], outputs=channels[k + 1],
                input_size=(32, 32), output_size=(32, 32),
            )
            for k in range(layers)
        },
    )  # fmt: skip


def test_kept_blocks_of_kernels_apart_from_large_tensors() -> None:
    # Recorded: 848 MB of heap for 784 MB of tensors; three times as much where each kept block takes a hole by a tensor.
    growth = replay(frozen(10), threshold=MIB)
    assert growth.steady < 2 * growth.allocated


SIZES = (8, 24, 56, 96, 176, 488, 824, 1000, 1040, 1100, 2144, 5000, 70_000, 300_000, 1_500_000)


def assert_same(block: Chunk, number: int) -> None:
    """Of the heap at the same address; pages of their own are below zero in both."""
    assert max(block.address, -1) == max(number, -1)


def allocated(quick: Arena, plain: PlainArena, size: int, *, aligned: bool) -> tuple[Chunk, int]:
    """A block of each arena, which is the same."""
    name = "allocate_aligned" if aligned else "allocate"
    block, number = getattr(quick, name)(size), getattr(plain, name)(size)
    assert_same(block, number)
    return block, number


@given(
    st.sampled_from([128 << 10, 1_000_000, NEVER_MAPPED]),
    st.lists(st.tuples(st.sampled_from(SIZES), st.booleans(), st.integers(0, 3)), max_size=300),
)
def test_blocks_are_those_of_the_plain_rules(
    threshold: int, requests: list[tuple[int, bool, int]]
) -> None:
    quick, plain = Arena(threshold), PlainArena(threshold)
    held: list[tuple[Chunk, int]] = []
    for size, aligned, released in requests:
        held.append(allocated(quick, plain, size, aligned=aligned))
        for _ in range(min(released - 1, len(held))):  # as often one less as one more
            gone, same = held.pop(-1 if released == 2 else len(held) // 2)
            quick.release(gone)
            plain.release(same)
        told = (quick.resident, quick.peak, quick.fresh)
        assert told == (plain.resident, plain.peak, plain.fresh)


def test_blocks_of_a_long_training_are_those_of_the_plain_rules() -> None:
    random = Random(0)
    quick, plain = Arena(1_000_000), PlainArena(1_000_000)
    held: list[tuple[Chunk, int]] = []
    for _ in range(3000):
        if not held or random.random() < 0.52:
            size, aligned = random.choice(SIZES), random.random() < 0.6
            held.append(allocated(quick, plain, size, aligned=aligned))
        else:
            gone, same = held.pop(random.choice([-1, 0, random.randrange(len(held))]))
            quick.release(gone)
            plain.release(same)
    chunks = [chunk_size(size) for size in SIZES]
    blocks = quick.allocate_chunks(chunks)
    for block, size in zip(blocks, SIZES, strict=True):
        assert_same(block, plain.allocate(size))
    quick.release_all([gone for gone, _ in held])
    for _, same in held:
        plain.release(same)
    assert (quick.resident, quick.peak, quick.fresh) == (plain.resident, plain.peak, plain.fresh)


def test_of_many_free_chunks_of_one_size_any_is_merged_with_its_neighbour() -> None:
    random = Random(1)
    quick, plain = Arena(NEVER_MAPPED), PlainArena(NEVER_MAPPED)
    for size in (600, 2000):
        held = [allocated(quick, plain, size, aligned=False) for _ in range(400)]
        for gone, same in [*held[::2], *random.sample(held[1::2], 100)]:
            quick.release(gone)
            plain.release(same)
        for _ in range(300):  # small ones sort what is free into groups, and take of them
            allocated(quick, plain, random.choice([size, size // 2, 2 * size]), aligned=False)
    assert (quick.resident, quick.fresh) == (plain.resident, plain.fresh)


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_looked_for_after_a_replay_where_it_was_before(collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        replay(graph(), threshold=MIB)
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()


def test_a_normalization_by_statistics_that_it_is_given_is_elementwise() -> None:
    names = ("aten::relu", "aten::native_batch_norm", "aten::relu_backward", "aten::add_")
    kinds = ("activation", "normalization", "activation", "optimizer")
    given = graph(names=names, kinds=kinds)
    assert kinds_of(given)[1] == "elementwise"
    # Mean and inverse deviation beside the result: those of the batch.
    computed = graph(
        names=names, kinds=kinds, sizes=np.ones(7), categories=("feature_maps",) * 7,
        made=np.array([0, 0, 1, 2, 2, 2, 3]), freed=np.full(7, 5),
    )  # fmt: skip
    assert kinds_of(computed)[1] == "normalization"
