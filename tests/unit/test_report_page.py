"""The page: sound for every journal, and deaf to what stands in its data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from drbqo_ray import Choice, CVaR, Float, KLBall, WorstCase
from drbqo_ray.errors import InvalidInput
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.page import json_block, render_page, write_report
from drbqo_ray.runtime.run_report import journal_facts
from drbqo_ray.runtime.terminal import printable
from tests.support.injections import PAYLOADS
from tests.support.report_runs import many_parameters, two_peaks, write_run

VOID = {"meta", "input", "link", "br", "hr", "img", "base"}
PANELS = [
    "verdict",
    "ranking",
    "heat-map",
    "weights",
    "radius",
    "pareto",
    "incumbent",
    "parameters",
    "slices",
    "parallel",
    "timeline",
    "failures",
    "reproduce",
]


class Page(HTMLParser):
    """A parsed page: its elements, its text, and whatever is unbalanced."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.wrong: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.wrong += [f"{name} is not closed" for name in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if len(dict(attrs)) != len(attrs):
            self.wrong.append(f"{tag} repeats an attribute")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"{tag} is closed out of order")

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def of(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.elements if name == tag)


def check_sound(text: str, hostile: bool = False) -> Page:
    """Everything that holds for every page; a hostile one may show an address as text."""
    page = Page(text)
    assert page.wrong == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert [a["id"] for a in page.of("section")] == PANELS
    for name, attributes in page.elements:
        assert name not in {"iframe", "object", "embed", "base", "link", "img", "form", "a"}
        for key, value in attributes.items():
            assert not key.startswith("on")
            assert key not in {"style", "src", "href", "srcdoc", "xlink:href", "action"}
            if key in {"fill", "clip-path"}:
                assert not (value or "").startswith("url(") or (value or "").startswith("url(#")
    assert hostile or "://" not in text
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    for svg in page.of("svg"):
        assert svg["role"] == "img"
        assert svg["aria-label"]
        assert "nan" not in json.dumps(svg).lower().split()
    assert not re.search(r'(?:x|y|cx|cy|width|height|d)="[^"]*(?:nan|inf)[^"]*"', text)
    policies = [a for a in page.of("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert str(policies[0]["content"]).startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in str(policies[0]["content"])
    assert len(list(page.of("script"))) == 2
    return page


def boom(config: dict[str, Any], fold: int, id: int) -> str:
    return 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: boom'


LONG = {"λ→🚀": Float(0.0, 1.0), "x": Float(0.0, 1.0), "w" * 3000: Choice(["ü" * 20000, "b"])}
EDGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one evaluation": {"evaluations": 1},
    "two evaluations": {"evaluations": 2},
    "only failures": {"evaluations": 6, "fails": boom},
    "every config failed once": {
        "configs": [{"x": 0.1, "rate": 0.1, "kind": "a"}, {"x": 0.2, "rate": 0.1, "kind": "a"}],
        "fails": lambda c, f, k: "boom" if f == 2 else None,
    },
    "some failures": {"fails": lambda c, f, k: "boom" if k % 5 == 0 else None},
    "one fold": {"folds": 1},
    "one fold, any weights": {"folds": 1, "uncertainty": WorstCase()},
    "weight on one fold": {"reference": [1.0, 0.0, 0.0, 0.0], "uncertainty": WorstCase()},
    "sixty parameters": {"space": many_parameters(60), "score": lambda c, f: c["parameter_0"] + f},
    "unicode and long": {"space": LONG},
    "no times": {"timed": False},
    "under way": {"finished": False},
    "smaller is better": {"mode": "min", "score": lambda c, f: -two_peaks(c, f)},
    "weights": {"reference": [0.0, 0.2, 0.3, 0.5]},
    "constant": {"score": lambda c, f: 1.0},
    "tiny": {"score": lambda c, f: 1e-30 * two_peaks(c, f)},
    "large": {"score": lambda c, f: 1e90 * two_peaks(c, f)},
    "kl": {"uncertainty": KLBall(0.3)},
    "cvar": {"uncertainty": CVaR(0.5)},
    "sample vectors": {
        "folds": [[0.1 * k, 1.0] for k in range(60)],
        "score": lambda c, f: two_peaks(c, f % 4),
    },
    "mean method": {"method": "bqo-ei"},
}


def test_how_far_behind_the_winner_is_drawn_where_the_winner_changes(tmp_path):
    configs = [{"x": x, "rate": 0.01, "kind": "a"} for x in (0.2, 0.5, 0.8)]
    for name, score in (("same", lambda c, f: c["x"] - f), ("other", two_peaks)):
        write_run(tmp_path / name, score, configs=configs)
        facts = journal_facts(tmp_path / name, name)
        assert facts.radius_path is not None
        assert bool(facts.radius_path.changes) is (name == "other")
        assert ("How far behind the best config" in render_page(facts)) is (name == "other")


def test_the_worst_fold_is_one_that_counts(tmp_path):
    write_run(
        tmp_path / "run",
        lambda c, f: c["x"] - (5 if f == 1 else 0.1 * f),
        evaluations=16,
        reference=[0.5, 0.0, 0.25, 0.25],
    )
    facts = journal_facts(tmp_path / "run", "run")
    assert facts.ranking is not None
    row = facts.ranking.row(facts.ranking.chosen)
    assert row is not None
    assert row.worst_fold == 3
    assert row.worst == row.fold_means[3] > min(row.fold_means)
    words = Page(render_page(facts)).text
    assert f"worst fold (fold 3){facts.ranking.digits.text(row.worst)}" in words


@pytest.mark.parametrize("case", list(EDGES))
def test_every_journal_gives_a_sound_page(case, tmp_path):
    settings = {"evaluations": 16, "n_initial": 16, **EDGES[case]}
    write_run(tmp_path / "run", **settings)
    facts = journal_facts(tmp_path / "run", case)
    text = render_page(facts)
    page = check_sound(text)
    assert len(text.encode("utf-8")) <= 1_000_000
    for sentence in facts.verdict.sentences:
        assert sentence in page.text
    for check in facts.checks:
        assert check.finding in page.text
        assert check.advice in page.text


def test_no_evaluation_at_all(tmp_path):
    write_run(tmp_path / "run", evaluations=0)
    page = check_sound(render_page(journal_facts(tmp_path / "run", "run")))
    assert "Nothing was evaluated." in page.text


def test_a_thousand_evaluations_stay_small_and_five_thousand_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("drbqo_ray.core.surrogate.EXACT_LIMIT", 200)
    monkeypatch.setattr("drbqo_ray.core.surrogate.FIT_ROWS", 100)
    for count in (1000, 5000):
        write_run(tmp_path / f"{count}", evaluations=count, method="random")
        facts = journal_facts(tmp_path / f"{count}", "long")
        text = render_page(facts)
        page = check_sound(text)
        assert len(text.encode("utf-8")) <= 1_000_000
        assert facts.ranking is not None
        assert facts.ranking.left_out == count - len(facts.ranking.rows) > 0
        assert f"{facts.ranking.left_out} left out" in page.text
        rows = [a for a in page.of("tr") if "data-number" in a]
        assert len(rows) == len(facts.ranking.rows) <= 300


def hostile_space(payload: str) -> dict[str, Any]:
    return {"x": Float(0.0, 1.0), payload: Choice([payload, payload + "2"])}


@pytest.fixture(scope="module")
def plain_facts(tmp_path_factory) -> Facts:
    return journal_facts(write_run(tmp_path_factory.mktemp("plain") / "run"), "run")


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_injections_are_shown_as_text(payload, tmp_path):
    """As name and value of a parameter, reason of a failure, name of run, objective and fold."""
    write_run(
        tmp_path / "run",
        lambda c, f: c["x"] + 0.1 * f,
        hostile_space(payload),
        3,
        12,
        n_initial=12,
        objective=payload,
        fails=lambda c, f, k: payload if k in (3, 7) else None,
    )
    facts = journal_facts(tmp_path / "run", payload)
    labels = tuple(f"{payload}{k}" for k in range(3))
    text = render_page(replace(facts, about=replace(facts.about, fold_labels=labels)))
    page = check_sound(text, hostile=True)
    shown = printable(payload, 60)
    assert page.text.count(shown) >= 5
    assert any(shown == word for word in page.words)


@pytest.fixture(scope="module")
def plain_elements(plain_facts) -> list[str]:
    return [name for name, _ in Page(render_page(plain_facts)).elements]


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_injections_leave_the_elements_of_the_page_as_they_are(
    payload, plain_facts, plain_elements
):
    about = replace(plain_facts.about, name=payload, objective=payload, method=payload)
    hostile = Page(render_page(replace(plain_facts, about=about)))
    assert [name for name, _ in hostile.elements] == plain_elements


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_data_for_the_script_cannot_end_its_block(payload):
    block = json_block({payload: [payload]})
    assert json.loads(block) == {payload: [payload]}
    assert not set("<>&\u2028\u2029\0") & set(block)


def test_nothing_of_the_environment_is_in_a_page(tmp_path, monkeypatch):
    monkeypatch.setenv("DRBQO_CANARY_TOKEN", "canary-8f3a")
    write_run(tmp_path / "secret-place", evaluations=6, n_initial=6)
    text = render_page(journal_facts(tmp_path / "secret-place", "run"))
    assert "canary" not in text.lower()
    assert "secret-place" not in text


def test_a_report_is_written_in_one_step_for_its_owner_alone(plain_facts, tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old", encoding="utf-8")
    assert write_report(plain_facts, target) == target
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert target.stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("place", ["", "missing/report.html"])
def test_a_place_that_cannot_hold_a_report_is_named(place, plain_facts, tmp_path):
    with pytest.raises(InvalidInput, match="report"):
        write_report(plain_facts, tmp_path / place)


def test_numbers_of_the_table_are_those_of_the_facts(plain_facts):
    page = Page(render_page(plain_facts))
    cells = [a for a in page.of("td") if "data-sort" in a]
    values = {a["data-sort"] for a in cells}
    assert plain_facts.ranking is not None
    for row in plain_facts.ranking.rows:
        assert {repr(row.robust), repr(row.mean), repr(row.worst), repr(row.spread)} <= values


def test_the_script_gets_the_means_of_every_ranked_config(plain_facts, tmp_path):
    text = render_page(plain_facts)
    block = text.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    data = json.loads(block)
    assert plain_facts.ranking is not None
    for config, row in zip(data["configs"], plain_facts.ranking.rows, strict=True):
        assert config["number"] == row.number
        assert config["gains"] == pytest.approx(row.fold_means, rel=1e-14)
    assert data["radius"] == 1.0
    assert data["high"] == pytest.approx(1.5)
    assert math.isclose(sum(data["reference"]), 1)


def test_the_package_data_is_declared():
    root = Path(__file__).parents[2]
    assert '"report/page.*"' in (root / "pyproject.toml").read_text(encoding="utf-8")
