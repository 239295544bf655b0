"""Installation on a board: a wheel of wattstep in a private environment, and the libraries that it lacks."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import shlex
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wattstep import errors
from wattstep.errors import MissingPartError, RecordingError
from wattstep.remote.ssh import Connection
from wattstep.remote.ssh.answers import (
    BoardJob,
    complaint,
    parse_answer,
    parse_installed,
    parse_job,
    part,
    path,
    paths,
    unclear,
)
from wattstep.remote.ssh.bootstrap import MARK, OURS
from wattstep.remote.ssh.wording import inert
from wattstep.schema.version import VERSION
from wattstep.store.cache import cache_folder, hash_files

FOLDER: Final = "~/.cache/wattstep-board"
OLDEST: Final = (3, 10)
# What a board needs to record; what shows runs stays here. Minima of pyproject.toml.
NEEDED: Final = {"numpy": "numpy>=1.26", "pyarrow": "pyarrow>=16"}
TORCH_ROOM: Final = 3 * 1024**3  # bytes on disk that a torch from an index may take
ROOM: Final = 64 * 1024**2  # without it not even a small run fits
INSTALL_S: Final = 1800.0
_SCRIPT: Final = Path(__file__).with_name("bootstrap.py")
# Pythons in the order in which they are preferred, where several can do it.
_PYTHONS: Final = (
    '"${VIRTUAL_ENV:-/none}/bin/python" python3 python3.13 python3.12 python3.11 python3.10 '
    "python3.14 python"
)


@dataclass(frozen=True, kw_only=True)
class Board:
    """Facts of a board; see `bootstrap.look`.

    Attributes:
        executable: The Python that is used.
        version: Its version.
        libraries: Version of each library that it can import, "?" where nothing tells.
        places: Folders of its own libraries.
        tegra: Text of NVIDIA's release file; "" where it is no Tegra.
        boot: Of this start of the system.
        folder: Ours, in full.
        home: Of its user's, which no message names; "" where that is not known.
        free: Bytes left on its disk, or None.
        installed: Environments of ours that are complete.
        size: Bytes that ours take.
        jobs: That run there, or wait to be fetched.
    """

    executable: str
    version: tuple[int, ...]
    libraries: Mapping[str, str]
    places: Sequence[str]
    architecture: str
    tegra: str
    boot: str
    folder: str
    free: int | None
    installed: Sequence[str]
    size: int
    jobs: Sequence[BoardJob] = ()
    home: str = ""

    @property
    def runs_wattstep(self) -> bool:
        """True if its Python is new enough."""
        return self.version >= OLDEST

    @property
    def python(self) -> str:
        """Its Python in words."""
        return "Python " + ".".join(map(str, self.version))


def spell_bytes(size: int) -> str:
    """An amount of data as one says it: 812 bytes, 412 kB, 1.2 GB."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.{1 if size < 10 * factor else 0}f} {unit}"
    return f"{size} bytes"


def script() -> bytes:
    """Source text of `bootstrap`, for any Python of the board."""
    return _SCRIPT.read_bytes()


def call(connection: Connection, python: str, *arguments: str) -> dict[str, Any]:
    """Calls `bootstrap` on the board.

    Raises:
        RecordingError: It gave none.
    """
    words = " ".join(map(shlex.quote, arguments))
    finished = connection.run(f"exec {shlex.quote(python)} - {words}", stdin=script())
    if finished.code != 0:
        raise RecordingError(f"the board's Python failed: {complaint(finished)}")
    return parse_answer(finished.output)


def remove(connection: Connection, python: str, folder: str) -> None:
    """Ends what runs in a folder of ours there, and removes it.

    Raises:
        RecordingError: Something of it stays.
    """
    if hindrance := part(call(connection, python, "remove", folder), "error", str):
        raise RecordingError(f"files of ours stay on the board: {inert(hindrance).lower()}")


def look(connection: Connection, folder: str = FOLDER, python: str | None = None) -> Board:
    """Finds the best Python, and what else decides what can run.

    Args:
        connection: To the board.
        folder: The one that holds ours, there; may begin with "~".
        python: The one to take; None: the newest enough one that has torch, else new enough, else
            any.

    Raises:
        RecordingError: There is no Python at all.
    """
    candidates = _PYTHONS if python is None else _quoted(python)
    command = (
        "text=$(cat); for name in " + candidates + "; do "
        'path=$(command -v "$name") || continue; '
        f'"$path" -c "$text" look {shlex.quote(folder)} || true; done'
    )
    finished = connection.run(command, stdin=script())
    boards = [_board(line) for line in finished.output.splitlines() if line.startswith(b"{")]
    if not boards:
        asked = "no Python 3" if python is None else f"no Python at {python}"
        why = f" ({complaint(finished)})" if finished.errors.strip() else ""
        raise RecordingError(f"there is {asked} on the board{why}: name one (python=PATH)")
    return max(boards, key=lambda board: (board.runs_wattstep, "torch" in board.libraries))


def _quoted(path: str) -> str:
    """A path for the shell there, which knows where its user's home is."""
    home = '"$HOME"/' if path.startswith("~/") else ""
    return home + shlex.quote(path.removeprefix("~/") if home else path)


def _board(line: bytes) -> Board:
    """From a line of `bootstrap.look`.

    Raises:
        RecordingError: It is no such line.
    """
    answer = parse_answer(line)
    version, libraries = part(answer, "version", list), part(answer, "libraries", dict)
    folder, free = path(answer, "folder"), answer.get("free")
    if len(version) < 2 or not all(type(n) is int and 0 <= n < 1000 for n in version):
        raise unclear("version")
    if not all(_is_version(known) for known in libraries.values()):
        raise unclear("libraries")
    if not folder.startswith("/") or not folder.endswith(f"/{OURS}"):
        raise unclear("folder")
    return Board(
        executable=path(answer, "executable"),
        version=tuple(version),
        libraries=libraries,
        places=paths(answer, "places"),
        architecture=part(answer, "architecture", str),
        tegra=part(answer, "tegra", str),
        boot=part(answer, "boot", str),
        folder=folder,
        home=part(answer, "home", str),
        free=None if free is None else part(answer, "free", int),
        installed=parse_installed(answer),
        size=part(answer, "size", int),
        jobs=tuple(parse_job(each) for each in part(answer, "jobs", list)),
    )


def _is_version(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isprintable() and len(text) < 100


# --- the wheel ----------------------------------------------------------------------------


def wheel() -> Path:
    """A wheel of the package as it is installed here, made once for each state of its code.

    Raises:
        RecordingError: The cache folder cannot be written.
    """
    package = Path(errors.__file__).parent
    files = {
        f"wattstep/{path.relative_to(package).as_posix()}": path
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = "\n".join(files)
    key = hash_files(files.values(), names, VERSION)[:16]
    folder = cache_folder() / "board" / key
    path = folder / f"wattstep-{VERSION}-py3-none-any.whl"
    if path.exists():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(_packed(files))
        temporary.replace(path)
        _forget_older(folder)
    except OSError as error:
        raise RecordingError(
            f"the wheel for the board cannot be kept in {cache_folder()}: {error.strerror}"
        ) from error
    return path


def _forget_older(folder: Path) -> None:
    for other in folder.parent.iterdir():
        if other != folder:
            for file in other.glob("*.whl"):
                file.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                other.rmdir()


def _packed(files: Mapping[str, Path]) -> bytes:
    """A wheel as PEP 427 has it; the same files give the same bytes."""
    info = f"wattstep-{VERSION}.dist-info"
    contents = {name: path.read_bytes() for name, path in files.items()}
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: wattstep\nVersion: {VERSION}\n"
    ).encode()
    contents[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: wattstep\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = [
        f"{name},sha256={_digest(content)},{len(content)}" for name, content in contents.items()
    ]
    contents[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in contents.items():
            member = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            archive.writestr(member, content)
    return packed.getvalue()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


# --- the environment ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Environment of wattstep on a board.

    Attributes:
        folder: Of the environment.
        python: Its interpreter.
    """

    folder: str
    python: str


def missing(
    board: Board, torch: str | None, *, needs_torch: bool = True, engine: Sequence[str] = ()
) -> list[str]:
    """Requirements that must be installed there, as pip takes them.

    Args:
        board: As found.
        torch: Requirement to install for torch where there is none, or None.
        needs_torch: Whether it cannot be done without torch.
        engine: Module of an engine that trains there, then the requirement that brings it; empty: none
            beside torch.

    Raises:
        MissingPartError: torch is not there, and must or may not be installed by us.
    """
    wanted = [spec for name, spec in NEEDED.items() if not _enough(board, name)]
    if board.version < (3, 11) and "tomli" not in board.libraries:
        wanted.append("tomli>=2")
    if engine and engine[0] not in board.libraries:
        wanted += engine[1:]
    if "torch" in board.libraries:
        return wanted
    if torch is None and not needs_torch:
        return wanted
    if board.tegra:
        raise MissingPartError(
            f"torch is not installed on the board for {board.python}. On a Jetson only NVIDIA's own "
            "builds have CUDA: install the one for its JetPack as NVIDIA's page "
            '"Installing PyTorch for Jetson Platform" says, or name the Python that has it '
            "(python=PATH)",
            id="no-torch-on-jetson",
        )
    if torch is None:
        raise MissingPartError(
            f"torch is not installed on the board for {board.python}: install it there, name the "
            "Python that has it (python=PATH), or have it installed for this run (torch=torch or "
            "torch=torch==2.4.1, from the package index that the board's pip uses)",
            id="no-torch-on-board",
        )
    return [torch, *wanted]


def _enough(board: Board, name: str) -> bool:
    """True if a library is there in a version that serves."""
    version = board.libraries.get(name)
    if version is None:
        return False
    least = NEEDED[name].partition(">=")[2]
    return version == "?" or _numbers(version) >= _numbers(least)


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split("+")[0].split(".")[:2]
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in parts)


def install(
    connection: Connection,
    board: Board,
    say: Callable[[str], None],
    torch: str | None = None,
    *,
    needs_torch: bool = True,
    engine: Sequence[str] = (),
) -> Environment:
    """Makes the environment, unless it is there from before; the board's own torch stays.

    Args:
        connection: To the board.
        board: As found.
        say: Told what travels, and what is installed from where.
        torch: As `missing` takes it.
        needs_torch: As `missing` takes it.
        engine: As `missing` takes it.

    Raises:
        MissingPartError: Something is missing there and cannot be installed.
        RecordingError: The disk there is full, or it cannot be written to.
        ConnectionLostError: As `Connection.run`.
    """
    wanted = missing(board, torch, needs_torch=needs_torch, engine=engine)
    package = wheel()
    identity = [
        package.parent.name,
        board.executable,
        list(board.version),
        wanted,
        list(board.places),
    ]
    name = "environment-" + hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    folder = f"{board.folder}/{name}"
    python = f"{folder}/bin/python"
    if name in board.installed:
        return Environment(folder=folder, python=python)
    _check_room(board, wanted)
    if wanted and "pip" not in board.libraries:
        raise MissingPartError(
            f"{board.python} on the board lacks {', '.join(wanted)}, and has no pip to install them: "
            "install them there (or pip: sudo apt install python3-pip)",
            id="no-pip",
        )
    size = package.stat().st_size
    say(f"to the board: wheel of wattstep {spell_bytes(size)}, into {_shown(board)}")
    if hindrance := part(call(connection, board.executable, "make", board.folder), "error", str):
        raise RecordingError(
            f"no folder can be made on the board ({inert(hindrance).lower()}): name another one "
            "(folder=DIR)"
        )
    if not board.jobs:  # of an older wattstep, kept until now
        for older in board.installed:
            with contextlib.suppress(RecordingError):  # in use since, or held by other means
                remove(connection, board.executable, f"{board.folder}/{older}")
    # Made beside it and renamed, so that half an environment is never taken for a whole one.
    coming = f"{folder}.{os.urandom(4).hex()}"
    try:
        connection.push({package.name: package}, coming)
        _run(connection, _marked(coming, _make(board, coming, package.name)))
        if wanted:
            say(f"the board's pip installs {', '.join(wanted)} there")
            _install_libraries(connection, board, coming, wanted)
        quoted, final = shlex.quote(coming), shlex.quote(folder)
        _run(
            connection,
            f"touch {quoted}/complete && {{ mv {quoted} {final} 2>/dev/null || [ -e {final}/complete ]; }}",
        )
    except BaseException:
        with contextlib.suppress(RecordingError):  # what runs in it is ended first
            remove(connection, board.executable, coming)
        raise
    return Environment(folder=folder, python=python)


def _shown(board: Board) -> str:
    """Our folder as the user named it: the home folder there is nobody's business."""
    return f".../{Path(board.folder).name}"


def _marked(folder: str, command: str) -> str:
    """A command whose processes can be found by the folder that they work in, to be ended."""
    return f"exec env {MARK}={shlex.quote(folder)} sh -c {shlex.quote(command)}"


def _check_room(board: Board, wanted: Sequence[str]) -> None:
    """Refuses to begin what cannot fit.

    Raises:
        RecordingError: The disk there has too little room.
    """
    needed = ROOM + (TORCH_ROOM if any(item.startswith("torch") for item in wanted) else 0)
    if board.free is not None and board.free < needed:
        raise RecordingError(
            f"the board's disk is full: {spell_bytes(board.free)} are left where "
            f"{spell_bytes(needed)} are wanted; make room, or name another folder (folder=DIR)",
            id="remote-disk-low",
        )


def _make(board: Board, folder: str, package: str) -> str:
    """The environment sees what the board's Python sees, after what is installed into it."""
    quoted, python = shlex.quote(folder), shlex.quote(board.executable)
    lines = "".join(f"import site; site.addsitedir({library!r})\n" for library in board.places)
    return (
        f"umask 077; cd {quoted} && {python} -m venv --without-pip --system-site-packages . && "
        "site=$(bin/python -c \"import sysconfig; print(sysconfig.get_path('purelib'))\") && "
        f'{python} -m zipfile -e {package} "$site" && rm {package} && '
        f'printf %s {shlex.quote(lines)} > "$site/board.pth"'
    )


def _install_libraries(
    connection: Connection, board: Board, folder: str, wanted: Sequence[str]
) -> None:
    constraints = [f"torch=={board.libraries['torch']}"] if _known(board, "torch") else []
    if _known(board, "numpy") and board.libraries["numpy"].startswith("1."):
        constraints.append("numpy<2")  # what was built against numpy 1 does not work with 2
    connection.push({"constraints.txt": "\n".join([*constraints, ""]).encode()}, folder)
    items = " ".join(map(shlex.quote, wanted))
    command = (
        f"cd {shlex.quote(folder)} && bin/python -m pip install --no-cache-dir --no-input "
        f"--disable-pip-version-check --prefer-binary --quiet -c constraints.txt {items}"
    )
    finished = connection.run(_marked(folder, command), timeout_s=INSTALL_S)
    if finished.code == 0:
        return
    message = finished.errors.decode(errors="replace")
    names = ", ".join(wanted)
    if "No space left" in message:
        raise RecordingError(
            f"the board's disk is full: {names} do not fit; make room, or name another folder "
            "(folder=DIR)",
            id="remote-disk-full",
        )
    if any(word in message for word in _NO_NETWORK):
        raise MissingPartError(
            f"{board.python} on the board lacks {names}, and the board reaches no package index: "
            "install them there by other means (a wheel from a USB stick), or connect it",
            id="no-package-index",
        )
    raise MissingPartError(
        f"{names} could not be installed on the board: {complaint(finished)}", id="install-failed"
    )


_NO_NETWORK: Final = (
    "NewConnectionError", "Temporary failure in name resolution", "Network is unreachable",
    "Name or service not known", "ConnectTimeoutError", "Max retries exceeded",
)  # fmt: skip


def _known(board: Board, library: str) -> bool:
    return board.libraries.get(library, "?") != "?"


def _run(connection: Connection, command: str) -> None:
    finished = connection.run(command, timeout_s=300.0)
    if finished.code == 0:
        return
    if b"No space left" in finished.errors:
        raise RecordingError(
            "the board's disk is full: make room there, or name another folder (folder=DIR)"
        )
    raise RecordingError(f"wattstep cannot be installed on the board: {complaint(finished)}")
