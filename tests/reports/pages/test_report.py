"""The report as a file: what it says, and that names in it stay text."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.reports import synthetic
from tests.reports.pages.tree import unpacked
from tests.wording import assert_says

from wattstep.report.html.page import packed_json, plotting_library
from wattstep.report.html.report import Reported, render_report, write_report
from wattstep.report.values import show
from wattstep.report.wording import metric
from wattstep.schema.figure import Figure
from wattstep.schema.figures import is_figure
from wattstep.schema.run_report import RunReport


class Page(HTMLParser):
    """Tags and text of a page, as a browser without scripts has them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(page)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    @property
    def run(self) -> list[str]:
        """Scripts that the browser runs as it reads them; the others are data."""
        kinds = [attributes.get("type") for tag, attributes in self.tags if tag == "script"]
        return [one for one, kind in zip(self.scripts, kinds, strict=True) if kind is None]

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] += data
        elif self.cdata_elem is None:
            self.words.append(data)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(
        render_report(
            [synthetic.reported(document=synthetic.document(), timeline=synthetic.timeline())]
        )
    )


def figures(thing: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if is_figure(thing):
        yield name, thing
    elif isinstance(thing, dict):
        for key, part in thing.items():
            yield from figures(part, key)
    elif isinstance(thing, list):
        for part in thing:
            yield from figures(part, name)


def test_every_figure_of_the_document_is_in_the_page(page: Page) -> None:
    found = list(figures(synthetic.document()))
    assert len(found) > 150
    for name, document in found:
        notation = "count" if name == "calls" else metric(name).notation
        shown = show(Figure.from_dict(document), notation)
        assert (shown.reason if shown.missing else shown.value) in page.text, name
        assert shown.interval in page.text, name


def test_figures_in_the_page_are_those_of_the_document(page: Page) -> None:
    assert "(mean) 3.41 ms measured 3.30 to 3.52" in page.text
    assert "Throughput 1,173 samples/s measured 1,136 to 1,212" in page.text
    assert "step ≈ 14.2 mJ modelled 12.1 to 16.9" in page.text
    assert "Peak memory 212 MB measured" in page.text
    assert "1.40 × (1.38 to 1.43) measured" in page.text
    assert "42.1 widgets replayed" in page.text


def test_the_summary_says_what_was_not_measured_by_a_sensor(page: Page) -> None:
    assert "took 3.41 ms (3.30 to 3.52)." in page.text
    assert_says(page.text, "needed ≈ 14.2 mJ", "(12.1 to 16.9; sensor ± 20 %; modelled).")
    assert "went to aten::convolution_backward (conv2, backward)" in page.text


def test_missing_shows_its_reason_and_never_zero(page: Page) -> None:
    assert re.search(f"Mean power[^.]* missing {synthetic.NO_RAPL}", page.text)
    assert re.search("GPU utilization[^.]* missing no GPU", page.text)
    assert "moved is missing: " in page.text
    assert "Optimizer state missing" in page.text
    assert "aten::_log_softmax other loss forward 18.0 µs" in page.text
    assert "18.0 µs (17.1 to 19.1) 0.53 % missing" in page.text


def test_a_run_whose_energy_is_missing_says_why_once() -> None:
    reason = "no sensor of power was found"
    metrics = {"energy_per_step": synthetic.missing("J", reason)}
    text = Page(
        render_report(
            [synthetic.reported(document=synthetic.document(metrics=metrics))], paper=False
        )
    ).text
    assert f"step missing {reason}" in text
    assert text.count(reason) == 1


def test_energy_of_few_parts_where_there_is_no_total() -> None:
    metrics = {"energy_per_step": synthetic.missing("J", "only parts")}
    rails = {"gpu0.energy": synthetic.figure(1.27, "J"), "gpu1.energy": synthetic.missing("J")}
    made = synthetic.document(metrics=metrics, energy_by_rail=rails)
    text = Page(render_report([synthetic.reported(document=made)], paper=False)).text
    assert re.search(r"step, gpu0 1\.27 J measured", text)
    assert_says(text, "only parts")
    assert "gpu1" not in text.partition("Energy by rail")[0]


def test_every_status_is_explained(page: Page) -> None:
    for status in ("counted", "measured", "attributed", "replayed", "modelled", "predicted"):
        assert ("span", {"class": f"badge {status}"}) in page.tags
    assert "computed from measured" in page.text


def test_cautions_stand_on_the_first_screen_beside_the_advice(page: Page) -> None:
    assert page.text.index("lost at 12.3 s") < page.text.index("Operations that cost")
    assert "a stand-in for MNIST" in page.text
    assert_says(page.text, "virtual machine (KVM)", "hypervisor: 0.34 %")


def test_hostile_names_are_text(page: Page) -> None:
    assert synthetic.HOSTILE in page.text
    assert synthetic.HOSTILE_LAYER in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert "img" not in {tag for tag, _ in page.tags}
    assert not [script for script in page.scripts[1:] if "hacked" in script]
    assert not [name for _, attributes in page.tags for name in attributes if name[:2] == "on"]


def test_the_block_of_data_cannot_be_left(page: Page) -> None:
    text = packed_json(["</script><!--", "\u2028", "&"])
    assert not set("<>&\u2028") & set(text)
    assert unpacked(text) == ["</script><!--", "\u2028", "&"]
    assert len(unpacked(page.scripts[0])) > 5


def test_names_in_charts_are_not_markup(page: Page) -> None:
    def texts(thing: Any) -> Iterator[str]:
        if isinstance(thing, str):
            yield thing
        elif isinstance(thing, dict):
            for part in thing.values():
                yield from texts(part)
        elif isinstance(thing, list):
            for part in thing:
                yield from texts(part)

    found = [text for text in texts(unpacked(page.scripts[0])) if "hacked" in text]
    assert found
    assert {tag for text in found for tag in re.findall("<[^>]*>", text)} <= {"<b>", "</b>", "<br>"}


def test_nothing_is_loaded_from_anywhere(page: Page) -> None:
    links = [
        value
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "action", "data", "poster") and value is not None
    ]
    assert set(links) == {"data:,"}
    style = (
        Path(__file__).parents[3] / "src/wattstep/report/html/templates/report.css"
    ).read_text()
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_allows_the_scripts_of_the_page_and_no_other(page: Page) -> None:
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv"))
    assert policy is not None
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in [*page.run, plotting_library()]
    ]
    assert f"default-src 'none'; script-src {' '.join(hashes)};" in policy


def test_several_runs_are_set_side_by_side() -> None:
    runs = [
        synthetic.reported(document=synthetic.document(), timeline=synthetic.timeline()),
        synthetic.reported(document=synthetic.document(title="ResNet", engine="mnn 3.2")),
    ]
    found = Page(render_report(runs))
    assert "Side by side" in found.text
    links = [attributes["href"] for tag, attributes in found.tags if tag == "a"]
    assert links == ["#paper", "#run-1", "#run-2"]
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert {"run-1", "run-2"} < set(ids)
    assert len(ids) == len(set(ids))


def test_a_document_with_little_in_it_is_shown() -> None:
    found = Page(
        render_report(
            [synthetic.reported(document={"run": "runs/a", "workload": "lenet", "metrics": {}})]
        )
    )
    assert "lenet" in found.text
    assert "Three steps" not in found.text


def test_the_file_is_written_in_one_piece(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write_report(
        [synthetic.reported(document=synthetic.document(), timeline=synthetic.timeline())], path
    )
    first = path.read_text(encoding="utf-8")
    assert first.startswith("<!doctype html>")
    broken = replace(RunReport(), notes=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        write_report([Reported(report=broken)], path)
    assert path.read_text(encoding="utf-8") == first
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def test_a_name_that_utf_8_cannot_hold_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report([synthetic.reported(document=synthetic.document(title="a\ud800b"))], path)
    assert "a�b · batch 4" in path.read_text(encoding="utf-8")
