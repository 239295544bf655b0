"""Records a training on a board whose Python is old, or where nothing may be installed: one file, standard library, Python 3.6 and later.

    python3 wattstep_agent.py look > look.json             what sensors the board has: take it to
                                                           your machine, for `wattstep agent --look`
    python3 wattstep_agent.py run [OPTIONS] SCRIPT ARGS... record a script of your own, unchanged

    import wattstep_agent                                  or mark the steps by yourself
    with wattstep_agent.Recorder("out") as recorder:
        for inputs, targets in loader:
            with recorder.step(samples=len(inputs)):
                ...

It samples in a child process, marks steps, and lets the board's own torch export a trace of a step
now and then. Everything goes to one folder, which `wattstep agent --join FOLDER` turns into a run.
Rows have a fixed width and are in the kernel's hands at once (marks) or within half a second
(samples): what a kill, a full disk or Ctrl-C leaves behind can be joined as well.
"""

import json
import os
import signal
import sys
import time

from wattstep.engines.after_import import after_import
from wattstep.engines.torch.hooks import TorchHooks
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.remote.agent.board.look import Look
from wattstep.remote.agent.board.recorder import Recorder, say
from wattstep.train.listener import ScriptListener
from wattstep.train.running import INTERRUPTED, name_of, run_script

AgentError = WattstepError  # what scripts that mark their own steps may catch


def close_on_terminate(recorder):
    """Has SIGTERM close the recording before it ends the script, as it would have without us."""

    def terminate(number, frame):
        recorder.note("the script was ended (SIGTERM)")
        recorder.close()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)


def run(settings, file, arguments):
    """Records a script; returns its exit code."""
    if not os.path.isfile(file):
        raise InvalidValueError("%s: there is no such script" % file, id="no-such-script")
    name = os.path.splitext(os.path.basename(file))[0]
    out = settings.pop("out", None) or "%s-%s" % (name, time.strftime("%Y%m%d-%H%M%S"))
    recorder = Recorder(out, title=name, **settings).start()
    close_on_terminate(recorder)
    recorder.watch_machine("before")
    script = ScriptListener(recorder, done=lambda: recorder.watch_machine("after"))
    after_import("torch", lambda: TorchHooks(script).install())
    del sys.path[0]  # ours
    code = run_script(file, arguments, lambda error: recorder.note(name_of(error)))
    if code not in (0, INTERRUPTED):
        recorder.note("the script ended with exit code %d" % code)
    script.close(interrupted=code == INTERRUPTED)
    say(
        "recorded into %s; on your machine: wattstep agent --join %s -o RUN"
        % (out, os.path.basename(out))
    )
    return code


OPTIONS = {"--out": str, "--interval": str, "--trace": str, "--every": int, "--warmup": int}
USAGE = (
    "usage: wattstep_agent.py look | "
    "run [--out DIR] [--interval 10ms] [--trace auto|none|layers] [--every N] [--warmup N] SCRIPT ARGS..."
)


def parse(arguments):
    """Settings by name, the script and its own arguments."""
    settings = {}
    rest = list(arguments)
    while rest and rest[0].startswith("--"):
        name, equals, value = rest.pop(0).partition("=")
        if name not in OPTIONS or not (equals or rest):
            raise InvalidValueError("%s is no option, or lacks its value; %s" % (name, USAGE))
        value = value if equals else rest.pop(0)
        try:
            settings[name[2:]] = OPTIONS[name](value)
        except ValueError:
            raise InvalidValueError("%s %s: a whole number is needed" % (name, value))
    if not rest:
        raise InvalidValueError("which script? " + USAGE)
    return settings, rest[0], rest[1:]


def main(arguments):
    """The command line; returns the exit code."""
    try:
        if arguments[:1] == ["look"]:
            root = arguments[2] if arguments[1:2] == ["--root"] and len(arguments) > 2 else "/"
            json.dump(Look(root, os.getpid()).document(), sys.stdout)
            sys.stdout.write("\n")
            return 0
        if arguments[:1] == ["run"]:
            return run(*parse(arguments[1:]))
        raise InvalidValueError(USAGE)
    except WattstepError as error:
        say(error)
        return 2


if __name__ == "__main__":
    # A script that imports this file shall find the one that runs it.
    sys.modules["wattstep_agent"] = sys.modules["__main__"]
    sys.exit(main(sys.argv[1:]))
