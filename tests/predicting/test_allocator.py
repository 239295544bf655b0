"""The allocator reserves what torch's documentation says: sizes worked out by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wattstep.predict.allocator import Allocator

MIB = 1 << 20


def test_small_blocks_share_a_segment_of_2_mib() -> None:
    allocator = Allocator()
    for _ in range(4):
        allocator.take(100)  # 512 B each
    assert (allocator.allocated, allocator.reserved) == (4 * 512, 2 * MIB)


def test_a_middling_block_takes_a_segment_of_20_mib_and_leaves_the_rest() -> None:
    allocator = Allocator()
    allocator.take(6 * MIB)
    allocator.take(14 * MIB)  # what is left, exactly
    assert allocator.reserved == 20 * MIB


def test_a_large_block_takes_a_segment_of_its_own_in_steps_of_2_mib() -> None:
    allocator = Allocator()
    allocator.take(11 * MIB)
    assert (allocator.allocated, allocator.reserved) == (12 * MIB, 12 * MIB)  # 1 MiB is not split


def test_release_of_whole_segments() -> None:
    allocator = Allocator()
    whole, _, part = allocator.take(20 * MIB), allocator.take(6 * MIB), allocator.take(14 * MIB)
    allocator.give(whole)
    allocator.give(part)  # its neighbour is in use
    allocator.release()
    assert (allocator.allocated, allocator.reserved) == (6 * MIB, 20 * MIB)
    assert allocator.take(14 * MIB) is part


def test_a_free_block_is_taken_again_and_the_least_that_fits() -> None:
    allocator = Allocator()
    small, large = allocator.take(20 * MIB), allocator.take(40 * MIB)
    allocator.give(large)
    allocator.give(small)
    assert allocator.take(18 * MIB) is small
    allocator.take(40 * MIB)
    assert allocator.reserved == 60 * MIB
    allocator.take(22 * MIB)  # nothing fits any more
    assert allocator.reserved == 82 * MIB


def test_neighbours_that_are_free_become_one() -> None:
    allocator = Allocator()
    blocks = [allocator.take(5 * MIB) for _ in range(4)]
    for block in (blocks[0], blocks[2], blocks[1], blocks[3]):
        allocator.give(block)
    allocator.take(19 * MIB)
    assert allocator.reserved == 20 * MIB
    assert allocator.most_allocated == 20 * MIB


@given(st.lists(st.tuples(st.integers(1, 60 * MIB), st.booleans()), max_size=40))
def test_whatever_comes_blocks_lie_in_segments_and_all_comes_back(
    wanted: list[tuple[int, bool]],
) -> None:
    allocator, held = Allocator(), []
    for size, give in wanted:
        held.append(allocator.take(size))
        assert held[-1].size >= size
        if give:
            allocator.give(held.pop(0))
        assert allocator.allocated == sum(block.size for block in held) <= allocator.reserved
    for block in held:
        allocator.give(block)
    assert allocator.allocated == 0
    before = allocator.reserved
    for size, _ in wanted[:1]:
        allocator.take(size)
    assert allocator.reserved == before
