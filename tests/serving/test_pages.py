"""What the server shows: the list, damaged runs, hostile names, reports, comparisons, documents."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from tests.serving.served import HOSTILE, Server
from tests.waiting import until
from tests.wording import assert_says

from wattstep.insight.compare.comparing import compare
from wattstep.insight.compare.sides import sides_of
from wattstep.report.json_document import dump
from wattstep.run import load

BEFORE_MARK = HOSTILE.partition("\u202e")[0]  # that turns the reading direction


def test_the_list_has_every_run_and_says_which_are_damaged(server: Server) -> None:
    runs = server.runs()
    states = {place: run["state"] for place, run in runs.items()}
    assert states["quick-run"] == states["nested/inside"] == "closed"
    assert states["cut"] == states["lacking"] == "damaged"
    assert "cannot be read" in runs["cut"]["problem"]
    assert runs["lacking"]["problem"] == "lacking lacks steps.parquet"
    page = server.get("/").text
    for place, run in runs.items():
        assert f'href="/runs/{run["id"]}"' in page, place


def test_rows_of_the_api_are_those_of_the_command(server: Server) -> None:
    row = server.runs()["sixteen"]
    assert (row["workload"], row["batch_size"], row["engine"]) == ("made", 16, "torch")
    assert row["created"] == "2026-11-22T12:00:00+0000"
    assert row["imported"] is False
    assert row["size"] >= (server.store / "sixteen" / "samples.parquet").stat().st_size


def test_figures_of_the_list_come_after_it_with_their_status(server: Server) -> None:
    server.open("/")
    until(lambda: not server.get("/changes?since=0").json()["pending"])
    figures = server.runs()["quick-run"]["figures"]
    metrics = load(server.store / "quick-run").metrics()
    assert figures["steps"] == 60
    assert figures["step_time"] == metrics["step_time"].to_dict()
    assert figures["energy_per_step"]["status"] == "measured"
    row = server.get("/changes?since=0").json()["rows"][server.id("quick-run")]
    assert "20.0 ms" in row  # 2 + 8 + 10
    assert "100 mJ" in row  # at 5 W
    assert 'class="badge measured"' in row


def test_a_run_whose_tables_are_cut_is_damaged_once_that_is_found(server: Server) -> None:
    server.get("/changes?since=0")
    until(lambda: not server.get("/changes?since=0").json()["pending"])
    row = server.runs()["half"]
    assert row["state"] == "damaged"
    assert_says(row["problem"], "samples.parquet of half")
    assert str(server.store) not in row["problem"]


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("?q=quick", ["quick-run"]),
        ("?q=QUICK+made", ["quick-run"]),
        ("?state=damaged&q=lacking", ["lacking"]),
        ("?q=no+such+run", []),
        ("?sort=-place&q=n", ["quick-run", "nested/inside"]),
    ],
)
def test_the_list_filters_and_sorts_without_a_script(
    server: Server, query: str, places: list[str]
) -> None:
    page = server.get(f"/{query}").text
    found = [unescape(place) for place in re.findall(r'class="place"><bdi>([^<]*)</bdi>', page)]
    assert [place for place in found if place in places] == places
    if "sort" not in query:
        assert found == places


def test_the_list_is_sorted_by_numbers_with_nothing_at_the_end(server: Server) -> None:
    page = server.get("/?sort=-batch").text
    found = [unescape(place) for place in re.findall(r'class="place"><bdi>([^<]*)</bdi>', page)]
    assert found[0] == "sixteen"
    assert found[-1] == "cut"  # has no batch size that can be read
    newest = server.get("/?sort=-date").text
    assert newest.index("sixteen") < newest.index("slow")


@pytest.mark.parametrize(
    "path",
    ["/?sort=x&q=%3Cscript%3E&state=%22", "/?sort=--date", "/?q=" + "a" * 9000, "/?moved=.."],
)
def test_what_makes_no_sense_in_an_address_is_left_out(server: Server, path: str) -> None:
    answer = server.get(path)
    assert answer.status == 200
    assert "<script>" not in answer.text.replace('<script>"use strict";', "")


def test_hostile_names_are_text_wherever_they_stand(server: Server) -> None:
    place = "<script>window.hacked=1<"
    id = server.id(place)
    pages = ["/", f"/runs/{id}/about", f"/delete?run={id}", f"/runs/{id}", "/?q=hacked",
             f"/report?run={id}&run={server.id('quick-run')}",
             f"/compare?run={id}&run={server.id('quick-run')}&across=workload,engine,device"]  # fmt: skip
    for path in pages:
        answer = server.open(path)
        assert answer.status == 200, path
        assert answer.headers["content-type"].startswith("text/html")
        lowered = answer.text.lower()
        assert "<img" not in lowered, path
        assert "<script>window" not in lowered, path
        assert "\u202e" not in lowered, path
    assert unescape(server.get(f"/runs/{id}/about").text).count(BEFORE_MARK)
    assert len(server.get("/").text) < 200_000  # 10,000 characters of a workload are not in it


def test_a_report_is_of_its_own_origin_and_runs_its_own_scripts_only(server: Server) -> None:
    answer = server.open(f"/runs/{server.id('quick-run')}")
    assert answer.status == 200
    policy = answer.headers["content-security-policy"]
    assert "sandbox allow-scripts" in policy
    assert "allow-same-origin" not in policy
    assert "'sha256-" in policy
    assert "form-action 'none'" in policy
    assert server.token not in answer.text
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert 'href="/"' in answer.text  # the way back to the list


def test_a_report_is_that_of_the_command(server: Server) -> None:
    from wattstep.report.html.report import Reported, read_run, render_report

    read = read_run(server.store / "quick-run")
    assert isinstance(read, Reported)
    sent = server.open(f"/runs/{server.id('quick-run')}").text
    bare = re.sub(r'<p class="way-back".*?</p>', "", sent, count=1)
    assert bare == render_report([read], paper=False)


def test_a_report_of_several_names_what_it_left_out(server: Server) -> None:
    ids = [server.id(place) for place in ("quick-run", "slow", "lacking", "half")]
    page = server.open("/report?" + "&".join(f"run={id}" for id in ids)).text
    assert "Side by side" in page
    assert "lacking lacks steps.parquet" in unescape(page)
    assert "samples.parquet" in page


def test_a_damaged_run_is_told_about_and_the_rest_works(server: Server) -> None:
    id = server.id("cut")
    answer = server.get(f"/runs/{id}")
    assert (answer.status, answer.headers["location"]) == (303, f"/runs/{id}/about")
    about = server.get(f"/runs/{id}/about")
    assert about.status == 200
    assert "cannot be read" in about.text
    assert server.get(f"/api/runs/{id}").status == 422
    assert server.open(f"/api/runs/{server.id('half')}").status == 422
    assert server.open(f"/runs/{server.id('quick-run')}").status == 200


def test_documents_are_those_of_the_command(server: Server) -> None:
    import io

    stream = io.StringIO()
    dump(load(server.store / "quick-run").document(), stream)
    assert server.get(f"/api/runs/{server.id('quick-run')}").json() == json.loads(stream.getvalue())


def test_two_runs_are_compared_as_the_command_does(server: Server) -> None:
    ids = (server.id("quick-run"), server.id("slow"))
    query = f"run={ids[0]}&run={ids[1]}"
    sides = sides_of([server.store / "quick-run", server.store / "slow"])
    expected = compare(sides[0], sides[1])
    page = unescape(server.open(f"/compare?{query}").text)
    for sentence in expected.sentences:
        assert sentence in page
    found = server.get(f"/api/compare?{query}").json()
    assert found["answer"] == list(expected.sentences)
    ratio = found["metrics"]["step_time"]["ratio"]["value"]
    assert ratio == pytest.approx(1.5)


def test_runs_that_do_not_compare_are_refused_with_the_reason_and_a_way_on(server: Server) -> None:
    ids = (server.id("quick-run"), server.id("sixteen"))
    query = f"run={ids[0]}&run={ids[1]}"
    refused = server.open(f"/compare?{query}")
    assert refused.status == 422
    assert "batch size (4 and 16)" in refused.text
    assert 'name="across" value="batch"' in refused.text
    assert server.open(f"/compare?{query}&across=batch").status == 200
    document = server.open(f"/api/compare?{query}")
    assert (document.status, document.json()["id"]) == (422, "other-configuration")
    assert server.open(f"/compare?{query}&across=nonsense").status == 422


def test_more_runs_are_compared_as_a_matrix_or_by_configuration(server: Server) -> None:
    ids = [server.id(place) for place in ("quick-run", "slow", "sixteen")]
    query = "&".join(f"run={id}" for id in ids)
    matrix = server.open(f"/compare?{query}&across=batch").text
    assert "3 sides compared" in matrix
    by = unescape(server.open(f"/compare?{query}&by=configuration").text)
    assert "A (batch 4): 2 runs" in by
    assert "B (batch 16): 1 run" in by


def test_choosing_nothing_or_one_is_told(server: Server) -> None:
    for path in ("/compare", "/report", "/delete", f"/compare?run={server.id('quick-run')}"):
        answer = server.get(path)
        assert answer.status == 422
        assert "choose" in answer.text or "chosen" in answer.text


def test_what_is_not_there_is_a_page_and_a_line(server: Server) -> None:
    answer = server.get("/nothing")
    assert answer.status == 404
    document = server.get("/api/nothing")
    assert document.status == 404
    (words,) = document.json().values()
    assert words in answer.text
    assert 'GET "/nothing": 404' in server.errors.read_text()


def test_nothing_was_written_into_the_store(server: Server) -> None:
    # The last test of this server: lists, reports and comparisons were asked for above.
    names = {path.name for path in server.store.rglob("*")}
    assert ".wattstep-trash" not in names
    assert not [name for name in names if name.endswith((".html", ".part", ".tmp"))]


def test_lines_on_standard_error_are_one_each(server: Server) -> None:
    server.get("/a%0Ab%1b[31m")
    lines = server.errors.read_text().splitlines()
    assert all(line.startswith("wattstep:") for line in lines), lines
    assert "\x1b" not in "".join(lines)


def test_kept_pages_are_outside_of_the_store(server: Server) -> None:
    server.open(f"/runs/{server.id('quick-run')}")
    cache = server.errors.parent / "cache" / "wattstep" / "serve"
    assert list(cache.glob(f"{server.id('quick-run')}-report-*"))
    assert cache.stat().st_mode & 0o077 == 0
    assert Path(server.store) not in cache.parents
