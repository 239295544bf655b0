"""Where a measurement takes place: what must be the same, and that nobody else measures there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from wattstep.schema.configuration import MACHINE
from wattstep.train.child.local_machine import one_at_a_time, this_machine, unlike

OTHER = """
import sys
from pathlib import Path
from wattstep.train.child.local_machine import one_at_a_time
with one_at_a_time(Path(sys.argv[1]), lambda: print("waits", flush=True)):
    print("mine", flush=True)
"""


def test_a_machine_tells_what_the_table_of_configurations_compares_and_limits_differ_by_name() -> (
    None
):
    assert set(this_machine()) == {*MACHINE, "memory", "clocks", "gpus"}
    assert unlike({"cores": 6}, {"cores": 6}) == []
    assert unlike({"cores": 6, "limit": 1}, {"cores": 4, "limit": 1}) == ["cores was 6, now 4"]
    assert unlike({"model": "a"}, {"model": "a", "memory": 1}) == []  # of before it was kept


def test_a_second_measurement_waits_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    def other() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", OTHER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )

    with one_at_a_time(tmp_path):
        waiting, killed = other(), other()
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "waits\n"
        assert waiting.poll() is None
        killed.kill()
        killed.communicate()
    assert waiting.communicate(timeout=30)[0] == "mine\n"
    with one_at_a_time(tmp_path):  # the file stays, and is nobody's
        pass
