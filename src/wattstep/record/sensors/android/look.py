"""Looks at a phone once: every file and command that may tell something, in one shell."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

TIMEOUT_S = 60.0
PLACES = (
    "/sys/class/power_supply/*/uevent",
    "/sys/class/power_supply/*/online",
    "/sys/class/thermal/thermal_zone*/type",
    "/sys/class/thermal/thermal_zone*/temp",
    "/sys/devices/system/cpu/cpu[0-9]*/cpu_capacity",
    "/sys/devices/system/cpu/cpufreq/policy*/related_cpus",
    "/sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq",
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq",
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq",
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    "/sys/class/kgsl/kgsl-3d0/gpubusy",
    "/sys/class/kgsl/kgsl-3d0/gpu_busy_percentage",
    "/sys/class/kgsl/kgsl-3d0/gpuclk",
    "/sys/class/kgsl/kgsl-3d0/max_gpuclk",
    "/sys/kernel/gpu/gpu_busy",
    "/sys/devices/platform/*.mali/utilization",
    "/sys/kernel/ged/hal/gpu_utilization",
    "/d/ged/hal/gpu_utilization",
    "/sys/module/ged/parameters/gpu_loading",
    "/sys/bus/iio/devices/iio:device*/energy_value",
    "/proc/stat",
    "/proc/meminfo",
    "/proc/pressure/*",
)
COMMANDS = (
    "dumpsys battery",
    "dumpsys thermalservice",
    "dumpsys power",
    "getprop ro.product.manufacturer",
    "getprop ro.product.model",
    "getprop ro.soc.model",
    "getprop ro.hardware",
    "getprop ro.build.version.release",
    "uname -r",
    "uname -m",
    "getconf CLK_TCK",
)
_ANSWER = re.compile(r"\x01([^\x01-\x04]*)\x02([^\x01-\x04]*)\x03([0-9]{1,3})\x04")


class LookError(OSError):
    """The phone cannot be reached; the words say what to do and never name the phone."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer of a file or command; `status` is 0, or what it failed with, `text` then why."""

    text: str
    status: int


@dataclass(frozen=True, kw_only=True)
class Dump:
    """All answers, by path below the root or by command."""

    answers: Mapping[str, Answer]

    def text(self, key: str) -> str | None:
        """Text of an answer, without the space around it; None where it failed or said nothing."""
        answer = self.answers.get(key)
        return (answer.text.strip() or None) if answer and answer.status == 0 else None

    def matching(self, pattern: str) -> Iterator[tuple[str, str]]:
        """Paths that match a pattern with their texts, those that could be read."""
        for key in sorted(self.answers, key=_natural):
            text = self.text(key)
            if text is not None and re.fullmatch(pattern, key):
                yield key, text

    def denied(self, pattern: str) -> list[str]:
        """Paths that match and may not be read."""
        return [
            key
            for key, answer in self.answers.items()
            if answer.status and "ermission denied" in answer.text and re.fullmatch(pattern, key)
        ]


def look(shell: Sequence[str], root: str = "") -> Dump:
    """Everything that `PLACES` and `COMMANDS` name.

    Args:
        shell: Starts a shell on the phone: adb -s SERIAL shell.
        root: Before every path: "" on a phone, a recorded tree in tests.

    Raises:
        LookError: The phone cannot be reached.
    """
    try:
        done = subprocess.run(
            [*shell, _script(root)], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=TIMEOUT_S, check=False, env=dict(os.environ),
        )  # fmt: skip
    except FileNotFoundError:
        raise LookError(2, "adb is not installed: it is in the Android platform tools") from None
    except subprocess.TimeoutExpired:
        raise LookError(110, f"the phone did not answer within {TIMEOUT_S:.0f} s") from None
    sections = _ANSWER.findall(done.stdout.decode(errors="replace"))
    answers = {key.removeprefix(root): Answer(text=t, status=int(s)) for key, t, s in sections}
    if not answers:
        raise LookError(19, trouble(done.stderr.decode(errors="replace")))
    return Dump(answers=answers)


def _script(root: str) -> str:
    say = "printf '\\001%s\\002%s\\003%s\\004' "
    files = " ".join(f"{root}{place}" for place in PLACES)
    lines = [f'for f in {files}; do v=$(cat "$f" 2>&1); {say} "$f" "$v" $?; done']
    lines += [f'v=$({command} 2>&1); {say} "{command}" "$v" $?' for command in COMMANDS]
    return "\n".join(lines)


def trouble(message: str) -> str:
    """Reason why there is no answer, from what adb says, without the phone's number in it."""
    if "unauthorized" in message:
        return (
            "the phone has not allowed this computer: unlock it, confirm on its screen, "
            "then try again"
        )
    if "offline" in message:
        return "the phone is offline: reconnect it, then try again"
    if "more than one" in message:
        return "several phones are connected: name one, as adb devices lists them"
    if "not found" in message or "no devices" in message:
        return "no such phone is connected: adb devices lists those that are"
    return "the phone gave no answer: reconnect it, then try again"


def _natural(key: str) -> list[tuple[int, str]]:
    """Zone 2 before zone 10."""
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", key)
    ]
