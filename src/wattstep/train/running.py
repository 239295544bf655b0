"""Runs somebody's own script as Python itself would, in this process; Python 3.6 and later."""

from __future__ import annotations

import runpy
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path

INTERRUPTED = 130  # the exit code after Ctrl-C
MOST_TEXT = 300  # characters of an error's text


def run_script(
    script: str,
    arguments: Sequence[str],
    failed: Callable[[BaseException], None],
    *,
    module: bool = False,
) -> int:
    """Runs a script to its end; returns its exit code.

    Args:
        script: Its file, or the module's name.
        arguments: Its own.
        failed: Told of the error that it ended with.
        module: Whether it is a module (`python -m`).
    """
    try:
        if module:
            sys.path.insert(0, str(Path.cwd()))
            sys.argv = [script, *arguments]
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            _run_file(script, arguments)
    except SystemExit as ending:
        return _exit_code(ending)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:
        failed(error)
        _print_error(error)
        return 1
    return 0


def _run_file(script: str, arguments: Sequence[str]) -> None:
    """The script becomes `__main__`, so that what it pickles and spawns finds it."""
    sys.path.insert(0, str(Path(script).resolve().parent))
    sys.argv = [script, *arguments]
    module = types.ModuleType("__main__")
    module.__file__ = file = str(Path(script).absolute())
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    exec(compile(Path(file).read_bytes(), file, "exec"), module.__dict__)


def _exit_code(ending: SystemExit) -> int:
    if ending.code is None:
        return 0
    if isinstance(ending.code, int):
        return ending.code
    print(ending.code, file=sys.stderr)
    return 1


def name_of(error: BaseException) -> str:
    """What a script ended with, in words."""
    return f"the script ended with {type(error).__name__}"


def place_of(error: BaseException, script: str) -> str:
    """The error's text and the script's line that it came from, in words; "" where it has neither.

    Args:
        error: That a script ended with.
        script: Its file.
    """
    frames = [
        each.lineno for each in traceback.extract_tb(error.__traceback__)
        if Path(each.filename).name == Path(script).name
    ]  # fmt: skip
    line = error.lineno if isinstance(error, SyntaxError) else (frames or [None])[-1]
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    text = " ".join(str(text).split())[:MOST_TEXT]
    where = "" if line is None else f"line {line}"
    return ", ".join(each for each in (text, where) if each)


def _print_error(error: BaseException) -> None:
    """The script's own traceback, without the frames that are ours."""
    trace = error.__traceback__
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
