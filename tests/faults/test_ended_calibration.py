"""A calibration that SIGTERM ends while it trains is ended, trains nothing more, and goes on where it was."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORKLOADS = ("lenet", "mlp", "autoencoder", "resnet8")
MADE = """\
import sys
from pathlib import Path
from wattstep.train.calibration.calibrate import calibrate
from wattstep.train.calibration.probe import ProbeSettings

out, resume, *names = sys.argv[1:]
calibrate(
    Path(out), resume=resume == "True", tell=lambda stage, share: print(stage, flush=True),
    probes=[ProbeSettings(workload=name, batch_size=2) for name in names], ceilings=False,
    power=None, storage=None, threaded=(),
)
"""


def calibrating(out: Path, *, resume: bool) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", MADE, str(out), str(resume), *WORKLOADS]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # which nohup has ignored
    )  # fmt: skip


def has_loaded_torch(pid: str) -> bool:
    return "libtorch_cpu" in Path(f"/proc/{pid}/maps").read_text()


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_calibration_while_it_trains(tmp_path: Path, number: int) -> None:
    out = tmp_path / "mine.toml"
    told: list[str] = []
    with calibrating(out, resume=False) as child:
        assert child.stdout is not None
        while WORKLOADS[1] not in "".join(told):
            told.append(child.stdout.readline())
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            training = children_of(child.pid)
            if any(map(has_loaded_torch, training)):  # within its work, not before
                break
            time.sleep(0.05)
        child.send_signal(number)
        after, _ = child.communicate(timeout=300)
    assert child.returncode == 128 + number
    assert after == ""  # it began nothing more
    assert not [pid for pid in training if Path(f"/proc/{pid}").exists()]
    assert not out.exists()
    [left] = tmp_path.iterdir()
    kept = [json.loads(line) for line in left.read_text(encoding="utf-8").splitlines()]
    assert [each["name"] for each in kept[1:]] == [f"{WORKLOADS[0]}-2"]

    if number == signal.SIGTERM:
        with calibrating(out, resume=True) as child:
            told_then, _ = child.communicate(timeout=900)
        assert child.returncode == 0
        assert WORKLOADS[0] not in told_then
        assert [*tmp_path.iterdir()] == [out]
