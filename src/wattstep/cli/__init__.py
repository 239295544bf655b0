"""The command line: the list of commands, and how errors end it."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer

from wattstep.cli.saying import REFUSED, refuse, say
from wattstep.errors import UnrecordedInterrupt, WattstepError
from wattstep.schema.failures import contained

# A command is a function in a file of its own; the file loads only when the command is listed
# or used, and loads what it needs only when it runs.
COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "demo": "wattstep.cli.demo:demo",
        "doctor": "wattstep.cli.doctor:doctor",
        "boards": "wattstep.cli.boards:boards",
        "devices": "wattstep.cli.devices:devices",
        "suite": "wattstep.cli.suite:suite",
        "data": "wattstep.cli.data:data",
        "run": "wattstep.cli.run:run",
        "profile": "wattstep.cli.profile:profile",
        "attach": "wattstep.cli.attach:attach",
        "live": "wattstep.cli.live:live",
        "targets": "wattstep.cli.targets:targets",
        "memory": "wattstep.cli.memory:memory",
        "sweep": "wattstep.cli.sweep:sweep",
        "fits": "wattstep.cli.fits:fits",
        "predict": "wattstep.cli.predict:predict",
        "plan": "wattstep.cli.plan:plan",
        "daily": "wattstep.cli.daily:daily",
        "import": "wattstep.cli.import_:import_",
        "report": "wattstep.cli.report:report",
        "compare": "wattstep.cli.compare:compare",
        "explain": "wattstep.cli.explain:explain",
        "ceilings": "wattstep.cli.ceilings:ceilings",
        "observe": "wattstep.cli.observe:observe",
        "calibrate": "wattstep.cli.calibrate:calibrate",
        "calibrate-device": "wattstep.cli.calibrate_device:calibrate_device",
        "export": "wattstep.cli.export:export",
        "runs": "wattstep.cli.runs:runs",
        "show": "wattstep.cli.show:show",
        "serve": "wattstep.cli.serve:serve",
        "query": "wattstep.cli.query:query",
        "agent": "wattstep.cli.agent:agent",
    }
)
STOPPED = 130
FAILED = 70  # as EX_SOFTWARE of sysexits.h
KEPT = "; what was recorded is kept"
UNRECORDED = " before anything of this run was recorded"
_HELP = (
    "What it costs to train a neural network: time, energy, memory, down to the operation. "
    "Every number says whether it was measured."
)


def run_command_line() -> int:
    """Parses the arguments, runs the command, and turns errors into one line and an exit code.

    Returns:
        0; 2 for what the user can mend; 70 where something failed inside; 130 after Ctrl-C; or the profiled script's own.
    """
    try:
        _call(_app(_needed(sys.argv[1:])))
    except WattstepError as error:  # of defaults: no command has begun
        _dump(error, "--json" in sys.argv)
        say(f"wattstep: {error}")
        return REFUSED
    except BrokenPipeError:  # whoever read us has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0
        if code == STOPPED:  # typer makes that of Ctrl-C, before anything reaches us
            what = UNRECORDED if _is_unrecorded(ending) else KEPT
            say(f"wattstep: stopped{what}")
        return code
    except Exception as error:
        say(f"wattstep: failed inside, please report it: {contained(error)}")
        return FAILED
    return 0


def _app(names: Iterable[str]) -> typer.Typer:
    """The commands of these names."""
    app = typer.Typer(
        help=_HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in names:
        place, _, function = COMMANDS[name].partition(":")
        module = importlib.import_module(place)
        app.command(name, context_settings=getattr(module, "CONTEXT", {}))(
            _refusing(getattr(module, function))
        )
    app.callback(invoke_without_command=True)(_show_version)
    return app


def _refusing(command: Callable[..., None]) -> Callable[..., None]:
    """The command, whose refusals are a document on standard output too where it is asked for JSON."""

    @functools.wraps(command)
    def refusing(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except WattstepError as error:
            _dump(error, bool(options.get("json")))
            refuse(error)

    return refusing


def _dump(error: WattstepError, as_json: bool) -> None:
    """Prints which refusal it is, for scripts."""
    if as_json:
        from wattstep.report.json_document import dump

        dump(error.document(), sys.stdout)


def _call(app: typer.Typer) -> None:
    """Runs the command, with the defaults that environment and project give its options."""
    from wattstep.cli.defaults import defaults

    group: Any = typer.main.get_command(app)  # newer versions of typer have their own click

    def every() -> Any:
        whole: Any = typer.main.get_command(_app(COMMANDS))
        return whole.commands

    group(default_map=defaults(group.commands, os.environ, Path.cwd(), every))


def _needed(arguments: Sequence[str]) -> Iterable[str]:
    """The command that is asked for; all of them where they are to be listed."""
    return arguments[:1] if arguments and arguments[0] in COMMANDS else COMMANDS


def _is_unrecorded(ending: BaseException) -> bool:
    """True if the Ctrl-C that typer made an exit of came before a recording began."""
    cause: BaseException | None = ending
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return isinstance(cause, UnrecordedInterrupt)


def _show_version(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if version:
        from wattstep import __version__

        print(f"wattstep {__version__}")
        raise typer.Exit
