from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import unpack_board
from tests.refusals import refused
from tests.wording import assert_says

from wattstep import boards
from wattstep.boards.rails import domain, meaning, missing_of_total
from wattstep.boards.table import Board, Cluster, Mode, Rail, Zone, parse_board
from wattstep.cli.boards import row
from wattstep.errors import InvalidValueError
from wattstep.formats.tegrastats import parse
from wattstep.record.hosts.emulation.settings import make_settings
from wattstep.record.sensors.ina3221 import PowerRails
from wattstep.schema.channel import Present

FIXTURES = Path(__file__).parent.parent / "fixtures" / "boards"
WHOLE = {rail for name in boards.names() for rail in boards.find(name).total}
KINDS = (Board, Rail, Cluster, Zone, Mode)
EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 200
SMALL = """
title = "A board"
source = "invented"
[power]
total = ["IN"]
leaves_out = "the carrier"
rails = [
    { label = "IN", parts = ["input"] },
    { label = "CPU", aliases = ["VDD_CPU"], parts = ["cpu"], within = "IN" },
]
"""


def test_every_board_of_the_issue_has_a_table():
    assert set(boards.names()) >= {
        "jetson-tx1", "jetson-tx2", "jetson-tx2-nx", "jetson-nano", "jetson-nano-2gb",
        "jetson-xavier-nx", "jetson-agx-xavier", "jetson-orin-nano", "jetson-orin-nx",
        "jetson-agx-orin", "jetson-agx-thor", "raspberry-pi-3", "raspberry-pi-4", "raspberry-pi-5",
    }  # fmt: skip


@pytest.mark.parametrize("name", boards.names())
def test_every_table_is_read_and_names_its_source(name):
    board = boards.find(name)
    assert board.name == name
    assert len(board.source) > 20
    assert board.compatible
    assert bool(board.total) != bool(board.no_total)


@pytest.mark.parametrize("name", boards.names())
def test_every_board_has_a_fixture_that_is_identified_as_this_board(name, board_tree):
    found = boards.identify(board_tree(name))
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("name", [name for name in boards.names() if boards.find(name).models])
def test_a_board_is_identified_by_its_model_where_a_release_gives_no_compatible(name, board_tree):
    root = board_tree(name)
    (root / boards.COMPATIBLE).unlink()
    found = boards.identify(root)
    assert found is not None
    assert found.name == name


# Strings of releases and carriers other than those of the fixtures.
@pytest.mark.parametrize(
    ("compatible", "name"),
    [
        (["nvidia,p2771-0000", "nvidia,tegra186"], "jetson-tx2"),
        (["nvidia,p2597-0000+p3489-0888", "nvidia,tegra186"], "jetson-tx2"),
        (["nvidia,p3768-0000+p3767-0001", "nvidia,p3767-0001"], "jetson-orin-nx-8gb"),
        (["nvidia,p3768-0000+p3767-0000-super", "nvidia,p3767-0000"], "jetson-orin-nx"),
        (["nvidia,p3509-a02+p3767-0003", "nvidia,p3767-0003"], "jetson-orin-nano"),
        (["someone,carrier+p3767-0004", "nvidia,p3767-0004"], "jetson-orin-nano"),
        (["nvidia,p3509-0000+p3668-0001", "nvidia,tegra194"], "jetson-xavier-nx"),
        (["nvidia,p2972-0000", "nvidia,tegra194"], "jetson-agx-xavier"),
        (["nvidia,p3740-0002+p3701-0008", "nvidia,p3701-0008"], "jetson-agx-orin"),
        (["nvidia,p3737-0000+p3701-0000-as-p3767-0004"], "jetson-agx-orin"),
        (["nvidia,p2371-2180", "nvidia,tegra210"], "jetson-tx1"),
        (["nvidia,p3449-0000-a02+p3448-0000-a02", "nvidia,jetson-nano"], "jetson-nano"),
        (["nvidia,p3450-0000", "nvidia,tegra210"], "jetson-nano"),
        (["raspberrypi,3-model-b", "brcm,bcm2837"], "raspberry-pi-3"),
        (["raspberrypi,3-model-b-plus", "brcm,bcm2837"], "raspberry-pi-3b-plus"),
        (["raspberrypi,400", "brcm,bcm2711"], "raspberry-pi-4"),
        (["raspberrypi,5-compute-module", "brcm,bcm2712"], "raspberry-pi-5"),
    ],
)
def test_a_module_is_known_on_any_carrier(tmp_path, compatible, name):
    path = tmp_path / boards.COMPATIBLE
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{entry}\0" for entry in compatible))
    found = boards.identify(tmp_path)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("entry", ["nvidia,tegra186", "nvidia,tegra234", "rockchip,rk3588", ""])
def test_the_chip_alone_is_no_board(tmp_path, entry):
    path = tmp_path / boards.COMPATIBLE
    path.parent.mkdir(parents=True)
    path.write_text(f"{entry}\0")
    assert boards.identify(tmp_path) is None
    assert boards.identify(tmp_path / "nowhere") is None


# By hand, from shared facts: energymon's table, patches of Linux' device trees, tegrastats.
@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("jetson-tx1", {"VDD_IN"}),
        ("jetson-tx2", {"VDD_IN"}),
        ("jetson-tx2-nx", {"VDD_IN"}),
        ("jetson-nano", {"POM_5V_IN"}),
        ("jetson-nano-2gb", set()),
        ("jetson-xavier-nx", {"VDD_IN"}),
        ("jetson-agx-xavier", {"GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"}),
        ("jetson-orin-nano", {"VDD_IN"}),
        ("jetson-orin-nx", {"VDD_IN"}),
        ("jetson-agx-orin", {"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"}),
        ("jetson-agx-thor", {"VIN"}),
        ("jetson-orin-nx-8gb", {"VDD_IN"}),
        ("raspberry-pi-3", set()),
        ("raspberry-pi-3b-plus", set()),
        ("raspberry-pi-4", set()),
    ],
)
def test_the_total_of_a_board_is_that_of_its_makers_documents(name, total):
    assert set(boards.find(name).total) == total


def test_the_power_manager_of_a_pi_5_has_twelve_pairs_of_current_and_voltage():
    assert len(boards.find("raspberry-pi-5").total) == 12


def test_every_rail_that_a_total_contains_otherwise_is_out_of_it():
    for name in boards.names():
        board = boards.find(name)
        parts = [rail for rail in board.rails if rail.label not in board.total]
        if len(board.total) > 1:
            assert all(rail.within or "carrier" in rail.parts for rail in parts), name


# The kinds of cores by number: nvpmodel of the TX2, sbc-bench of the others.
@pytest.mark.parametrize(
    ("name", "core", "kind", "highest"),
    [
        ("jetson-tx2", 1, "Denver2", 2.0352e9),
        ("jetson-tx2", 3, "Cortex-A57", 2.0352e9),
        ("jetson-nano", 3, "Cortex-A57", 1.479e9),
        ("jetson-xavier-nx", 5, "Carmel", 1.907e9),
        ("jetson-agx-xavier", 7, "Carmel", 2.266e9),
        ("jetson-orin-nano", 5, "Cortex-A78AE", 1.728e9),
        ("jetson-agx-orin", 11, "Cortex-A78AE", 2.202e9),
        ("raspberry-pi-4", 0, "Cortex-A72", 1.8e9),
        ("raspberry-pi-5", 0, "Cortex-A76", 2.4e9),
    ],
)
def test_cores_are_of_their_kind_and_clock(name, core, kind, highest):
    cluster = boards.find(name).cluster_of(core)
    assert cluster is not None
    assert cluster.kind == kind
    assert cluster.max_hz == pytest.approx(highest, rel=1e-3)


# Pin rates of the memory in GB/s: 2 transfers a clock times the bus.
@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("jetson-tx1", 25.6), ("jetson-tx2", 59.7), ("jetson-nano", 25.6),
        ("jetson-xavier-nx", 59.7), ("jetson-agx-xavier", 136.5), ("jetson-orin-nano", 102.4),
        ("jetson-orin-nx", 102.4), ("jetson-agx-orin", 204.8),
    ],
)  # fmt: skip
def test_memory_clock_and_bus_give_the_published_pin_rate(name, rate):
    memory = boards.find(name).memory_controller
    assert memory["max_hz"] * 2 * memory["bus_bits"] / 8e9 == pytest.approx(rate, rel=2e-3)


# boards.md, section 3: a soft limit of 60 °C on a 3B+ alone, 80 °C on all.
@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("raspberry-pi-3", 80.0), ("raspberry-pi-3b-plus", 60.0), ("raspberry-pi-4", 80.0),
    ],
)  # fmt: skip
def test_only_a_3b_plus_throttles_from_60_degrees(name, limit):
    zone = boards.find(name).zone("cpu-thermal")
    assert zone is not None
    assert zone.throttle_c == limit


# --- meanings ----------------------------------------------------------------------------------


def test_combined_rails_stay_combined():
    nx = boards.find("jetson-orin-nx")
    what = meaning(nx, "VDD_CPU_GPU_CV", WHOLE)
    assert (what.domain, what.role) == ("soc", "power_part")
    assert_says(what.note, "cpu", "gpu", "cv")
    # What also feeds memory and connectors is no power of the chip.
    assert meaning(boards.find("jetson-agx-orin"), "VIN_SYS_5V0", WHOLE).domain == "system"


def test_a_rail_of_one_part_is_of_its_domain():
    tx2 = boards.find("jetson-tx2")
    rails = {rail.label: domain(rail) for rail in tx2.rails}
    assert rails["VDD_SYS_GPU"] == "gpu"
    assert rails["VDD_SYS_CPU"] == "cpu"
    assert rails["VDD_SYS_DDR"] == "memory"
    assert rails["VDD_SYS_SOC"] == "soc"
    assert rails["VDD_IN"] == rails["VDD_4V0_WIFI"] == "system"


def test_names_of_other_releases_mean_the_same():
    tx2 = boards.find("jetson-tx2")
    assert meaning(tx2, "VDD_GPU", WHOLE) == meaning(tx2, "VDD_SYS_GPU", WHOLE)


# Rails in lines that tegrastats printed on these boards, by release (quoted in public issues, and
# recorded by justincdavis/jetsontools).
@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("jetson-tx2", "VDD_IN VDD_CPU VDD_GPU VDD_SOC VDD_WIFI VDD_DDR"),
        ("jetson-tx2", "VDD_SYS_GPU VDD_SYS_SOC VDD_4V0_WIFI VDD_IN VDD_SYS_CPU VDD_SYS_DDR"),
        ("jetson-nano", "POM_5V_IN POM_5V_GPU POM_5V_CPU"),
        ("jetson-xavier-nx", "VDD_IN VDD_CPU_GPU_CV VDD_SOC"),
        ("jetson-agx-xavier", "GPU CPU SOC CV VDDRQ SYS5V"),
        ("jetson-orin-nano", "VDD_IN VDD_CPU_GPU_CV VDD_SOC"),
        ("jetson-agx-orin", "VDD_GPU_SOC VDD_CPU_CV VIN_SYS_5V0 VDDQ_VDD2_1V8AO"),
        ("jetson-agx-orin", "VDD_GPU_SOC VDD_CPU_CV VIN_SYS_5V0"),
    ],
)
def test_the_rails_that_boards_were_seen_to_have_are_known(name, labels):
    board = boards.find(name)
    seen = labels.split()
    assert all(board.rail(label) for label in seen)
    assert missing_of_total(board, seen) == []


def test_a_total_needs_all_its_rails():
    orin = boards.find("jetson-agx-orin")
    labels = ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"]
    assert [meaning(orin, label, labels).role for label in labels] == [
        "power_total", "power_total", "power_total", "power_part",
    ]  # fmt: skip
    without = [label for label in labels if label != "VDD_CPU_CV"]
    assert missing_of_total(orin, without) == ["VDD_CPU_CV"]
    what = meaning(orin, "VDD_GPU_SOC", without)
    assert what.role == "power_part"
    assert "VDD_CPU_CV" in what.note


def test_a_rail_that_is_there_twice_is_no_total():
    nano = boards.find("jetson-nano")
    for twins in (["POM_5V_IN", "POM_5V_IN"], ["POM_5V_IN", "VDD_IN"]):
        what = meaning(nano, "POM_5V_IN", twins)
        assert what.role == "power_part"
        assert "more than one POM_5V_IN" in what.note


def test_the_total_says_what_it_leaves_out_and_what_it_is():
    assert "carrier" in meaning(boards.find("jetson-tx2"), "VDD_IN", ["VDD_IN"]).note
    xavier = boards.find("jetson-agx-xavier")
    note = meaning(xavier, "CPU", xavier.total).note
    assert "GPU + CPU + SOC + CV + VDDRQ + SYS5V" in note


def test_what_no_table_knows_is_unknown_and_never_a_total():
    for board in (boards.find("jetson-tx2"), None):
        what = meaning(board, "VDD_NEW", ["VDD_NEW"])
        assert (what.domain, what.role) == ("unknown", "power_part")
        assert what.note


# --- wrong tables ------------------------------------------------------------------------------


def test_a_small_table_is_enough():
    board = parse_board(SMALL.encode(), "small")
    assert board.total == ("IN",)
    assert [rail.chip for rail in board.rails] == ["", ""]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["input"]', '["dragon"]', "dragon"),
        ('["input"]', "[]", "IN feeds"),
        ('total = ["IN"]', 'total = ["VDD_NONE"]', "VDD_NONE"),
        ('total = ["IN"]', 'total = ["IN", "CPU"]', "twice"),
        ('total = ["IN"]\n', "", "either total or no_total"),
        ('leaves_out = "the carrier"\n', "", "leaves out"),
        ('"VDD_CPU"', '"IN"', "twice"),
        ('within = "IN"', 'within = "OUT"', "OUT"),
        ('within = "IN"', "volts = 5", "volts"),
        ('title = "A board"', "", "title"),
        ("[power]", '[[zones]]\ntype = "cpu"\nuse = "never"\n[power]', "use is one of"),
        (
            "[power]",
            '[[clusters]]\nkind = "a"\ncores = [0]\n[[clusters]]\nkind = "b"\ncores = [0]\n[power]',
            "two clusters",
        ),
        ("[power]", "[power", "board small"),
        ("[power]", "power = 5\n[other]", "power"),
        ('"A board"', "5", "5 is no str"),
        ('"A board"', '"A board"\nmemory = 4.5', "4.5 is no int"),
        ('"A board"', '"A board"\ntotal = []', "total"),
        ('"A board"', '"A board"\nname = "other"', "name"),
        ('"A board"', '"A board"\nzones = 1', "zones are a list"),
        ('"A board"', '"A board"\nzones = [1]', "zones are a list"),
        ('total = ["IN"]', 'total = "IN"', "'IN' is no tuple"),
        ('total = ["IN"]', "total = [1]", "1 is no str"),
    ],
)
def test_a_wrong_table_is_refused_with_what_is_wrong(old, new, said):
    assert old in SMALL
    with pytest.raises(InvalidValueError, match=said):
        parse_board(SMALL.replace(old, new, 1).encode(), "small")


SCALARS = st.one_of(
    st.integers(-5, 5), st.floats(), st.booleans(), st.sampled_from(["IN", "cpu", "VDD_CPU", ""])
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.just([["IN"]]), st.just([]))


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=60), st.integers(0, len(SMALL)), st.integers(0, 12))
def test_any_bytes_in_a_table_give_a_board_or_a_clear_error(noise, at, cut):
    text = SMALL.encode()
    with contextlib.suppress(InvalidValueError):
        parse_board(text[:at] + noise + text[at + cut :], "small")


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(sorted(field.name for kind in KINDS for field in dataclasses.fields(kind))),
    VALUES,
    st.sampled_from(["[power]", "[[zones]]", "[[clusters]]", "[[modes]]", "[[power.rails]]", ""]),
)
def test_any_value_of_any_field_gives_a_board_or_a_clear_error(field, value, place):
    wrong = f"{place}\n{field} = {json.dumps(value)}\n"
    text = SMALL.replace("[power]", f"{wrong}[power]") if place != "[power]" else SMALL + wrong
    with contextlib.suppress(InvalidValueError):
        parse_board(text.encode(), "small")


def test_an_unknown_board_is_refused_with_those_there_are():
    with refused("unknown-board", "jetson-tx2"):
        boards.find("jetson-tx9")


MADE_UP = """
title = "A board of nobody"
source = "invented for this test"
compatible = ["nobody,*+board-1*"]
[[clusters]]
kind = "Cortex-A0"
cores = [0, 1]
[power]
total = ["VDD_ALL"]
leaves_out = "the carrier"
rails = [
    { label = "VDD_ALL", parts = ["input"] },
    { label = "VDD_CORES", parts = ["cpu"], within = "VDD_ALL" },
]
"""
MADE_UP_TREE = """\
proc/device-tree/compatible: nobody,carrier+board-1\\0nobody,chip\\0
sys/class/hwmon/hwmon0/name: ina3221
sys/class/hwmon/hwmon0/in1_label: VDD_ALL
sys/class/hwmon/hwmon0/in1_input: 5000
sys/class/hwmon/hwmon0/curr1_input: 1000
sys/class/hwmon/hwmon0/in2_label: VDD_CORES
sys/class/hwmon/hwmon0/in2_input: 5000
sys/class/hwmon/hwmon0/curr2_input: 400
"""


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A folder with the tables of all boards, in place of that of the package."""
    folder = tmp_path / "tables"
    shutil.copytree(boards.FOLDER, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    monkeypatch.setattr(boards, "FOLDER", folder)
    boards.find.cache_clear()
    yield folder
    boards.find.cache_clear()


def test_one_file_adds_a_board_and_one_fixture_shows_that_it_is_read(tables, tmp_path):
    (tmp_path / "made-up.txt").write_text(MADE_UP_TREE)
    root = unpack_board(str(tmp_path / "made-up"), tmp_path / "root")
    assert boards.identify(root) is None
    (tables / "made-up.toml").write_text(MADE_UP)
    found = boards.identify(root)
    assert found is not None
    assert found.name == "made-up"
    assert "made-up" in boards.names()
    present = PowerRails().probe(root, 1)
    assert isinstance(present, Present)
    roles = {one.name: one.role for read in present.reads for one in read.channels}
    assert roles == {"rail.vdd_all": "power_total", "rail.vdd_cores": "power_part"}
    log = parse(b"RAM 1/2MB CPU [1%@5,1%@5] VDD_ALL 7mW/8mW VDD_CORES 1mW/1mW\n")
    assert log.board == "made-up"
    assert row(found)["cores"] == 2
    assert make_settings("made-up", {}).board == found


def test_every_fixture_belongs_to_a_board():
    assert {path.stem for path in FIXTURES.glob("*.txt")} == set(boards.names())
