"""The loop that runs on the phone, and our end of its cable: what to read goes in, stamped text comes out."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ENDING_S = 2.0
LONGEST = 1 << 20  # of what has come and makes no whole record yet
CLOCKS = {"epoch": 1_000, "uptime": 10_000_000, "date": 20_000_000}  # resolution in ns

# POSIX, as mksh and dash have it. First the period comes in, then the reads, one a line: "EVERY
# KIND ARGUMENT" (line: first line of a file; file; files: several, between blanks, one after the
# other; run: a command; own: the loop's own /proc/PID/stat), and "." at their end. What comes in after that is a number each, sent back
# with the time: so the clocks are compared. When the cable goes, so does what comes in, and the
# loop is ended: nothing is left running. In mksh printf may be a process of its own; its print is
# not.
#   \001 NUMBER BEFORE UPTIME AFTER STATUS \002 TEXT \003      one read
#   \036 NUMBER BEFORE UPTIME AFTER CLOCK \037                 one echo, in one write
SCRIPT = r"""
exec 3<&0
read -r P <&3 || exit 1
N=0 e=
while read -r e k a <&3; do
  if [ "$e" = . ]; then break; fi
  eval "e$N=\$e k$N=\$k a$N=\$a"
  N=$((N+1))
done
if [ "$e" != . ]; then exit 1; fi
if [ -n "${KSH_VERSION-}" ]; then put() { print -nr -- "$1"; }
else put() { printf %s "$1"; }
fi
s=$(printf '\001') m=$(printf '\002') z=$(printf '\003') es=$(printf '\036') ez=$(printf '\037')
u=0
up() { read -r u x </proc/uptime; }
if [ -n "${EPOCHREALTIME-}" ]; then C=epoch; now() { t=$EPOCHREALTIME; }
elif up 2>/dev/null; then C=uptime; now() { read -r t x </proc/uptime; }
else C=date; up() { u=0; }; now() { t=$(date +%s.%N); }
fi
( while read -r x <&3; do
    n=$x; now; b=$t; up; now
    put "$es$n $b $u $t $C$ez"
  done
  kill $$ ) &
i=0
while :; do
  n=0
  while [ "$n" -lt "$N" ]; do
    eval "e=\$e$n k=\$k$n a=\$a$n"
    if [ $((i % e)) -eq 0 ]; then
      r=0 v=
      now; b=$t; up; w=$u
      case $k in
      line) { read -r v <"$a"; } 2>/dev/null
        if [ -z "$v" ]; then v=$(cat "$a" 2>&1); r=$?; fi ;;
      file) v=$(cat "$a" 2>&1); r=$? ;;
      files) v=$(cat $a 2>&1); r=$? ;;
      run) v=$($a 2>&1); r=$? ;;
      own) v=$(cat /proc/$$/stat 2>&1); r=$? ;;
      esac
      now
      put "$s$n $b $w $t $r$m$v$z"
    fi
    n=$((n+1))
  done
  i=$((i+1))
  sleep "$P"
done
"""

_STAMP = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_ECHO = re.compile(rb"\x1e([^\x1e\x1f]{0,200})\x1f")
_RECORD = re.compile(rb"\x01([^\x01\x02\x03]{0,200})\x02([^\x01\x02\x03]*)\x03")
_ECHO_WORDS = re.compile(rf"([0-9]{{1,12}}) ({_STAMP}) ({_STAMP}) ({_STAMP}) (epoch|uptime|date)")
_RECORD_WORDS = re.compile(
    rf"([0-9]{{1,6}}) ({_STAMP}) ({_STAMP}) ({_STAMP}) ([0-9]{{1,3}})", re.ASCII
)


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """When something was done on the phone, in µs: its clock before and after, its uptime between."""

    before_us: int
    uptime_us: int
    after_us: int

    @property
    def middle_us(self) -> int:
        """By the phone's clock."""
        return (self.before_us + self.after_us) // 2


@dataclass(frozen=True, kw_only=True)
class Echo:
    """A number that came back; `clock` is a key of `CLOCKS`."""

    number: int
    stamp: Stamp
    clock: str


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Sample of one read.

    Attributes:
        read: Its place in what was asked for.
        stamp: When it was read.
        status: 0, or that of the command that failed; `text` is then its message.
        text: Output of the read.
    """

    read: int
    stamp: Stamp
    status: int
    text: str


def microseconds(stamp: str) -> int:
    """ "12.345" s in µs."""
    whole, _, part = stamp.partition(".")
    return int(whole) * 1_000_000 + int(f"{part:0<6}"[:6])


def _stamp(words: re.Match[str]) -> Stamp:
    before, uptime, after = (microseconds(word) for word in words.groups()[1:4])
    return Stamp(before_us=before, uptime_us=uptime, after_us=after)


class Stream:
    """Makes records of what comes through the cable, whatever else is between them.

    The echoes are written by another process of the phone and may stand in the middle of a record;
    but each is in one piece.

    Attributes:
        skipped: Bytes that stood in no record: of a record that was cut, or is longer than `LONGEST`.
    """

    def __init__(self) -> None:
        self._rest = b""
        self.skipped = 0

    @property
    def unfinished(self) -> int:
        """Bytes of a record whose end has not come."""
        return len(self._rest)

    def take(self, data: bytes) -> Iterator[Echo | Sample]:
        """The records that are whole with these bytes."""
        rest = self._rest + data
        for match in _ECHO.finditer(rest):
            if words := _ECHO_WORDS.fullmatch(match[1].decode(errors="replace")):
                yield Echo(number=int(words[1]), stamp=_stamp(words), clock=words[5])
        rest, end = _ECHO.sub(b"", rest), 0
        for match in _RECORD.finditer(rest):
            self.skipped += match.start() - end
            end = match.end()
            if words := _RECORD_WORDS.fullmatch(match[1].decode(errors="replace")):
                yield Sample(
                    read=int(words[1]), stamp=_stamp(words), status=int(words[5]),
                    text=match[2].decode(errors="replace"),
                )  # fmt: skip
            else:
                self.skipped += end - match.start()
        self._rest = rest[end:][-LONGEST:]
        self.skipped += len(rest) - end - len(self._rest)


class Connection:
    """Process of `adb shell` with the loop in it.

    Args:
        command: Starts a shell on the phone that runs the text after it: adb -s SERIAL shell.
        period_s: Rest between two rounds of reads.
        reads: Reads to make: every how many rounds, kind, argument.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self, command: Sequence[str], period_s: float, reads: Sequence[tuple[int, str, str]]
    ) -> None:
        self._stream = Stream()
        self._process = subprocess.Popen(
            [*command, SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True, bufsize=0, env=dict(os.environ),
        )  # fmt: skip
        wanted = "".join(f"{every} {kind} {argument}\n" for every, kind, argument in reads)
        try:
            self._send(f"{period_s:.3f}\n{wanted}.\n")
        except OSError:
            self.close()
            raise

    def ask(self, number: int) -> int:
        """Sends a number to be echoed; returns our time in ns before that.

        Raises:
            OSError: The cable is gone.
        """
        before = time.monotonic_ns()
        self._send(f"{number}\n")
        return before

    def _send(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())

    def read(self, wait_s: float) -> tuple[int, list[Echo | Sample]]:
        """Reads what has come: our time in ns, and the records.

        Raises:
            OSError: The cable is gone.
        """
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        if not select.select([fd], [], [], wait_s)[0]:
            return time.monotonic_ns(), []
        data = os.read(fd, 1 << 16)
        now = time.monotonic_ns()
        if not data:
            raise ConnectionResetError(104, "the connection to the phone ended")
        return now, list(self._stream.take(data))

    def close(self) -> None:
        """Ends it, on the phone too: its loop ends when nothing can come in any more."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:  # what was not yet sent has nowhere to go
                continue
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            try:
                if number is not None:
                    os.killpg(self._process.pid, number)
                self._process.wait(ENDING_S)
                return
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self._process.wait()
