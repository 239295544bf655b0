"""Options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Optional, TextIO

import typer

from wattstep.cli import completing
from wattstep.cli.saying import say
from wattstep.errors import InvalidValueError, RunExistsError

if TYPE_CHECKING:
    from wattstep.train.child.limits import MemoryLimit as MemoryBound

# A folder of runs is --out, what is made of runs --output; each is understood for the other. The first
# is the option's name in help, in the environment and in pyproject.toml.
OUT: Final = ("--out", "--output", "-o")
OUTPUT: Final = ("--output", "--out", "-o")

Json = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output, nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="The result, and nothing else.")]
Full = Annotated[bool, typer.Option("--full", help="All tables of a run, in place of one screen.")]
Live = Annotated[
    bool,
    typer.Option(
        "--live",
        help="A screen instead of the progress line: speed, power, heat, memory, what is left.",
    ),
]
Cooldown = Annotated[
    str,
    typer.Option(
        help="Between runs: auto (until the hottest thermal zone is back within 2 °C of where it "
        "began, 5 minutes at most), none, or seconds.",
        metavar="RULE",
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
Engines = Annotated[
    str,
    typer.Option(
        help="Frameworks, several with commas; `wattstep engines` lists them.", metavar="NAME,..."
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
MemoryLimit = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        help="Memory of the training and all it starts, e.g. 8GiB: a memory cgroup (without swap, "
        "where the kernel accounts for it) where permitted, else a limit on data segments.",
        metavar="SIZE",
    ),
]
Runs = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Argument(
        autocompletion=completing.runs,
        metavar="[RUN...]",
        help="Runs, or folders that hold runs. [default: the newest run in runs]",
    ),
]
Out = Annotated[Path, typer.Option(*OUT, help="Folder in which runs are written.", metavar="DIR")]
Name = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--name", help="Name of the run; made from workload and time where not given."),
]


def run_folder(out: Path, name: str | None, made_up: str) -> str:
    """Path of the folder of a new run.

    Raises:
        InvalidValueError: `out` is a file or a run itself, or `name` is no plain name.
        RunExistsError: It is taken.
    """
    if out.exists() and not out.is_dir():
        raise InvalidValueError(
            f"--out {out} is a file: it names the folder in which runs are written, e.g. --out runs",
            id="file-as-folder",
        )
    if (out / "run.json").exists():
        raise InvalidValueError(
            f"{out} is a run already: --out names the folder in which runs are written",
            id="run-as-folder",
        )
    if name is not None and (Path(name).name != name or name in ("", ".", "..")):
        raise InvalidValueError(
            f"--name {name!r}: a plain name is wanted; --out takes the folder",
            id="not-a-plain-name",
        )
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
            f"--batch {text!r}: whole numbers with commas between them, e.g. 4,16",
            id="malformed-list",
        ) from None
    for size in sizes:
        if size < 1:
            raise InvalidValueError(f"--batch {size}: it must be at least 1", id="out-of-range")
    return sizes


def find_memory_limit(text: str | None, *, here: bool = True) -> MemoryBound | None:
    """The limit from "8GiB", with a warning where the machine itself has less.

    Args:
        text: As given, or None.
        here: True if this machine trains; of another one it is found there how to enforce it.

    Raises:
        InvalidValueError: It is no size.
        RecordingError: No means to enforce it is permitted here.
    """
    if text is None:
        return None
    from wattstep.train.child.limits import (
        beyond_machine,
        find_limit,
        limit_elsewhere,
        parse_size,
    )

    if not here:
        return limit_elsewhere(parse_size(text))
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
        wanted: True if it is worth a question.
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
            f"{answer!r} is no temperature: write degrees Celsius, e.g. 21.5",
            id="not-a-temperature",
        ) from None


def named_device(on: str | None, command: str, named: str = "no device is named") -> str:
    """The device that a prediction is for.

    Args:
        on: As `--on` gave it.
        command: The command without it.
        named: What is wrong without it.

    Raises:
        InvalidValueError: There is none.
    """
    if on is None:
        raise InvalidValueError(
            f"{named}: {command} (wattstep devices lists them)", id="needs-device"
        )
    return on
