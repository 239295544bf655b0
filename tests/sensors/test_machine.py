from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattstep.record.sensors.machine import caches, describe

EXAMPLES = 100_000 if settings.default.max_examples > 1000 else 100
CPUS = "sys/devices/system/cpu"


def cpuinfo(*cores):
    """Text of an Arm's /proc/cpuinfo: number, maker and part of each core."""
    return "\n".join(
        f"processor\t: {core}\nBogoMIPS\t: 62.50\nCPU implementer\t: {maker}\nCPU part\t: {part}\n"
        for core, maker, part in cores
    )


def cores(*rows):
    """cpufreq of cores: number, related cores, highest clock in kHz."""
    files = {}
    for core, related, highest in rows:
        files[f"{CPUS}/cpu{core}/cpufreq/related_cpus"] = f"{related}\n"
        files[f"{CPUS}/cpu{core}/cpufreq/cpuinfo_max_freq"] = f"{highest}\n"
    return files


def test_a_tx2_has_its_two_clusters_apart_even_with_denver_offline(tree):
    root = tree(
        {
            "proc/device-tree/compatible": "nvidia,p2597-0000+p3310-1000\0nvidia,tegra186\0",
            "proc/cpuinfo": cpuinfo(*((core, "0x41", "0xd07") for core in (0, 3, 4, 5))),
        }
    )
    machine = describe(root)
    assert machine["board"] == "jetson-tx2"
    assert machine["clusters"] == [
        {"kind": "Cortex-A57", "cores": [0, 3, 4, 5], "max_hz": 2_035_200_000},
        {"kind": "Denver2", "cores": [1, 2], "max_hz": 2_035_200_000},
    ]


def test_clusters_of_an_unknown_phone_come_from_its_policies_and_part_numbers(tree):
    # Two clocks of one kind, and a single core of a kind that we do not know.
    root = tree(
        {
            "proc/cpuinfo": cpuinfo(
                *((core, "0x41", "0xd05") for core in (0, 1)),
                *((core, "0x41", "0xd41") for core in (2, 3)),
                (4, "0x41", "0xfff"),
            )
        }
        | cores(*((core, "0 1", 2_147_000) for core in (0, 1)))
        | cores(*((core, "2 3", 2_450_000) for core in (2, 3)))
        | cores((4, "4", 3_015_000))
    )
    assert describe(root)["clusters"] == [
        {"kind": "Cortex-A55", "cores": [0, 1], "max_hz": 2_147_000_000},
        {"kind": "Cortex-A78", "cores": [2, 3], "max_hz": 2_450_000_000},
        {"kind": "part 0xfff of maker 0x41", "cores": [4], "max_hz": 3_015_000_000},
    ]


def test_an_agx_orin_s_clusters_of_one_kind_stay_apart(tree):
    rows = [
        (core, " ".join(map(str, range(core // 4 * 4, core // 4 * 4 + 4)))) for core in range(8)
    ]
    root = tree(
        {"proc/cpuinfo": cpuinfo(*((core, "0x41", "0xd42") for core in range(8)))}
        | cores(*((core, related, 2_201_600) for core, related in rows))
    )
    assert [cluster["cores"] for cluster in describe(root)["clusters"]] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]


def test_x86_cores_with_a_clock_each_are_one_cluster_where_they_are_alike(tree):
    text = "\n".join(f"processor\t: {core}\nmodel name\t: Intel i7\n" for core in range(6))
    root = tree(
        {"proc/cpuinfo": text}
        | {f"{CPUS}/cpu{core}/cpu_capacity": f"{1024 if core < 4 else 576}\n" for core in range(6)}
        | cores(*((core, str(core), 4_000_000) for core in range(6)))
    )
    assert describe(root)["clusters"] == [
        {"kind": "Intel i7", "cores": [0, 1, 2, 3], "max_hz": 4e9},
        {"kind": "Intel i7", "cores": [4, 5], "max_hz": 4e9},
    ]


CONF = """\
# power modes
< POWER_MODEL ID=0 NAME=MAXN >
CPU_ONLINE CORE_0 1
< POWER_MODEL ID=3 NAME=MAXP_CORE_ARM >
CPU_DENVER_2 MAX_FREQ -1
< PM_CONFIG DEFAULT=3 >
"""


@pytest.mark.parametrize(
    ("status", "conf", "mode"),
    [
        ("pmode:0003", CONF, "MAXP_CORE_ARM"),
        ("pmode:0000 fmode:quiet\n", CONF, "MAXN"),
        ("pmode:0007", CONF, "mode 7"),
        ("pmode:0002", None, "mode 2"),
        ("", CONF, None),
        (None, CONF, None),
    ],
)
def test_the_power_mode_is_called_by_its_name(tree, status, conf, mode):
    files = {"var/lib/nvpmodel/status": status, "etc/nvpmodel.conf": conf}
    root = tree({name: text for name, text in files.items() if text is not None})
    assert describe(root)["power_mode"] == mode


def test_governors_are_told_by_policy_and_for_the_gpu(tree):
    root = tree(
        {
            f"{CPUS}/cpufreq/policy0/scaling_governor": "schedutil\n",
            f"{CPUS}/cpufreq/policy4/scaling_governor": "performance\n",
            "sys/class/devfreq/17000000.gpu/governor": "nvhost_podgov\n",
        }
    )
    assert describe(root)["governors"] == {
        "policy0": "schedutil",
        "policy4": "performance",
        "17000000.gpu": "nvhost_podgov",
    }


def test_an_empty_tree_is_no_board_and_the_description_is_plain_json(tmp_path):
    machine = describe(tmp_path)
    assert machine["board"] is None
    assert machine["clusters"] == []
    assert machine["memory"] is None
    assert json.loads(json.dumps(machine)) == machine


WORDS = st.sampled_from(
    [
        *(b"processor\t: 0\n", b"CPU part : 0x", b"\n\n", b"1 2", b"12", b"-", b"_", b"="),
        *(b"pmode:", b"< POWER_MODEL ID=", b">", b"MemTotal: ", b"kB", b"PRETTY_NAME="),
    ]
)
BYTES = st.lists(WORDS | st.binary(max_size=4), max_size=8).map(b"".join)


@settings(max_examples=EXAMPLES)
@given(st.lists(BYTES, min_size=7, max_size=7))
def test_any_bytes_give_a_description(contents):
    names = (
        "proc/cpuinfo", "proc/meminfo", "etc/os-release", "var/lib/nvpmodel/status",
        "etc/nvpmodel.conf", f"{CPUS}/cpu0/cpufreq/related_cpus",
        f"{CPUS}/cpu0/cpufreq/cpuinfo_max_freq",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, content in zip(names, contents, strict=True):
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        machine = describe(Path(folder))
    assert json.loads(json.dumps(machine)) == machine


def test_this_machine_has_every_core_in_one_cluster():
    machine = describe()
    listed = [core for cluster in machine["clusters"] for core in cluster["cores"]]
    assert len(listed) == len(set(listed))
    assert len(listed) >= machine["cores"]


def cache(number, level, kind, size, shared):
    folder = f"{CPUS}/cpu0/cache/index{number}"
    return {
        f"{folder}/level": f"{level}\n", f"{folder}/type": f"{kind}\n",
        f"{folder}/size": f"{size}\n", f"{folder}/shared_cpu_map": f"{shared}\n",
    }  # fmt: skip


def test_caches_of_data_are_told_with_how_many_cores_share_them(tmp_path):
    files = {
        **cache(0, 1, "Data", "48K", "1"), **cache(1, 1, "Instruction", "32K", "1"),
        **cache(2, 2, "Unified", "1280K", "1"), **cache(3, 3, "Unified", "49152K", "00000000,0000000f"),
    }  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert caches(tmp_path) == {"L2": (1280 * 1024, 1), "L3": (48 * 1024**2, 4)}


def test_caches_that_are_not_told_or_garbled_are_left_out(tmp_path):
    assert caches(tmp_path) == {}
    for path, text in cache(2, 2, "Unified", "much", "zz").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert caches(tmp_path) == {}
