"""The command line: the list of commands, and how errors end it."""

from __future__ import annotations

import difflib
import functools
import importlib
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer
import typer.core

from wattstep.cli.saying import REFUSED, refuse, say
from wattstep.errors import InvalidValueError, UnrecordedInterrupt, WattstepError
from wattstep.schema.failures import contained
from wattstep.schema.processes import Terminated

# A command is a function in a file of its own; the file loads only when the command is listed
# or used, and loads what it needs only when it runs.
COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "demo": "wattstep.cli.demo:demo",
        "doctor": "wattstep.cli.doctor:doctor",
        "boards": "wattstep.cli.boards:boards",
        "devices": "wattstep.cli.devices:devices",
        "suite": "wattstep.cli.suite:suite",
        "engines": "wattstep.cli.engines:engines",
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
        "tune": "wattstep.cli.tune:tune",
        "schedule": "wattstep.cli.schedule:schedule",
        "study": "wattstep.cli.study:study",
        "daily": "wattstep.cli.daily:daily",
        "label": "wattstep.cli.label:label",
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
UNREAD = 141  # as a shell says of a tool that SIGPIPE ended
KEPT = "; what was recorded is kept"
UNRECORDED = " before anything of this run was recorded"
# These record nothing that Ctrl-C could cost.
_READING = ("compare", "explain", "export", "live", "observe", "query", "report", "runs", "serve")
_WANTED: Final = (
    ("integer", "one whole number is wanted"), ("number", "one number is wanted"), ("float", "one number is wanted"),
)  # fmt: skip
_UsageError: Final[Any] = typer.BadParameter.__base__  # what click, or typer's own, cannot parse
_OWN_OPTIONS: Final = (
    "--version", "--help", "-h", "--install-completion", "--show-completion",
)  # fmt: skip
_HELP = (
    "What it costs to train a neural network: time, energy, memory, down to the operation. "
    "Every number says whether it was measured."
)


def run_command_line() -> int:
    """Parses the arguments, runs the command, and turns errors into one line and an exit code.

    Returns:
        0; 2 for what the user can mend; 70 where something failed inside; 130 after Ctrl-C; 143 after SIGTERM, once
        the training has ended; 141 where nobody reads on what is printed; or the profiled script's own.
    """
    try:
        code = _run()
        sys.stdout.flush()  # not at the interpreter's end, where a closed pipe is a complaint
    except BrokenPipeError:  # whoever read us has had enough: wattstep show RUN | head -3
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    return code


def _run() -> int:
    """The exit code of the command.

    Raises:
        BrokenPipeError: Nobody reads on what it prints.
    """
    try:
        check_order(sys.argv[1:])
        _call(_app(_needed(sys.argv[1:])))
    except WattstepError as error:  # of words and defaults: no command has begun
        _dump(error, "--json" in sys.argv)
        say(f"wattstep: {error}")
        return REFUSED
    except BrokenPipeError:
        raise
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):  # rich and click end with 1 for it
            raise ending.__context__ from None
        code = ending.code if isinstance(ending.code, int) else 0
        if code == STOPPED:  # typer makes that of Ctrl-C, before anything reaches us
            what = UNRECORDED if _is_unrecorded(ending) else KEPT
            say(f"wattstep: stopped{'' if sys.argv[1] in _READING else what}")
        if isinstance(ending, Terminated):
            say(f"wattstep: {ending}{KEPT}")
        return code
    except KeyboardInterrupt:  # no command has begun
        say("wattstep: stopped")
        return STOPPED
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
        app.command(name, cls=_Command, context_settings=getattr(module, "CONTEXT", {}))(
            _refusing(getattr(module, function))
        )
    app.callback(invoke_without_command=True)(_show_version)
    return app


class _Command(typer.core.TyperCommand):
    """A command that says in one line what has to be written, where that is missing or not understood."""

    # Contexts are of click, which newer versions of typer have within themselves.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses what stands after the command.

        Raises:
            InvalidValueError: What it cannot do without is missing, or a word is not understood.
        """
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
            if not ctx.resilient_parsing:  # as for completions
                self._check_paths(ctx, words)
        except _UsageError as error:
            raise self._refusal(ctx, words, error) from error
        return rest

    def _given(self, ctx: Any, words: list[str]) -> dict[str, Any]:
        """Texts of the parameters that the defaults or the words have, by name."""
        return {**(ctx.default_map or {}), **self.make_parser(ctx).parse_args(args=list(words))[0]}

    def _check_paths(self, ctx: Any, words: list[str]) -> None:
        """Refuses empty paths, as of a variable that is not set: as a `Path` they are the folder that one is in."""
        given = self._given(ctx, words)
        for each in self.params:
            texts, values = (_listed(of.get(each.name)) for of in (given, ctx.params))
            if "" in texts and (each.metavar == "DIR" or any(isinstance(v, Path) for v in values)):
                raise InvalidValueError(
                    f"{_written(each)}: the path is empty: write one, or leave it out",
                    id="empty-path",
                )

    def _refusal(self, ctx: Any, words: list[str], error: Any) -> InvalidValueError:
        """What click has a box for, in one line."""
        wrong = getattr(error, "param", None)
        told = str(getattr(wrong, "help", None) or "").rstrip(".")
        told = f" ({told})" if told else ""
        if type(error).__name__ == "MissingParameter":
            required = [each for each in self.params if each.required]
            line = " ".join(["wattstep", str(self.name), *map(_written, required)])
            return InvalidValueError(f"incomplete: {line}{told}", id="missing-argument")
        if wrong is not None:
            message = str(error.message).rstrip(".")  # which is otherwise in each version of typer
            wanted = next((own for word, own in _WANTED if word in message), message)
            name = wrong.opts[0] if wrong.param_type_name == "option" else _written(wrong)
            text = self._given(ctx, words).get(wrong.name)
            return InvalidValueError(f"{name} {text!r}: {wanted}{told}", id="malformed-value")
        message = str(error.format_message()).rstrip(".")
        return InvalidValueError(
            f"{message[:1].lower()}{message[1:]}: wattstep {self.name} --help lists what there is",
            id="malformed-command",
        )


def _listed(value: Any) -> Sequence[Any]:
    """Values of a parameter that may have several."""
    return value if isinstance(value, list | tuple) else [value]


def _written(parameter: Any) -> str:
    """An argument or option as it stands on a command line: RUN, --meter FILE."""
    word = parameter.metavar or str(parameter.name).upper()
    return word if parameter.param_type_name == "argument" else f"{parameter.opts[0]} {word}"


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

    group(prog_name="wattstep", default_map=defaults(group.commands, os.environ, Path.cwd(), every))


def check_order(words: Sequence[str]) -> None:
    """Refuses what stands where the command belongs, with the command line as it should be.

    Args:
        words: After `wattstep`.

    Raises:
        InvalidValueError: The first word is neither a command nor an option of `wattstep` itself.
    """
    first, rest = (words[0], words[1:]) if words else ("", ())
    if first in (*COMMANDS, *_OWN_OPTIONS, "") or first.partition("=")[0] in _OWN_OPTIONS:
        return
    if first.startswith("-"):
        at = next((n for n, word in enumerate(words) if word in COMMANDS), None)
        if at is None:
            raise InvalidValueError(
                f"{first}: the command comes first, its options after it: wattstep COMMAND {first} "
                "(wattstep --help lists the commands)",
                id="no-command",
            )
        line = shlex.join(["wattstep", words[at], *words[:at], *words[at + 1 :]])
        raise InvalidValueError(
            f"{first}: options stand after the command: {line}", id="options-first"
        )
    if first.endswith(".py"):
        own = [word for word in rest if word != "profile"]
        line = shlex.join(["wattstep", "profile", first, *own])
        raise InvalidValueError(
            f"{first} is no command; to record a script: {line}", id="no-command"
        )
    if Path(first, "run.json").exists():
        raise InvalidValueError(
            f"{first} is a run, and no command: wattstep show {shlex.quote(first)}", id="no-command"
        )
    close = difflib.get_close_matches(first, COMMANDS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise InvalidValueError(
        f"there is no command {first}: {hint}(wattstep --help lists them)", id="no-command"
    )


def _needed(arguments: Sequence[str]) -> Iterable[str]:
    """The command that is asked for; all of them where they are to be listed."""
    if [*arguments] == ["--version"]:
        return ()
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
