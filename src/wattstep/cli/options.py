"""Options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional, TextIO

import typer

from wattstep.cli.saying import say
from wattstep.errors import InvalidValueError, RunExistsError

if TYPE_CHECKING:
    from wattstep.fleet.limits import MemoryLimit as MemoryBound

Json = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output, nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Live = Annotated[
    bool,
    typer.Option(
        "--live",
        help="A screen instead of the progress line: speed, power, heat, memory, what is left.",
    ),
]
Interval = Annotated[
    str, typer.Option(help="Period of the sampler, 1ms at the finest.", metavar="DURATION")
]
Trace = Annotated[
    str, typer.Option(help="Which steps are traced: auto, none or every:N.", metavar="MODE")
]
Warmup = Annotated[int, typer.Option(help="First steps that do not count.", metavar="N")]
PowerModel = Annotated[
    Optional[str],  # noqa: UP045 - typer reads the annotation on Python 3.10 too
    typer.Option(
        "--power-model",
        help="Where no power sensor is: vcpu, or linear:IDLE,BUSY in watts a core, for the training's own CPU time. "
        "The figures are then marked as modelled.",
        metavar="MODEL",
    ),
]
Target = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        help="Where the sensors are: local, replay:RECORDING (recorded ones play in their place) "
        "or emulate:BOARD (a model of a board follows the load). Or the device that trains: "
        "ssh://USER@BOARD, adb://SERIAL. "
        "[default: local]",
        metavar="TARGET",
    ),
]
Idle = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        help="Leave the machine idle for so long before the first step and after the last, "
        "e.g. 30s: its power at rest, cold and warm.",
        metavar="DURATION",
    ),
]
SubtractIdle = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--subtract-idle",
        help="With --idle: take the power at rest off the energy, that before or that after.",
        metavar="WHICH",
    ),
]
Exclude = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        help="Steps that the figures leave out: throttled, disturbed, or both with a comma.",
        metavar="KIND,...",
    ),
]
Stable = Annotated[
    bool,
    typer.Option(
        "--stable",
        help="Wait before the first step until temperature and frequency are steady, "
        "10 minutes at most.",
    ),
]
Sustain = Annotated[
    bool,
    typer.Option(
        "--sustain",
        help="Train until temperature, frequency and throughput are steady. --seconds or --steps "
        "are then the most that it may take. [default: 75 minutes]",
    ),
]
Fan = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--fan",
        help="What cools the device where no sensor tells, in a few words: none, full speed.",
        metavar="WORDS",
    ),
]
Ambient = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(help="Ambient temperature, where no sensor tells it.", metavar="CELSIUS"),
]
Cooldown = Annotated[
    str,
    typer.Option(
        help="Between runs: auto (until the hottest thermal zone is back within 2 °C of where it "
        "began, 5 minutes at most), none, or seconds.",
        metavar="RULE",
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        help="fp32; bf16 (weights, gradients and activations in bfloat16); amp (weights in "
        "fp32, products of matrices in bfloat16).",
        metavar="KIND",
    ),
]
Precisions = Annotated[
    str,
    typer.Option(
        help="fp32, bf16 (weights, gradients and activations in bfloat16), amp (weights in fp32, "
        "products of matrices in bfloat16); several with commas.",
        metavar="KIND,...",
    ),
]
Accumulate = Annotated[
    int,
    typer.Option(
        help="Batches whose gradients are added up before the optimizer steps; a step takes "
        "batch × accumulate samples.",
        metavar="N",
    ),
]
Classes = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(help="Classes of the network. [default: the workload's]", metavar="N"),
]
ImageSize = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(help="Height and width of images. [default: the workload's]", metavar="N"),
]
RateRule = Annotated[
    str,
    typer.Option(
        help="How the learning rate follows the batch: linear, sqrt or fixed.", metavar="RULE"
    ),
]
RateRules = Annotated[
    str,
    typer.Option(
        help="How the learning rate follows the samples of a step: linear, sqrt or fixed; several "
        "with commas.",
        metavar="RULE,...",
    ),
]
Batches = Annotated[str, typer.Option(help="Batch sizes, e.g. 4,16.", metavar="N,...")]
Threads = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(help="Threads of an operation. [default: the framework's choice]", metavar="N"),
]
Seed = Annotated[int, typer.Option(help="Of everything that is drawn.", metavar="N")]
Data = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        help="Folder with official data; stand-ins without it. With ssh://: on the board.",
        metavar="DIR",
    ),
]
MemoryLimit = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        help="Memory of the training and all it starts, e.g. 8GiB: a memory cgroup (without swap, "
        "where the kernel accounts for it) where permitted, else a limit on data segments.",
        metavar="SIZE",
    ),
]
Out = Annotated[
    Path, typer.Option("--out", help="Folder in which runs are written.", metavar="DIR")
]
Name = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--name", help="Name of the run; made from workload and time where not given."),
]


def run_folder(out: Path, name: str | None, made_up: str) -> str:
    """Where a run goes.

    Raises:
        InvalidValueError: `out` is a run itself, or `name` is no plain name.
        RunExistsError: It is taken.
    """
    if (out / "run.json").exists():
        raise InvalidValueError(
            f"{out} is a run already: --out names the folder in which runs are written"
        )
    if name is not None and (Path(name).name != name or name in ("", ".", "..")):
        raise InvalidValueError(f"--name {name!r}: a plain name is wanted; --out takes the folder")
    folder = out / (name or made_up)
    if folder.exists():
        raise RunExistsError(f"{folder} exists already: choose another --name, or remove it first")
    return str(folder)


def parse_batches(text: str) -> list[int]:
    """Batch sizes from "4,16", each once.

    Raises:
        InvalidValueError: They are no whole numbers from 1 on.
    """
    try:
        sizes = list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise InvalidValueError(
            f"--batch {text!r}: whole numbers with commas between them, e.g. 4,16"
        ) from None
    for size in sizes:
        if size < 1:
            raise InvalidValueError(f"--batch {size}: it must be at least 1")
    return sizes


def find_memory_limit(text: str | None) -> MemoryBound | None:
    """The limit from "8GiB", with a warning where the machine itself has less.

    Raises:
        InvalidValueError: It is no size.
        RecordingError: No means to enforce it is permitted here.
    """
    if text is None:
        return None
    from wattstep.fleet.limits import beyond_machine, find_limit, parse_size

    limit = find_limit(parse_size(text))
    if warning := beyond_machine(limit):
        say(f"wattstep: warning: {warning}")
    return limit


def ask_ambient(
    given: float | None, *, wanted: bool, keyboard: TextIO, screen: TextIO
) -> float | None:
    """The ambient temperature in °C: as given, or asked for where a person sits at a terminal.

    Args:
        given: With --ambient, or None.
        wanted: Whether it is worth a question.
        keyboard: Where the answer comes from.
        screen: Where the question goes.

    Raises:
        InvalidValueError: The answer is no number.
    """
    if given is not None or not wanted or not (keyboard.isatty() and screen.isatty()):
        return given
    print("Ambient temperature in °C (Enter: unknown): ", end="", file=screen, flush=True)
    answer = keyboard.readline().strip().removesuffix("°C").strip().replace(",", ".")
    if not answer:
        return None
    try:
        return float(answer)
    except ValueError:
        raise InvalidValueError(
            f"{answer!r} is no temperature: write degrees Celsius, e.g. 21.5"
        ) from None
