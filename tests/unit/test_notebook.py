"""What a notebook shows of a search: a small table in which every word is escaped."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import drbqo_ray as dr
from drbqo_ray.search_cv import RobustSearchCV
from tests.support.injections import PAYLOADS
from tests.support.report_runs import write_run

ALLOWED = {"table", "caption", "tbody", "tr", "th", "td"}


class Cells(HTMLParser):
    """Rows of a card, and the elements it is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_data(self, data):
        self.words.append(data)


def told(payload: str = "x", n: int = 4) -> dr.Optimizer:
    opt = dr.Optimizer({payload: dr.Float(0, 1), "kind": dr.Choice([payload, "b"])}, 2)
    for k in range(n):
        s = opt.ask()
        opt.tell(s.id, k / 10)
    return opt


def test_an_optimizer_shows_counts_and_what_it_recommends():
    opt = told()
    best = opt.recommend()
    before = opt.ask()
    words = Cells(opt._repr_html_()).words
    assert words[0] == "Optimizer"
    assert "4, 0 failed, 1 pending" in words
    assert f"{best.mean_value:.6g}" in words
    assert f"{best.config['x']:.6g}" in words
    again = told()
    assert again.ask() == before, "showing it changes nothing"
    assert (
        repr(opt) == "Optimizer(['x', 'kind'], 2 contexts, mode='max', seed=0: 4 told, 1 pending)"
    )


def test_an_optimizer_without_scores_has_no_recommendation():
    assert "none yet" in Cells(told(n=0)._repr_html_()).words


def test_a_result_shows_state_certainty_and_config(tmp_path):
    result = dr.load(write_run(tmp_path / "r", evaluations=9))
    words = Cells(result._repr_html_()).words
    assert words[0] == "Run r"
    assert "finished" in words
    assert str(result.coverage) in words
    assert f"{result.recommendation.config['rate']:.6g}" in words
    assert any(f"{result.certainty.probability:.2f}" in word for word in words)


def test_a_result_without_a_recommendation_says_so(tmp_path):
    result = dr.load(write_run(tmp_path / "r", evaluations=2, fails=lambda *_: "<b>no</b>"))
    assert Cells(result._repr_html_()).words[-2:] == ["recommendation", "none"]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_words_are_words(payload, tmp_path):
    opt = told(payload)
    fails = lambda c, f, id: payload if id == 0 else None  # noqa: E731
    space = {payload: dr.Float(0, 1), "kind": dr.Choice([payload, "b"])}
    score = lambda config, fold: float(config["kind"] != "b")  # noqa: E731
    directory = write_run(tmp_path / "r", score, space, 2, 4, objective=payload, fails=fails)
    for shown in (opt, opt.recommend(), dr.load(directory)):
        found = Cells(shown._repr_html_())
        assert found.tags <= ALLOWED
        assert found.attributes <= {"scope", "style"}
    assert any(payload in word for word in Cells(opt._repr_html_()).words)


def test_long_and_broken_words_are_cut_and_spelled():
    text = Cells(told("y" * 5000)._repr_html_()).words
    assert max(len(word) for word in text) <= 300
    assert "\\ud800" in told("\ud800")._repr_html_()


@pytest.fixture(scope="module")
def search() -> RobustSearchCV:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    found = RobustSearchCV(
        LogisticRegression(),
        {"C": dr.Float(0.01, 10, log=True)},
        cv=3,
        n_evaluations=8,
        random_state=0,
    )
    return found.fit(X, X[:, 0] > 0)


def test_a_fitted_search_shows_its_answer_below_the_diagram_of_scikit_learn(search):
    for shown in (search._repr_html_(), search._repr_mimebundle_()["text/html"]):
        assert "sk-estimator" in shown or "sk-top-container" in shown
        assert shown.count("<caption>Search</caption>") == 1
        assert f"{search.best_params_['C']:.6g}" in shown
    assert "<caption>Search" not in RobustSearchCV(LogisticRegression(), {})._repr_html_()


def test_a_search_shows_plain_text_where_scikit_learn_is_told_to(search):
    from sklearn import config_context

    with config_context(display="text"):
        assert "text/html" not in search._repr_mimebundle_()


def test_a_tune_search_shows_what_it_has_seen():
    from drbqo_ray.tune_searcher import DRBQOSearch

    fresh = DRBQOSearch(n_folds=2, metric="score", mode="max")
    assert "no trial was suggested yet" in Cells(fresh._repr_html_()).words
    search = DRBQOSearch({"x": dr.Float(0, 1)}, n_folds=2, metric="score", mode="max")
    for k in range(3):
        search.suggest(f"t{k}")
        search.on_trial_complete(f"t{k}", {"score": k / 2})
    words = Cells(search._repr_html_()).words
    assert words[:3] == ["DRBQOSearch", "state", "going on"]
    assert "3, 0 failed, 0 pending" in words
