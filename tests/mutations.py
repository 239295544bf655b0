"""Importers against recordings, and commands against folders of runs, that are damaged at random.

Each input is a real or hand-written recording of a format with a few bytes, lines or numbers
changed. It has to be read, or refused with an error of ours; every hundredth is imported and opened.

    python -m tests.mutations --count 100000
    python -m tests.mutations --only Kineto --seed 7
    python -m tests.mutations --folders 1000     whole runs instead (tests/folder_campaign.py)
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
from tests.damaged import damaged
from tests.folder_campaign import attack_folders
from tests.formats import test_nsys, test_nvprof, test_other_tools

from wattstep.errors import WattstepError
from wattstep.formats.registry import read_log
from wattstep.importing.importer import ImportSettings, import_run
from wattstep.importing.traces import read_trace
from wattstep.run import load

FIXTURES = Path(__file__).parent / "fixtures"
METER = b"time,voltage_V,current_A\n" + b"".join(
    b"%d.%03d,5.0%d,0.%d\n" % (n // 1000, n % 1000, n % 10, 300 + n % 7) for n in range(60)
)
PLAIN = b"t_s,gpu [W],load\n" + b"".join(b"%d.5,%d.25,%d\n" % (n, n % 9, n % 2) for n in range(40))
ENERGY = b"t_s,power [W],energy [J],temp [C]\n" + b"".join(
    b"%d.5,%d.25,%d.5,\n" % (n, 5 + n % 3, 6 * n) for n in range(120)
)


@dataclass(frozen=True)
class Importer:
    """A format, the recordings that are damaged, and what reads them."""

    name: str
    bases: tuple[bytes, ...]
    read: Callable[[Path], Any]
    option: str  # of ImportSettings


def excerpt(path: Path, size: int = 20_000) -> bytes:
    """The beginning of a recording; longer ones only take longer."""
    data = path.read_bytes()
    return (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)[:size]


def importers() -> Iterator[Importer]:
    """Every format that `wattstep import` reads."""
    traces, phone = FIXTURES / "traces", FIXTURES / "phone"
    kineto = tuple(map(excerpt, sorted(traces.glob("kineto_*.json.gz"))))
    yield Importer("Kineto", kineto, read_trace, "trace")
    etdump = tuple(map(excerpt, traces.glob("*.etdp")))
    yield Importer("ETDump", etdump, read_trace, "trace")
    yield Importer("nvprof", texts(test_nvprof), read_trace, "trace")
    yield Importer("nsys", texts(test_nsys), read_trace, "trace")
    written = [path.read_text() for path in sorted(phone.glob("perfetto_*.textproto"))]
    perfetto = [text_format.Parse(text, protos.Trace()).SerializeToString() for text in written]
    perfetto += [text.encode() for text in written]
    yield Importer("Perfetto trace", tuple(perfetto), read_trace, "trace")
    yield Importer("Perfetto log", tuple(perfetto), read_log, "telemetry")
    boards = [excerpt(path, 3000) for path in sorted((FIXTURES / "jetson").glob("*.tegrastats"))]
    yield Importer("tegrastats", tuple(boards), read_log, "telemetry")
    cards = [excerpt(path) for path in sorted((FIXTURES / "nvidia").glob("[tv]*.[cx][sm][vl]"))]
    yield Importer("nvidia-smi", tuple(cards), read_log, "telemetry")
    yield Importer("power meter", (METER, METER.replace(b",", b";")), read_log, "telemetry")
    yield Importer("plain CSV", (PLAIN, ENERGY), read_log, "telemetry")
    yield Importer("other tools", texts(test_other_tools), read_log, "telemetry")


def texts(module: Any) -> tuple[bytes, ...]:
    """The recordings that a module of tests has written down."""
    found = [v for k, v in vars(module).items() if k.isupper() and isinstance(v, str) and "\n" in v]
    assert found
    return tuple(text.encode() for text in found)


def attack(importer: Importer, count: int, seed: int, folder: Path) -> Counter[str]:
    """So many damaged recordings; how many were read, refused, imported, and not survived."""
    rng = random.Random(f"{importer.name} {seed}")
    outcomes: Counter[str] = Counter()
    path, out = folder / "recording", folder / "run"
    for number in range(count):
        data = damaged(rng.choice(importer.bases), rng)
        path.write_bytes(data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                # Of strange escapes in a trace's text form, which the library reads all the same.
                warnings.filterwarnings("ignore", category=DeprecationWarning, module="google")
                importer.read(path)
                outcomes["read"] += 1
                if number % 100 == 0:
                    given: Any = path if importer.option == "trace" else (path,)
                    import_run(ImportSettings(**{importer.option: given}), out)
                    json.dumps(load(out).document(), allow_nan=False)
                    outcomes["imported"] += 1
        except WattstepError:
            outcomes["refused"] += 1
        except Exception:
            outcomes["not survived"] += 1
            kept = Path(f"not-survived-{importer.name.replace(' ', '-')}-{seed}-{number}")
            kept.write_bytes(data)
            print(f"{kept}:\n{traceback.format_exc(limit=-3)}", flush=True)
        shutil.rmtree(out, ignore_errors=True)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="inputs of each format")
    parser.add_argument("--only", help="formats whose name holds this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--folders", type=int, default=0, help="folders of runs, instead of recordings"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help="results of folders: goes on where they end, one process a seed",
    )
    given = parser.parse_args()
    if given.folders:
        sys.exit(1 if attack_folders(given.folders, given.seed, given.output) else 0)
    lost = 0
    for importer in importers():
        if given.only is None or given.only.lower() in importer.name.lower():
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                outcomes = attack(importer, given.count, given.seed, Path(folder))
            lost += outcomes["not survived"]
            print(importer.name, dict(outcomes), f"{time.monotonic() - began:.0f} s", flush=True)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
