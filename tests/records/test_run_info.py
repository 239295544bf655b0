from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refused

from wattstep.errors import DamagedRunError
from wattstep.schema.channel import Channel
from wattstep.schema.run_checks import RUN
from wattstep.schema.run_info import SCHEMA_VERSION, PlannedRead, RunInfo
from wattstep.schema.workload import DataFacts
from wattstep.store.files import read_info, write_info

TEXTS = st.text(max_size=12)
WHOLE = st.integers(-(2**62), 2**62)
REALS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | REALS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
FACTS = st.dictionaries(TEXTS, JSON, max_size=3)

CHANNELS = st.builds(
    Channel,
    name=TEXTS,
    unit=st.sampled_from(["s", "B", "J", "W", "°C", "Hz", "ratio", "events"]),
    kind=st.sampled_from(["gauge", "counter"]),
    domain=st.sampled_from(["cpu", "memory", "soc", "system", "process", "thermal", "sampler"]),
    role=TEXTS,
    source=TEXTS,
    scale=st.floats(1e-12, 1e12) | st.floats(-1e12, -1e-12),
    wrap=st.none() | st.integers(1, 2**64),
    core=st.none() | st.integers(0, 511),
    resolution=st.none() | st.floats(0, 1e12),
)
READS = st.builds(
    PlannedRead,
    number=st.integers(0, 999),
    sensor=TEXTS,
    path=TEXTS,
    parser=TEXTS,
    every=st.integers(1, 10**6),
    channels=st.lists(CHANNELS, min_size=1, max_size=3).map(tuple),
)
DATA = st.builds(
    DataFacts,
    name=TEXTS,
    stand_in=st.booleans(),
    stands_for=st.none() | TEXTS,
    sha256=TEXTS,
    samples=st.integers(0, 10**9),
)
POWER_MODELS = st.fixed_dictionaries(
    {
        "name": TEXTS,
        "idle_watts_a_core": st.floats(0, 1e6),
        "busy_watts_a_core": st.floats(0, 1e6),
        "source": TEXTS,
    }
)
MOMENTS = st.datetimes(datetime(1970, 1, 1), timezones=st.just(timezone.utc)).map(
    lambda moment: f"{moment:%Y-%m-%dT%H:%M:%S%z}"
)
INFOS = st.builds(
    RunInfo,
    state=st.sampled_from(["recording", "closed", "recovered"]),
    created=st.just("") | MOMENTS,
    workload=TEXTS,
    title=TEXTS,
    engine=TEXTS,
    batch_size=st.none() | st.integers(1, 4096),
    threads=st.none() | st.integers(1, 64),
    precision=TEXTS,
    processor=TEXTS,
    seed=st.none() | WHOLE,
    interval_s=st.floats(1e-3, 1e3),
    warmup=st.integers(0, 100),
    trace=TEXTS,
    data=st.none() | DATA,
    device=FACTS,
    environment=FACTS,
    model=FACTS,
    power_model=st.none() | POWER_MODELS,
    scheduling=TEXTS,
    reads=st.lists(READS, max_size=3, unique_by=lambda read: read.number).map(tuple),
    absent=st.dictionaries(TEXTS, TEXTS, max_size=3),
    notes=st.lists(TEXTS, max_size=3).map(tuple),
    lost=st.dictionaries(TEXTS, WHOLE, max_size=3),
    gaps=st.lists(st.tuples(WHOLE, WHOLE).map(sorted).map(tuple), max_size=3).map(tuple),
)


def an_info(**fields: Any) -> RunInfo:
    values: dict[str, Any] = {
        "state": "closed",
        "created": "2026-11-20T12:00:00+0000",
        "workload": "lenet",
        "title": "LeNet",
        "engine": "torch",
        "batch_size": 4,
        "threads": 1,
        "precision": "fp32",
        "processor": "cpu",
        "seed": 0,
        "interval_s": 0.01,
        "warmup": 3,
        "trace": "none",
    }
    return RunInfo(**{**values, **fields})


@given(INFOS)
def test_the_description_of_a_run_survives_json(info: RunInfo) -> None:
    assert RunInfo.from_dict(json.loads(json.dumps(info.to_dict()))) == info


def test_the_description_of_a_run_survives_the_disk(tmp_path: Path) -> None:
    info = an_info(title="ResNet 50 µ×°", lost={"sampler": 2**62 + 1})
    write_info(tmp_path, info)
    assert read_info(tmp_path) == info
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize(("state", "known"), [("closed", (1,)), ("recording", (1, 2))])
@given(data=st.data())
def test_another_schema_is_refused_and_named(
    state: str, known: tuple[int, ...], data: st.DataObject
) -> None:
    document = an_info(state=state).to_dict()
    assert document["schema_version"] == known[-1]
    for version in known:
        assert RunInfo.from_dict({**document, "schema_version": version}) == an_info(state=state)
    version = data.draw(st.integers().filter(lambda version: version not in known))
    with refused("other-schema", version):
        RunInfo.from_dict({**document, "schema_version": version})


@given(JSON)
def test_any_json_is_a_run_or_damaged(document: Any) -> None:
    if isinstance(document, dict):
        with pytest.raises(DamagedRunError):
            RunInfo.from_dict({"schema_version": SCHEMA_VERSION, **document})


@given(st.sampled_from(sorted(an_info().to_dict())), JSON)
def test_a_garbled_field_gives_a_run_or_is_named_as_damage(key: str, value: Any) -> None:
    document = {**an_info(data=None).to_dict(), key: value}
    try:
        info = RunInfo.from_dict(json.loads(json.dumps(document)))
    except DamagedRunError:
        return
    assert isinstance(info.interval_s, float)
    assert isinstance(info.warmup, int)


@pytest.mark.parametrize("key", ["state", "interval_s", "warmup", "workload"])
def test_a_field_that_is_gone_is_damage(key: str) -> None:
    document = an_info().to_dict()
    del document[key]
    with pytest.raises(DamagedRunError, match=key):
        RunInfo.from_dict(document)


@pytest.mark.parametrize(
    ("text", "id", "named"),
    [
        ("", "unreadable-run-file", "run.json"),
        ('{"schema_version": 1, "st', "unreadable-run-file", "run.json"),
        ("[1, 2]", "run-file-holds-no-run", "run.json"),
        ('"\\ud800"', "run-file-holds-no-run", "run.json"),
        ("null", "run-file-holds-no-run", "run.json"),
        ("{}", "other-schema", "None"),
    ],
)
def test_a_run_json_that_holds_no_run_is_damage(
    tmp_path: Path, text: str, id: str, named: str
) -> None:
    (tmp_path / "run.json").write_text(text)
    with refused(id, named):
        read_info(tmp_path)


def test_a_run_json_that_is_no_text_is_damage(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(b"\xff\xfe\x00{}")
    with refused("unreadable-run-file"):
        read_info(tmp_path)


def test_a_folder_without_run_json_is_no_run(tmp_path: Path) -> None:
    with refused("not-a-run", "run.json"):
        read_info(tmp_path)


def test_a_field_of_a_later_minor_version_is_left_alone() -> None:
    document = {**an_info().to_dict(), "humidity": 0.4}
    assert RunInfo.from_dict(document) == an_info()


def test_every_field_has_its_check() -> None:
    assert {field.name for field in fields(RunInfo)} == set(RUN)


HUGE = 10**399
A_SET = DataFacts(name="MNIST", stand_in=False, stands_for=None, sha256="0", samples=1)
BAD: dict[str, tuple[Any, ...]] = {
    "batch_size": (0, -4, 2.5, True, "4", HUGE, math.nan, 10**18),
    "threads": (0, -1, "two", [1]),
    "interval_s": (-0.01, math.nan, math.inf, HUGE, None, "10ms", 1e12),
    "warmup": (-1, 1.5, None, HUGE, 10**18),
    "first_step": (-1, 10**18),
    "title": (None, ["LeNet"], 3),
    "seed": (HUGE, 0.5),
    "clocks": ([[math.inf, 1]], [[1]], [[1, 2, 3]], [[HUGE, 1]], 7, [["1", "2"]]),
    "lost": ({"sampler": math.inf}, {"sampler": HUGE}, {"sampler": None}, []),
    "gaps": ([[0, math.inf]], [[5]], [7], {}, [[0, HUGE]], [[2, 1]]),
    "canary": ({"kind": 3}, {"version": -1}, {"before": [1]}, {"before": {"right": "yes"}},
               {"after": {"compute_s": [math.nan]}}, {"after": {"memory_s": 0.1}},
               {"before": {"at_ns": HUGE}}),
    "absent": ({"rapl": None}, {"rapl": ["no"]}, "abc"),
    "notes": ("abc", [1], None),
    "device": ({"cores": "two"}, {"cores": -2}, {"memory": math.inf}, {"clusters": [1]},
               {"clusters": [{"kind": "A76", "cores": ["0"]}]}, {"emulated_on": 3}),
    "model": ({"parameters": HUGE}, {"parameters": -1}, {"layers": [{"of": math.nan}]}),
    "options": ({"exclude": 5}, {"until": ["loss"]}, {"accumulate": 0}, {"rate": -math.inf}),
    "conditions": ({"ambient": 21}, {"ambient": {"value": "warm"}}, {"x": HUGE}),
    "schedule": ({"policy": 3}, {"cores": 0}, {"updates": [{"tasks": 1}]}, {"predicted": {"value": -1.0}},
                 {"interference": [{"kind": "a"}]}, {"times": "guessed"}, {"bound_s": math.inf}),
    "asked": ({"steps": -3}, {"seconds": math.inf}),
    "power_model": ({}, {"name": "vcpu"}, 3),
    "data": ({"name": "MNIST"}, {**asdict(A_SET), "samples": -1}, {**asdict(A_SET), "stand_in": 1}),
    "reads": ([{"number": 0}], [None], {}, 5),
    "created": ("9999-99-99", "yesterday", "2026-11-20T25:00:00+0000", "x" * 5000, 5, None),
    "imported": (
        {"telemetry": [{"file": "a", "ignored": {"damaged line": -1}}]}, {"trace": {"events": -5}},
        {"telemetry": [{"file": "a", "values": 10**30}]}, {"steps": {"count": -1}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [(key, bad) for key in BAD for bad in BAD[key]])
def test_a_value_that_cannot_be_is_refused_by_its_field(
    tmp_path: Path, key: str, value: Any
) -> None:
    document = {**an_info().to_dict(), key: value}
    (tmp_path / "run.json").write_text(json.dumps(document))
    with refused("damaged-field", f": {key}: ") as raised:
        read_info(tmp_path)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("scale", 0), ("scale", 1e-320), ("scale", math.inf), ("scale", "1"), ("wrap", 0), ("wrap", HUGE), ("core", -1),
        ("core", 0.5), ("resolution", -1), ("resolution", math.nan), ("kind", "meter"),
        ("status", "missing"), ("name", None), ("domain", []), ("window_s", HUGE), ("unit", {}),
    ],
)  # fmt: skip
def test_a_channel_that_cannot_be_is_refused_by_its_field(key: str, value: Any) -> None:
    channel = Channel(name="a", unit="W", kind="gauge", domain="soc", role="power", source="x")
    read = {"number": 0, "sensor": "s", "path": "p", "parser": "q", "every": 1}
    reads = [{**read, "channels": [{**asdict(channel), key: value}]}]
    with refused("damaged-field", f": reads: channels: {key}: "):
        RunInfo.from_dict({**an_info().to_dict(), "reads": reads})


def test_nesting_without_end_is_damage(tmp_path: Path) -> None:
    for depth, id in ((100, "damaged-field"), (100_000, "unreadable-run-file")):
        nested = '{"a":' * depth + "1" + "}" * depth
        document = json.dumps({**an_info().to_dict(), "options": "@"}).replace('"@"', nested)
        (tmp_path / "run.json").write_text(document)
        with refused(id, "nested"):
            read_info(tmp_path)
