from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from wattstep.record.sampling import child
from wattstep.record.sensors import SENSORS, load, present_or_absent, probe, probe_all, read_integer
from wattstep.schema.channel import Absent, Present, SensorRead

READS_OF_MORE_THAN_A_FILE = {
    "sum", "ratio", "product", "drawn", "threads", "children", "family", "perf",
}  # fmt: skip


class Broken:
    name = "broken"
    description = "a sensor whose bus has failed"

    def __init__(self, error):
        self.error = error

    def probe(self, root, pid):
        raise self.error


@pytest.mark.parametrize("name", SENSORS)
def test_every_sensor_is_known_by_the_name_it_gives_itself(name):
    sensor = load(name)
    assert sensor.name == name
    assert sensor.description


def test_an_empty_tree_gives_a_reason_for_every_sensor(tmp_path):
    found = probe_all(tmp_path, 1)
    assert list(found) == list(SENSORS)
    for result in found.values():
        assert isinstance(result, Absent)
        assert len(result.reason) > 10


def test_an_error_of_the_system_becomes_the_reason(tmp_path):
    denied = PermissionError(13, "Permission denied", "/proc/1/smaps_rollup")
    assert probe(Broken(denied), tmp_path, 1) == Absent(
        reason="/proc/1/smaps_rollup: permission denied"
    )
    assert probe(Broken(OSError(5, "Input/output error")), tmp_path, 1) == Absent(
        reason="input/output error"
    )


def test_a_mistake_of_ours_is_not_taken_for_a_missing_sensor(tmp_path):
    with pytest.raises(ZeroDivisionError):
        probe(Broken(ZeroDivisionError()), tmp_path, 1)


def test_on_this_machine_every_channel_has_one_name_and_one_integer(measure):
    names: Counter[str] = Counter()
    for result in probe_all(Path("/"), os.getpid()).values():
        if isinstance(result, Present):
            assert result.reads
            names.update(channel.name for read in result.reads for channel in read.channels)
            if all(read.parser != "perf" for read in result.reads):
                measure(result)  # as many integers as channels, or it fails
    assert set(names.values()) == {1}


def test_the_sampler_knows_every_parser_that_a_sensor_asks_for(node_exporter):
    known = set(child.PARSERS) | READS_OF_MORE_THAN_A_FILE
    for root in (Path("/"), node_exporter):
        for result in probe_all(root, os.getpid()).values():
            if isinstance(result, Present):
                assert {read.parser for read in result.reads} <= known


def test_no_source_tells_the_process_or_the_place_of_a_tree(node_exporter):
    for root in (Path("/"), node_exporter):
        for result in probe_all(root, os.getpid()).values():
            for read in result.reads if isinstance(result, Present) else ():
                for channel in read.channels:
                    assert str(os.getpid()) not in channel.source.split("/")
                    assert str(node_exporter) not in channel.source


def test_a_file_without_a_number_is_a_reason_that_quotes_it(tmp_path):
    path = tmp_path / "power"
    path.write_text("<unsupported>\n")
    assert read_integer(path) == Absent(reason=f"{path} holds '<unsupported>', which is no number")


def test_the_same_reason_is_told_once():
    absent = Absent(reason="closed")
    assert present_or_absent([absent, absent], otherwise="empty") == absent
    assert present_or_absent([], otherwise="empty") == Absent(reason="empty")


def test_former_names_of_a_push_source_are_taken_with_a_warning() -> None:
    settings = {"rate": 10}
    with pytest.warns(DeprecationWarning, match="now push_s") as warned:
        read = SensorRead(
            path="mine", parser="feed", channels=(), feed="mine:rows", feed_settings=settings
        )
    assert (read.push_source, read.push_settings, len(warned)) == ("mine:rows", settings, 2)
    assert replace(read, path="other").push_source == "mine:rows"  # without a warning
