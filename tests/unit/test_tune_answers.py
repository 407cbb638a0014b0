"""What a searcher answers: when it stops by itself, how sure it is, and its report."""

from __future__ import annotations

import html
import logging
import pickle
import re

import numpy as np
import pytest
from ray import tune
from ray.tune.search import Searcher

from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.tune_searcher import DRBQOSearch
from tests.support.tune_trials import SPACE, flat, ready, run, score_of

LINE = {"x": tune.uniform(0, 1)}
RULE = "loss < 0.01"


def until_finished(search, most=40):
    """Run trials until the searcher ends the search; how many there were."""
    for k in range(most):
        config = search.suggest(f"trial {k}")
        if config == Searcher.FINISHED:
            return k
        result = {"score": score_of(config), "done": True, **flat(config)}
        search.on_trial_complete(f"trial {k}", result)
    raise AssertionError("the search did not end")


def text_of(path):
    """The words of a page, without its script, style and tags."""
    page = re.sub(r"<(script|style)\b.*?</\1>", " ", path.read_text(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


class TestStopping:
    def test_the_rule_ends_the_search_and_its_sentence_is_logged_once(self, caplog):
        search, free = ready(LINE, stop_when=RULE), ready(LINE)
        trials = until_finished(search)
        assert search.suggest("another") == Searcher.FINISHED
        assert search.stop_reason().startswith(f"sure enough after {trials} evaluations: loss ")
        said = [record.message for record in caplog.records]
        assert said == [f"No more trials are suggested: {search.stop_reason()}."]
        run(free, [f"trial {k}" for k in range(trials)])
        assert free.suggest("another") != Searcher.FINISHED
        assert free.observations == search.observations

    def test_a_trial_that_has_its_config_keeps_it_after_the_end(self):
        search = ready(LINE, stop_when=RULE)
        late = search.suggest("late")
        until_finished(search)
        assert search.suggest("late") == late
        search.on_trial_complete("late", {"score": score_of(late), **flat(late)})
        assert search.observations[-1].config == {"x": late["x"]}
        assert search.suggest("more") == Searcher.FINISHED

    def test_points_of_the_user_are_run_before_the_search_may_end(self):
        points = [{"x": x, "fold": 0} for x in np.linspace(0, 1, 16)]
        search = ready(LINE, stop_when=RULE, points_to_evaluate=points)
        assert until_finished(search) >= 16

    @pytest.mark.parametrize("copied", ["saved", "pickled"])
    def test_the_rule_and_the_end_are_kept(self, tmp_path, copied, caplog):
        def copy_of(search):
            if copied == "pickled":
                return pickle.loads(pickle.dumps(search))
            search.save(str(tmp_path / "state"))
            again = DRBQOSearch(n_folds=None)
            again.restore(str(tmp_path / "state"))
            return again

        search = copy_of(ready(LINE, stop_when=RULE))
        trials = until_finished(search)
        again = copy_of(search)
        caplog.clear()
        assert again.stop_reason() == search.stop_reason()
        assert again.suggest("another") == Searcher.FINISHED
        assert len(again.observations) == trials
        assert len(caplog.records) == (copied == "saved")

    def test_a_searcher_saved_before_its_end_finds_it_after_the_restore(self, tmp_path):
        search = ready(LINE, stop_when=RULE)
        run(search, "abcde")
        search.save(str(tmp_path / "state"))
        again = DRBQOSearch(n_folds=None)
        again.restore(str(tmp_path / "state"))
        assert again.stop_reason() is None
        assert until_finished(again) == until_finished(search)

    def until_held_once(self, search):
        """Run trials until the rule held at its last look, and not at the one before."""
        for k in range(40):
            run(search, [f"early {k}"])
            assert search.suggest(f"early {k + 1}") != Searcher.FINISHED
            look = search._running.ledger.optimizer.last_check
            if look is not None and look.passed == 1:
                return look
        raise AssertionError("the rule never held")

    @pytest.mark.parametrize("copied", ["saved", "pickled"])
    def test_a_searcher_saved_between_two_looks_ends_as_one_never_saved(self, tmp_path, copied):
        search = ready(LINE, stop_when=RULE)
        look = self.until_held_once(search)
        if copied == "pickled":
            again = pickle.loads(pickle.dumps(search))
        else:
            search.save(str(tmp_path / "state"))
            again = DRBQOSearch(n_folds=None)
            again.restore(str(tmp_path / "state"))
        assert again._running.ledger.optimizer.last_check == look
        assert until_finished(again) == until_finished(search)
        assert again.stop_reason() == search.stop_reason()

    def test_a_failure_that_later_succeeds_leaves_what_the_rule_has_seen(self):
        search = ready(LINE, stop_when=RULE)
        config = search.suggest("failed")
        search.on_trial_complete("failed", None, error=True)
        look = self.until_held_once(search)
        search.on_trial_complete("failed", {"score": score_of(config), **flat(config)})
        assert [o.status for o in search.observations].count("failed") == 0
        assert search._running.ledger.optimizer.last_check == look

    def test_a_rule_that_cannot_be_checked_does_not_end_the_run(self, caplog, monkeypatch):
        search = ready(LINE, stop_when=RULE)

        def broken():
            raise np.linalg.LinAlgError("not positive definite")

        search.suggest("first")
        monkeypatch.setattr(search._running.ledger.optimizer, "certainty", broken)
        run(search, [str(k) for k in range(20)])
        assert len(search.observations) == 20
        assert "not positive definite" in caplog.text

    def test_a_finite_space_says_why_it_ends(self, caplog):
        search = ready({"x": tune.choice([0.1, 0.2])})
        assert until_finished(search) == 6
        assert "every config was handed out" in search.stop_reason()
        assert len(caplog.records) == 1

    @pytest.mark.parametrize("rule", ["", "loss > 1", "regret < 1", "loss < nan", 0.1], ids=str)
    def test_a_badly_written_rule_is_refused_at_once(self, rule):
        with pytest.raises(InvalidInput, match=r"loss < 0\.002"):
            DRBQOSearch(n_folds=3, stop_when=rule)

    def test_without_folds_the_rule_works_too(self):
        assert until_finished(ready(LINE, n_folds=None, stop_when=RULE)) < 20


class TestCertainty:
    def test_it_is_that_of_the_recommendation_and_looking_changes_nothing(self):
        search, twin = ready(LINE), ready(LINE)
        for one in (search, twin):
            run(one, [str(k) for k in range(12)])
        found = search.certainty()
        low, high = found.interval
        assert low <= search.recommend().robust_value <= high
        assert 0 < found.probability <= 1
        assert found.loss >= 0
        assert search.certainty() == found
        assert search.suggest("next") == twin.suggest("next")


class TestReport:
    def check(self, search, path, trials):
        assert search.report(path) == path
        text = text_of(path)
        config = search.recommend().config
        assert f"evaluations {trials}" in text
        assert str(config) in text  # all digits
        assert f"x = {config['x']:.6g}" in text
        assert f"net/width = {config['net']['width']}" in text
        return text

    def test_it_shows_the_recommended_config_and_the_number_of_trials(self, tmp_path):
        search = ready()
        run(search, [str(k) for k in range(9)])
        search.suggest("live")
        text = self.check(search, tmp_path / "report.html", 9)
        assert "1 trials under way" not in text
        assert "1 trial under way" in text
        search.save(str(tmp_path / "state"))
        again = DRBQOSearch(n_folds=None)
        again.restore(str(tmp_path / "state"))
        self.check(again, tmp_path / "again.html", 9)

    def test_the_code_in_it_makes_the_same_searcher(self, tmp_path):
        search = ready(stop_when=RULE, seed=4, uncertainty=0.25, reference=[0.5, 0.25, 0.25])
        run(search, "abc")
        search.report(tmp_path / "report.html")
        page = html.unescape((tmp_path / "report.html").read_text())
        (code,) = re.findall(r"import drbqo_ray as dr\n.*?\n\)", page, re.DOTALL)
        made: dict = {}
        exec(code, made)
        again = made["search"]
        assert again.set_search_properties(None, None, SPACE)
        assert again._problem.to_dict() == search._problem.to_dict()

    def test_options_searched_by_number_are_explained(self, tmp_path):
        branches = [{"kind": "svm", "C": tune.uniform(0, 1)}, {"kind": "tree"}]
        search = ready({"x": tune.uniform(0, 1), "model": tune.choice(branches)})
        run(search, "abcdef")
        search.report(tmp_path / "report.html")
        text = text_of(tmp_path / "report.html")
        assert "0 = kind: 'svm', C: model/0/C; 1 = {'kind': 'tree'}" in text

    def test_why_it_stopped_and_what_failed_is_in_it(self, tmp_path):
        search = ready({"x": tune.choice([0.1, 0.2])})
        search.suggest("bad")
        search.on_trial_complete("bad", None, error=True)
        assert until_finished(search) == 5
        search.report(tmp_path / "report.html")
        text = text_of(tmp_path / "report.html")
        assert search.stop_reason() in text
        assert "the trial raised an error" in text

    def test_a_search_whose_trials_all_failed_has_a_report_without_an_answer(self, tmp_path):
        search = ready()
        search.suggest("bad")
        search.on_trial_complete("bad", None, error=True)
        search.report(tmp_path / "report.html")
        text = text_of(tmp_path / "report.html")
        assert "the trial raised an error" in text
        assert "Recommended config" not in text

    def test_without_folds_there_is_a_report_too(self, tmp_path):
        search = ready(n_folds=None)
        run(search, "abcdefgh")
        self.check(search, tmp_path / "report.html", 8)


@pytest.mark.parametrize("ask", ["recommend", "certainty", "report"])
@pytest.mark.parametrize("begun", [False, True])
def test_an_answer_before_the_first_result_says_what_to_do(ask, begun, tmp_path, caplog):
    search = DRBQOSearch(n_folds=3)
    if begun:
        search = ready()
        search.suggest("live")
    arguments = [tmp_path / "report.html"] if ask == "report" else []
    with caplog.at_level(logging.WARNING), pytest.raises(NothingObserved, match="fit"):
        getattr(search, ask)(*arguments)
    assert not caplog.records
    assert list(tmp_path.iterdir()) == []
