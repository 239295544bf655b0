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
from collections import OrderedDict
from collections.abc import Iterable
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


class Arena:
    """An arena without chunks, and pages beside it.

    A block is the number that `allocate` gave; those with pages of their own are below zero.

    Args:
        threshold: Bytes from which on a request gets pages of its own.

    Attributes:
        peak: Most bytes that were resident since it was last set.
        fresh: Bytes of pages that the system gave since it was last set: it fills each with zeros.
    """

    def __init__(self, threshold: int) -> None:
        self.peak = self.fresh = 0
        self._threshold, self._trim_from = threshold, 2 * threshold
        self._size: dict[int, int] = {}
        self._before: dict[int, int] = {}  # the chunk that ends where this one begins
        self._top = self._end = self._touched = 0
        self._last: int | None = None  # the chunk before the top
        self._pages: dict[int, int] = {}
        self._mapped = 0
        self._kept: list[list[int]] = [[] for _ in range(KEPT // 16 + 1)]  # by size over 16
        self._fast: dict[int, list[int]] = {size: [] for size in range(LEAST, FAST + 1, 16)}
        self._fast_count = 0
        self._unsorted: OrderedDict[int, None] = OrderedDict()
        # Merged free chunks: the size of the bin, or 0 while they are in `_unsorted`.
        self._free: dict[int, int] = {}
        self._bins: dict[int, list[int]] = {}
        self._sizes: list[int] = []  # of `_bins`, sorted
        self._remainder: int | None = None

    @property
    def resident(self) -> int:
        """Bytes that are resident: what was ever touched of the heap, and pages beside it."""
        return self._mapped + self._touched

    def allocate(self, size: int) -> int:
        """A block for so many bytes, as malloc gives it."""
        return self.allocate_chunks((chunk_size(size),))[0]

    def allocate_chunks(self, sizes: Iterable[int]) -> list[int]:
        """Blocks one after the other, each of a chunk of this size (as of `chunk_size`)."""
        kept, blocks = self._kept, []
        for size in sizes:
            same_size = kept[size >> 4] if size <= KEPT else None
            blocks.append(same_size.pop() if same_size else self._take(size))
        return blocks

    def allocate_aligned(self, size: int) -> int:
        """A block at a multiple of `ALIGNMENT`, as posix_memalign gives it: what is before and behind is freed."""
        need = chunk_size(size)
        block = self._take(need + ALIGNMENT + LEAST)
        if block < 0:
            return block
        beyond = (block + HEADER) % ALIGNMENT
        if beyond:
            front = ALIGNMENT - beyond
            if front < LEAST:
                front += ALIGNMENT
            aligned = self._split(block, front)
            self._keep(block, front)
            block = aligned
        left = self._size[block] - need
        if left > LEAST:
            self._keep(self._split(block, need), left)
        return block

    def release(self, block: int) -> None:
        """Frees a block."""
        if block < 0:
            self._unmap(block)
            return
        size = self._size[block]
        if size <= KEPT:
            same_size = self._kept[size >> 4]
            if len(same_size) < KEPT_EACH:
                same_size.append(block)
                return
            if size <= FAST:
                self._fast[size].append(block)
                self._fast_count += 1
                return
        if self._merge(block) >= MERGES:
            if self._fast_count:
                self._merge_fast()
            if self._end - self._top >= self._trim_from:
                self._end -= (self._end - self._top - LEAST - 1 - PAD) // PAGE * PAGE
                self._touched = min(self._touched, self._end)

    def release_all(self, blocks: Iterable[int]) -> None:
        """Frees blocks one after the other."""
        sizes, kept = self._size, self._kept
        for block in blocks:
            size = sizes.get(block, MERGES)  # pages of their own have none
            if size <= KEPT and len(kept[size >> 4]) < KEPT_EACH:
                kept[size >> 4].append(block)
            else:
                self.release(block)

    # --- taking ------------------------------------------------------------------------------

    def _take(self, need: int) -> int:
        if need < SMALL:
            fast = self._fast.get(need)
            if fast:
                return self._hand_out(fast, need, fast=True)
            group = self._bins.get(need)
            if group:
                return self._hand_out(group, need, fast=False)
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

    def _hand_out(self, group: list[int], size: int, *, fast: bool) -> int:
        """One of a group; others of it are kept by size, as long as there is room."""
        same_size = self._kept[size >> 4] if size <= KEPT else []
        block, first = -1, True
        while group and (first or len(same_size) < KEPT_EACH):
            each = group.pop() if fast else group.pop(0)
            if fast:
                self._fast_count -= 1
            else:
                del self._free[each]
            if first:
                block, first = each, False
            else:
                same_size.append(each)
        if not fast and not group:
            self._forget_size(size)
        return block

    def _of_free(self, need: int) -> int | None:
        """A chunk of just this size among those freed since, or the smallest free one that fits, split.

        The others of those freed since go to their bins. The last does only where it is not itself the
        smallest that fits: of what one request left the next one is served.
        """
        unsorted, sizes, free, ordered = self._unsorted, self._size, self._free, self._sizes
        fits = False
        while unsorted:
            block, _ = unsorted.popitem(last=False)
            size = sizes[block]
            if size == need:
                del free[block]
                if size > KEPT or len(self._kept[size >> 4]) >= KEPT_EACH:
                    return block
                self._kept[size >> 4].append(block)
                fits = True
                continue
            if size > need and not unsorted:
                if fits:
                    chosen = need < SMALL and block == self._remainder and size > need + LEAST
                else:
                    place = bisect_left(ordered, need)
                    chosen = place == len(ordered) or size < ordered[place]
                    chosen = chosen or (
                        need < SMALL and block == self._remainder and size > need + LEAST
                    )
                if chosen:
                    return self._cut(block, size, need)
            group = self._bins.get(size)
            if group:
                group.append(block)
            else:
                self._bins[size] = [block]
                insort(ordered, size)
            free[block] = size
        if fits:
            return self._kept[need >> 4].pop()
        place = bisect_left(ordered, need)
        if place == len(ordered):
            return None
        size = ordered[place]
        group = self._bins[size]
        if len(group) == 1:
            block = group.pop()
            del ordered[place]
        elif size < SMALL:
            block = group.pop(0)
        else:  # of several the one that is found first
            block = group.pop(-1 if need >= SMALL and _bin(size) == _bin(need) else 1)
        return self._cut(block, size, need)

    def _cut(self, block: int, size: int, need: int) -> int:
        """Takes a free chunk, and leaves what is more than was asked for, where that is enough for a chunk."""
        del self._free[block]
        if size - need >= LEAST:
            # Not at the top: free chunks there are a part of it.
            rest = block + need
            self._size[block], self._size[rest] = need, size - need
            self._before[rest], self._before[block + size] = block, rest
            self._free[rest] = 0
            self._unsorted[rest] = None
            if need < SMALL:
                self._remainder = rest
        return block

    def _of_top(self, need: int) -> int:
        block = self._top
        self._size[block] = need
        if self._last is not None:
            self._before[block] = self._last
        self._top, self._last = block + need, block
        if self._top > self._touched:
            self.fresh += self._top - self._touched
            self._touched = self._top
            self._note()
        return block

    def _map(self, need: int) -> int:
        size = -(-(need + 8) // PAGE) * PAGE
        block = -1 - len(self._pages)
        while block in self._pages:
            block -= 1
        self._pages[block] = size
        self._mapped += size
        self.fresh += size
        self._note()
        return block

    def _note(self) -> None:
        self.peak = max(self.peak, self.resident)

    # --- giving back -------------------------------------------------------------------------

    def _keep(self, block: int, size: int) -> None:
        """Frees a chunk of a few dozen bytes."""
        same_size = self._kept[size >> 4]
        if len(same_size) < KEPT_EACH:
            same_size.append(block)
        else:
            self._fast[size].append(block)
            self._fast_count += 1

    def _unmap(self, block: int) -> None:
        size = self._pages.pop(block)
        self._mapped -= size
        if self._threshold < size <= MOST_THRESHOLD:
            self._threshold, self._trim_from = size, 2 * size

    def _merge_fast(self) -> None:
        self._fast_count = 0
        for blocks in self._fast.values():
            while blocks:
                self._merge(blocks.pop())

    def _merge(self, block: int) -> int:
        """A chunk is free, and one with its free neighbours. Returns its size."""
        # The innermost function of a replay: what `_unlink` does stands in it.
        sizes, before, free, unsorted = self._size, self._before, self._free, self._unsorted
        size = sizes[block]
        after = block + size
        ahead = before.get(block)
        if ahead is not None and ahead in free:
            if free[ahead]:
                self._unlink(ahead)
            else:
                del free[ahead], unsorted[ahead]
            del before[block], sizes[block]
            block = ahead
            size = after - block
            if after != self._top:
                before[after] = block
            sizes[block] = size
        if after == self._top:
            self._top, self._last = block, before.pop(block, None)
            del sizes[block]
            return self._end - self._top
        if after in free:
            if free[after]:
                self._unlink(after)
            else:
                del free[after], unsorted[after]
            del before[after]
            end = after + sizes.pop(after)
            size = end - block
            sizes[block] = size
            if end == self._top:
                self._last = block
            else:
                before[end] = block
        free[block] = 0
        unsorted[block] = None
        return size

    # --- chunks ------------------------------------------------------------------------------

    def _split(self, block: int, size: int) -> int:
        """Cuts a chunk after so many bytes; returns the rest."""
        sizes, rest = self._size, block + size
        after = block + sizes[block]
        sizes[rest] = after - rest
        sizes[block] = size
        self._before[rest] = block
        if after == self._top:
            self._last = rest
        else:
            self._before[after] = rest
        return rest

    def _unlink(self, block: int) -> None:
        """Takes a sorted chunk out of its bin."""
        size = self._free.pop(block)
        group = self._bins[size]
        group.remove(block)
        if not group:
            self._forget_size(size)

    def _forget_size(self, size: int) -> None:
        del self._sizes[bisect_left(self._sizes, size)]
