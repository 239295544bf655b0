"""`wattstep profile`: record somebody's own training script, unchanged."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from wattstep.cli.options import Full, Json, Live, Name, Out, run_folder
from wattstep.cli.saying import say
from wattstep.cli.settings_options import with_settings
from wattstep.errors import DamagedRunError, InvalidValueError

# What follows the script's name is the script's.
CONTEXT = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}


@with_settings(
    "module", "plan", "step_marker", "warmup", "interval", "keep", "trace", "power_model", "target", "sent",
    "total_steps", "out", "name", "live", "full", "json", "quiet",
)  # fmt: skip
def profile(
    context: typer.Context,
    script: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            metavar="SCRIPT [ARGS...]",
            help="The script (on a phone: the command), and its own arguments.",
        ),
    ] = None,
    module: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("-m", help="Run a module instead: -m package -- args.", metavar="MODULE"),
    ] = None,
    plan: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Settings of `wattstep tune SCRIPT`, put into the script as it begins.",
            metavar="FILE",
        ),
    ] = None,
    step_marker: Annotated[
        str,
        typer.Option(
            help="What ends a step: optimizer (the first one's step), backward, "
            "or call:MODULE:FUNCTION; on a phone output:REGEX, a line of its output.",
            metavar="MARKER",
        ),
    ] = "optimizer",
    sent: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(
            "--with",
            help="With --target ssh://...: a file that goes to the board with the script, into "
            "the same folder; may be given several times.",
            metavar="FILE",
        ),
    ] = None,
    total_steps: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--total-steps",
            help="Steps that the script will take in all: then what is left can be told.",
            metavar="N",
        ),
    ] = None,
    out: Out = Path("runs"),
    name: Name = None,
    live: Live = False,
    full: Full = False,
    json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="What the script prints, and nothing else.")
    ] = False,
    **given: Any,
) -> None:
    """Record a training script of your own, without a change to it."""
    from wattstep.api import open_execution_host
    from wattstep.cli.progress import watched_script
    from wattstep.cli.showing import show_runs
    from wattstep.run import load
    from wattstep.train.execution_hosts import is_elsewhere
    from wattstep.train.script import ProfileSettings, rank_suffix, run_name

    arguments = [*context.args]
    if module is not None:
        program = module
        if script is not None:
            arguments = [script, *arguments]
        arguments = arguments[1:] if arguments[:1] == ["--"] else arguments
    elif script is not None and script.startswith("-"):
        raise InvalidValueError(_misplaced([script, *arguments]), id="misplaced-option")
    elif script is not None:
        program = script
    else:
        raise InvalidValueError(
            "what is to be profiled? wattstep profile SCRIPT [ARGS...]", id="no-script-given"
        )
    tuned = {} if plan is None else settings_for(plan, program)
    settings = ProfileSettings(
        tuned=tuned,
        script=program,
        module=module is not None,
        arguments=tuple(arguments),
        step_marker=step_marker,
        total_steps=total_steps,
        script_output="stderr" if json else "stdout",
        quiet=quiet,
        **given,
    )
    target = given["target"]
    folder = run_folder(out, name and name + rank_suffix(), run_name(settings))
    with closing(open_execution_host(target, partial(print, file=sys.stderr))) as place:
        here = None if is_elsewhere(target) else Path(folder)
        with watched_script(here, live=live, quiet=quiet) as output:
            settings = replace(settings, output=output)
            code, path = place.profile(settings, folder, *map(str, sent or ()))
    # The exit code is the script's own, whatever becomes of its run.
    try:
        if json:
            show_runs([path], json)
        elif not quiet and code and not load(path).report().steps.recorded:
            say(f"wattstep: {program} ended with exit code {code} before its first step: {path}")
            for line in _meant_for_us(context, program, arguments):
                say(line)
        elif not quiet:
            marked = ["-m"] if module is not None else []
            command = shlex.join(["wattstep", "profile", *marked, program, *arguments])
            show_runs([path], json, full, command=command)
    except DamagedRunError as error:
        say(f"wattstep: {program} ended with exit code {code}; its run cannot be shown: {error}")
    raise typer.Exit(code)


def settings_for(plan: Path, program: str) -> Mapping[str, bool | int | str]:
    """Settings of a plan for a script, with a note where it was tuned for another one.

    Raises:
        InvalidValueError: It cannot be read, or is for a workload.
    """
    from wattstep.plan.file import read_plan

    read = read_plan(plan)
    if not read.script:
        raise InvalidValueError(
            f"--plan {plan} is for {read.workload}: wattstep run --plan {plan}; of a script: wattstep tune {program}",
            id="plan-of-a-workload",
        )
    if read.script not in (program, Path(program).name):
        say(f"wattstep: note: --plan {plan} was tuned for {read.script}")
    return read.settings


def _misplaced(words: Sequence[str]) -> str:
    """Sentence about options of the script that stand before it: the command as it should be."""
    of_us = f"{words[0]}: wattstep profile has no such option (-h lists them)"
    at = next((n for n, word in enumerate(words) if word.endswith(".py")), None)
    if at is None:
        return (
            f"{of_us}; its options go before the script, the script's own after it: "
            "wattstep profile --out DIR SCRIPT --epochs 3"
        )
    command = shlex.join([words[at], *words[:at], *words[at + 1 :]])
    return f"{of_us}; the script's own go after it: wattstep profile {command}"


def _meant_for_us(context: typer.Context, program: str, arguments: Sequence[str]) -> Iterator[str]:
    """Sentence about each option after a script that failed which `wattstep profile` has, too."""
    ours = {spelt for parameter in context.command.params for spelt in parameter.opts}
    for word in arguments:
        option = word.partition("=")[0]
        if option.startswith("--") and option in ours:
            yield (
                f"wattstep: {option} went to the script; where it is meant for wattstep it goes "
                f"before it: wattstep profile {option} ... {program}"
            )
