"""A run as a trace in Chrome's JSON format, with the words of PyTorch's profiler where they fit.

Times are µs with three decimals from the beginning of the run; "baseTimeNanoseconds" is the date of
that, where it is known. After Google's "Trace Event Format" and libkineto's output_json.cpp.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, BinaryIO, Final

import numpy as np

from wattstep.attribution.tables.naming import Names
from wattstep.report.export import timeline
from wattstep.report.export.counters import Counted, counters
from wattstep.report.export.labels import label
from wattstep.report.export.lanes import Lanes
from wattstep.report.export.timeline import NONE, Masked, Slices, TrackKey
from wattstep.report.export.written import Progress, Written, about_run, first_ns
from wattstep.run.run import Run
from wattstep.schema.arrays import IntArray
from wattstep.schema.version import VERSION

PROCESS: Final = 1_000_000  # of the training; a GPU's events have its number as their process
BESIDE: Final = 1_000_000_000  # numbers of tracks that are no threads begin here
_DEVICE = re.compile(r"(gpu|mtia|hpu)(\d+)")
_ON_DEVICE: Final = {"mtia": "mtia_ccp_events", "hpu": "hpu_op"}  # work of those that are no GPU
_DIMS = re.compile(r"\d+(x\d+)*([,;]\d+(x\d+)*)*")  # imported runs have commas
_WORDS: Final = {"allocated": "allocated (B)", "self_ns": "self (ns)", "bytes": "bytes"}


def write(run: Run, file: BinaryIO, on_progress: Progress) -> Written:
    """Writes a trace.

    Raises:
        DamagedRunError: A table of the run cannot be read.
        OSError: The disk is full.
    """
    return _Writing(run, file, on_progress).write()


class _Writing:
    """Trace that is being written."""

    def __init__(self, run: Run, file: BinaryIO, on_progress: Progress) -> None:
        self._run, self._file, self._on_progress = run, file, on_progress
        self._begin = first_ns(run)
        self._counts: Counter[str] = Counter()
        self._tracks: dict[Any, Lanes] = {}
        self._named: set[tuple[int, int]] = set()

    def write(self) -> Written:
        """All of it."""
        self._file.write(self._head())
        self._event({"ph": "M", "name": "process_name", "pid": PROCESS, "tid": 0,
                     "args": {"name": label(f"training: {self._run.info.workload}")}}, first=True)  # fmt: skip
        self._beside()
        self._operations()
        self._counters()
        self._file.write(b"\n]}\n")
        return Written(counts=dict(self._counts))

    def _head(self) -> bytes:
        run = self._run
        facts = {name: label(text) for name, text in about_run(run).facts.items()}
        head: dict[str, Any] = {
            "schemaVersion": 1,
            "displayTimeUnit": "ns",
            "otherData": {**facts, "begin_ns": str(self._begin)},
            "wattstep": VERSION,
        }
        if run.info.clocks:
            head["baseTimeNanoseconds"] = self._begin + run.info.clocks[0][1]
        return f'{json.dumps(head)[:-1]}, "traceEvents": [\n'.encode()

    def _event(self, event: dict[str, Any], first: bool = False) -> None:
        self._file.write(f"{'' if first else ','}{json.dumps(event)}\n".encode())

    def _lines(self, lines: Iterable[str]) -> None:
        if text := "".join(lines):
            self._file.write(text.encode())

    def _beside(self) -> None:
        self._on_progress("steps", 0.0)
        run = self._run
        for number, (name, category, slices) in enumerate(
            (
                ("steps", "user_annotation", _as_profiler(timeline.steps(run))),
                ("phases", "phase", timeline.phases(run)),
                ("layers", "layer", timeline.layers(run)),
                ("between steps", "rest", timeline.between_steps(run)),
                ("conditions", "condition", timeline.stretches(run)),
                ("updates", "update", timeline.updates(run)),
                ("thinned steps", "gap", timeline.thinned_steps(run)),
            )
        ):
            if name == "thinned steps" and not len(slices):
                continue
            self._counts[name.replace(" ", "_")] += len(slices)
            self._slices(slices, PROCESS, BESIDE + number, name, category)

    def _operations(self) -> None:
        total = max(self._run.tables.count("operations"), 1)
        for piece in timeline.pieces(self._run):
            where: dict[int, str] = {}
            for track, slices in piece.items():
                process, thread, category = self._track_of(track)
                self._slices(slices, process, thread, track.name, category)
                self._counts["operations"] += len(slices)
                if slices.number is not None:
                    where.update(_points(slices, process, thread, self._begin))
            self._flows(piece.values(), where)
            self._on_progress("operations", 0.05 + 0.65 * self._counts["operations"] / total)

    def _track_of(self, track: TrackKey) -> tuple[int, int, str | None]:
        """Process, thread and, where it is not told by each name, category."""
        if track.on_cpu:
            return PROCESS, track.thread, None
        device = _DEVICE.fullmatch(track.processor)
        process = int(device[2]) if device else PROCESS + 1
        if (process, NONE) not in self._named:
            self._named.add((process, NONE))
            self._name("process_name", process, 0, track.processor)
        return process, track.thread, _ON_DEVICE.get(device[1]) if device else None

    def _name(self, what: str, process: int, thread: int, name: str) -> None:
        args = {"name": label(name)}
        self._event({"ph": "M", "name": what, "pid": process, "tid": thread, "args": args})

    def _slices(
        self, slices: Slices, process: int, thread: int, name: str, category: str | None
    ) -> None:
        """Slices of one track; those that overlap others stand on tracks beside it."""
        lanes = self._tracks.setdefault((process, thread), Lanes()).of(
            slices.start_ns, slices.end_ns
        )
        for lane in np.unique(lanes).tolist():
            at = thread + lane * 10 * BESIDE
            if (process, at) not in self._named:
                self._named.add((process, at))
                self._name("thread_name", process, at, f"{name}, beside" if lane else name)
            rows = np.flatnonzero(lanes == lane)
            rows = rows[np.lexsort((-slices.end_ns[rows], slices.start_ns[rows]))]
            ids = f'"pid":{process},"tid":{at}'
            self._lines(_complete(slices.at(rows), ids, category, self._begin))

    def _flows(self, pieces: Iterable[Slices], where: dict[int, str]) -> None:
        for slices in pieces:
            if slices.launched_by is None or slices.number is None:
                continue
            launched = np.flatnonzero(slices.launched_by != NONE)
            pairs = zip(
                slices.launched_by[launched].tolist(), slices.number[launched].tolist(), strict=True
            )
            self._lines(
                f',{{"ph":"s","id":{each},"cat":"launch","name":"launch",{where[by]}}}\n'
                f',{{"ph":"f","bp":"e","id":{each},"cat":"launch","name":"launch",{where[each]}}}\n'
                for by, each in pairs
            )
            self._counts["flows"] += len(launched)

    def _counters(self) -> None:
        self._on_progress("samples", 0.7)
        for number, one in enumerate(counters(self._run)):
            self._lines(_values(one, self._begin))
            self._counts["channels"] += 1
            self._counts["samples"] += len(one.t_ns)
            if len(one.gaps):
                track = BESIDE + 100 + number
                self._slices(one.gaps, PROCESS, track, f"{one.name}: gaps", "gap")
                self._counts["gaps"] += len(one.gaps)


def _as_profiler(steps: Slices) -> Slices:
    """Steps by the name that PyTorch's profiler gives them, which readers of its traces look for."""
    index = np.zeros(0, np.int64) if steps.numbers is None else steps.numbers
    texts = np.array([f"ProfilerStep#{number}" for number in index.tolist()] + [""], dtype=object)
    return Slices(
        start_ns=steps.start_ns,
        end_ns=steps.end_ns,
        names=Names(code=np.arange(len(index)), texts=texts),
        kinds=steps.kinds,
        counted=steps.counted,
    )


def _complete(slices: Slices, ids: str, category: str | None, begin: int) -> Iterator[str]:
    """Lines of complete events ("X")."""
    names = _texts(slices.names)
    categories = repeat(f'"{category}"') if category else _categories(slices, ids)
    times = zip(_us(slices.start_ns - begin), _us(slices.end_ns - slices.start_ns), strict=True)
    for name, kind, (start, length), args in zip(
        names, categories, times, _arguments(slices), strict=False
    ):
        yield (
            f',{{"ph":"X","cat":{kind},"name":{name},{ids},"ts":{start},"dur":{length},'
            f'"args":{{{args}}}}}\n'
        )


def _categories(slices: Slices, ids: str) -> Iterator[str]:
    """As PyTorch's profiler calls what an operation is."""
    if not ids.startswith(f'"pid":{PROCESS},'):
        words = [_on_gpu(str(text)) for text in slices.names.texts]
        return (f'"{words[code]}"' for code in slices.names.code.tolist())
    if slices.kinds is None:
        return iter(repeat('"cpu_op"', len(slices)))
    scopes = ["user_annotation" if text == "scope" else "cpu_op" for text in slices.kinds.texts]
    return (f'"{scopes[code]}"' for code in slices.kinds.code.tolist())


def _on_gpu(name: str) -> str:
    if name.startswith("Memcpy"):
        return "gpu_memcpy"
    return "gpu_memset" if name.startswith("Memset") else "kernel"


def _texts(names: Names) -> list[str]:
    texts = [json.dumps(label(str(text))) for text in names.texts]
    return [texts[code] for code in names.code.tolist()]


def _arguments(slices: Slices) -> Iterator[str]:
    """Arguments of each slice, as the inside of a JSON object."""
    columns = []
    if slices.kinds is not None:
        columns.append(_annotation("kind", slices.kinds))
    for key, names in slices.annotations.items():
        columns.append(_shapes(names) if key == "shapes" else _annotation(key, names))
    columns += [_counted(_WORDS.get(key, key), each) for key, each in slices.counted.items()]
    if slices.number is not None and slices.launched_by is not None:
        tied = np.where(slices.launched_by == NONE, slices.number, slices.launched_by) + 1
        columns.append([f'"External id":{each}' for each in tied.tolist()])
    if not columns:
        return iter(repeat("", len(slices)))
    return (",".join(filter(None, row)) for row in zip(*columns, strict=True))


def _annotation(key: str, names: Names) -> list[str]:
    texts = [f'"{key}":{json.dumps(label(str(text)))}' if text else "" for text in names.texts]
    return [texts[code] for code in names.code.tolist()]


def _shapes(names: Names) -> list[str]:
    texts = [_dims(str(text)) for text in names.texts]
    return [texts[code] for code in names.code.tolist()]


def _dims(text: str) -> str:
    """In the words of PyTorch's profiler, and as the run has it where those do not say it all."""
    if not text:
        return ""
    shapes = f'"shapes":{json.dumps(label(text))}'
    if not _DIMS.fullmatch(text):
        return shapes
    dims = (f"[{shape.replace('x', ',')}]" for shape in re.split("[,;]", text))
    input_dims = f'"Input Dims":[{",".join(dims)}]'
    return f"{input_dims},{shapes}" if ";" in text else input_dims


def _counted(key: str, column: Masked) -> list[str]:
    """Numbers as JSON; what is not known, or no JSON (infinite), is left out."""
    values, mask = column.values, column.mask
    if values.dtype == np.float64:
        mask = mask & np.isfinite(values)
    return [
        f'"{key}":{json.dumps(value)}' if given else ""
        for value, given in zip(values.tolist(), mask.tolist(), strict=True)
    ]


def _us(t_ns: IntArray) -> list[str]:
    """µs with three decimals, exactly; from the beginning of the run, none is below 0."""
    return [f"{each // 1000}.{each % 1000:03d}" for each in t_ns.tolist()]


def _points(slices: Slices, process: int, thread: int, begin: int) -> dict[int, str]:
    """Point where a flow of each slice begins or ends, by the slice's number."""
    numbers = slices.number
    assert numbers is not None
    ids = f'"pid":{process},"tid":{thread}'
    return {
        each: f'{ids},"ts":{time}'
        for each, time in zip(numbers.tolist(), _us(slices.start_ns - begin), strict=True)
    }


def _values(one: Counted, begin: int) -> Iterator[str]:
    """Lines of counter events ("C")."""
    name, unit = json.dumps(label(one.shown)), json.dumps(one.unit or "value")
    for time, value in zip(_us(one.t_ns - begin), one.value.tolist(), strict=True):
        yield (
            f',{{"ph":"C","name":{name},"pid":{PROCESS},"tid":0,"ts":{time},'
            f'"args":{{{unit}:{value!r}}}}}\n'
        )
