"""Logs of tools that people have at hand: read where that is sure, else refused with what they are."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.formats.recording import Recording
from wattstep.formats.registry import read_log
from wattstep.importing.importer import ImportSettings, import_run
from wattstep.importing.traces import read_trace
from wattstep.run import load

DMON = """\
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk     fb   bar1   ccpm
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz     MB     MB     MB
    0    218     43      -     95     40      0      0      0      0   1593   1410   1024      5      0
    1     60     38      -      3      1      0      0      0      0   1593    210     10      5      0
    0    220     44      -     97     41      0      0      0      0   1593   1410   1024      5      0
    1     61     38      -      2      1      0      0      0      0   1593    210     10      5      0
"""
DATED = """\
#Date       Time        gpu    pwr     sm
#YYYYMMDD   HH:MM:SS    Idx      W      %
 20261120   12:00:00      0    100     50
 20261120   12:00:01      0    102     52
"""
POWERMETRICS = """\
Machine model: Mac14,2

*** Sampled system activity (Fri Nov 20 12:00:00 2026 +0100) (1002.50ms elapsed) ***

**** Processor usage ****
CPU Power: 1234 mW
GPU Power: 120 mW
ANE Power: 0 mW
Combined Power (CPU + GPU + ANE): 1354 mW

**** GPU usage ****
GPU HW active frequency: 1398 MHz
GPU HW active residency:  25.50% (444 MHz: 12%)

*** Sampled system activity (Fri Nov 20 12:00:01 2026 +0100) (1001.50ms elapsed) ***
CPU Power: 1300 mW
GPU Power: 130 mW
ANE Power: 0 mW
"""
PERF_CSV = """\
# started on Fri Nov 20 12:00:00 2026

     1.000266054,5.43,Joules,power/energy-pkg/,1000263514,100.00,,
     1.000266054,1.10,Joules,power/energy-ram/,1000263514,100.00,,
     1.000266054,2500000,,cycles,1000263514,100.00,,
     2.000512345,6.00,Joules,power/energy-pkg/,1000263514,100.00,,
     2.000512345,<not counted>,Joules,power/energy-ram/,0,0.00,,
     3.000700000,5.57,Joules,power/energy-pkg/,1000263514,100.00,,
     3.000700000,1.40,Joules,power/energy-ram/,1000263514,100.00,,
"""
PERF_COLUMNS = """\
#           time             counts unit events
     1.001064672               5.43 Joules power/energy-pkg/
     2.002064672           1,006.00 Joules power/energy-pkg/
"""


def read(path: Path, text: str | bytes, **settings: float) -> tuple[str, Recording]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    form, recording = read_log(path, **settings)  # type: ignore[arg-type]
    return form.name, recording


def test_dmon_has_a_row_for_each_gpu_and_no_clock(tmp_path: Path) -> None:
    name, recording = read(tmp_path / "log", DMON, interval_s=1.0)
    assert name == "nvidia-smi dmon"
    assert list(recording.value["gpu0.power"]) == [218.0, 220.0]
    assert list(recording.value["gpu1.power"]) == [60.0, 61.0]
    assert list(recording.t_ns["gpu0.power"]) == [0, 10**9]
    assert list(recording.value["gpu0.utilization"]) == pytest.approx([0.95, 0.97])
    assert recording.value["gpu0.memory_used"][0] == 1024 * 2**20
    assert recording.value["gpu0.graphics_frequency"][0] == 1410e6
    assert np.isnan(recording.value["gpu0.memory_temperature"]).all()
    assert recording.clock == "counted"
    assert recording.ignored == {"bar1: no quantity of a run": 4, "ccpm: no quantity of a run": 4}


def test_dmon_without_times_asks_how_far_apart_rows_are(tmp_path: Path) -> None:
    with refused("no-clock", "interval"):
        read(tmp_path / "log", DMON)


def test_dmon_with_dates_has_a_clock(tmp_path: Path) -> None:
    _, recording = read(tmp_path / "log", DATED)
    # date -u -d "2026-11-20 12:00:00" +%s
    assert list(recording.t_ns["gpu0.power"]) == [1795176000 * 10**9, 1795176001 * 10**9]
    assert recording.clock == "wall"


def test_dmon_with_times_of_day_knows_how_far_apart_rows_are(tmp_path: Path) -> None:
    """Over midnight, two seconds apart."""
    head = "#Time        gpu    pwr\n#HH:MM:SS    Idx      W\n"
    times = ("23:59:56", "23:59:58", "00:00:00", "00:00:02")
    _, recording = read(tmp_path / "log", head + "".join(f" {at}      0    100\n" for at in times))
    assert list(np.diff(recording.t_ns["gpu0.power"])) == [2 * 10**9] * 3
    assert recording.clock == "counted"


def test_dmon_as_csv_is_read(tmp_path: Path) -> None:
    text = "#gpu, pwr, gtemp, sm\n#Idx, W, C, %\n" + "0, 100, 45, 50\n0, 102, -, 50\n"
    name, recording = read(tmp_path / "log", text, interval_s=1.0)
    assert name == "nvidia-smi dmon"
    assert list(recording.value["gpu0.power"]) == [100.0, 102.0]


def test_a_unit_of_dmon_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="furlongs"):
        read(tmp_path / "log", DMON.replace("  C      C", "  C furlongs"), interval_s=1.0)


def test_powermetrics_has_the_parts_of_the_chip_as_estimates(tmp_path: Path) -> None:
    name, recording = read(tmp_path / "log", POWERMETRICS)
    assert name == "powermetrics"
    assert list(recording.value["cpu.power"]) == [1.234, 1.3]
    assert list(recording.value["gpu.power"]) == [0.12, 0.13]
    assert recording.value["gpu.frequency"][0] == 1398e6
    assert recording.value["gpu.utilization"][0] == pytest.approx(0.255)
    assert recording.t_ns["cpu.power"][0] == (1795176000 - 3600) * 10**9
    powers = [each for each in recording.channels if each.unit == "W"]
    assert {each.status for each in powers} == {
        "modelled"
    }  # what the system estimates was not measured
    assert {each.role for each in powers} == {"power_part"}
    assert {each.window_s for each in powers} == {1.002}
    assert sum(recording.ignored.values()) == 1  # the sum of parts that are there themselves


@pytest.mark.parametrize("text", [PERF_CSV, PERF_CSV.replace(",", ";")])
def test_energies_that_perf_counted_become_counters(tmp_path: Path, text: str) -> None:
    name, recording = read(tmp_path / "log", text)
    assert name == "perf stat"
    assert list(recording.value["rapl.package.energy"]) == pytest.approx([0.0, 5.43, 11.43, 17.0])
    assert list(recording.t_ns["rapl.package.energy"]) == [0, 1000266054, 2000512345, 3000700000]
    assert list(recording.value["rapl.dram.energy"]) == pytest.approx(
        [0.0, 1.1, np.nan, 1.1, 2.5], nan_ok=True
    )
    assert list(recording.t_ns["rapl.dram.energy"]) == [
        0,
        1000266054,
        2000512344,
        2000512345,
        3000700000,
    ]
    assert {each.role for each in recording.channels} == {"energy_total"}
    assert sum(recording.ignored.values()) == 2


def test_no_energy_spans_an_interval_that_perf_did_not_count(tmp_path: Path) -> None:
    """Ten intervals of a second at 5 J, of which the fourth was not counted: 5 W in the nine known."""
    joules = ["5.00", "5.00", "5.00", "<not counted>", *["5.00"] * 6]
    path = tmp_path / "perf.log"
    path.write_text(
        "".join(f"{n}.000000000,{each},Joules,power/energy-pkg/,9,99.00,,\n" for n, each in enumerate(joules, 1))
    )  # fmt: skip
    import_run(ImportSettings(telemetry=(path,)), tmp_path / "run")
    run = load(tmp_path / "run")
    assert run.metrics["mean_power"].value == pytest.approx(5.0)
    assert run.metrics["recorded_energy"].value == pytest.approx(45.0)
    assert_says(run.metrics["recorded_energy"].reason, "90 %")


@pytest.mark.parametrize(("damaged", "is_refused"), [(3, False), (4, True)])
def test_intervals_that_perf_did_not_count_are_whole_lines_once(
    tmp_path: Path, damaged: int, is_refused: bool
) -> None:
    """350 whole lines, half of them uncounted: one in a hundred of them is three."""
    joules = ("5.00", "<not counted>")
    lines = [
        f"{n}.000000000,{joules[n % 2]},Joules,power/energy-pkg/,9,99.00,,\n" for n in range(350)
    ]
    text = "".join([*lines, *["no interval\n"] * damaged])
    if is_refused:
        with refused("malformed-line", "351"):
            read(tmp_path / "log", text)
    else:
        assert read(tmp_path / "log", text)[1].ignored["damaged line"] == 3


def test_a_zone_that_perf_never_counted_is_no_part_of_the_total(tmp_path: Path) -> None:
    _, recording = read(tmp_path / "log", PERF_CSV + PERF_CSV.replace("energy-ram", "energy-psys").replace(
        "1.10,", "<not counted>,").replace("1.40,", "<not counted>,"))  # fmt: skip
    assert {each.name for each in recording.channels} == {"rapl.package.energy", "rapl.dram.energy"}
    assert {each.role for each in recording.channels} == {"energy_total"}


def test_columns_of_perf_and_thousands_in_them_are_read(tmp_path: Path) -> None:
    _, recording = read(tmp_path / "log", PERF_COLUMNS)
    assert list(recording.value["rapl.package.energy"]) == pytest.approx([0.0, 5.43, 1011.43])


def test_intervals_of_perf_whose_first_lines_are_gone_do_not_begin_at_0(tmp_path: Path) -> None:
    lines = [f"{n}.000000000,5.00,Joules,power/energy-pkg/,9,99.00,,\n" for n in range(50, 60)]
    _, recording = read(tmp_path / "log", "".join(lines))
    assert recording.t_ns["rapl.package.energy"][0] == 50 * 10**9


@pytest.mark.parametrize(("more", "end"), [("", "\n"), ("", "\r\n"), (",gpi0", "\n")])
def test_a_joulescope_s_log_says_no_units_and_has_those_of_its_manual(
    tmp_path: Path, more: str, end: str
) -> None:
    cell = ",0" if more else ""
    rows = [f"{n / 2},0.4,4.75,1.9,{n},{n}{cell}" for n in range(4)]
    text = end.join([f"#time,current,voltage,power,charge,energy{more}", *rows, ""])
    name, recording = read(tmp_path / "log", text)
    assert name == "power meter"
    assert list(recording.value["meter.power"]) == [1.9] * 4
    assert list(recording.t_ns["meter.power"]) == [0, 5 * 10**8, 10**9, 15 * 10**8]


@pytest.mark.parametrize(
    "begin", ["time_s power_W\n", "# time_s   power_W\n", "\ntime_s\tpower_W \n"]
)
def test_columns_that_blanks_separate_are_a_table(tmp_path: Path, begin: str) -> None:
    text = begin + "".join(f"{n}   {5 + n % 2}.5\n" for n in range(6))
    _, recording = read(tmp_path / "log", text)
    (values,) = recording.value.values()
    assert list(values) == [5.5, 6.5] * 3


def test_a_log_in_the_text_of_powershell_is_read(tmp_path: Path) -> None:
    text = "time_s,power_W\n0,5\n1,6\n"
    _, recording = read(tmp_path / "log", text.encode("utf-16"))
    assert list(recording.value["meter.power"]) == [5.0, 6.0]


EMISSIONS = (
    "timestamp,project_name,run_id,experiment_id,duration,emissions,emissions_rate,cpu_power\n"
)
TABLE = "+" + "-" * 60 + "+\n| NVIDIA-SMI 550.54  Driver Version: 550.54 |\n"
MISTAKEN = {
    "codecarbon": EMISSIONS + "2026-11-20T12:00:00,a,b,c,10,0.1,0.01,42.5\n",
    "noheader": "2026/11/20 12:00:00.000, 45, 30.12 W\n2026/11/20 12:00:01.000, 46, 31.00 W\n",
    "noheader, no units": "2026/11/20 12:00:00.000, 45, 30.12\n",
    "noheader, no times": "30.12 W, 45 %\n31.00 W, 46 %\n",
    "people": "Fri Nov 20 12:00:00 2026\n" + TABLE,
    "rocm-smi": "device,Average Graphics Package Power (W),GPU use (%)\ncard0,35.0,3\n",
    "rocm-smi JSON": '{"card0": {"Average Graphics Package Power (W)": "35.0"}}',
    "plist": '<?xml version="1.0"?>\n<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "x">\n<plist version="1.0">',
    "codecarbon, run first": "run_id,timestamp,project_name,duration,emissions,cpu_power\nx,2026-11-20T12:00:00,a,10,0.1,42.5\n",
    "nvidia-smi -q": "\n==============NVSMI LOG==============\n\nTimestamp   : Thu Nov 26 10:00:00 2026\n",
    "rocm-smi text": "\n\n======= ROCm System Management Interface =======\nGPU  Temp   AvgPwr\n0    31.0c  35.0W\n",
    "perf stat without intervals": "# started on Fri Nov 20\n\n Performance counter stats for 'system wide':\n\n  50.00 Joules power/energy-pkg/\n",
    "perf stat as JSON": '{"interval" : 1.001, "counter-value" : "5.00", "unit" : "Joules"}\n',
    "perf.data": "PERFILE2" + "\0" * 100,
    "SQLite": "SQLite format 3\0" + "\0" * 100,
}  # fmt: skip
SAID = {
    "codecarbon": "codecarbon", "noheader": "--format=csv", "noheader, no units": "--format=csv",
    "noheader, no times": "--format=csv", "people": "--query-gpu", "rocm-smi": "rocm-smi",
    "rocm-smi JSON": "rocm-smi", "plist": "powermetrics", "perf.data": "perf stat",
    "perf stat without intervals": "-I 1000", "perf stat as JSON": "-x,",
    "codecarbon, run first": "codecarbon", "nvidia-smi -q": "--query-gpu", "rocm-smi text": "rocm-smi",
    "SQLite": "nsys stats --format csv",
}  # fmt: skip


@pytest.mark.parametrize("kind", MISTAKEN)
def test_what_is_not_read_is_named_with_what_to_do(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    path.write_text(MISTAKEN[kind])
    with refused("unreadable-telemetry", SAID[kind]):
        import_run(ImportSettings(telemetry=(path,)), tmp_path / "run")
    if not MISTAKEN[kind].startswith("{"):  # which a trace may begin with
        with refused("unknown-trace-format", SAID[kind]):
            read_trace(path)


def test_a_trace_in_the_text_of_powershell_is_called_that(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes('{"traceEvents": [{"time": 1, "ph": "X"}]}'.encode("utf-16"))
    with refused("unknown-trace-format", "UTF-16"):
        read_trace(path)
    with pytest.raises(InvalidValueError) as caught:
        import_run(ImportSettings(telemetry=(path,)), tmp_path / "run")
    assert "CSV" not in str(caught.value).partition("known here")[0]


def test_json_is_no_csv_whatever_its_texts_say(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"time": 1, "displayTimeUnit": "ms",\n"traceEvents": []}')
    with refused("trace-as-telemetry", "--trace"):
        import_run(ImportSettings(telemetry=(path,)), tmp_path / "run")


@pytest.mark.parametrize("keep", [3, 12, 25])
def test_a_packed_file_that_is_damaged_is_not_called_empty(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": []}' * 50)[:keep])
    with pytest.raises(InvalidValueError) as caught:
        read_trace(path)
    assert_says(str(caught.value), "trace.json.gz", "copy it again")
    assert "empty" not in str(caught.value)


def test_refusals_of_a_perfetto_trace_of_nothing_do_not_point_at_each_other(tmp_path: Path) -> None:
    from google.protobuf import text_format
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    text = "packet { trusted_packet_sequence_id: 1 timestamp: 5 trace_uuid { msb: 1 lsb: 2 } }"
    path = tmp_path / "trace"
    path.write_bytes(text_format.Parse(text, protos.Trace()).SerializeToString())
    with refused("empty-recording", "trace_uuid") as as_trace:
        read_trace(path)
    with refused("empty-recording") as as_log:
        read_log(path)
    assert "--trace" not in str(as_log.value)
    assert "--telemetry" not in str(as_trace.value)


def test_a_log_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"time_s,power_W\n")
        for _ in range(66):
            file.write(b"\0" * (1 << 20))
    with refused("unpacks-too-large", "log.csv.gz"):
        read_log(path)
