"""`wattstep tune`: settings under which steps take less time or energy and learn the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import OUT, Json, MemoryLimit, Quiet, find_memory_limit
from wattstep.cli.saying import say
from wattstep.cli.settings_options import absolute, with_settings
from wattstep.errors import InvalidValueError


@with_settings(
    "batch", "goal", "memory_limit", "allow", "turn", "threads", "cores", "engine", "precision", "accumulate",
    "checkpointing", "train_last", "lora", "optimizer", "offload", "classes", "image_size", "seed",
    "data_dir", "power_model", "step_marker", "module", "snippet", "out", "json", "quiet",
)  # fmt: skip
def tune(
    what: Annotated[
        str,
        typer.Argument(
            autocompletion=completing.workloads,
            metavar="WORKLOAD|SCRIPT",
            help="A workload of the suite, see suite; or a training script of your own.",
        ),
    ],
    arguments: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="[-- ARGS...]", help="The script's own arguments."),
    ] = None,
    batch: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Batch size of a workload. [default: 4]", metavar="N"),
    ] = None,
    goal: Annotated[
        str, typer.Option("--for", help="What is to be the least: time or energy.", metavar="GOAL")
    ] = "time",
    memory_limit: MemoryLimit = None,
    allow: Annotated[
        str,
        typer.Option(
            help="What may change what is learnt: precision (others are searched), losses (that differ by more "
            "than rounding explains).",
            metavar="NAME,...",
        ),
    ] = "",
    turn: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="What is turned: threads, channels-last, optimizer-kernel, precision, allocator, compile, "
            "policy, interop-threads, cores, loader-workers. [default: all that can be]",
            metavar="NAME,...",
        ),
    ] = None,
    threads: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Threads of an operation that are tried. [default: 1, 2, 4, ... up to the cores]",
            metavar="N,...",
        ),
    ] = None,
    cores: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Sets of cores that are tried, e.g. 0-3,4-7. [default: each kind of core]",
            metavar="SET,...",
        ),
    ] = None,
    step_marker: Annotated[
        str,
        typer.Option(
            help="What ends a step of a script: optimizer, backward, or call:MODULE:FUNCTION.",
            metavar="MARKER",
        ),
    ] = "optimizer",
    module: Annotated[
        bool, typer.Option("-m", help="WHAT is a module of your own, as of python -m.")
    ] = False,
    snippet: Annotated[
        bool, typer.Option("--snippet", help="Print the settings as lines for a script, too.")
    ] = False,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            *OUT,
            help="Folder of the tune; one that was begun continues. [default: a new one in tunes]",
            metavar="DIR",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Find settings under which steps take less time or energy and learn the same."""
    from wattstep.cli.progress import bar_of
    from wattstep.cli.screen import screen
    from wattstep.store.files import new_name
    from wattstep.tune.space import parse_allowed, parse_turned
    from wattstep.tune.tuning import Question, check_given, goal_of, settings_of
    from wattstep.tune.tuning import tune as search

    own = {} if batch is None else {"batch_size": batch}
    question = Question(
        settings=settings_of(
            what, arguments or (), module=module, step_marker=step_marker,
            **{**given, **own, "data_dir": absolute(given["data_dir"])},
        ),
        goal=goal_of(goal),
        limit=find_memory_limit(memory_limit),
        allow=parse_allowed(allow),
        given=check_given(_numbers(threads), () if cores is None else cores.split(",")),
        turned=parse_turned(turn),
    )  # fmt: skip
    folder = out or Path("tunes", new_name(Path(question.name).stem))
    try:
        with bar_of("tuning", quiet=quiet or json) as show:
            report = search(question, folder, show, lambda text: say(f"wattstep: warning: {text}"))
    except KeyboardInterrupt:
        if (folder / "turns.jsonl").exists() and not quiet:
            say(f"wattstep: what was measured is kept: the same command with -o {folder} goes on")
        raise
    if json:
        from wattstep.report.json_document import dump

        dump(report.to_dict(), sys.stdout)
        return
    from wattstep.cli.tune_screen import print_tune

    print_tune(report, screen(), snippet=snippet)


def _numbers(text: str | None) -> list[int]:
    """Whole numbers from "1,2"."""
    if text is None:
        return []
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidValueError(
            f"--threads {text!r}: whole numbers with commas between them, e.g. 1,2",
            id="malformed-list",
        ) from None
