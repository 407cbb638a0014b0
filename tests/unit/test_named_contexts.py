"""Contexts with names: the same search as with numbers, and names wherever people read of folds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drbqo_ray as dr
from drbqo_ray.cli.saved_run import SavedRun
from drbqo_ray.core.contexts import check_contexts, context_names
from drbqo_ray.errors import InvalidInput, ProblemChanged
from drbqo_ray.problem import Problem
from drbqo_ray.report.page import render_page
from drbqo_ray.runtime.run_report import journal_facts, python_script
from drbqo_ray.runtime.status import Coverage
from drbqo_ray.storage.journal import JOURNAL
from tests.support.fold_objectives import SPACE, smooth

NAMES = ["Cleveland", "Hungary", "Long Beach"]


def run(contexts: Any, objective: Any = smooth, **options: Any) -> dr.Result:
    given = {"n_evaluations": 14, "backend": "inline", "progress": False} | options
    return dr.run(objective, SPACE, contexts, **given)


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=9, unique=True))
def test_distinct_names_are_kept_in_order(names: list[str]) -> None:
    for given_names in (names, tuple(names), np.array(names, dtype=object)):
        assert context_names(given_names) == tuple(names)
        assert check_contexts(given_names) == len(names)


@pytest.mark.parametrize("contexts", [3, [[0.0], [1.0]], np.eye(3), [["1.5"], ["2"]]], ids=str)
def test_numbers_and_vectors_have_no_names(contexts: Any) -> None:
    assert context_names(contexts) == ()
    assert dr.Optimizer(SPACE, contexts).context_names == ()


@pytest.mark.parametrize(
    ("contexts", "rule"),
    [
        (["a", "b", "a"], "Names of contexts differ. Got 'a'"),
        (["a", " "], "not blank"),
        (["a", 3], "number 1 too. Got 3"),
        ([None, "a"], "number 0 too"),
        (["a", ["b"]], "number 1 too"),
        ("abc", "Contexts are"),
        ([], "Contexts are"),
    ],
    ids=str,
)
def test_bad_names_are_refused(contexts: Any, rule: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        dr.Optimizer(SPACE, contexts)
    assert rule in str(refused.value)


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 99), st.sampled_from(["drbqo", "foldwise"]))
def test_names_change_nothing_that_is_asked(seed: int, method: str) -> None:
    named = dr.Optimizer(SPACE, NAMES, seed=seed, method=method)
    counted = dr.Optimizer(SPACE, 3, seed=seed, method=method)
    for _ in range(12):
        asked = named.ask()
        assert asked == counted.ask()
        assert type(asked.context) is int
        for one in (named, counted):
            one.tell(asked.id, smooth(asked.config, asked.context, 0))
    assert named.recommend() == counted.recommend()
    assert "Long Beach" in named._repr_html_()


def test_a_run_keeps_its_names_and_is_resumed_with_them_alone(tmp_path: Any) -> None:
    run(NAMES, storage=tmp_path / "a")
    result = run(NAMES, storage=tmp_path / "a", resume=True, n_evaluations=18)
    assert result.context_names == tuple(NAMES) == dr.load(tmp_path / "a").context_names
    frame = result.to_dataframe()
    assert len(frame) == 18
    assert [NAMES[k] for k in frame["context"]] == list(frame["context_name"])
    header = json.loads((tmp_path / "a" / JOURNAL).read_text().splitlines()[0])
    assert header["data"]["problem"]["contexts"] == NAMES
    for other in (3, [*NAMES[:2], "Zurich"], NAMES[::-1]):
        with pytest.raises(ProblemChanged):
            run(other, storage=tmp_path / "a", resume=True, n_evaluations=20)


def test_a_run_with_numbers_has_the_header_it_always_had(tmp_path: Any) -> None:
    run(3, storage=tmp_path / "a")
    header = json.loads((tmp_path / "a" / JOURNAL).read_text().splitlines()[0])
    assert header["data"]["problem"]["contexts"] == 3
    assert "context_names" not in json.dumps(header)
    assert "context_name" not in dr.load(tmp_path / "a").to_dataframe()


def test_report_status_and_script_say_names(tmp_path: Any) -> None:
    run(NAMES, storage=tmp_path / "a", method="drbqo", uncertainty=1.0)
    facts = journal_facts(tmp_path / "a", "a")
    assert facts.about.fold_labels == tuple(NAMES)
    page = render_page(facts)
    assert "fold 0" not in page
    assert all(name in page for name in NAMES)
    (check,) = [check for check in facts.checks if check.key == "dominance"]
    assert any(name in check.finding for name in NAMES)
    saved = SavedRun.read(str(tmp_path / "a"))
    lines = "\n".join(saved.lines())
    assert all(f"{name} " in lines for name in NAMES)
    assert repr(NAMES) in python_script(saved.run.problem, 14)


def test_folds_without_a_score_are_missed_by_name() -> None:
    assert "no score on Hungary" in str(Coverage(3, (1,), 0, tuple(NAMES)))
    assert "no score on fold 1" in str(Coverage(3, (1,), 0))


def test_a_fold_that_never_works_is_named() -> None:
    def broken(config: Any, fold: int, seed: int) -> float:
        if fold == 1:
            raise OSError("no such file")
        return float(smooth(config, fold, seed))

    with pytest.raises(dr.DrbqoError, match=r"Hungary failed \d+ times and never worked"):
        run(NAMES, broken, n_evaluations=90)


def test_a_warm_start_goes_by_name(tmp_path: Any) -> None:
    old = run(NAMES, storage=tmp_path / "old")
    new = ["Long Beach", "Basel", "Cleveland"]
    warm = run(new, storage=tmp_path / "new", n_evaluations=0, warm_start=tmp_path / "old")
    before = [(NAMES[s.context], s.score) for s in old.observations if s.context != 1]
    assert [(new[s.context], s.score) for s in warm.observations] == before


def test_a_header_with_bad_names_is_no_run() -> None:
    header = Problem.of(SPACE, NAMES, {}, smooth, "smooth").header()
    assert Problem.from_header(header).context_names == tuple(NAMES)
    with pytest.raises(InvalidInput):
        Problem.from_header({**header, "contexts": ["a", "a"]}).optimizer()


def test_run_many_shares_the_names() -> None:
    many = dr.run_many(
        smooth, SPACE, NAMES, n_evaluations=4, seeds=[0, 1], backend="inline", progress=False
    )
    assert [one.context_names for one in many] == [tuple(NAMES)] * 2
