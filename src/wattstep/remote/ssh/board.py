"""A board as an execution host: what it lacks is put there, and everything is taken away again."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypedDict

from wattstep import engines
from wattstep.engines.exported.folder import FACTS, ExportedFolder
from wattstep.errors import (
    DamagedRunError,
    InvalidValueError,
    MissingPartError,
    RecordingError,
    RunExistsError,
    UnrecordedInterrupt,
    before_recording,
    error_of,
)
from wattstep.record.hosts import Target
from wattstep.remote.ssh import ConnectionLostError
from wattstep.remote.ssh.answers import (
    JobEnd,
    nameless,
    parse_diagnosis,
    parse_progress,
    part,
    unclear,
)
from wattstep.remote.ssh.description import EXPORT, JobDescription
from wattstep.remote.ssh.install import (
    FOLDER,
    Board,
    Environment,
    call,
    install,
    look,
    spell_bytes,
)
from wattstep.remote.ssh.job import RECONNECT_S, Followed, Job, Patience, Say, complete
from wattstep.remote.ssh.ssh import Address, SshConnection
from wattstep.remote.ssh.wording import each_text, inert, inert_lines
from wattstep.schema.diagnosis import Diagnosis
from wattstep.schema.outcome import Configuration, Outcome
from wattstep.schema.settings import parse_duration
from wattstep.store.files import make_above, new_name, remove_empty
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.child.measuring import Listener
from wattstep.train.progress import Progress
from wattstep.train.script import ProfileSettings
from wattstep.train.settings import TrainingSettings

_YES_NO: Final = {"yes": True, "no": False}
RESTARTED: Final = "the board was restarted in the middle"
DIED: Final = "the job on the board ended without a word (killed, perhaps for want of memory)"


@dataclass(frozen=True, kw_only=True)
class BoardOptions:
    """Options after the commas of `--target ssh://...`.

    Attributes:
        python: The interpreter to use there, or None for the best one found.
        folder: The one there in which ours is made, or ours by its name.
        keep: Whether the installation stays for the next time.
        agent: "yes", "no", or "auto": where its Python is too old.
        torch: Requirement to install for torch where there is none, as pip takes it, or None.
        reconnect_s: How long the board may be away at a time.
    """

    python: str | None = None
    folder: str = FOLDER
    keep: bool = False
    agent: str = "auto"
    torch: str | None = None
    reconnect_s: float = RECONNECT_S

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> BoardOptions:
        """From the options of a target.

        Raises:
            InvalidValueError: One is unknown, or has no such value.
        """
        known = ("python", "folder", "keep", "agent", "torch", "reconnect")
        for key, value in options.items():
            if key not in known:
                raise InvalidValueError(
                    f"--target ssh: no option {key}; there are {', '.join(known)}",
                    id="unknown-target-option",
                )
            if not value or not value.isprintable() or value.startswith("-"):
                raise InvalidValueError(
                    f"--target ssh: {key}={value!r} cannot be used", id="malformed-option"
                )
        keep, agent = options.get("keep", "no"), options.get("agent", "auto")
        if keep not in _YES_NO:
            raise InvalidValueError(f"--target ssh: keep={keep}: yes or no", id="malformed-option")
        if agent not in (*_YES_NO, "auto"):
            raise InvalidValueError(
                f"--target ssh: agent={agent}: yes, no or auto", id="malformed-option"
            )
        reconnect = options.get("reconnect")
        return cls(
            python=options.get("python"),
            folder=options.get("folder", FOLDER),
            keep=_YES_NO[keep],
            agent=agent,
            torch=options.get("torch"),
            reconnect_s=RECONNECT_S if reconnect is None else parse_duration(reconnect),
        )


def open_execution_host(target: Target, say: Say) -> RemoteBoard:
    """Connects to a board and looks at it.

    Args:
        target: ssh://USER@BOARD:PORT with options.
        say: Takes lines for the user.

    Raises:
        WattstepError: It cannot be reached, or refuses us, or an option is unknown.
    """
    options = BoardOptions.parse(target.options)
    connection = SshConnection(Address.parse(target.name), say=say)
    try:
        return RemoteBoard(connection, options, say)
    except BaseException:
        connection.close()
        raise


class RemoteBoard:
    """An `ExecutionHost` over a connection; one job at a time.

    Args:
        connection: Open; it is closed with this.
        options: How the board is used.
        say: Takes lines for the user.

    Raises:
        RecordingError: There is no Python.
        ConnectionLostError: The board is away.
    """

    def __init__(self, connection: Followed, options: BoardOptions, say: Say) -> None:
        self._connection, self._options, self._say = connection, options, say
        self.board: Board = look(connection, options.folder, options.python)
        self._environment: Environment | None = None
        self._left: list[str] = []  # jobs that could not be brought back
        self._job: Job | None = None

    # --- what can be done there -------------------------------------------------------------

    def train(
        self,
        settings: TrainingSettings,
        on_progress: Callable[[Progress], None],
        on_warning: Callable[[str], None],
        limit: MemoryLimit | None,
    ) -> Path:
        """Trains there, and brings the run into `settings.out`; see `ExecutionHost.train`.

        Of `limit` only the size counts: how it is enforced is decided there. `settings.data_dir`
        is a folder of the board.
        """
        out = Path(settings.out or str(Path("runs") / new_name(settings.workload)))
        self._check_python()
        described = JobDescription.of_training(settings, out, limit)
        hearing = _Hearing(on_progress, on_warning, sys.stderr)
        self._do(described, out, hearing, files_of_export(settings), **_needs(settings))
        if not (out / "run.json").exists():
            raise unclear("a training without a run")
        return out

    def measure(
        self,
        configuration: Configuration,
        settings: TrainingSettings,
        limit: MemoryLimit | None,
        listener: Listener,
    ) -> Outcome:
        """Measures one configuration of a sweep there; see `measuring.measure`.

        Raises:
            ConnectionLostError: The board was away for too long; the measurement goes on there.
            RecordingError: The board was restarted, or nothing can be recorded there; what was
                recorded is in `settings.out`.
        """
        out = Path(settings.out or configuration.name)
        self._check_python()
        described = JobDescription.of_training(settings, out, limit, configuration)
        hearing = _Hearing(listener.on_progress, listener.on_warning, None)
        files = files_of_export(settings)
        ending = self._do(described, out, hearing, files, **_needs(settings))
        try:
            outcome = Outcome.from_dict(self._nameless(part(ending, "outcome", dict)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise unclear("outcome") from error
        run = out.name if (out / "run.json").exists() else None
        return replace(outcome, configuration=configuration, run=run)

    def profile(self, settings: ProfileSettings, out: str, *sent: str) -> tuple[int, Path]:
        """Runs a script of the user's there; see `ExecutionHost.profile`.

        Args:
            settings: The script, and nothing else, goes there.
            out: The run here.
            sent: Files that go along into the folder in which it runs.
        """
        agent = self._options.agent
        if agent == "yes" or (agent == "auto" and not self.board.runs_wattstep):
            return self._with_agent(settings, out, sent)
        files = files_of_script(settings, sent)
        remote_settings = replace(
            settings,
            script=settings.script if settings.module else _name(settings.script),
            target="ssh:board",
        )
        described = JobDescription.of_script(
            remote_settings, Path(settings.script).name, Path(out).name
        )
        aside = sys.stderr if settings.script_output == "stderr" else sys.stdout
        hearing = _Hearing(lambda _: None, self._say, sys.stderr, aside)
        ending = self._do(described, Path(out), hearing, files, needs_torch=False)
        return part(ending, "code", int), Path(out)

    def diagnose(self, interval: str) -> Diagnosis:
        """Findings of `doctor` there; see `train.doctor.diagnose`."""
        described = JobDescription.of_diagnosis(interval)
        hearing = _Hearing(lambda _: None, self._say, sys.stderr)
        ending = self._do(described, None, hearing, needs_torch=False)
        diagnosis = parse_diagnosis(self._nameless(part(ending, "found", dict)))
        return {**diagnosis, "target": "ssh:board"}

    def end_job(self) -> None:
        """Ends what runs there as Ctrl-C does; for another thread than the one that waits for it."""
        job = self._job  # the other thread may be done with it
        if job is not None:
            job.stop(signal.SIGINT)

    def close(self) -> None:
        """Takes everything of ours away, unless it is to stay, and says what stays."""
        try:
            if self._left:
                self._say(
                    f"on the board stay {', '.join(self._left)}: `wattstep targets` with --fetch "
                    "brings them back, with --clean it removes everything of ours"
                )
            elif self._options.keep:
                self._say_kept()
            elif not clean(self._connection, self.board):
                self._say(
                    "the installation stays on the board, since other jobs use it: `wattstep "
                    "targets` shows them"
                )
        except RecordingError as error:
            self._say(
                f"what was put on the board stays there ({error}): `wattstep targets` with --clean "
                "removes it"
            )
        finally:
            self._connection.close()

    # --- how --------------------------------------------------------------------------------

    def _check_python(self) -> None:
        if self.board.runs_wattstep and self._options.agent != "yes":
            return
        had = (
            "agent=yes was asked for" if self.board.runs_wattstep else f"it has {self.board.python}"
        )
        raise MissingPartError(
            f"workloads need Python 3.10 or later on the board, and {had}: name one that has torch "
            "(python=PATH), or record a script of your own there, which an agent does under any "
            "Python from 3.6 on: wattstep profile --target ssh://... SCRIPT",
            id="python-too-old",
        )

    def _with_agent(
        self, settings: ProfileSettings, out: str, sent: tuple[str, ...]
    ) -> tuple[int, Path]:
        from wattstep.remote.ssh.agent import profile_with_agent

        if sent:
            raise InvalidValueError("--with: the agent takes the script alone")
        self._say(f"{self.board.python} on the board: an agent of one file records there")
        code, run = profile_with_agent(
            self._connection,
            settings,
            out,
            self._say,
            python=self.board.executable,
            folder=self.board.folder,
            patience_s=self._options.reconnect_s,
        )
        complete(run)
        return code, run

    def _do(
        self,
        described: JobDescription,
        out: Path | None,
        hearing: _Hearing,
        files: Mapping[str, Path | bytes] | None = None,
        *,
        needs_torch: bool = True,
        engine: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Runs a job from its beginning until nothing of it is left there."""
        if not self.board.runs_wattstep:
            self._check_python()
        if out is not None and out.exists():
            raise RunExistsError(f"{out} exists already: choose another folder, or remove it first")
        patience = Patience(self._options.reconnect_s, self._say)
        needs = _Needs(needs_torch=needs_torch, engine=engine)
        job = self._begun(described, files or {}, patience, needs)
        self._job = job
        try:
            job_end = self._followed(job, hearing, patience)
            if out is not None:
                self._end_all(job, patience)
                self._bring_back(job, out, job_end.state, patience)
                if described.kind == "profile":
                    self._bring_written(job, out, patience)
            patience.keep_at(job.remove, "the run is here")
            self._left.remove(job.identity)
        except ConnectionLostError as error:
            raise ConnectionLostError(
                f"{error}. The job goes on there or waits to be fetched: wattstep targets TARGET "
                "--fetch",
                id="job-goes-on",
            ) from error
        finally:
            self._job = None
        return self._ending(job_end, job, out)

    def _begun(
        self,
        described: JobDescription,
        files: Mapping[str, Path | bytes],
        patience: Patience,
        needs: _Needs,
    ) -> Job:
        with before_recording():
            environment = self._installed(needs)
        identity = new_name(Path(described.run or described.kind).name)
        job = Job(self._connection, self.board.executable, self.board.folder, identity)
        self._left.append(identity)  # until it is known to be back, or never to have begun
        try:
            sent = job.send(described, files, patience)
            what = " and ".join(["settings", *files])
            self._say(f"to the board: {what}, {spell_bytes(sent)}")
            if not job.start(environment.python, patience):  # somebody has just removed it
                again = self._installed(needs)
                if not job.start(again.python, patience):
                    raise RecordingError("the installation on the board is gone again: try again")
        except BaseException as error:
            if job.forget():
                self._left.remove(identity)
                if isinstance(error, KeyboardInterrupt):
                    raise UnrecordedInterrupt from error
            raise
        return job

    def _installed(self, needs: _Needs) -> Environment:
        """Once for all jobs, unless somebody took it away meanwhile."""
        known = self._environment
        if known is not None:
            check = self._connection.run(f"[ -x {shlex.quote(known.python)} ]")
            if check.code == 0:
                return known
            self.board = replace(self.board, installed=())
        self._environment = install(
            self._connection, self.board, self._say, self._options.torch, **needs
        )
        return self._environment

    def _followed(self, job: Job, hearing: _Hearing, patience: Patience) -> JobEnd:
        """Until its end; the first Ctrl-C asks it to end, the second one ends it."""
        number = signal.SIGINT
        while True:
            try:
                return job.follow(hearing, patience)
            except KeyboardInterrupt:
                self._say("ending it on the board; once more ends it the hard way")
                job.stop(number)
                number = signal.SIGKILL

    def _end_all(self, job: Job, patience: Patience) -> None:
        """Ends all that the job started, which would go on without it and write while it is brought back."""
        patience.keep_at(lambda: job.stop(signal.SIGKILL), "what was recorded is kept there")

    def _bring_back(self, job: Job, out: Path, state: str, patience: Patience) -> None:
        above = make_above(out)
        if patience.keep_at(lambda: job.bring_back(out), "what was recorded is kept there"):
            note = {"restarted": RESTARTED, "died": DIED}.get(state)
            try:
                complete(out, None if note is None else f"{note}: recorded up to then")
            except DamagedRunError as error:  # it is here all the same, as it was there
                self._say(inert(f"{out}: {error}"))
        else:
            remove_empty(above)
        leave_out_names(out, self.board)

    def _bring_written(self, job: Job, out: Path, patience: Patience) -> None:
        """Brings the files that the script wrote into its folder, which goes away there."""
        target = written_beside(out)
        size = patience.keep_at(
            lambda: job.bring_written(target, self._say), "its files are kept there"
        )
        if size:
            self._say(f"what the script wrote there is in {target} ({spell_bytes(size)})")

    def _ending(self, job_end: JobEnd, job: Job, out: Path | None) -> dict[str, Any]:
        """Result that the job gave at its end; raises the error that it stands for."""
        advice = (
            f"; what was recorded up to then is kept: wattstep report {out}"
            if out is not None and (out / "run.json").exists()
            else "; nothing had been recorded"
        )
        if job_end.state == "restarted":
            raise RecordingError(RESTARTED + advice, id="board-restarted")
        if job_end.state != "finished":
            raise RecordingError(DIED + advice, id="job-died")
        ending = job_end.ending
        if ending.get("interrupted"):
            raise KeyboardInterrupt
        if "error" in ending:
            line = self._local(part(ending, "error", str), job, out)
            raise error_of(ending, line, otherwise=RecordingError)
        return ending

    def _local(self, text: str, job: Job, out: Path | None) -> str:
        """A message of the board's, with the paths that the user knows."""
        if out is not None:
            text = text.replace(f"{job.folder}/runs/{out.name}", str(out))
        return str(self._nameless(text.replace(job.folder, "the job's folder")))

    def _nameless(self, value: Any) -> Any:
        """Without the folders of the board's user, and as a person may see it."""
        return each_text(nameless(value, self.board.folder, self.board.home), inert)

    def _say_kept(self) -> None:
        board = look(self._connection, self._options.folder, self.board.executable)
        if board.size:
            self._say(f"kept on the board for the next time: {spell_bytes(board.size)} (keep=yes)")


class _Hearing:
    """Passes on what a job says: to those who asked, and to our own outputs.

    What a script of the user's own says (`output_to`) is passed on as it is, as it would be here.
    """

    def __init__(
        self,
        on_progress: Callable[[Progress], None],
        on_warning: Callable[[str], None],
        errors_to: Any,
        output_to: Any = None,
    ) -> None:
        self._on_progress, self._on_warning = on_progress, on_warning
        self._outputs = {"stderr": errors_to, "stdout": output_to or errors_to}
        self._of_script = output_to is not None

    def news(self, line: dict[str, Any]) -> None:
        """Progress, or a warning."""
        if "progress" in line:
            self._on_progress(parse_progress(line))
        elif "warning" in line:
            self._on_warning(inert(part(line, "warning", str)))

    def output(self, name: str, text: str) -> None:
        """Written where it would have gone here."""
        stream = self._outputs[name]
        if stream is not None:
            stream.write(text if self._of_script else inert_lines(text))
            stream.flush()


def written_beside(out: Path) -> Path:
    """Folder here for the files that a script wrote on a board, beside its run."""
    return out.with_name(f"{out.name}.files")


def leave_out_names(out: Path, board: Board) -> None:
    """Takes the board's folders out of the output that a measurement keeps beside its run.

    Args:
        out: The run here.
        board: Whose folders.

    Raises:
        RecordingError: It cannot be written.
    """
    path = out.with_name(f"{out.name}.txt")
    if not path.exists():
        return
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        text = nameless(text, board.folder, board.home)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise RecordingError(f"{path} cannot be written: {error.strerror}") from error


def _name(path: str) -> str:
    return Path(path).name


class _Needs(TypedDict):
    """What a job cannot do without, as `install.missing` takes it."""

    needs_torch: bool
    engine: Sequence[str]


def _needs(settings: TrainingSettings) -> _Needs:
    engine = engines.find(settings.engine)
    return _Needs(
        needs_torch=settings.exported is None,
        engine=(engine.module, *engine.requires) if engine.exports else (),
    )


def files_of_export(settings: TrainingSettings) -> dict[str, Path | bytes]:
    """Files of the exported training that goes to the board, checked, by their place in the job's folder.

    Raises:
        InvalidValueError: There is no such export.
        DamagedRunError: It was cut off, or changed.
    """
    if settings.exported is None:
        return {}
    folder = ExportedFolder(Path(settings.exported))
    names = (FACTS, *folder.training.files)
    return {f"{EXPORT}/{name}": folder.path / name for name in names}


def files_of_script(settings: ProfileSettings, sent: tuple[str, ...]) -> dict[str, Path | bytes]:
    """Files that go along with a script: itself and those that were named, by their names.

    Raises:
        InvalidValueError: One is not there, or two have the same name.
    """
    paths = [*([] if settings.module else [settings.script]), *sent]
    files: dict[str, Path | bytes] = {}
    for path in paths:
        if not Path(path).is_file():
            raise InvalidValueError(
                f"{path}: there is no such file to send to the board", id="no-such-file"
            )
        if _name(path) in files:
            raise InvalidValueError(f"{path}: two files of this name would go to the board")
        files[_name(path)] = Path(path)
    return files


def clean(connection: Followed, board: Board, *, all_jobs: bool = False) -> bool:
    """Removes what is ours from a board, by name, and nothing else.

    Args:
        connection: To the board.
        board: As found.
        all_jobs: Also jobs, whoever began them.

    Returns:
        Whether everything is gone; a job that somebody else began keeps the installation.

    Raises:
        RecordingError: Something cannot be removed.
    """
    force = ["force"] if all_jobs else []
    answer = call(connection, board.executable, "clean", board.folder, *force)
    if hindrance := part(answer, "error", str):
        raise RecordingError(f"files of ours stay on the board: {inert(hindrance).lower()}")
    return part(answer, "stays", int) == 0
