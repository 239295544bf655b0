"""The GNU C library's malloc, replayed: how much memory a sequence of allocations keeps resident.

One thread, one arena, the rules of glibc 2.26 to 2.37 on 64 bits (malloc(3), mallopt(3), the wiki's
"MallocInternals", and what recorded allocations of trainings did): chunks in multiples of 16 bytes;
small ones that are freed are kept by size (7 each, then in fast bins) without being merged; others are
merged with free neighbours and looked through in the order in which they were freed; the smallest that
fits is split. Requests from a threshold on get pages of their own, if nothing free fits; freeing such
pages raises the threshold to their size, at most 32 MiB. Free memory at the end of the heap goes back
to the system once there is twice the threshold of it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

PAGE: Final = 4096
PAD: Final = (
    128 * 1024
)  # by which the heap grows beyond what is asked for, and which stays when it shrinks
HEADER: Final = 16
LEAST: Final = 32  # bytes of a chunk
KEPT: Final = 1040  # largest chunk that is kept by size
KEPT_EACH: Final = 7
FAST: Final = 128  # largest chunk of fast bins
SMALL: Final = 1024  # from here on bins hold chunks of several sizes
MERGES: Final = 64 * 1024  # a free chunk of this size has fast bins merged and the heap shrink
MOST_THRESHOLD: Final = 32 << 20
NONE: Final = 1 << 62  # larger than any chunk
ALIGNMENT: Final = 64  # of torch's tensors


def chunk_size(request: int) -> int:
    """Bytes of the chunk for a request."""
    return max(LEAST, (request + 23) & ~15)


def _bin(size: int) -> int:
    """Number of the bin of a large chunk: those of one bin are sorted by size."""
    for shift, count, first in (
        (6, 48, 48),
        (9, 20, 91),
        (12, 10, 110),
        (15, 4, 119),
        (18, 2, 124),
    ):
        if size >> shift <= count:
            return first + (size >> shift)
    return 126


class Chunk:
    """A piece of the heap, or pages of their own.

    Attributes:
        address: Where it begins; below zero: pages of their own.
        size: Bytes of it.
        before: The chunk that ends where this one begins.
        after: The one that begins where this one ends; None: the top.
        place: Where it is as a free and merged one, `UNSORTED` or the group of its size; None: it is none.
    """

    __slots__ = ("address", "after", "before", "place", "size")

    address: int
    size: int
    before: Chunk | None
    after: Chunk | None
    place: Group | None


Group = dict[
    Chunk, None
]  # in the order in which they came; of hundreds, of which any may be merged
UNSORTED: Final[Group] = {}  # stands for a place, and stays empty


class Arena:
    """An arena without chunks, and pages beside it.

    Args:
        threshold: Bytes from which on a request gets pages of its own.

    Attributes:
        peak: Most bytes that were resident since it was last set.
        fresh: Bytes of pages that the system gave since it was last set: it fills each with zeros.
    """

    # Written for few steps of the interpreter: a replay makes tens of thousands of calls.

    def __init__(self, threshold: int) -> None:
        self.peak = self.fresh = 0
        self._threshold, self._trim_from = threshold, 2 * threshold
        self._top = self._end = self._touched = 0
        self._last: Chunk | None = None  # the chunk before the top
        self._mapped = 0
        self._kept: list[list[Chunk]] = [[] for _ in range(KEPT // 16 + 1)]  # by size over 16
        self._fast: dict[int, list[Chunk]] = {size: [] for size in range(LEAST, FAST + 1, 16)}
        self._fast_count = 0
        # Free and merged chunks in the order in which they were freed. Those whose place is another
        # one have become a part of others since.
        self._unsorted: deque[Chunk] = deque()
        self._bins: dict[int, Group] = {}  # of which some may be empty
        self._sizes: list[int] = []  # of `_bins`, sorted
        self._remainder = -1  # address of what the last small request left

    @property
    def resident(self) -> int:
        """Bytes that are resident: what was ever touched of the heap, and pages beside it."""
        return self._mapped + self._touched

    def allocate(self, size: int) -> Chunk:
        """A block for so many bytes, as malloc gives it."""
        return self.allocate_chunks((chunk_size(size),))[0]

    def allocate_chunks(self, sizes: Iterable[int]) -> list[Chunk]:
        """Blocks one after the other, each of a chunk of this size (as of `chunk_size`)."""
        kept, blocks = self._kept, []
        for size in sizes:
            same_size = kept[size >> 4] if size <= KEPT else None
            blocks.append(same_size.pop() if same_size else self._take(size))
        return blocks

    def allocate_aligned(self, size: int) -> Chunk:
        """A block at a multiple of `ALIGNMENT`, as posix_memalign gives it: what is before and behind is freed."""
        need = chunk_size(size)
        block = self._take(need + ALIGNMENT + LEAST)
        if block.address < 0:
            return block
        beyond = (block.address + HEADER) % ALIGNMENT
        if beyond:
            front = ALIGNMENT - beyond
            if front < LEAST:
                front += ALIGNMENT
            aligned = self._split(block, front)
            self._keep(block)
            block = aligned
        if block.size - need > LEAST:
            self._keep(self._split(block, need))
        return block

    def release(self, block: Chunk) -> None:
        """Frees a block."""
        self.release_all((block,))

    def release_all(self, blocks: Iterable[Chunk]) -> None:
        """Frees blocks one after the other."""
        kept = self._kept
        for block in blocks:
            size = block.size
            if size <= KEPT:
                same_size = kept[size >> 4]
                if len(same_size) < KEPT_EACH:
                    same_size.append(block)
                    continue
                if size <= FAST:
                    self._fast[size].append(block)
                    self._fast_count += 1
                    continue
            elif block.address < 0:
                self._unmap(size)
                continue
            if self._merge(block) >= MERGES:
                if self._fast_count:
                    self._merge_fast()
                if self._end - self._top >= self._trim_from:
                    self._end -= (self._end - self._top - LEAST - 1 - PAD) // PAGE * PAGE
                    self._touched = min(self._touched, self._end)

    # --- taking ------------------------------------------------------------------------------

    def _take(self, need: int) -> Chunk:
        if need < SMALL:
            if need <= FAST:
                fast = self._fast[need]
                if fast:
                    return self._of_fast(fast, need)
            group = self._bins.get(need)
            if group:
                return self._of_group(group, need)
        elif self._fast_count:
            self._merge_fast()
        while True:
            block = self._of_free(need)
            if block is not None:
                return block
            if self._end - self._top >= need + LEAST:
                return self._of_top(need)
            if not self._fast_count:
                break
            self._merge_fast()
        if need >= self._threshold:
            return self._map(need)
        missing = need + PAD + LEAST - (self._end - self._top)
        self._end += -(-missing // PAGE) * PAGE
        return self._of_top(need)

    def _of_fast(self, fast: list[Chunk], size: int) -> Chunk:
        """The last of a fast bin; others of it are kept by size, as long as there is room."""
        block = fast.pop()
        same_size = self._kept[size >> 4]
        self._fast_count -= 1
        while fast and len(same_size) < KEPT_EACH:
            same_size.append(fast.pop())
            self._fast_count -= 1
        return block

    def _of_group(self, group: Group, size: int) -> Chunk:
        """The first of a group; others of it are kept by size, as long as there is room."""
        same_size = self._kept[size >> 4]
        block, *others = islice(group, 1 + KEPT_EACH - len(same_size))
        for each in (block, *others):
            del group[each]
            each.place = None
        same_size += others
        return block

    def _of_free(self, need: int) -> Chunk | None:
        """A chunk of just this size among those freed since, or the smallest free one that fits, split.

        The others of those freed since go to their bins. The last does only where it is not itself the
        smallest that fits: of what one request left the next one is served.
        """
        unsorted, bins, ordered = self._unsorted, self._bins, self._sizes
        fits = False
        while unsorted:
            block = unsorted.popleft()
            if block.place is not UNSORTED:
                continue
            size = block.size
            if size == need:
                block.place = None
                if size > KEPT:
                    return block
                same_size = self._kept[size >> 4]
                if len(same_size) >= KEPT_EACH:
                    return block
                same_size.append(block)
                fits = True
                continue
            if size > need:
                while unsorted and unsorted[0].place is not UNSORTED:
                    unsorted.popleft()
                if not unsorted:
                    remains = (
                        need < SMALL and block.address == self._remainder and size > need + LEAST
                    )
                    if remains or (not fits and size < self._smallest(need)):
                        return self._cut(block, need)
            group = bins.get(size)
            if group is None:
                bins[size] = group = {}
                insort(ordered, size)
            group[block] = None
            block.place = group
        if fits:
            return self._kept[need >> 4].pop()
        size = self._smallest(need)
        if size == NONE:
            return None
        group = bins[size]
        if len(group) == 1 or (need >= SMALL and _bin(size) == _bin(need)):
            block, _ = group.popitem()
        else:  # of several large ones the one that is found first
            block = next(islice(group, int(size >= SMALL), None))
            del group[block]
        return self._cut(block, need)

    def _smallest(self, need: int) -> int:
        """The smallest size in bins that fits; `NONE`: there is none."""
        ordered, bins = self._sizes, self._bins
        place = bisect_left(ordered, need)
        while place < len(ordered):
            size = ordered[place]
            if bins[size]:
                return size
            del ordered[place], bins[size]
        return NONE

    def _cut(self, block: Chunk, need: int) -> Chunk:
        """Takes a free chunk, and leaves what is more than was asked for, where that is enough for a chunk."""
        block.place = None
        if block.size - need >= LEAST:
            rest = self._split(block, need)
            rest.place = UNSORTED
            self._unsorted.append(rest)
            if need < SMALL:
                self._remainder = rest.address
        return block

    def _of_top(self, need: int) -> Chunk:
        block = Chunk()
        block.address, block.size, block.before, block.after, block.place = (
            self._top, need, self._last, None, None,
        )  # fmt: skip
        if self._last is not None:
            self._last.after = block
        self._last = block
        self._top += need
        if self._top > self._touched:
            self.fresh += self._top - self._touched
            self._touched = self._top
            self._note()
        return block

    def _map(self, need: int) -> Chunk:
        block = Chunk()
        block.address, block.size = -1, -(-(need + 8) // PAGE) * PAGE
        self._mapped += block.size
        self.fresh += block.size
        self._note()
        return block

    def _note(self) -> None:
        self.peak = max(self.peak, self.resident)

    # --- giving back -------------------------------------------------------------------------

    def _keep(self, block: Chunk) -> None:
        """Frees a chunk of a few dozen bytes."""
        same_size = self._kept[block.size >> 4]
        if len(same_size) < KEPT_EACH:
            same_size.append(block)
        else:
            self._fast[block.size].append(block)
            self._fast_count += 1

    def _unmap(self, size: int) -> None:
        self._mapped -= size
        if self._threshold < size <= MOST_THRESHOLD:
            self._threshold, self._trim_from = size, 2 * size

    def _merge_fast(self) -> None:
        self._fast_count = 0
        merge = self._merge
        for blocks in self._fast.values():
            while blocks:
                merge(blocks.pop())

    def _merge(self, block: Chunk) -> int:
        """A chunk is free, and one with its free neighbours. Returns its size."""
        before = block.before
        if before is not None:
            place = before.place
            if place is not None:
                if place is not UNSORTED:
                    del place[before]
                before.place = None
                block.address = before.address
                block.size += before.size
                before = block.before = before.before
                if before is not None:
                    before.after = block
        after = block.after
        if after is None:
            self._top, self._last = block.address, before
            if before is not None:
                before.after = None
            return self._end - self._top
        place = after.place
        if place is not None:
            if place is not UNSORTED:
                del place[after]
            after.place = None
            block.size += after.size
            after = block.after = after.after
            if after is None:
                self._last = block
            else:
                after.before = block
        block.place = UNSORTED
        self._unsorted.append(block)
        return block.size

    def _split(self, block: Chunk, size: int) -> Chunk:
        """Cuts a chunk after so many bytes; returns the rest."""
        rest, after = Chunk(), block.after
        rest.address = block.address + size
        rest.size = block.size - size
        rest.before = block
        rest.after = after
        rest.place = None
        block.size = size
        block.after = rest
        if after is None:
            self._last = rest
        else:
            after.before = rest
        return rest
