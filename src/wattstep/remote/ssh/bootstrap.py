"""Actions on a board before anything of ours is installed there: look, start, follow, stop, remove.

One file for Python 3.6 and later that imports nothing but the standard library: it travels as text
to whatever Python the board has. What it writes are lines of JSON. It removes what bears a name of
ours only, one by one: the folder that the user named may hold anything else.
"""

import base64
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

BOOT_ID = "/proc/sys/kernel/random/boot_id"
LIBRARIES = ("numpy", "pyarrow", "tomli", "torch", "pip", "MNN", "onnxruntime", "executorch", "mlx")
JOB, HOLDER, ENDING, NEWS = "job.json", "holder.json", "ending.json", "news.jsonl"
OUTPUTS = ("stdout", "stderr")
FOLLOWED = (NEWS, *OUTPUTS)
LOOK_EVERY_S = 0.2
ALIVE_EVERY_S = 5.0
BLOCK = 65536
OURS = "wattstep-board"  # our folder, in whatever folder the user named
MADE, LOCK = "made.json", "wattstep-measuring.lock"
ENVIRONMENT = re.compile(r"environment-[0-9a-f]{16}")
AGENT = re.compile(r"agent-[0-9a-f]{16}")
HALF = re.compile(r"environment-[0-9a-f]{16}\.[0-9a-f]{8}")  # while it is made
JOB_NAME = re.compile(r".+-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")
KINDS = ("train", "measure", "profile", "diagnose")
MARK = "WATTSTEP_BOARD_FOLDER"  # in the environment of all that works in a folder of ours
WORK, WRITTEN = "work", "written"
STARTING_S = 60.0  # so long what somebody else sends there may rest before it counts as left behind
ENDED_S = 10.0  # for processes that were killed


def boot_id() -> str:
    """Of this start of the system; "" where nothing tells."""
    return text(Path(os.environ.get("WATTSTEP_BOOT_ID", BOOT_ID))).strip()


def text(path: Path) -> str:
    """Of a small file; "" where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def start_time(pid: int) -> str:
    """Of a living process in clock ticks since boot; "" of one that is gone."""
    state, started = status(pid)
    return "" if state in "ZX" else started


def status(pid: int) -> "tuple[str, str]":
    """State of a process, and when it began (fields 3 and 22 of stat); "X" and "" without it."""
    fields = text(Path("/proc/{}/stat".format(pid))).rpartition(")")[2].split()  # noqa: UP032
    return (fields[0], fields[19]) if len(fields) > 19 else ("X", "")


def look(folder: str) -> "dict[str, Any]":
    """This Python, what it can import, the board, and what of ours is in the folder."""
    import site

    places = list(site.getsitepackages()) if hasattr(site, "getsitepackages") else []
    if site.ENABLE_USER_SITE:
        places.insert(0, site.getusersitepackages())
    root = place(folder)
    return {
        "executable": sys.executable,
        "version": list(sys.version_info[:3]),
        "libraries": {name: version for name, version in map(library, LIBRARIES) if version},
        "places": [place for place in places if Path(place).is_dir()],
        "architecture": platform.machine(),
        "tegra": text(Path("/etc/nv_tegra_release")).strip(),
        "boot": boot_id(),
        "folder": str(root),
        "home": os.path.expanduser("~"),  # noqa: PTH111
        "free": free(root),
        "installed": installed(root),
        "size": size(root),
        "jobs": [job(path) for path in jobs(root)],
    }


def place(folder: str) -> Path:
    """Our own folder in the one that the user named, or that one where it is ours by its name."""
    root = Path(folder).expanduser().absolute()
    return root if root.name == OURS else root / OURS


def make(folder: str) -> "dict[str, Any]":
    """Makes our folder, and notes in it what was made on the way to it."""
    root = place(folder)
    absent = [str(path) for path in (root, *root.parents) if not path.exists()]
    os.umask(0o077)
    try:
        root.mkdir(parents=True, exist_ok=True)
        if absent:
            (root / MADE).write_text(json.dumps(absent[1:]), encoding="utf-8")
    except OSError as error:
        return {"error": error.strerror}
    return {"error": ""}


@contextmanager
def alone(root: Path) -> "Any":
    """Nobody begins a job or takes an installation away meanwhile."""
    descriptor = os.open(str(root), os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def jobs(root: Path) -> "list[Path]":
    """The folders of jobs: by their names, and by what they say of themselves."""
    return [path for path in sorted(root.glob("jobs/*")) if is_job(path)]


def is_job(folder: Path) -> bool:
    """True if a folder is one of our jobs."""
    if not JOB_NAME.fullmatch(folder.name) or folder.is_symlink():
        return False
    described = document(folder / JOB)
    return described.get("kind") in KINDS and "title" in described


def library(name: str) -> "Any":
    """Its name, and its version, "?" where that is not written down, or "" without it."""
    from importlib.util import find_spec

    try:
        if find_spec(name) is None:
            return name, ""
    except (ImportError, ValueError):
        return name, ""
    try:
        from importlib.metadata import PackageNotFoundError, version
    except ImportError:  # Python 3.6 and 3.7
        return name, "?"
    try:
        return name, version(name)
    except PackageNotFoundError:
        return name, "?"


def free(path: Path) -> "int | None":
    """Bytes that are left on the disk that holds a folder, or would hold it."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        disk = os.statvfs(str(path))
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize


def installed(root: Path) -> "list[str]":
    """The environments that are complete."""
    names = [path.parent.name for path in root.glob("environment-*/complete")]
    return sorted(name for name in names if ENVIRONMENT.fullmatch(name))


def fresh(folder: Path) -> bool:
    """True if something was written there a moment ago."""
    newest = 0.0
    for path in (folder, *folder.glob("*"), *folder.glob("*/*")):
        with suppress(OSError):  # gone while we looked
            newest = max(newest, path.lstat().st_ctime)
    return abs(time.time() - newest) < STARTING_S


def size(root: Path) -> int:
    """Bytes of all the files below a folder."""
    total = 0
    for folder, _, files in os.walk(str(root)):
        for name in files:
            with suppress(OSError):  # gone while we looked
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118
    return total


def job(folder: Path) -> "dict[str, Any]":
    """Description of a job, with its state."""
    described = document(folder / JOB)
    return {
        "id": folder.name,
        "title": described.get("title", ""),
        "kind": described.get("kind", ""),
        "run": described.get("run", ""),
        "state": state(folder),
        "recorded": bool(list(folder.glob("runs/*/run.json"))),
    }


def state(folder: Path) -> str:
    """ "running", "finished", "restarted" (the board was), or "died" (nobody said how it ended)."""
    if document(folder / ENDING):
        return "finished"
    holder = document(folder / HOLDER)
    if not holder and fresh(folder):
        return "running"  # about to be: somebody sends its files
    if holder.get("boot", boot_id()) != boot_id():
        return "restarted"
    return "running" if alive(holder) else "died"


def alive(holder: "dict[str, Any]") -> bool:
    """True if the process that does a job is there."""
    return bool(holder) and start_time(holder["pid"]) == holder["started"] != ""


def document(path: Path) -> "dict[str, Any]":
    """A small JSON file, {} where there is none or half of one; spare room at its end is NUL."""
    try:
        value = json.loads(text(path).strip("\0") or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def start(folder: str, command: "list[str]") -> "dict[str, Any]":
    """Begins a job, once, as a process of its own session, which no lost connection ends."""
    root = Path(folder)
    with alone(root.parent.parent):
        holder = document(root / HOLDER)
        if holder:
            return holder  # it has begun: the answer was lost on its way
        if not os.access(command[0], os.X_OK):
            return {"absent": True}
        return begin(root, command)


def begin(root: Path, command: "list[str]") -> "dict[str, Any]":
    """Its process, and who that is."""
    out, err = [(root / name).open("ab") for name in OUTPUTS]
    work, temporaries = root / WORK, root / "tmp"
    work.mkdir(exist_ok=True)
    temporaries.mkdir(exist_ok=True)
    # What it, and what it starts, leaves lying about goes with the job.
    places = {"TMPDIR": str(temporaries), "XDG_CACHE_HOME": str(temporaries), MARK: str(root)}
    process = subprocess.Popen(
        [*command, str(root)], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
        cwd=str(work), env=dict(os.environ, **places), start_new_session=True,
    )  # fmt: skip
    holder = {"pid": process.pid, "started": status(process.pid)[1], "boot": boot_id()}
    temporary = root / (HOLDER + ".part")
    temporary.write_text(json.dumps(holder), encoding="utf-8")
    temporary.replace(root / HOLDER)
    process.returncode = 0  # it goes on without us
    return holder


def stop(folder: str, number: int) -> "dict[str, Any]":
    """Sends a signal to a job's group; SIGKILL to all that it started, and waits for their end."""
    count = send(group(Path(folder)), number)
    end = time.monotonic() + ENDED_S
    while number == signal.SIGKILL and time.monotonic() < end:
        processes = {**group(Path(folder)), **marked(folder)}
        if not processes:
            break
        count = max(count, send(processes, number))
        time.sleep(0.02)
    return {"told": count}


def send(processes: "dict[int, str]", number: int) -> int:
    """A signal to processes that are still the same; returns how many took it."""
    count = 0
    for pid, started in processes.items():
        if start_time(pid) == started:
            with suppress(OSError):  # it ended meanwhile
                os.kill(pid, number)
                count += 1
    return count


def group(folder: Path) -> "dict[int, str]":
    """Processes in the session of a job, be it that its first one is gone: start time by number."""
    holder = document(folder / HOLDER)
    processes = {}  # type: dict[int, str]
    if not holder or holder["boot"] != boot_id():
        return processes
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = text(path).rpartition(")")[2].split()
        # Group and session are its number; a later process of this number is no such leader.
        ours = fields[2:4] == [str(holder["pid"])] * 2 and fields[0] not in "ZX"
        if ours and int(fields[19]) >= int(holder["started"]):
            processes[int(path.parent.name)] = fields[19]
    return processes


def marked(folder: str) -> "dict[int, str]":
    """Processes that were started in a folder of ours, be it in a session of their own."""
    mark = "{}={}".format(MARK, folder).encode()  # noqa: UP032
    processes = {}  # type: dict[int, str]
    for path in Path("/proc").glob("[0-9]*/environ"):
        pid = int(path.parent.name)
        started = start_time(pid)
        with suppress(OSError):  # another user's, or gone
            if started and mark in path.read_bytes().split(b"\0"):
                processes[pid] = started
    return processes


# --- what a script wrote ------------------------------------------------------------------------


def gather(folder: str) -> "dict[str, Any]":
    """Moves what a script wrote into a folder of its own, from where it can be brought; repeatable.

    Files that were sent and have not changed stay. What cannot go over as it is called gets another
    name; links and the like are told. Nothing is removed.
    """
    root = Path(folder)
    sent = document(root / JOB).get("sent", {})
    summary = {"files": 0, "bytes": 0, "renamed": [], "links": [], "kept": []}  # type: dict[str, Any]
    for path, name in files_below(root / WORK, summary):
        try:
            if path.is_symlink() or not path.is_file():
                summary["links"].append(shown(name))
            elif sent.get(name) != digest(path) and not is_bytecode(path):
                move(path, root / WRITTEN, name, summary)
        except OSError as error:
            summary["kept"].append("{} ({})".format(shown(name), error.strerror))  # noqa: UP032
    for path, _ in files_below(root / WRITTEN, summary):
        summary["files"] += 1
        summary["bytes"] += path.lstat().st_size
    return summary


def files_below(root: Path, summary: "dict[str, Any]") -> "Any":
    """Files below a folder, with their names from there; folders that cannot be read are told."""

    def unread(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            name = os.path.relpath(str(error.filename), str(root))
            summary["kept"].append("{} ({})".format(shown(name), error.strerror))  # noqa: UP032

    for above, folders, names in os.walk(str(root), onerror=unread):
        links = [name for name in folders if (Path(above) / name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(above) / name
            yield path, str(path.relative_to(root))


def is_bytecode(path: Path) -> bool:
    """True if a file is one that Python leaves beside modules that it imports."""
    return path.parent.name == "__pycache__" and path.suffix == ".pyc"


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    checksum = hashlib.sha256()
    for data in new(path, 0):
        checksum.update(data)
    return checksum.hexdigest()


def move(path: Path, target: Path, name: str, summary: "dict[str, Any]") -> None:
    """A file to where it is brought from, by a name that can go over."""
    plain = plain_name(name)
    while os.path.lexists(str(target / plain)):
        plain += "_"
    (target / plain).parent.mkdir(parents=True, exist_ok=True)
    path.rename(target / plain)
    if plain != name:
        summary["renamed"].append([shown(name), plain])


def plain_name(name: str) -> str:
    """A name of printable characters without a backslash: others as the % and number of each byte."""
    return "".join(
        each
        if each.isprintable() and each != "\\"
        else "".join("%{:02X}".format(byte) for byte in os.fsencode(each))  # noqa: UP032
        for each in name
    )


def shown(name: str) -> str:
    """A name that any terminal and JSON take."""
    return name if name.isprintable() else ascii(name)[1:-1]


# --- away with it -------------------------------------------------------------------------------


def remove(folder: str) -> "dict[str, Any]":
    """Ends what runs in a folder of ours, and removes it; an installation in use stays."""
    path = Path(folder)
    if ENVIRONMENT.fullmatch(path.name):
        if path.parent.is_dir():
            with alone(path.parent):
                if jobs(path.parent):
                    return {"error": "it is in use"}
                return {"error": gone(path)}
    elif HALF.fullmatch(path.name) or (
        path.parent.name == "jobs" and JOB_NAME.fullmatch(path.name)
    ):
        stop(folder, signal.SIGKILL)
        return {"error": gone(path)}
    else:
        return {"error": "it is not ours"}
    return {"error": ""}


def gone(path: Path) -> str:
    """Removes a folder; returns what hinders that."""
    hindrance = "it comes back"
    for _ in range(5):
        try:
            shutil.rmtree(str(path))
        except FileNotFoundError:
            if not path.exists():
                return ""
        except OSError as error:
            hindrance = error.strerror or str(error)
        else:
            return ""
        time.sleep(0.1)  # somebody still wrote into it
    return hindrance


def clean(folder: str, force: bool) -> "dict[str, Any]":
    """Removes what is ours: installations that no job uses, and the folders that were made for it.

    With `force` also jobs, and installations that somebody is about to make.
    """
    root, errors = Path(folder), []
    if not root.is_dir():
        return {"stays": 0, "error": ""}
    with alone(root):
        if force:
            errors += [remove(str(path))["error"] for path in jobs(root)]
        stays = jobs(root)
        for path in [] if stays else sorted(root.glob("environment-*")):
            half = HALF.fullmatch(path.name)
            if half and not force and fresh(path):
                stays.append(path)
            elif half or ENVIRONMENT.fullmatch(path.name):
                stop(str(path), signal.SIGKILL)
                errors.append(gone(path))
        for path in sorted(root.glob("agent-*")):  # recordings that could not be brought home
            if AGENT.fullmatch(path.name) and force:
                errors.append(gone(path))
            elif AGENT.fullmatch(path.name):
                stays.append(path)
        if not stays:
            leave(root)
    return {"stays": len(stays), "error": next(filter(None, errors), "")}


def leave(root: Path) -> None:
    """The folders that are empty without us, innermost first."""
    with suppress(OSError):
        (root / LOCK).unlink()
    with suppress(OSError):
        (root / "jobs").rmdir()
    try:
        made = json.loads(text(root / MADE) or "[]")
    except ValueError:
        made = []
    if [path.name for path in root.iterdir()] in ([], [MADE]):
        with suppress(OSError):
            (root / MADE).unlink()
        for path in (root, *(parent for parent in root.parents if str(parent) in made)):
            with suppress(OSError):  # somebody else has put something there
                path.rmdir()


def follow(folder: str, offsets: "dict[str, int]") -> None:
    """Passes on what a job writes, from the given places in its files, until it has ended."""
    root, last_s = Path(folder), time.monotonic()
    say({"boot": boot_id()})
    while True:
        living = state(root) == "running"  # before reading: what it wrote last is read after it
        for name in FOLLOWED:
            for data in new(root / name, offsets.get(name, 0)):
                offsets[name] = offsets.get(name, 0) + len(data)
                encoded = base64.b64encode(data).decode("ascii")
                say({"file": name, "data": encoded, "next": offsets[name]})
                last_s = time.monotonic()
        if not living:
            say({"state": state(root), "ending": document(root / ENDING)})
            return
        if time.monotonic() - last_s > ALIVE_EVERY_S:
            say({})  # a sign of life; where nobody reads any more, the end of this process
            last_s = time.monotonic()
        time.sleep(LOOK_EVERY_S)


def new(path: Path, offset: int) -> "Any":
    """The blocks that were added to a file since."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(BLOCK)
            while data:
                yield data
                data = file.read(BLOCK)
    except FileNotFoundError:
        return


def say(line: "dict[str, Any]") -> None:
    """Writes a line of JSON."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(arguments: "list[str]") -> None:
    """An action, the folder that it is about, and what else it takes."""
    action, folder, others = arguments[0], arguments[1], arguments[2:]
    if action == "follow":
        follow(folder, json.loads(others[0]))
        return
    actions = {
        "look": lambda: look(folder),
        "make": lambda: make(folder),
        "start": lambda: start(folder, others),
        "stop": lambda: stop(folder, int(others[0])),
        "gather": lambda: gather(folder),
        "remove": lambda: remove(folder),
        "clean": lambda: clean(folder, others == ["force"]),
    }
    say(actions[action]())


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main(sys.argv[1:])
