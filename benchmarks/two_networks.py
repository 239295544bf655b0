"""Two networks in turn under a recorder, against a clock of the script's own: time of each kind, and of their operations' share.

The script trains a generator-like and a discriminator-like network by turns, with an optimizer
each, and stamps every training step with time.perf_counter by itself. Told times of each kind of
step are held against its stamps of the steps that count.

    python benchmarks/two_networks.py [STEPS]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from wattstep.run import load

SCRIPT = """
import json, sys, time
import torch
from wattstep import Recorder
torch.set_num_threads(1)
torch.manual_seed(0)
first = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 8, 3))
second = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Tanh(), torch.nn.Linear(512, 64))
optimizers = torch.optim.Adam(first.parameters()), torch.optim.SGD(second.parameters(), lr=0.01)
stamps = []
with Recorder(sys.argv[3], trace="every:7") as recorder:
    for index in range(int(sys.argv[1])):
        with recorder.step(samples=8):
            begin = time.perf_counter()
            if index % 2 == 0:
                loss = first(torch.randn(8, 3, 32, 32)).square().mean()
            else:
                loss = second(torch.randn(64, 512)).square().mean()
            optimizer = optimizers[index % 2]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            stamps.append((begin, time.perf_counter()))
json.dump(stamps, open(sys.argv[2], "w"))
"""


def main() -> None:
    """Prints what is told of each kind, and what the script's own clock says."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    with tempfile.TemporaryDirectory() as folder:
        script, stamped = Path(folder) / "two.py", Path(folder) / "stamps.json"
        script.write_text(SCRIPT, encoding="utf-8")
        run = Path(folder) / "run"
        command = [sys.executable, str(script), str(steps), str(stamped), str(run)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        stamps = np.array(json.loads(stamped.read_text(encoding="utf-8")))
        opened = load(run)
        document = opened.document()
        found = opened.series.steps
        own = np.diff(stamps, axis=1)[:, 0]
        clean = found.index[found.clean]
        print(f"{len(stamps)} steps, {document['steps']}")
        for note in [*document["status_notes"], *document["operations_notes"]]:
            print("note:", note)
        kinds = document["step_kinds"]
        for kind in kinds:
            parity = int(kind["kind"] == "B")  # kinds come in the order of the turn
            mine = own[clean[clean % 2 == parity]]
            time = kind["time"]
            print(
                f"kind {kind['kind']}: told {1e3 * time['value']:.3f} ms "
                f"({1e3 * time['low']:.3f} to {1e3 * time['high']:.3f}), share "
                f"{kind['share']['value']:.3f}, {kind['traced']} traced; the script's own clock "
                f"{1e3 * mine.mean():.3f} ms (parity {parity}, {len(mine)} steps)"
            )
        for row in document["operations"][:8]:
            calls = row["calls"]["value"]
            print(f"{row['name']:44s} {row.get('step_kinds', ''):6s} calls {calls:.3f}")


if __name__ == "__main__":
    main()
