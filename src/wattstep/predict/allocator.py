"""Torch's caching allocator of GPU memory, replayed: what a sequence of allocations reserves.

Sizes are rounded to 512 B; segments are asked for in 2 MiB (small blocks), 20 MiB (up to 10 MiB) or
multiples of 2 MiB, split where enough is left, and kept when they are free: the least that fits is
taken again. Rules and constants are those of torch's documentation and of
`c10/cuda/CUDACachingAllocator.cpp` (releases 1.0 to 2.x have the same, without expandable segments).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

ROUND: Final = 512
MIB: Final = 1 << 20
SMALL: Final = MIB  # blocks up to here share segments of their own
SMALL_SEGMENT: Final = 2 * MIB
LARGE_SEGMENT: Final = 20 * MIB
LARGE: Final = 10 * MIB  # from here on a segment is made for one block
LARGE_ROUND: Final = 2 * MIB


class Block:
    """A stretch of a segment; its neighbours are those of the same segment."""

    __slots__ = ("after", "before", "free", "size", "small")

    def __init__(self, size: int, before: Block | None, after: Block | None, small: bool) -> None:
        self.size, self.before, self.after, self.small = size, before, after, small
        self.free = False


class Allocator:
    """An allocator that holds nothing yet.

    Attributes:
        allocated: Bytes of blocks in use.
        reserved: Bytes of segments.
        most_allocated: The most there ever were.
        most_reserved: Likewise.
    """

    def __init__(self) -> None:
        self.allocated = self.reserved = self.most_allocated = self.most_reserved = 0
        self._pools: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}
        self._count = 0

    def take(self, size: float) -> Block:
        """A block for so many bytes."""
        size = max(ROUND, -(-int(size) // ROUND) * ROUND)
        small = size <= SMALL
        pool = self._pools[small]
        place = bisect_left(pool, (size, -1))
        block = pool.pop(place)[2] if place < len(pool) else self._segment(size, small)
        block.free = False
        rest = block.size - size
        if rest >= ROUND if small else rest > SMALL:
            self._split(block, size, rest)
        self.allocated += block.size
        if self.allocated > self.most_allocated:
            self.most_allocated = self.allocated
        return block

    def give(self, block: Block) -> None:
        """A block is free, and one with its free neighbours."""
        self.allocated -= block.size
        before, after = block.before, block.after
        if before is not None and before.free:
            self._withdraw(before)
            block.size += before.size
            block.before = before.before
            if block.before is not None:
                block.before.after = block
        if after is not None and after.free:
            self._withdraw(after)
            block.size += after.size
            block.after = after.after
            if block.after is not None:
                block.after.before = block
        self._offer(block)

    def release(self) -> None:
        """Segments of which nothing is in use go back to the device, as `torch.cuda.empty_cache` gives them."""
        for small, pool in self._pools.items():
            parts = [each for each in pool if each[2].before or each[2].after]
            self.reserved -= sum(each[0] for each in pool) - sum(each[0] for each in parts)
            self._pools[small] = parts

    def _segment(self, size: int, small: bool) -> Block:
        if small:
            length = SMALL_SEGMENT
        elif size < LARGE:
            length = LARGE_SEGMENT
        else:
            length = -(-size // LARGE_ROUND) * LARGE_ROUND
        self.reserved += length
        self.most_reserved = max(self.most_reserved, self.reserved)
        return Block(length, None, None, small)

    def _split(self, block: Block, size: int, rest: int) -> None:
        part = Block(rest, block, block.after, block.small)
        if block.after is not None:
            block.after.before = part
        block.after, block.size = part, size
        self._offer(part)

    def _offer(self, block: Block) -> None:
        block.free = True
        self._count += 1  # of blocks of one size the one that became free first
        insort(self._pools[block.small], (block.size, self._count, block))

    def _withdraw(self, block: Block) -> None:
        pool = self._pools[block.small]
        place = bisect_left(pool, (block.size, -1))
        while pool[place][2] is not block:
            place += 1
        pool.pop(place)
