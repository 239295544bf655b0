"""The rules of glibc's malloc once more, as short as they can be told: each step looks through all that is there."""

from __future__ import annotations

PAGE, PAD, KEPT, FAST, SMALL, MERGES = 4096, 128 << 10, 1040, 128, 1024, 64 << 10


def chunk(request: int) -> int:
    return max(32, (request + 23) & ~15)


def bin_of(size: int) -> int:
    bins = ((6, 48, 48), (9, 20, 91), (12, 10, 110), (15, 4, 119), (18, 2, 124))
    return next(
        (first + (size >> shift) for shift, most, first in bins if size >> shift <= most), 126
    )


class PlainArena:
    """As `Arena`: chunks by address; those in `free` are merged, first unsorted, then sorted into bins."""

    def __init__(self, threshold: int) -> None:
        self.threshold, self.trim = threshold, 2 * threshold
        self.top = self.end = self.touched = self.peak = self.fresh = 0
        self.size: dict[int, int] = {}
        self.unsorted: list[int] = []
        self.sorted: list[int] = []  # in the order in which they came to their bins
        self.kept: dict[int, list[int]] = {}
        self.fast: dict[int, list[int]] = {}
        self.pages: dict[int, int] = {}
        self.remainder: int | None = None

    @property
    def resident(self) -> int:
        return self.touched + sum(self.pages.values())

    def allocate(self, request: int) -> int:
        kept = self.kept.get(chunk(request))
        return kept.pop() if kept else self.take(chunk(request))

    def allocate_aligned(self, request: int) -> int:
        need = chunk(request)
        block = self.take(need + 96)
        if block < 0:
            return block
        aligned = next(
            at for at in range(block, block + 112, 16)
            if (at + 16) % 64 == 0 and (at == block or at - block >= 32)
        )  # fmt: skip
        if aligned > block:
            self.split(block, aligned - block)
            self.free(block)
        if self.size[aligned] > need + 32:
            self.free(self.split(aligned, need))
        return aligned

    def release(self, block: int) -> None:
        if block >= 0:
            self.free(block)
            return
        size = self.pages.pop(block)
        if self.threshold < size <= 32 << 20:
            self.threshold, self.trim = size, 2 * size

    def take(self, need: int) -> int:
        equal = [each for each in self.sorted if self.size[each] == need]
        if need <= FAST and self.fast.get(need):
            return self.hand_out(self.fast[need][::-1], need)
        if need < SMALL and equal:
            return self.hand_out(equal, need)
        if need >= SMALL:
            self.merge_fast()
        while True:
            block = self.of_unsorted(need)
            if block is None:
                block = self.of_sorted(need)
            if block is not None:
                return block
            if self.end - self.top >= need + 32:
                return self.of_top(need)
            if not any(self.fast.values()):
                break
            self.merge_fast()
        if need >= self.threshold:
            block = next(-n for n in range(1 + len(self.pages), 1 << 30) if -n not in self.pages)
            self.pages[block] = -(-(need + 8) // PAGE) * PAGE
            self.note(self.pages[block])
            return block
        self.end += -(-(need + PAD + 32 - (self.end - self.top)) // PAGE) * PAGE
        return self.of_top(need)

    def hand_out(self, group: list[int], size: int) -> int:
        kept = self.kept.setdefault(size, [])
        given, others = group[0], group[1 : 1 + 7 - min(7, len(kept))]
        for each in (given, *others):
            (self.sorted if each in self.sorted else self.fast[size]).remove(each)
        kept += others
        return given

    def of_unsorted(self, need: int) -> int | None:
        fits = False
        kept = self.kept.setdefault(need, [])
        while self.unsorted:
            block = self.unsorted.pop(0)
            size = self.size[block]
            if size == need and (size > KEPT or len(kept) >= 7):
                return block
            if size == need:
                kept.append(block)
                fits = True
            elif (
                need < SMALL and block == self.remainder and not self.unsorted and size > need + 32
            ):
                self.remainder = self.split(block, need)
                self.unsorted.append(self.remainder)
                return block
            else:
                self.sorted.append(block)
        return kept.pop() if fits else None

    def of_sorted(self, need: int) -> int | None:
        fitting = [self.size[each] for each in self.sorted if self.size[each] >= need]
        if not fitting:
            return None
        size = min(fitting)
        group = [each for each in self.sorted if self.size[each] == size]
        block = group[0]
        if size >= SMALL and len(group) > 1:
            block = group[-1 if need >= SMALL and bin_of(size) == bin_of(need) else 1]
        self.sorted.remove(block)
        if size - need >= 32:
            rest = self.split(block, need)
            self.unsorted.append(rest)
            if need < SMALL:
                self.remainder = rest
        return block

    def of_top(self, need: int) -> int:
        block = self.top
        self.size[block] = need
        self.top += need
        if self.top > self.touched:
            new, self.touched = self.top - self.touched, self.top
            self.note(new)
        return block

    def note(self, new: int) -> None:
        self.fresh += new
        self.peak = max(self.peak, self.resident)

    def split(self, block: int, size: int) -> int:
        self.size[block + size] = self.size[block] - size
        self.size[block] = size
        return block + size

    def free(self, block: int) -> None:
        size = self.size[block]
        if size <= KEPT and len(self.kept.setdefault(size, [])) < 7:
            self.kept[size].append(block)
        elif size <= FAST:
            self.fast.setdefault(size, []).append(block)
        elif self.merge(block) >= MERGES:
            self.merge_fast()
            if self.end - self.top >= self.trim:
                self.end -= (self.end - self.top - 33 - PAD) // PAGE * PAGE
                self.touched = min(self.touched, self.end)

    def merge_fast(self) -> None:
        for size in sorted(self.fast):
            while self.fast[size]:
                self.merge(self.fast[size].pop())

    def merge(self, block: int) -> int:
        free = {*self.unsorted, *self.sorted}
        before = next((each for each in free if each + self.size[each] == block), None)
        after = block + self.size[block]
        for neighbour in (before, after if after in free else None):
            if neighbour is not None:
                (self.unsorted if neighbour in self.unsorted else self.sorted).remove(neighbour)
                start = min(block, neighbour)
                size = self.size.pop(block) + self.size.pop(neighbour)
                block, self.size[start] = start, size
        if block + self.size[block] == self.top:
            self.top = block
            del self.size[block]
            return self.end - self.top
        self.unsorted.append(block)
        return self.size[block]
