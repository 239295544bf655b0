"""Measures what an OpenCL device can do at most: products, convolutions, memory, copies, launches."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from wattstep.errors import DeviceFaultError, WattstepError
from wattstep.opencl.bench import ROUNDING, GemmBench
from wattstep.opencl.clock import EventClock, stamps
from wattstep.opencl.config import KINDS, Config
from wattstep.opencl.convolution import WAYS, WINOGRAD, Convolution, Geometry
from wattstep.opencl.device import FLOAT, Opened, faults
from wattstep.opencl.program import kernel
from wattstep.opencl.remembered import Tuned, exact, recall, remember
from wattstep.opencl.timing import EVENTS, Work, gain, host_work, in_turns, rate
from wattstep.opencl.tuner import UNTUNED, Outcome, Search, Tuning
from wattstep.schema.device_ceilings import CeilingRow
from wattstep.schema.extras import require
from wattstep.schema.figure import CLOCK, Figure, Status, missing
from wattstep.stats.statistics import median_figure

TUNED: Final = "tuned"
NUMPY: Final = "NumPy"
FLOPS: Final = "FLOP/s"
BYTES: Final = "B/s"
MOST_UNTUNED: Final = (
    1024**3
)  # m n k up to which kernels without tuning are timed: the naive takes seconds
LEAST_CALLS: Final = 4  # of a product that is timed: checked, repeated, and in two rounds
CUT: Final = (
    "the time was up before searches had ended: more may be reached (--seconds gives more, --full says how "
    "many ways were tried)"
)
LAUNCHES: Final = 200
ROW_OF_LAUNCHES: Final = 100
COPIES: Final = (4096, 65_536, 1 << 20, 1 << 24, 1 << 26)
BRIEF_COPIES: Final = (65_536, 1 << 20, 1 << 24)
IN_CACHE: Final = 1 << 18  # bytes of an array that any cache holds
IN_MEMORY: Final = 1 << 26
OF_MEMORY: Final = 16  # no array takes more of a device's memory than one part in so many
AMPLIFIED: Final = 81.0  # (3 · 2 · 1.5)²: norms of Winograd's three transforms, in both dimensions
GROUPS: Final = (64, 256)
PER_ITEM: Final = (1, 16)  # vectors an item


@dataclass(frozen=True)
class Product:
    """A product that is measured.

    Attributes:
        shape: m, n, k.
        trans_a: As `gemm.Gemm` takes it.
        trans_b: As `gemm.Gemm` takes it.
        what: What trains with it; "" for a square.
    """

    shape: tuple[int, int, int]
    trans_a: bool = False
    trans_b: bool = False
    what: str = ""

    @property
    def label(self) -> str:
        """As rows name it."""
        m, n, k = self.shape
        left = f"({k} x {m})ᵀ" if self.trans_a else f"{m} x {k}"
        right = f"({n} x {k})ᵀ" if self.trans_b else f"{k} x {n}"
        return str(m) if m == n == k and not self.what else f"{left} · {right}"


PRODUCTS: Final = (
    Product((64, 64, 64)),
    Product((256, 256, 256)),
    Product((512, 512, 512)),
    Product((1024, 1024, 1024)),
    Product((32, 256, 784), trans_b=True, what="a layer 784 to 256, batch 32"),
    Product((32, 784, 256), what="gradient of its inputs"),
    Product((256, 784, 32), trans_a=True, what="gradient of its weights"),
    Product((2048, 2048, 2048)),
)
STEPS_AT: Final = PRODUCTS[3]
CONVOLUTIONS: Final = (
    Geometry(batch=8, channels=64, height=56, width=56, filters=64),
    Geometry(batch=32, channels=16, height=32, width=32, filters=16),
    Geometry(batch=32, channels=6, height=14, width=14, filters=16, size=5, padding=0),
)


def products_of(geometry: Geometry) -> Product:
    """The product that a convolution of patches makes."""
    g = geometry
    shape = (g.filters, g.out_height * g.out_width, g.channels * g.size**2)
    return Product(shape, what="patches of a convolution")


class Teller(Protocol):
    """Hears what a measurement does; a process that dies has said what it was at."""

    def stage(self, text: str) -> None:
        """What is measured next, or goes on."""
        ...

    def row(self, table: str, row: CeilingRow) -> None:
        """A row that was measured."""
        ...

    def note(self, text: str) -> None:
        """What a reader must know."""
        ...

    def candidate(self, config: Config) -> None:
        """What the search tries next."""
        ...

    def outcome(self, config: Config, outcome: Outcome) -> None:
        """How that went."""
        ...


@dataclass
class Measurement:
    """Measures one device.

    Args:
        opened: Device in use.
        teller: Hears what is measured.
        retune: Whether what was found before counts for nothing.
        clock: Of the host, in seconds.
    """

    opened: Opened
    teller: Teller
    retune: bool = False
    clock: Callable[[], float] = field(default=time.monotonic)
    _until: float = field(default=math.inf, init=False)  # of the task that is done
    _allowed_s: float = field(default=math.inf, init=False)  # that it has
    _reached: dict[str, float] = field(default_factory=dict, init=False)  # FLOP/s of each kind

    def allow(self, seconds: float) -> None:
        """How long the next task may take: searches and rounds end with it, what runs is not cut off."""
        self._allowed_s = seconds
        self._until = self.clock() + seconds

    def _enough(self) -> bool:
        return self.clock() >= self._until

    def _turns(
        self, works: Mapping[str, Work], alive: Callable[[], None] = lambda: None
    ) -> dict[str, list[float]]:
        return in_turns(works, alive=alive, enough=self._enough)

    def _takes(self, config: Config, flops: float) -> float:
        """Seconds that an untuned kernel takes at the rate that it reached last; 0: it ran nowhere yet."""
        rate_before = self._reached.get(config.kind) if config in UNTUNED else None
        return flops / rate_before * LEAST_CALLS if rate_before else 0.0

    def tune(self, product: Product, outcomes: Mapping[Config, Outcome]) -> None:
        """Searches the fastest configuration of a product, unless that is remembered.

        The largest takes what was found for the next smaller one: the naive kernel among the
        candidates would take as long as all else.

        Args:
            product: Which.
            outcomes: Of candidates that an earlier process tried.

        Raises:
            WattstepError: No kernel runs, or what was found cannot be kept.
        """
        device = self.opened.device
        key = (product.shape, product.trans_a, product.trans_b)
        large = math.prod(product.shape) > MOST_UNTUNED
        if large or (not self.retune and exact(device, *key) is not None):
            return
        self.teller.stage(f"searching the fastest kernel of {product.label}")
        bench, flops = GemmBench(self.opened, *key), 2.0 * math.prod(product.shape)
        search = Search(
            device,
            product.shape,
            bench,
            on_candidate=self.teller.candidate,
            on_outcome=self.teller.outcome,
            enough=self._enough,
            outcomes=dict(outcomes),
            affordable=lambda config: self._takes(config, flops) <= self._allowed_s,
        )
        try:
            tuning = search.run()
        finally:
            bench.release()
        if self._enough():
            self.teller.note(CUT)
        shape, trans_a, trans_b = key
        remember(
            device,
            [
                Tuned(
                    shape=shape, trans_a=trans_a, trans_b=trans_b, config=tuning.config,
                    seconds=tuning.median,
                )
            ],
        )  # fmt: skip
        self._note_failures(product, tuning)

    def _note_failures(self, product: Product, tuning: Tuning) -> None:
        failures = tuning.failures
        if failures:
            reason = next(iter(failures.values()))
            self.teller.note(
                f"{len(failures)} of {len(tuning.outcomes)} kernels tried for {product.label} failed, the "
                f"first: {reason.splitlines()[0]}"
            )

    def product(self, product: Product) -> None:
        """Times a product by each kernel and by NumPy, in turns."""
        self.teller.stage(f"product {product.label}")
        bench = GemmBench(self.opened, product.shape, product.trans_a, product.trans_b)
        try:
            self._timed_product(product, bench)
        finally:
            bench.release()

    def _timed_product(self, product: Product, bench: GemmBench) -> None:
        tuned = recall(self.opened.device, product.shape, product.trans_a, product.trans_b)
        m, n, k = product.shape
        untuned = UNTUNED if m * n * k <= MOST_UNTUNED else ()
        configs = {**{config.kind: config for config in untuned}, TUNED: tuned}
        works: dict[str, Work] = {}
        figures: dict[str, Figure] = {}
        flops = 2.0 * m * n * k
        for name, config in configs.items():
            if name != TUNED and (takes := self._takes(config, flops)) > self._allowed_s:
                reason = f"it would take about {takes:.1f} s, and {max(self._allowed_s, 0):.1f} s are left"
                figures[name] = missing(FLOPS, reason)
                continue
            try:
                bench.check(config)
            except WattstepError as error:
                figures[name] = missing(FLOPS, str(error))
            else:
                works[name] = lambda calls, config=config: bench.run(config, calls)  # type: ignore[misc]
        works[NUMPY] = host_work(bench.numpy())
        seconds = self._turns(works, lambda: self.teller.stage(f"product {product.label}"))
        for name, times in seconds.items():
            self._reached[name] = flops / min(times)
            figures[name] = rate(flops, times, FLOPS, CLOCK if name == NUMPY else EVENTS)
        device = self.opened.device
        found = exact(device, product.shape, product.trans_a, product.trans_b) is not None
        how = TUNED if found else "not tuned at this shape"
        detail = ", ".join(text for text in (product.what, f"{how}: {tuned}") if text)
        brief = not product.what or product.trans_b
        self.teller.row(
            "products",
            CeilingRow(
                label=product.label, figures=figures, detail=detail, brief=brief, amount=flops
            ),
        )
        if product == STEPS_AT:
            self._steps(figures, seconds, tuned)

    def _steps(
        self,
        figures: Mapping[str, Figure],
        seconds: Mapping[str, Sequence[float]],
        tuned: Config,
    ) -> None:
        """What each step of optimization gains."""
        names = [name for name in (*KINDS, TUNED) if name in seconds]
        for before, name in zip([None, *names], names, strict=False):
            reached = {"reached": figures[name]}
            if before is not None:
                reached["over the step before"] = gain(seconds[before], seconds[name])
                reached["over the first"] = gain(seconds[names[0]], seconds[name])
            detail = str(tuned) if name == TUNED else ""
            self.teller.row("steps", CeilingRow(label=name, figures=reached, detail=detail))

    def convolution(self, geometry: Geometry) -> None:
        """Times a convolution in each way, in turns."""
        g = geometry
        label = (
            f"{g.batch} x {g.channels} x {g.height} x {g.width}, {g.filters} filters "
            f"{g.size} x {g.size}"
        )
        self.teller.stage(f"convolution {label}")
        numbers = np.random.default_rng(0)
        images = numbers.standard_normal((g.batch, g.channels, g.height, g.width), np.float32)
        weights = numbers.standard_normal((g.filters, g.channels, g.size, g.size), np.float32)
        opened = self.opened
        buffers = [
            opened.upload(images),
            opened.upload(weights),
            opened.allocate(g.outputs * FLOAT),
        ]
        truth = convolved(images, weights, g)
        bound = convolved(np.abs(images), np.abs(weights), g)
        made: list[Convolution] = []
        works: dict[str, Work] = {}
        figures: dict[str, Figure] = {}
        for way in WAYS:
            if way == WINOGRAD and (g.size, g.stride) != (3, 1):
                figures[way] = missing(FLOPS, "of filters of 3 x 3 with stride 1 alone")
                continue
            self.teller.stage(f"convolution {label}: {way}")
            try:
                made.append(Convolution(opened, g, way))
                works[way] = self._convolving(made[-1], buffers, truth, bound)
            except WattstepError as error:
                figures[way] = missing(FLOPS, str(error))
        if works:
            seconds = self._turns(works, lambda: self.teller.stage(f"convolution {label}"))
            figures |= {name: rate(g.flops, t, FLOPS, EVENTS) for name, t in seconds.items()}
        for each in made:
            each.release()
        for buffer in buffers:
            opened.release(buffer)
        self.teller.row("convolutions", CeilingRow(label=label, figures=figures, amount=g.flops))

    def _convolving(
        self, convolution: Convolution, buffers: Sequence[Any], truth: Any, bound: Any
    ) -> Work:
        """Times the convolution, which was held against float64.

        Raises:
            DeviceFaultError: It computes something else.
        """
        opened, g = self.opened, convolution.geometry
        images, weights, out = buffers
        opened.upload_into(out, np.full(truth.shape, np.nan, np.float32))

        def run(calls: int) -> float:
            with faults(opened.device):
                events = [convolution(opened.queue, images, weights, out) for _ in range(calls)]
                opened.queue.finish()
                return (stamps(events[-1][-1]).ended - stamps(events[0][0]).started) * 1e-9

        run(1)
        roundings = (g.channels * g.size**2 + 1) * ROUNDING
        most = AMPLIFIED * bound.max() if convolution.way == WINOGRAD else bound
        right = np.abs(opened.download(out, truth.shape) - truth) <= roundings * 1.01 * most
        if not right.all():
            raise DeviceFaultError(
                f"{convolution.way} computes {int((~right).sum())} of {right.size} elements wrong",
                id="opencl-wrong",
            )
        return run

    def bandwidth(self) -> None:
        """Times kernels that move memory, in caches and beyond them, beside NumPy."""
        device = self.opened.device
        most = min(device.largest_buffer, device.memory // OF_MEMORY)
        sizes = {"caches": IN_CACHE, "memory": min(IN_MEMORY, most)}
        parts = list(itertools.product(sizes, ("copy", "triad", "sum")))
        until = self._until
        for number, (where, name) in enumerate(parts):
            self.allow((until - self.clock()) / (len(parts) - number))
            self.teller.stage(f"{name} in {where}")
            self._moved(name, where, max(sizes[where] // FLOAT, 1))

    def _moved(self, name: str, where: str, count: int) -> None:
        opened = self.opened
        arrays = np.random.default_rng(0).standard_normal((2, count), np.float32)
        a, b = (opened.upload(array) for array in arrays)
        out = opened.allocate(count * FLOAT)
        number = np.float32(0.5)
        moved = {"copy": 2, "triad": 3, "sum": 1}[name] * count * FLOAT
        operands = {"copy": [a, out], "triad": [a, b, number, out], "sum": [a, out]}[name]
        work, detail = self._best_launch(name, count, operands)
        x, y, z = arrays[0], arrays[1], np.empty(count, np.float32)
        beside: dict[str, Callable[[], object]] = {
            "copy": lambda: np.copyto(z, x),
            "triad": lambda: np.add(x, y, out=z),
            "sum": lambda: x.sum(dtype=np.float32),
        }
        seconds = self._turns({"device": work, NUMPY: host_work(beside[name])})
        figures = {
            "device": rate(moved, seconds["device"], BYTES, EVENTS),
            NUMPY: rate(moved, seconds[NUMPY], BYTES, CLOCK),
        }
        for buffer in (a, b, out):
            opened.release(buffer)
        size = f"{where}, {count * FLOAT / 1e6:.3g} MB an array"
        self.teller.row(
            "bandwidth",
            CeilingRow(
                label=f"{name} ({size})",
                figures=figures,
                detail=f"{detail}; NumPy adds two arrays" if name == "triad" else detail,
                amount=moved,
            ),
        )

    def _best_launch(self, name: str, count: int, operands: Sequence[Any]) -> tuple[Work, str]:
        """The kernel with the vectors, groups and items that are fastest, and which these are."""
        device = self.opened.device
        tried: list[tuple[float, str, Work]] = []
        groups = [group for group in GROUPS if group <= device.largest_group]
        widths = sorted({1, 4, min(device.vector_width, 16)}, reverse=True)
        ways = list(itertools.product(widths, groups, PER_ITEM))
        for width, group, per_item in ways:
            if tried and self._enough():
                break
            work = self._launching(name, count, operands, (width, group, per_item))
            work(1)
            text = f"vectors of {width}, groups of {group}, {per_item} an item"
            tried.append((min(work(1) for _ in range(3)), text, work))
            self.teller.stage(f"{name}: {text}")
        if not tried:
            raise DeviceFaultError(
                f"{device.name} takes no work groups of {GROUPS[0]} items", id="opencl-no-kernel"
            )
        _, text, work = min(tried, key=lambda each: each[0])
        if len(tried) == len(ways):
            return work, text
        self.teller.note(CUT)
        return work, f"{text}; the time was up after {len(tried)} of {len(ways)} ways"

    def _launching(
        self, name: str, count: int, operands: Sequence[Any], how: tuple[int, int, int]
    ) -> Work:
        cl = require("pyopencl")
        width, group, per_item = how
        opened = self.opened
        which = kernel(opened, "memory", name, {"WIDTH": width, "GROUP": group})
        which.set_args(np.int32(count // width), np.int32(count % width), *operands)
        # Partial sums of a reduction are as many as groups, and fit where the array does.
        items = max(-(-count // (width * per_item)), 1)
        size = (-(-items // group) * group,)

        def run(calls: int) -> float:
            with faults(opened.device):
                events = [
                    cl.enqueue_nd_range_kernel(opened.queue, which, size, (group,))
                    for _ in range(calls)
                ]
                opened.queue.finish()
                return (stamps(events[-1]).ended - stamps(events[0]).started) * 1e-9

        return run

    def copies(self) -> None:
        """Times copies to the device and back, by commands, through maps, and in place."""
        device = self.opened.device
        most = min(device.largest_buffer, device.memory // OF_MEMORY)
        for size in COPIES:
            if size <= most:
                self.teller.stage(f"copies of {size} bytes")
                self._copied(size)
        if device.unified:
            self.teller.note(
                f"{device.name} shares memory with the host: a copy moves data within that memory, "
                "and a map moves nothing"
            )

    def _copied(self, size: int) -> None:
        cl = require("pyopencl")
        opened = self.opened
        host, other = np.ones(size, np.uint8), np.empty(size, np.uint8)
        buffer, shared = opened.allocate(size), opened.allocate(size, shared=True)
        queue, flags = opened.queue, cl.map_flags

        def mapped(access: Any, use: Callable[[Any], object]) -> None:
            array, _ = cl.enqueue_map_buffer(queue, shared, access, 0, (size,), np.uint8)
            use(array)
            array.base.release(queue)
            queue.finish()

        runs: dict[str, Callable[[], object]] = {
            "to, copied": lambda: cl.enqueue_copy(queue, buffer, host, is_blocking=True),
            "from, copied": lambda: cl.enqueue_copy(queue, other, buffer, is_blocking=True),
            "to, mapped": lambda: mapped(
                flags.WRITE_INVALIDATE_REGION, lambda array: np.copyto(array, host)
            ),
            "from, mapped": lambda: mapped(flags.READ, lambda array: np.copyto(other, array)),
            "in place": lambda: mapped(flags.READ | flags.WRITE, lambda array: None),
            NUMPY: lambda: np.copyto(other, host),
        }
        with faults(opened.device):
            seconds = self._turns({name: host_work(run) for name, run in runs.items()})
        figures = {name: rate(size, times, BYTES, CLOCK) for name, times in seconds.items()}
        figures["in place"] = median_figure(seconds["in place"], "s", CLOCK, Status.MEASURED)
        for each in (buffer, shared):
            opened.release(each)
        label = f"{size / 1e3:.3g} kB" if size < 1e6 else f"{size / 1e6:.3g} MB"
        self.teller.row(
            "copies",
            CeilingRow(label=label, figures=figures, brief=size in BRIEF_COPIES, amount=size),
        )

    def launch(self) -> None:
        """Times a kernel that does nothing, from the queue to its end, alone and in a row."""
        cl = require("pyopencl")
        self.teller.stage("launches")
        opened, queue = self.opened, self.opened.queue
        which = kernel(opened, "memory", "nothing", {"WIDTH": 1, "GROUP": 1})
        buffer = opened.allocate(FLOAT)
        which.set_arg(0, buffer)
        alone, waited, in_row = [], [], []
        with faults(opened.device):
            cl.enqueue_nd_range_kernel(queue, which, (1,), (1,)).wait()
            for _ in range(LAUNCHES):
                begin = time.perf_counter()
                event = cl.enqueue_nd_range_kernel(queue, which, (1,), (1,))
                event.wait()
                waited.append(time.perf_counter() - begin)
                alone.append(stamps(event))
            for _ in range(LAUNCHES // 4):
                begin = time.perf_counter()
                for _ in range(ROW_OF_LAUNCHES):
                    cl.enqueue_nd_range_kernel(queue, which, (1,), (1,))
                queue.finish()
                in_row.append((time.perf_counter() - begin) / ROW_OF_LAUNCHES)
        opened.release(buffer)
        times: dict[str, tuple[Sequence[float], str]] = {
            "queued to submitted": ([(t.submitted - t.queued) * 1e-9 for t in alone], EVENTS),
            "submitted to started": ([(t.started - t.submitted) * 1e-9 for t in alone], EVENTS),
            "started to ended": ([(t.ended - t.started) * 1e-9 for t in alone], EVENTS),
            "launched and waited for": (waited, CLOCK),
            f"each of {ROW_OF_LAUNCHES} in a row": (in_row, CLOCK),
        }
        for label, (values, source) in times.items():
            figure = median_figure(values, "s", source, Status.MEASURED)
            self.teller.row("launch", CeilingRow(label=label, figures={"time": figure}))
        self._clock()

    def _clock(self) -> None:
        """How well the events' clock is known."""
        clock = EventClock(self.opened.queue)
        off = clock.uncertainty_at(stamps(self._mark()).queued)
        figure = Figure(
            value=off * 1e-9, unit="s", status=Status.MODELLED, source=EVENTS,
            method="half of what is left between the host's times before and after marks, and a drift that "
            "is assumed since",
        )  # fmt: skip
        row = CeilingRow(label="uncertainty of events' clock", figures={"time": figure})
        self.teller.row("launch", row)

    def _mark(self) -> Any:
        event = require("pyopencl").enqueue_marker(self.opened.queue)
        event.wait()
        return event


def convolved(images: Any, weights: Any, geometry: Geometry) -> Any:
    """A convolution in float64, by NumPy."""
    g = geometry
    around = ((0, 0), (0, 0), (g.padding, g.padding), (g.padding, g.padding))
    padded = np.pad(images.astype(np.float64), around)
    out = np.zeros((g.batch, g.filters, g.out_height, g.out_width))
    for i in range(g.size):
        for j in range(g.size):
            rows = slice(i, i + g.stride * (g.out_height - 1) + 1, g.stride)
            columns = slice(j, j + g.stride * (g.out_width - 1) + 1, g.stride)
            part = np.tensordot(
                weights[:, :, i, j].astype(np.float64), padded[:, :, rows, columns], (1, 1)
            )
            out += part.swapaxes(0, 1)
    return out
