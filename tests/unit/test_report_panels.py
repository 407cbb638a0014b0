"""A panel is one file: the page, the facts and the plots find it by themselves."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest

from drbqo_ray import Float, Optimizer, plots
from drbqo_ray.report import panels
from drbqo_ray.report.facts import About, Facts, Snippet, gather
from drbqo_ray.report.page import render_page
from drbqo_ray.report.panel import NOTHING
from drbqo_ray.report.panels import all_panels

DOCS = Path(__file__).parents[2] / "docs" / "report.md"
PLOTS = {
    "ranking": "ranking",
    "heat_map": "heat_map",
    "weights": "fold_weights",
    "radius": "radius_path",
    "pareto": "pareto",
    "incumbent": "incumbent",
    "parameters": "importance",
    "slices": "slices",
    "parallel": "parallel",
    "timeline": "timeline",
}
PAGE = [*PLOTS, "failures", "reproduce"]


def searched(evaluations: int = 12) -> Optimizer:
    opt = Optimizer({"a": Float(0, 1)}, 3, seed=0)
    for _ in range(evaluations):
        s = opt.ask()
        opt.tell(s.id, -((s.config["a"] - 0.3 * s.context) ** 2))
    return opt


def sections(facts: Facts) -> list[str]:
    return re.findall(r'<section class="panel" id="([^"]+)"', render_page(facts))


@pytest.fixture
def counts(tmp_path, monkeypatch) -> None:
    """The panel of the documentation as one more file among the panels."""
    (code,) = re.findall(
        r"```python\n(.*?)```", DOCS.read_text().split("## Adding a panel")[1], re.S
    )
    (tmp_path / "counts.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(panels, "__path__", [*panels.__path__, str(tmp_path)])
    yield
    sys.modules.pop("drbqo_ray.report.panels.counts", None)
    plt.close("all")


def test_the_panels_are_known_in_their_order():
    found = all_panels()
    assert [panel.key for panel in found] == PAGE
    assert {panel.key: panel.plot_name for panel in found if panel.plot_name} == PLOTS
    assert len({panel.order for panel in found}) == len(found)


def test_one_more_file_is_one_more_panel_on_the_page_in_the_facts_and_in_the_plots(counts):
    opt = searched()
    facts = gather(opt, About())
    assert sections(facts) == ["verdict", *(key.replace("_", "-") for key in _with("counts"))]
    trained = facts.parts["counts"]
    assert sum(trained) == 12
    page = render_page(facts)
    assert "Was every fold trained as often?" in page
    assert f"The least is {min(trained)}, the most {max(trained)}." in page
    ax = plots.counts(opt)
    assert [bar.get_height() for bar in ax.patches] == trained
    assert "counts" in dir(plots)
    assert plots.counts.__doc__ == "How often each fold was trained."


def _with(key: str) -> list[str]:
    return [*PAGE[:3], key, *PAGE[3:]]


def test_it_is_gone_without_its_file():
    assert "counts" not in gather(searched(3), About()).parts
    with pytest.raises(AttributeError, match="has no attribute 'counts'"):
        _ = plots.counts


def test_a_file_that_is_no_panel_is_said(tmp_path, monkeypatch):
    (tmp_path / "hollow.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(panels, "__path__", [*panels.__path__, str(tmp_path)])
    try:
        with pytest.raises(AttributeError, match=r"hollow.* has no attribute 'PANEL'"):
            all_panels()
    finally:
        sys.modules.pop("drbqo_ray.report.panels.hollow", None)


def test_a_panel_is_gathered_once(monkeypatch):
    ranking = all_panels()[0]
    made = []
    gather_ranking = type(ranking).gather
    monkeypatch.setattr(
        type(ranking), "gather", lambda self, source: made.append(1) or gather_ranking(self, source)
    )
    gather(searched(), About())
    assert made == [1]


def test_every_panel_has_something_to_say_of_an_empty_run():
    facts = gather(Optimizer({"a": Float(0, 1)}, 3), About(name="empty"))
    said = {panel.key: panel.missing(facts) for panel in all_panels() if not facts.parts[panel.key]}
    assert said["ranking"] == said["radius"] == NOTHING
    assert "no timeline" in said["timeline"]
    assert said["reproduce"] == "How to run empty again was not recorded."
    page = render_page(facts)
    assert page.count(NOTHING) == 9
    assert "No evaluation failed." in page


def test_words_of_the_run_are_escaped_below_the_sentences():
    facts = gather(
        searched(3),
        About(details=(("<i>", "<b>"),), reproduce=(Snippet("<u>", "</pre><script>"),)),
    )
    page = render_page(facts)
    for bad in ("<i>", "<b>", "<u>", "</pre><script>"):
        assert bad not in page


@pytest.mark.parametrize("name", PLOTS.values())
def test_a_plot_is_a_function_like_any_other(name):
    picture = getattr(plots, name)
    assert picture is getattr(plots, name)
    assert picture.__name__ == name
    assert picture.__doc__
    assert name in dir(plots)
