"""A run that goes on, on one screen: bars, courses of the last minute, and what is left; at any size, without colour, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from wattstep.live.snapshot import Snapshot
from wattstep.report.terminal.glyphs import bar, block_of, brief, course, in_ascii
from wattstep.report.values import NO_VALUE, Shown, quantity, show
from wattstep.schema.figure import Figure

LABEL: Final = 10  # cells of the names on the left
LEAST_WIDTH, LEAST_HEIGHT = 20, 4
NARROW: Final = 60
STATUS_STYLES: Final = {
    "modelled": "yellow", "predicted": "magenta", "replayed": "cyan", "missing": "dim",
}  # fmt: skip
MOST_ZONES: Final = 6
LEAST_CORE: Final = 16  # cells of a core's number, bar, share and the space behind it


@dataclass(frozen=True, kw_only=True)
class Line:
    """Line of the screen.

    Attributes:
        text: Text of the line, cut to the width later.
        rank: Lines of the highest rank go first where there are too many.
    """

    text: Text
    rank: int = 0


@dataclass(frozen=True, kw_only=True)
class Screen:
    """Size of the terminal, and the characters it can show.

    Attributes:
        width: In cells.
        height: In lines.
        ascii_only: True if the terminal knows no block characters.
    """

    width: int
    height: int
    ascii_only: bool = False

    @property
    def room(self) -> int:
        """Cells beside the names."""
        return max(self.width - LABEL - 1, 8)


def draw(snapshot: Snapshot, screen: Screen) -> Text:
    """The screen as text of at most `height` lines, none wider than `width` cells.

    Args:
        snapshot: State of the run.
        screen: The room.
    """
    width, height = max(screen.width, LEAST_WIDTH), max(screen.height, LEAST_HEIGHT)
    screen = Screen(width=width, height=height, ascii_only=screen.ascii_only)
    lines = [line for part in PARTS for line in part(snapshot, screen)]
    while len(lines) > height:
        worst = max(line.rank for line in lines)
        last = max(n for n, line in enumerate(lines) if line.rank == worst)
        del lines[last]
    return Text("\n").join(_fitted(line.text, screen) for line in lines)


def _fitted(text: Text, screen: Screen) -> Text:
    if screen.ascii_only:
        text = in_ascii(text)
    text.truncate(screen.width, overflow="crop" if screen.ascii_only else "ellipsis")
    return text


# --- pieces -----------------------------------------------------------------------------------


def _line(label: str, *parts: str | Text, rank: int = 0) -> Line:
    text = Text(no_wrap=True, end="")
    text.append(f" {label:{LABEL - 1}} ", style="bold")
    for part in parts:
        text.append(part) if isinstance(part, str) else text.append_text(part)
    return Line(text=text, rank=rank)


def _figure(shown: Shown, *, interval: bool = True, status: bool = True) -> Text:
    """The number with its interval and, where no sensor gave it, its status in words."""
    text = Text(shown.value, style=STATUS_STYLES.get(shown.status, ""))
    if interval and shown.interval:
        text.append(f" ({shown.interval})", style="dim")
    if status and shown.status in ("modelled", "replayed") and not shown.missing:
        text.append(f" {shown.status}", style=STATUS_STYLES[shown.status])
    return text


def _shown(snapshot: Snapshot, name: str) -> Shown | None:
    figure = snapshot.figures.get(name)
    return None if figure is None else show(figure)


def _joined(parts: Sequence[Text | str], between: str = " · ") -> Text:
    text = Text()
    for number, part in enumerate(parts):
        text.append(between if number else "")
        text.append(part) if isinstance(part, str) else text.append_text(part)
    return text


def _history(snapshot: Snapshot, name: str) -> Sequence[float | None]:
    return snapshot.history.get(name, ())


# --- parts of the screen ----------------------------------------------------------------------


def _head(snapshot: Snapshot, screen: Screen) -> Iterator[Line]:
    words = [brief(snapshot.workload or snapshot.run, screen.width // 2)]
    words += [brief(word, 40) for word in snapshot.setting]
    text = Text(" ", no_wrap=True, end="")
    text.append(words[0], style="bold")
    for word in words[1:]:
        text.append(f" · {word}")
    yield Line(text=text)
    state, stage = snapshot.state, brief(snapshot.stage, 40)
    parts = [state if stage in ("", state) else f"{state}: {stage}"]
    if snapshot.elapsed is not None and snapshot.elapsed.value is not None:
        parts.append(_lasting(snapshot.elapsed.value))
    parts.append(brief(snapshot.run, screen.width))
    yield Line(text=Text(" " + " · ".join(parts), style="dim", no_wrap=True, end=""), rank=6)


def _lasting(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _progress(snapshot: Snapshot, screen: Screen) -> Iterator[Line]:
    done = f"step {snapshot.steps:,}" + (f" of {snapshot.total:,}" if snapshot.total else "")
    share, left = snapshot.share, _shown(snapshot, "time_left")
    parts: list[Text | str] = []
    if share is not None:
        cells = max(min(screen.room // 3, 40), 4)
        parts.append(f"{bar(share, cells)} {100 * share:.0f} %")
    parts.append(done)
    if left is not None and not left.missing:
        figure = snapshot.figures["time_left"]
        wide = screen.width >= NARROW and figure.low != figure.high
        parts.append(_joined([_figure(left, interval=wide), "left"], " "))
    yield _line("done", _joined(parts, "  "))


def _speed(snapshot: Snapshot, screen: Screen) -> Iterator[Line]:
    step, last = _shown(snapshot, "step_time"), _shown(snapshot, "last_step_time")
    if step is None:
        return
    if step.missing:
        yield _line("step", step.reason)
    else:
        yield _with_course(
            "step", [_figure(step), "median"], _history(snapshot, "step_time"), screen
        )
    parts: list[Text | str] = []
    rate, loss = _shown(snapshot, "throughput"), _shown(snapshot, "loss")
    if rate is not None and not rate.missing:
        parts.append(_figure(rate, interval=False))
    if loss is not None and not loss.missing:
        parts.append(f"loss {loss.value}")
    if last is not None and not last.missing:
        parts.append(f"last step {last.value}")
    for name, figure in list(snapshot.evaluations.items())[:2]:
        parts.append(f"{brief(name, 20)} {show(figure).value}")
    if parts:
        yield _line("", _joined(parts), rank=2)


def _with_course(
    label: str, parts: Sequence[Text | str], values: Sequence[float | None], screen: Screen
) -> Line:
    """Line with the current values, and at the right the course of the last minute."""
    text = _joined(parts)
    room = screen.room - text.cell_len - 2
    drawn = course(values, min(room, 40)) if room >= 8 else ""
    if drawn:
        text.append(" " * max(room + 1 - len(drawn), 2) + drawn, style="cyan")
    return _line(label, text)


def _energy(snapshot: Snapshot, screen: Screen) -> Iterator[Line]:
    power = _shown(snapshot, "power")
    if power is None:
        return
    if power.missing:
        yield _line("power", Text(f"{NO_VALUE} {power.reason}", style="dim"))
    else:
        yield _with_course("power", [_figure(power)], _history(snapshot, "power"), screen)
        yield from _joules(snapshot, screen)
    if snapshot.rails:
        yield _line("rails", _joined([*_rails(snapshot.rails)]), rank=4)
    yield from _battery(snapshot)


def _rails(rails: Mapping[str, Figure]) -> Iterator[Text]:
    """The ones that take most first; those that tell nothing last."""
    for name in sorted(rails, key=lambda name: -(rails[name].value or -math.inf)):
        figure = _figure(show(rails[name]), status=False)
        of, _, last = name.rpartition(".")
        label = of if of and last in ("power", "energy") else last or name
        yield _joined([brief(label, 18), figure], " ")


def _joules(snapshot: Snapshot, screen: Screen) -> Iterator[Line]:
    used, left = _shown(snapshot, "energy"), _shown(snapshot, "energy_left")
    parts = []
    if used is not None and not used.missing:
        parts.append(_joined([_figure(used, status=False), "used"], " "))
    if left is not None and not left.missing:
        figure = _figure(left, interval=screen.width >= NARROW)
        parts.append(_joined([figure, "to finish"], " "))
    if parts:
        yield _line("energy", _joined(parts), rank=1)


def _battery(snapshot: Snapshot) -> Iterator[Line]:
    now, end = _shown(snapshot, "battery"), _shown(snapshot, "battery_end")
    if now is None or now.missing:
        return
    parts: list[Text | str] = [_figure(now)]
    if end is not None and end.number is not None:
        empty = end.number <= 0
        parts.append("it will be empty before the end" if empty else f"{end.value} at the end")
    yield _line("battery", _joined(parts), rank=1)


def _load(snapshot: Snapshot, screen: Screen) -> Iterator[Line]:
    cores = snapshot.cores
    cpu = _shown(snapshot, "cpu_utilization")
    if cpu is None:
        return
    if cpu.missing:
        yield _line("CPU", Text(f"{NO_VALUE} {cpu.reason}", style="dim"))
        return
    parts: list[Text | str] = [_joined([_figure(cpu), f"of {len(cores)} cores"], " ")]
    own = _shown(snapshot, "process_cpu_cores")
    if own is not None and not own.missing:
        parts.append(f"the training uses {own.amount} cores")
    yield _line("CPU", _joined(parts))
    yield from _bars(cores, screen)
    for name, figure in snapshot.gpus.items():
        shown = show(figure)
        drawn = "" if shown.number is None else bar(shown.number, 12) + " "
        text = _figure(shown) if not shown.missing else Text(f"{NO_VALUE} {shown.reason}")
        yield _line("GPU", _joined([brief(name, 20), drawn], " "), text, rank=1)


def _bars(cores: Sequence[Figure], screen: Screen) -> Iterator[Line]:
    """A bar for each core, as many in a line as fit; a block for each where they are many."""
    shares = [core.value for core in cores]
    if len(shares) > 16:
        blocks = "".join(NO_VALUE if share is None else block_of(share) for share in shares)
        for begin in range(0, len(blocks), screen.room):
            yield _line("", blocks[begin : begin + screen.room], rank=3)
        return
    most = max(min((screen.room + 2) // LEAST_CORE, 4, len(shares)), 1)
    columns = max(math.ceil(len(shares) / math.ceil(len(shares) / most)), 1) if shares else 1
    cells = min((screen.room + 2) // columns - 2 - len("NN  100%"), 16)
    for begin in range(0, len(shares), columns):
        drawn = [
            f"{number:>2} {_core(share, cells)}"
            for number, share in enumerate(shares[begin : begin + columns], begin)
        ]
        yield _line("", "  ".join(drawn), rank=3)


def _core(share: float | None, cells: int) -> str:
    return f"{NO_VALUE:>{cells + 5}}" if share is None else f"{bar(share, cells)} {share:>4.0%}"


def _heat(snapshot: Snapshot, screen: Screen) -> Iterator[Line]:
    zones = snapshot.temperatures
    known = {name: figure.value for name, figure in zones.items() if figure.value is not None}
    if known:
        hottest = sorted(known, key=lambda name: -known[name])
        parts = [_zone(name, zones[name], snapshot.limits) for name in hottest[:MOST_ZONES]]
        if screen.width < NARROW or len(parts) < 3:
            yield _with_course("heat", parts[:1], _history(snapshot, "temperature"), screen)
            parts = parts[1:]
        else:
            yield _with_course("heat", parts[:2], _history(snapshot, "temperature"), screen)
            parts = parts[2:]
        if parts:
            yield _line("", _joined(parts), rank=5)
    elif snapshot.figures:
        yield _line("heat", Text(f"{NO_VALUE} {_why_no_heat(snapshot)}", style="dim"), rank=5)
    yield from _clocks(snapshot)


def _why_no_heat(snapshot: Snapshot) -> str:
    if snapshot.temperatures:
        return "no zone gives a temperature now"
    return brief(snapshot.absent.get("thermal", "no temperature was sampled"), 200)


def _zone(name: str, figure: Figure, limits: Mapping[str, float]) -> Text:
    text = Text(f"{brief(name.removeprefix('thermal.'), 16)} ")
    text.append_text(_figure(show(figure), status=False))
    if name in limits:
        text.append(f" of {limits[name]:.0f}", style="dim")
    return text


def _clocks(snapshot: Snapshot) -> Iterator[Line]:
    """Each frequency once: cores that have the same one stand together."""
    clocks: dict[str, list[str]] = {}
    for name, figure in snapshot.frequencies.items():
        if figure.value is not None:
            limit = snapshot.limits.get(name)
            of = "" if limit is None else f" of {quantity(limit, 'Hz')}"
            clocks.setdefault(f"{show(figure).value}{of}", []).append(name)
    parts = [
        f"{brief(names[0].removesuffix('.frequency'), 14)}"
        + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        + f" {clock}"
        for clock, names in clocks.items()
    ]
    if parts:
        yield _line("clocks", _joined(parts[:4]), rank=4)


def _throttled(snapshot: Snapshot, screen: Screen) -> Iterator[Line]:
    for evidence in snapshot.throttling[:2]:
        text = Text(brief(evidence, screen.width), style="bold red")
        yield _line("THROTTLED", text)


def _memory(snapshot: Snapshot, screen: Screen) -> Iterator[Line]:
    own, peak = _shown(snapshot, "resident_memory"), _shown(snapshot, "peak_memory")
    system, total = _shown(snapshot, "system_memory"), _shown(snapshot, "total_memory")
    parts: list[Text | str] = []
    if own is not None:
        parts.append(f"training {own.value}" if not own.missing else f"training: {own.reason}")
    if peak is not None and not peak.missing:
        parts.append(f"highest {peak.value}")
    if system is not None and not system.missing:
        of = f" of {total.value}" if total is not None and not total.missing else ""
        parts.append(f"system {system.value}{of}")
    if parts:
        yield _line("memory", _joined(parts))


def _recording(snapshot: Snapshot, screen: Screen) -> Iterator[Line]:
    cost, late, lost = (_shown(snapshot, n) for n in ("recording_cost", "lateness", "lost_ticks"))
    parts: list[Text | str] = []
    if cost is not None and cost.number is not None:
        parts.append(f"{quantity(cost.number, 'ratio')} of a core")
    if late is not None and not late.missing:
        parts.append(f"at most {late.value} late, 99 of 100 times")
    if lost is not None and lost.number:
        parts.append(f"{lost.number:,.0f} ticks lost")
    used, hour = _shown(snapshot, "disk_used"), _shown(snapshot, "disk_an_hour")
    free = _shown(snapshot, "disk_free")
    disk: list[Text | str] = []
    if used is not None:
        disk.append(used.value if not used.missing else used.reason)
    if hour is not None:
        disk.append(f"{hour.value} an hour")
    if free is not None and not free.missing:
        disk.append(f"{free.value} free")
    if parts:
        yield _line("recording", _joined(parts), rank=5)
    if disk:
        yield _line("disk", _joined(disk), rank=5)


def _problems(snapshot: Snapshot, screen: Screen) -> Iterator[Line]:
    problems = snapshot.problems
    for text in [*problems[:1], *problems[1:][-2:]]:
        yield from _note(text, screen)


def _note(text: object, screen: Screen) -> Iterator[Line]:
    """A sentence, on up to three lines."""
    words, room, line, lines = (
        brief(text, 3 * (screen.width - 4)).split(" "),
        screen.width - 4,
        "",
        [],
    )
    for word in words:
        if line and len(line) + 1 + len(word) > room:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    for number, part in enumerate([*lines, line][:3]):
        mark = "!" if not number else " "
        yield Line(text=Text(f" {mark} {part}", style="yellow", no_wrap=True, end=""), rank=1)


Part = Callable[[Snapshot, Screen], Iterator[Line]]
PARTS: Final[Sequence[Part]] = (
    _head, _progress, _speed, _energy, _load, _throttled, _heat, _memory, _recording, _problems,
)  # fmt: skip
