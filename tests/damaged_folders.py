"""Whole folders of runs that a stranger changed, which `folder_campaign.py` opens.

Each folder is one of a few runs (recorded, killed, imported) with some of its files changed: values
of `run.json`, columns, rows and names of tables, bytes of anything, journals of any length.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.damaged import damaged
from tests.faults.foreign import POWER, unclosed_run

from wattstep.schema.channel import Channel

RUNS: Final = Path(__file__).parent / "fixtures" / "runs"
HONEST: Final = "lenet"
# Of samples of power a regression is made, which takes a hundred times as long as all else together;
# a million rows take seconds, so that in the same time ten other folders are tried.
SELDOM: Final = {"unclosed-power": 0.2}
LONG: Final = "n" * 1_000_000  # one text, however many rows have it
HEAT: Final = Channel(
    name="heat", unit="°C", kind="gauge", domain="soc", role="temperature", source="made",
    scale=1e-3,
)  # fmt: skip


def make_bases(folder: Path) -> None:
    """Writes the runs that are changed below a folder."""
    for kept in sorted((RUNS / "kept").glob("*.zip")):
        with zipfile.ZipFile(kept) as archive:
            archive.extractall(folder)
    shutil.copytree(RUNS / "schema-1", folder / "schema-1")
    unclosed_run(folder / "unclosed", HEAT)
    unclosed_run(folder / "unclosed-power", POWER)


def make_changed(bases: Path, run: Path, rng: random.Random) -> str:
    """Copies one of the runs below a folder and changes it; which, and what was done."""
    names = sorted(path.name for path in bases.iterdir())
    (name,) = rng.choices(names, [SELDOM.get(each, 1.0) for each in names])
    shutil.copytree(bases / name, run)
    return f"{name} {', '.join(change(run, rng))}"


def hostile_value(rng: random.Random) -> Any:
    """A value that no recorder writes where it stands."""
    nested: Any = rng.choice([0, "x", None])
    for _ in range(rng.choice([1, 40, 900])):
        nested = [nested] if rng.random() < 0.7 else {"a": nested}
    return rng.choice(
        [
            None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 10**4000, 1e308, -1e308,
            5e-324, math.nan, math.inf, -math.inf, 0.5, "", "x", "\0", "\x1b]0;owned\x07", "../../x", "é" * 3,
            LONG, [], {}, [None], [[]], [0] * 1000, {"": ""}, nested, "NaN", "1e999", [1, 2], "🦊\u202e",
        ]
    )  # fmt: skip


def change_description(run: Path, rng: random.Random) -> None:
    """One to four values of `run.json` become others, or go."""
    path = run / "run.json"
    document = json.loads(path.read_text())
    for _ in range(rng.randint(1, 4)):
        places = list(_places(document))
        if rng.random() < 0.3:  # the first levels are the ones that matter
            places = [place for place in places if len(place[1:]) < 3] or places
        holder, key = rng.choice(places)
        if rng.random() < 0.2:
            del holder[key]
        elif rng.random() < 0.2 and isinstance(holder, list):
            holder.extend([holder[key]] * rng.choice([1, 10, 10_000]))
        else:
            holder[key] = hostile_value(rng)
        if not document:
            break
    with contextlib.suppress(ValueError):  # an integer of too many digits is written as text
        text = json.dumps(document)
        if rng.random() < 0.02:
            text = text.replace("{", '{"a":' * rng.choice([100, 100_000]), 1)
        if rng.random() < 0.05:
            text = text.replace(" 1,", f" {'9' * rng.choice([400, 5000, 1_000_000])},", 1)
        path.write_text(text)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Each value within a document, as what holds it and its key."""
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in list(keys):
        yield node, key
        yield from _places(node[key])


def change_table(run: Path, rng: random.Random) -> None:
    """One table has other columns, types, rows, values or names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = sorted(run.glob("*.parquet"))
    if not tables:
        return change_journal(run, rng)
    path = rng.choice(tables)
    table = pq.ParquetFile(path).read()
    for _ in range(rng.randint(1, 3)):
        with contextlib.suppress(
            pa.ArrowException, MemoryError, OverflowError, TypeError, ValueError, IndexError
        ):
            table = rng.choice(TABLE_CHANGES)(table, rng)
    pq.write_table(table, path, compression=rng.choice(["zstd", "none", "snappy"]))
    return None


def _without(table: Any, rng: random.Random) -> Any:
    return table.drop_columns([rng.choice(table.column_names)])


def _of_another_type(table: Any, rng: random.Random) -> Any:
    import pyarrow as pa

    kinds = [
        pa.int8(), pa.int32(), pa.uint64(), pa.float32(), pa.float16(), pa.string(), pa.binary(),
        pa.bool_(), pa.timestamp("ns"), pa.large_string(), pa.decimal128(30, 2), pa.null(),
        pa.list_(pa.int64()), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.int64()),
    ]  # fmt: skip
    at = rng.randrange(table.num_columns)
    kind = rng.choice(kinds)
    try:
        column = table.column(at).cast(kind, safe=False)
    except pa.ArrowException:
        column = pa.nulls(len(table), kind)
    return table.set_column(at, table.column_names[at], column)


def _with_values(table: Any, rng: random.Random) -> Any:
    import pyarrow as pa

    if not len(table):
        return table
    at = rng.randrange(table.num_columns)
    field = table.schema.field(at)
    values = table.column(at).to_pylist()
    every = rng.random() < 0.1
    for row in (
        range(len(values))
        if every
        else [rng.randrange(len(values)) for _ in range(rng.randint(1, 5))]
    ):
        values[row] = _cell(field.type, rng, values, row)
    return table.set_column(at, field, pa.array(values, field.type))


def _cell(kind: Any, rng: random.Random, values: list[Any], row: int) -> Any:
    import pyarrow as pa

    if pa.types.is_list(kind):
        inside = values[row] or []
        length = rng.choice([0, 1, len(inside), len(inside) + 1, 10_000])
        return [_cell(kind.value_type, rng, [None], 0) for _ in range(length)]
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1) - 1
        near = values[rng.randrange(len(values))]
        return rng.choice(
            [0, 1, -1, most, -most - 1, most // 2, row, near, None, rng.randint(-most, most)]
        )
    if pa.types.is_floating(kind):
        return rng.choice(
            [0.0, -1.0, 1e308, -1e308, 1e12, 5e-324, math.nan, math.inf, -math.inf, None]
        )
    if pa.types.is_boolean(kind):
        return rng.choice([True, False, None])
    return rng.choice(
        [
            "",
            "x",
            "\0\x1b[31m",
            None,
            LONG,
            "\ud83d",
            "=1+1",
            "cpu",
            "gpu0",
            "data",
            "../x",
        ]
    )


def _shuffled(table: Any, rng: random.Random) -> Any:
    rows = list(range(len(table)))
    rng.shuffle(rows)
    return table.take(rows)


def _repeated(table: Any, rng: random.Random) -> Any:
    """Rows without end: they pack to next to nothing."""
    import pyarrow as pa

    times = rng.choices([2, 100, 10_000, 1_000_000], [6, 6, 3, 1])[0]
    rows = min(times * max(len(table), 1), 1_500_000)
    if rng.random() < 0.5:
        return table.take(pa.array([rng.randrange(max(len(table), 1))] * rows, pa.int32()))
    return pa.concat_tables([table] * min(rows // max(len(table), 1), 3000)).combine_chunks()


def _counted_on(table: Any, rng: random.Random) -> Any:
    """As many steps, samples or operations as there may be, one after the other."""
    import numpy as np
    import pyarrow as pa

    rows = rng.choices([10_000, 100_000, 1_000_000], [5, 3, 1])[0]
    table = table.take(pa.array([0] * rows, pa.int32()))
    for name in ("index", "t_ns", "start_ns", "end_ns"):
        if name in table.column_names:
            first, each = (0, 1) if name == "index" else (10**12 + 900 * (name == "end_ns"), 1000)
            column = pa.array(first + each * np.arange(rows))
            table = table.set_column(table.column_names.index(name), name, column)
    for name in ("mark_ns", "mark_kind", "mark_name", "mark_host_ns"):
        if name in table.column_names:
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array([[]] * rows, table.schema.field(at).type))
    return table


def _with_names(table: Any, rng: random.Random) -> Any:
    """Many, or long, names of operations, layers or channels."""
    import pyarrow as pa

    columns = [
        at for at, field in enumerate(table.schema)
        if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type)
    ]  # fmt: skip
    at = rng.choice(columns)
    count = rng.choice([300, 3000])
    letters = rng.choice([10, 10_000, 100_000, 1_000_000] if count == 300 else [10, 1000])
    names = [f"{n:x}" + "n" * letters for n in range(count)]
    codes = pa.array([n % count for n in range(len(table))], pa.int32())
    return table.set_column(
        at, table.column_names[at], pa.DictionaryArray.from_arrays(codes, names)
    )


def _in_circles(table: Any, rng: random.Random) -> Any:
    import pyarrow as pa

    if "parent" not in table.column_names:
        return _shuffled(table, rng)
    rows = len(table)
    values = rng.choice(
        [
            list(range(rows)), [0] * rows, [(n + 1) % max(rows, 1) for n in range(rows)],
            [rng.randint(-2, 60) for _ in range(rows)], list(range(rows, 0, -1)), list(range(-1, rows - 1)),
        ]
    )  # fmt: skip
    name = rng.choice(["parent", "launch"])
    if name not in table.column_names:
        name = "parent"
    return table.set_column(table.column_names.index(name), name, pa.array(values, pa.int32()))


def _cut(table: Any, rng: random.Random) -> Any:
    return table.slice(rng.randint(0, len(table)), rng.choice([0, 1, 2, len(table)]))


TABLE_CHANGES: Final[tuple[Callable[[Any, random.Random], Any], ...]] = (
    _without, _of_another_type, _with_values, _with_values, _with_values, _shuffled, _repeated, _counted_on,
    _with_names, _in_circles, _cut,
)  # fmt: skip


def change_journal(run: Path, rng: random.Random) -> None:
    """Journals have other words, lengths, holes and names."""
    journal = run / "journal"
    if not journal.is_dir():
        return change_bytes(run, rng)
    path = rng.choice(sorted(each for each in journal.iterdir() if each.is_file()))
    kind = rng.randrange(5)
    if kind == 0:
        os.truncate(path, rng.choice([1, 2**20, 2**26 + 1, 2**35]))
    elif kind == 1:  # words of eight bytes
        data = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 40)):
            at = 8 * rng.randrange(max(len(data) // 8, 1))
            word = rng.choice(
                [0, -1, 1, 2**63 - 1, -(2**63), rng.getrandbits(63), rng.randrange(20)]
            )
            data[at : at + 8] = word.to_bytes(8, "little", signed=True)
        path.write_bytes(data)
    elif kind == 2:  # the same, many times
        path.write_bytes(path.read_bytes() * rng.choice([2, 50]))
    elif kind == 3:
        names = journal / "names.jsonl"
        text = rng.choice([LONG, "[" * 100_000, "9" * 5000, "\ud800", ""])
        lines = (json.dumps(["layer", n, text]) for n in range(rng.choice([3, 40])))
        names.write_text("\n".join(lines) + "\n")
    else:
        change_bytes(journal, rng)
    return None


def change_bytes(run: Path, rng: random.Random) -> None:
    """Bytes of a file, as recordings are damaged."""
    path = rng.choice(sorted(each for each in run.iterdir() if each.is_file()))
    path.write_bytes(damaged(path.read_bytes(), rng))


def change_files(run: Path, rng: random.Random) -> None:
    """A file is gone, another's, a folder, a pipe, a hole or a link out."""
    files = sorted(each for each in run.rglob("*") if each.is_file() and not each.is_symlink())
    path, other = rng.choice(files), rng.choice(files)
    kind = rng.randrange(6)
    if kind == 1:
        shutil.copyfile(other, run / "copy")
        (run / "copy").replace(path)
        return
    if kind == 5:
        os.truncate(path, rng.choice([0, 1, 2**20, 2**35]))
        return
    path.unlink()
    if kind == 2:
        path.mkdir()
    elif kind == 3:
        os.mkfifo(path)
    elif kind == 4:
        path.symlink_to(
            rng.choice(["/dev/zero", "/etc/passwd", "../outside/file", str(path), "/proc/self/mem"])
        )


CHANGES: Final = (
    change_description, change_description, change_table, change_table, change_table, change_journal,
    change_bytes, change_files,
)  # fmt: skip


def change(run: Path, rng: random.Random) -> list[str]:
    """Makes a run a stranger's; what was done."""
    done = rng.sample(CHANGES, 1 if rng.random() < 0.7 else 2)
    done.sort(key=lambda each: each is change_files)  # a pipe or a hole can be changed no further
    for each in done:
        with contextlib.suppress(OSError, IndexError, ValueError):  # the first took it away
            each(run, rng)
    return [each.__name__ for each in done]
