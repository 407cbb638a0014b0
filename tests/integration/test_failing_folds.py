"""A fold that always fails: its configs are never judged by the folds that are left."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.errors import RunFailed
from drbqo_ray.runtime.run import run_many
from drbqo_ray.runtime.run_report import journal_facts
from tests.support.faulty_objectives import BROKEN, one_broken_fold
from tests.support.fold_objectives import TwoFolds
from tests.support.journal_checks import assert_sound, records_of
from tests.support.local_ray import two_cpus  # noqa: F401

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("two_cpus"),
]


def run_broken(space, size, storage, **options):
    options = {"progress": False, "max_consecutive_failures": None} | options
    return dr.run(one_broken_fold, space, 5, n_evaluations=size, storage=storage, **options)


def warnings_in(caplog) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_each_failure_is_warned_of_once_and_no_value_is_the_mean_of_the_folds_left(
    tmp_path, caplog
):
    result = run_broken({"x": dr.Float(0.0, 1.0)}, 30, tmp_path / "run")
    failed = [o for o in result.observations if o.status == "failed"]
    assert failed
    assert {o.id for o in failed} == {o.id for o in result.observations if o.context == BROKEN}
    assert all(o.score is None for o in failed)
    expected = [
        f"Evaluation {o.id} (fold {BROKEN}) failed: FileNotFoundError: the rows of fold {BROKEN}"
        " are gone"
        for o in failed
    ]
    first, *others = warnings_in(caplog)
    line, head, *traceback = first.splitlines()
    assert sorted([line, *others]) == sorted(expected)
    # The first one is told in full, with the line of the objective that raised.
    assert head == "  Traceback (most recent call last):"
    assert "in one_broken_fold" in "".join(traceback)
    assert traceback[-1] == f"  FileNotFoundError: the rows of fold {BROKEN} are gone"
    best = result.recommendation
    assert best.config not in [o.config for o in failed]
    # The broken fold counts as the worst score seen, and the adversary leans on it.
    left = np.delete(best.context_means, BROKEN)
    worst = min(o.score for o in result.observations if o.score is not None)
    assert best.context_means[BROKEN] < left.min() - 0.1
    assert best.context_means[BROKEN] == pytest.approx(worst, abs=0.2)
    assert best.robust_value < np.mean(best.context_means) < np.mean(left) - 0.01
    assert best.weights[BROKEN] > 0.4
    assert_sound(tmp_path / "run")


def test_configs_that_all_have_a_failed_fold_are_not_ranked_by_the_others(tmp_path, caplog):
    space = {"x": dr.Choice([0.1, 0.3, 0.6, 0.9])}
    result = run_broken(space, 20, tmp_path / "run")
    seen = {(o.config["x"], o.context) for o in result.observations}
    assert len(seen) == 20
    assert result.recommendation is None
    assert result.certainty is None
    assert len(warnings_in(caplog)) == 4
    frame = result.to_dataframe()
    assert frame["score"].isna().sum() == 4
    assert set(frame.loc[frame["score"].isna(), "context"]) == {BROKEN}
    left = frame.groupby("config.x")["score"].mean()
    ranking = journal_facts(tmp_path / "run", "run").ranking
    assert (ranking.ranked, ranking.chosen, len(ranking.rows)) == (0, None, 4)
    for row in ranking.rows:
        assert (row.robust_rank, row.mean_rank, row.folds_seen) == (None, None, 4)
        assert row.robust < left[row.config["x"]] - 0.01


def test_folds_that_are_not_there_stop_a_run_and_the_first_traceback_is_shown(tmp_path):
    space = {"x": dr.Float(0.0, 1.0)}
    place = {"storage": tmp_path / "run", "progress": False, "max_in_flight": 1}
    with pytest.raises(RunFailed) as caught:
        dr.run(TwoFolds(), space, 4, n_evaluations=60, **place)
    said = str(caught.value)
    broken = int(re.match("Fold ([23]) of 4, counted from 0, failed 3 times", said)[1])
    failed = [r for r in records_of(tmp_path / "run", "fail")]
    asked = {r["id"]: r["context"] for r in records_of(tmp_path / "run", "ask")}
    first = next(r for r in failed if asked[r["id"]] == broken)
    assert f"The first of them was evaluation {first['id']} (fold {broken}, " in said
    assert "IndexError: tuple index out of range" in said
    assert "self.peaks[fold]" in said
    assert str(tmp_path / "run") in said
    assert len(failed) <= 5
    assert records_of(tmp_path / "run", "finish")[-1]["reason"] == "failed"
    # A resumed run judges anew: the objective may have been fixed.
    more = dr.run(
        TwoFolds(),
        space,
        4,
        n_evaluations=len(asked) + 2,
        resume=True,
        **place | {"max_consecutive_failures": None},
    )
    assert more.coverage.missing == (2, 3)
    assert str(more.coverage).startswith("trained on 2 of 4 folds, ")
    assert more.coverage.n_failed == sum(o.status == "failed" for o in more.observations)
    assert more.first_failure.id == failed[0]["id"]


def test_of_many_runs_each_says_which_fold_stopped_it(tmp_path):
    found = run_many(
        TwoFolds(),
        {"x": dr.Float(0.0, 1.0)},
        3,
        n_evaluations=40,
        seeds=[0, 1],
        methods=["random"],
        progress=False,
    )
    for result in found:
        assert result.stopped == "failed"
        assert result.failure.startswith("Fold 2 of 3, counted from 0, failed 3 times")
        assert "IndexError" in result.failure
        assert result.coverage.missing == (2,)
    frame = found.to_dataframe()
    assert list(frame["folds"]) == [2, 2]
    assert list(frame["failed"]) == [3, 3]
