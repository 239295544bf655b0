"""A command on a phone that outlives its cable: started, followed by asking again and again, and cleared away."""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.errors import RecordingError
from wattstep.record.sensors.android.look import trouble
from wattstep.remote.ssh import ConnectionLostError
from wattstep.schema.sanitize import plain

# What the phone says of the command, as numbers of the loop's own records.
OUTPUT, ERRORS, BEGUN, ENDED, CLOSED, FULL, COST = range(7)
FOLDER: Final = "/data/local/tmp"
ASK_S = 20.0  # that one question to the phone may take
PUSH_S = 600.0  # that a file may take
START_S = 60.0  # that the first may take, which starts the keeper and waits for it
BOOT = "/proc/sys/kernel/random/boot_id"
BLOCK, BLOCKS = 4096, 256  # what one question fetches of each stream: 1 MiB at most
PARTS: Final = 6  # of an answer, between the bytes 31, which the records do not hold

# Runs the command in a session of its own, and stamps each line that it prints, by the same clock
# as the sampling loop: so the cable's delay does not matter, nor that it is pulled for a while.
# No named pipes: a phone's /data/local/tmp does not take them. Where nobody asks for the command
# for so long (every question renames "idle"), it is ended, and all that was written goes.
#   \001 NUMBER BEFORE UPTIME AFTER STATUS \002 TEXT \003    STATUS 1: a line without its end
# Each stream has a file and one process that writes it: two would cut into each other's long
# lines. What must be told even if the storage is full goes into "signs", whose room was taken
# before; and signs are renamed and removed then, not made. A stream that can be written no
# further is read on, so that the command is not held up.
_KEEPER: Final = r"""
d=$1 L=$2 W=$3 X=$4; shift 4
trap '' HUP
exec 4<>"$d/signs"
if [ -n "${KSH_VERSION-}" ]; then put() { print -nr -- "$1"; }
else put() { printf %s "$1"; }
fi
s=$(printf '\001') m=$(printf '\002') z=$(printf '\003') e=$(printf '\036') f=$(printf '\037')
u=0
up() { read -r u x </proc/uptime; }
if [ -n "${EPOCHREALTIME-}" ]; then now() { t=$EPOCHREALTIME; }
elif up 2>/dev/null; then now() { read -r t x </proc/uptime; }
else up() { u=0; }; now() { t=$(date +%s.%N); }
fi
say() { now; b=$t; up 2>/dev/null; now; put "$s$1 $b $u $t $3$m$2$z"; }
stamp() {
  { while IFS= read -r l && r=0 || { r=1; [ -n "$l" ]; }; do
      case $l in *["$s$m$z$e$f"]*) l=$(put "$l" | tr -d '\001\002\003\036\037') ;; esac
      say "$1" "$l" "$r" || { say 5 "" 0 >&4; exec cat >/dev/null; }
    done
    put "${s}6 $b $u $t 0$m" && times && put "$z"
  } >>"$d/$2"
}
run() {
  { while [ ! -e "$d/go" ]; do [ -d "$d" ] || exit 1; sleep 0.1; done; echo go; } | {
    read -r x || exit 130
    say 2 "" 0 >&4
    exec $X sh -c 'exec "$@"' sh "$@" </dev/null 4>&-
  } &
  p=$!
  echo "$p" >"$d/pid"
  wait "$p" 2>/dev/null
  say 3 "$?" 0 >&4
  kill -s TERM -- "-$p" 2>/dev/null
}
( n=0
  while sleep "$W" && [ -d "$d" ]; do
    n=$((n+W))
    if [ -e "$d/alive" ]; then n=0; mv "$d/alive" "$d/idle"; fi
    if [ "$n" -gt "$L" ]; then
      [ ! -e "$d/open" ] || { read -r p <"$d/pid" && kill -s KILL -- "-$p" "$p"; } 2>/dev/null
      rm -rf "$d"
      kill -s KILL 0
    fi
  done ) &
now; b=$t
{ run "$@" 2>&1 1>&3 3>&- | stamp 1 errors >/dev/null 3>&-; } 3>&1 | stamp 0 output
rm -f "$d/open"
say 4 "" 0 >&4
"""
_START: Final = r"""
umask 077
mkdir "$d" || exit 1
{ printf '%4096s' '' >"$d/signs" && : >"$d/open" && : >"$d/idle"; } || exit 1
trap '' HUP
X=$(command -v setsid)
$X sh -c "$keeper" sh "$d" "$lease" "$watch" "$X" "$@" </dev/null >/dev/null 2>&1 &
echo $! >"$d/super" || exit 1
n=0
while [ ! -s "$d/pid" ] && [ $n -lt 400 ]; do sleep 0.1; n=$((n+1)); done
h=$(getconf CLK_TCK 2>/dev/null)
printf 'wattstep %s %s\n' "$(cat "$d/pid")" "${h:-0}"
"""
# The signs come first: whoever finds there that all was written then gets all of it. dd passes
# over what is known without reading it, and stops where one answer would take too long.
_ASK: Final = r"""
{ read -r B <"$boot"; } 2>/dev/null || B=unknown
part() { printf '\037'; dd if="$d/$1" bs=4096 skip="$2" count="$3" 2>/dev/null; }
k=gone
if [ -d "$d" ]; then
mv "$d/idle" "$d/alive" 2>/dev/null
if read -r w <"$d/super" && kill -s 0 "$w"; then k=kept; else k=dead; fi 2>/dev/null
fi
printf 'wattstep %s %s\n' "$k" "$B"
part signs 0 1
part output "$output" "$blocks"
part errors "$errors" "$blocks"
part journal "$journal" "$blocks"
printf '\037'
"""
_SIGNAL: Final = r"""
read -r p <"$d/pid" && { kill -s "$name" -- "-$p" || kill -s "$name" "$p"; }
"""
# A pid of before a reboot is somebody else's by now: then only the files go.
_CLEAR: Final = r"""
if [ -d "$d" ]; then
  if "$same_boot"; then
    read -r p <"$d/pid"; read -r w <"$d/super"
    if [ -e "$d/open" ]; then
      kill -s TERM -- "-$p" || kill -s TERM "$p"
      n=0
      while kill -s 0 "$p" && [ $n -lt 20 ]; do sleep 0.1; n=$((n+1)); done
      kill -s KILL -- "-$p" || kill -s KILL "$p"
    fi
    kill -s KILL -- "-$w" || kill -s KILL "$w"
  fi 2>/dev/null
  rm -rf "$d"
fi
[ -d "$d" ] || echo wattstep cleared
"""


def new_folder() -> str:
    """A place on the phone that no command has."""
    return f"{FOLDER}/wattstep-{secrets.token_hex(6)}"


class Phone:
    """Asks a phone to run a few lines of shell.

    Args:
        serial: As `adb devices` lists it.
        adb: The command.
    """

    def __init__(self, serial: str, adb: str) -> None:
        self._adb, self._serial = adb, serial

    def ask(self, script: str, wait_s: float = ASK_S) -> bytes:
        """Output of a shell script, as it is; it may take `wait_s`.

        Raises:
            ConnectionLostError: The phone is not there, or does not answer; with what to do.
            RecordingError: adb is not there.
        """
        try:
            done = subprocess.run(
                [self._adb, "-s", self._serial, "exec-out", script],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=wait_s, check=False,
                env=dict(os.environ),
            )  # fmt: skip
        except FileNotFoundError:
            raise RecordingError(
                "--target adb: adb is not installed: it is in the Android platform tools",
                id="no-adb",
            ) from None
        except subprocess.TimeoutExpired:
            raise ConnectionLostError(
                f"--target adb: the phone did not answer within {wait_s:.0f} s: reconnect it"
            ) from None
        if done.returncode != 0:
            message = trouble(done.stderr.decode(errors="replace"))
            raise ConnectionLostError(f"--target adb: {message}", id="phone-unreachable")
        return done.stdout

    def push(self, source: Path, place: str) -> None:
        """Copies a file to a path on the phone.

        Raises:
            ConnectionLostError: The phone is not there.
            RecordingError: It has no room, or does not take it.
        """
        try:
            done = subprocess.run(
                [self._adb, "-s", self._serial, "push", str(source), place],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=PUSH_S, check=False,
                env=dict(os.environ),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise ConnectionLostError(
                f"--target adb: {source.name} did not get to the phone within {PUSH_S:.0f} s: reconnect it"
            ) from None
        if done.returncode == 0:
            return
        # Behind the reason comes what was copied until then.
        lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
        why = next((line for line in lines if "error" in line), "")
        if "No space" in why:
            raise RecordingError(
                f"--target adb: no room for {source.name} ({source.stat().st_size / 1e6:.1f} MB) in "
                f"{FOLDER} of the phone: free some",
                id="phone-full",
            )
        _, answered, says = why.partition("remote ")  # adb's word for what the phone itself says
        if answered:
            raise RecordingError(
                f"--target adb: the phone does not take {source.name} into {FOLDER}: {plain(says)}",
                id="phone-cannot-start",
            )
        raise ConnectionLostError(
            f"--target adb: {source.name} did not get to the phone: {trouble(why)}",
            id="phone-unreachable",
        )

    def reconnect(self) -> None:
        """Tries again to reach a phone in the network; one on a cable comes by itself."""
        if ":" not in self._serial:
            return
        try:
            subprocess.run(
                [self._adb, "connect", self._serial],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=ASK_S, check=False, env=dict(os.environ),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The phone's answer to a question about the command.

    Attributes:
        signs: All that the keeper has said of the command up to now, with space after it.
        output: Records of standard output that came since.
        errors: Those of standard error.
        journal: What came of the file "journal" in the command's folder, where it writes one.
        whole: Whether these were all; otherwise the next answer has more.
        boot: Which start of the phone it is of: "unknown" where it does not tell.
        running: Whether what runs the command is still there, or was when these records were read.
    """

    signs: bytes
    output: bytes
    errors: bytes
    journal: bytes
    whole: bool
    boot: str
    running: bool


class Job:
    """Command on a phone, held until `go`.

    Args:
        phone: Where.
        command: The command, with its arguments.
        lease_s: How long it goes on while nobody asks for it; then it ends and clears itself away.
        root: Before the phone's paths; "" but in tests.
        folder: Of the command on the phone, by `new_folder`; None: one that nobody knows.

    Attributes:
        pid: Of the command, on the phone.
        ticks_hz: The phone's clock ticks in a second, or 0 where it does not tell.

    Raises:
        ConnectionLostError: The phone is not there.
        RecordingError: It cannot keep the command's output; nothing is left there.
    """

    def __init__(
        self,
        phone: Phone,
        command: Sequence[str],
        lease_s: float,
        root: str = "",
        folder: str | None = None,
    ) -> None:
        self._phone = phone
        self._root = root
        self._folder = root + (folder or new_folder())
        self._boot_file = f"{root}{BOOT}"
        self._at = {"output": 0, "errors": 0, "journal": 0}  # bytes that are known of each stream
        try:
            self.pid, self.ticks_hz = self._begin(command, lease_s)
            self.boot = self.follow().boot
        except BaseException:
            self._forget()
            raise

    def _begin(self, command: Sequence[str], lease_s: float) -> tuple[int, int]:
        """Starts the keeper; the command's number, and the clock's ticks in a second."""
        watch_s = max(1, min(5, round(lease_s / 6)))
        reply = self._ask(
            f"set -- {shlex.join(command)}\n{_START}",
            wait_s=START_S, keeper=_KEEPER, lease=str(round(lease_s)), watch=str(watch_s),
        ).decode(errors="replace")  # fmt: skip
        words = reply.strip().rpartition("wattstep ")[2].split()
        if len(words) == 2 and all(word.isdecimal() for word in words):
            return int(words[0]), int(words[1])
        why = (reply.strip().splitlines() or ["it says nothing"])[-1]
        why = why.replace(self._folder, f"{FOLDER}/...")
        raise RecordingError(
            f"--target adb: nothing can be started on the phone: {why} (it needs some room in "
            f"{FOLDER})",
            id="phone-cannot-start",
        )

    def _forget(self) -> None:
        """After a start that failed: what may be there goes, or ends by itself."""
        try:
            self.clear()
        except RecordingError:
            return

    def _ask(self, script: str, *, wait_s: float = ASK_S, **variables: str) -> bytes:
        known = {"d": self._folder, "boot": self._boot_file, **variables}
        lines = [f"{name}={shlex.quote(text)}" for name, text in known.items()]
        return self._phone.ask("\n".join([*lines, script]), wait_s)

    def go(self) -> None:
        """Lets the command begin.

        Raises:
            ConnectionLostError: The phone is not there.
        """
        self._ask(': >"$d/go"')

    def follow(self) -> Answer:
        """Asks for what was printed since the last time.

        Raises:
            ConnectionLostError: The phone is not there; nothing is skipped when it is asked again.
        """
        output, errors, journal = (str(at // BLOCK) for at in self._at.values())
        reply = self._ask(_ASK, blocks=str(BLOCKS), output=output, errors=errors, journal=journal)
        parts = reply.split(b"\x1f")
        words = parts[0].decode(errors="replace").split()
        if len(parts) != PARTS or len(words) != 3 or words[0] != "wattstep":
            raise ConnectionLostError("--target adb: the connection to the phone broke")
        return Answer(
            signs=parts[1],
            output=self._new("output", parts[2]),
            errors=self._new("errors", parts[3]),
            journal=self._new("journal", parts[4]),
            whole=max(map(len, parts[2:5])) < BLOCK * BLOCKS,
            boot=words[2],
            running=words[1] == "kept",
        )

    def _new(self, stream: str, blocks: bytes) -> bytes:
        """Rest of whole blocks that is not known yet; they begin with known bytes."""
        data = blocks[self._at[stream] % BLOCK :]
        self._at[stream] += len(data)
        return data

    def put(self, source: Path) -> None:
        """Copies a file into the command's folder, by its own name, and keeps the keeper waiting.

        Raises:
            ConnectionLostError: The phone is not there.
            RecordingError: It has no room.
        """
        self._phone.push(source, f"{self._folder.removeprefix(self._root)}/{source.name}")
        self.follow()

    def run(self, script: str) -> str:
        """What a script prints that runs in the command's folder.

        Raises:
            ConnectionLostError: The phone is not there.
        """
        reply = self._ask(f'cd "$d" || exit 1\n{script}', wait_s=START_S)
        return reply.decode(errors="replace")

    def signal(self, name: str) -> None:
        """Sends the command, and what it has started, a signal: "TERM".

        Raises:
            ConnectionLostError: The phone is not there.
        """
        self._ask(_SIGNAL, name=name)

    def clear(self, *, same_boot: bool = True) -> None:
        """Ends the command if it still runs, and removes what was written.

        Raises:
            ConnectionLostError: The phone is not there; it clears itself when the lease is over.
            RecordingError: Something is left, and where.
        """
        reply = self._ask(_CLEAR, same_boot="true" if same_boot else "false")
        if b"wattstep cleared" not in reply:
            raise RecordingError(
                f"--target adb: {FOLDER}/{self._folder.rpartition('/')[2]} could not be removed "
                "from the phone: adb shell rm -rf it"
            )
