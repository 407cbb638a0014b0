"""The report of a method that judges configs by their scores says what the optimizer says."""

from pathlib import Path

import numpy as np
import pytest

from drbqo_ray import Choice, Recommendation
from drbqo_ray.cli.saved_run import SavedRun
from drbqo_ray.report.facts import Facts
from drbqo_ray.runtime.run_report import journal_facts
from tests.support.report_runs import two_peaks, write_run


def uneven(config: dict[str, float], fold: int) -> float:
    return two_peaks({"kind": "a", "rate": 0.01, **config}, fold) + 0.2 * float(
        np.sin(1e4 * config["x"] + 50 * fold)
    )


@pytest.fixture(scope="module", params=[13, 40], ids=["begun", "done"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    run: Path = write_run(
        tmp_path_factory.mktemp("run"), uneven, method="foldwise", evaluations=request.param
    )
    return journal_facts(run, run.name), SavedRun.read(str(run)).run.optimizer.recommend()


def test_the_verdict_and_its_figures_are_those_of_the_recommendation(
    found: tuple[Facts, Recommendation],
) -> None:
    facts, best = found
    assert facts.ranking is not None
    chosen = facts.ranking.row(facts.ranking.chosen)
    assert chosen is not None
    assert chosen.config == best.config
    assert chosen.robust == pytest.approx(best.robust_value, abs=1e-9)
    assert chosen.mean == pytest.approx(best.mean_value, abs=1e-9)
    assert chosen.std == pytest.approx(best.std, abs=1e-9)
    assert facts.weights is not None
    assert facts.weights.fold_means == pytest.approx(best.context_means, abs=1e-9)
    assert facts.weights.fold_stds == pytest.approx(best.context_stds, abs=1e-9)


def test_the_path_of_the_incumbent_ends_at_the_recommendation(
    found: tuple[Facts, Recommendation],
) -> None:
    facts, best = found
    assert facts.parts["incumbent"] is not None
    end = facts.parts["incumbent"].checkpoints[-1]
    assert end.value == pytest.approx(best.robust_value, abs=1e-9)
    assert end.high - end.low == pytest.approx(2 * 1.96 * best.std, abs=1e-9)


def test_the_two_runs_differ_in_what_is_known(found: tuple[Facts, Recommendation]) -> None:
    facts, best = found
    assert (facts.evaluations == 13) == (best.std > 0)


GRID = {"x": Choice([0.2, 0.5, 0.8])}
CONFIGS = [{"x": x} for x in (0.2, 0.5, 0.8)]


def test_among_configs_with_all_folds_trained_the_choice_is_clear(tmp_path: Path) -> None:
    run = write_run(tmp_path, uneven, GRID, method="foldwise", configs=CONFIGS)
    answer = journal_facts(run, run.name).verdict
    assert answer.certainty is not None
    assert answer.certainty.verdict.kind == "clear"
    assert not any("±" in sentence for sentence in answer.sentences)
    assert answer.sentences[2] == (
        "The choice is clear (best of those seen with probability 1.00, expected loss of"
        " stopping 0)."
    )


def test_two_configs_with_the_same_scores_are_a_tie_and_no_reason_to_go_on(tmp_path: Path) -> None:
    def turned(config: dict[str, float], fold: int) -> float:
        """The same scores on other folds; the third config is worse."""
        return 0.1 * ((fold + 10 * config["x"]) % 3) - (config["x"] > 0.6)

    run = write_run(tmp_path, turned, GRID, method="foldwise", configs=CONFIGS)
    answer = journal_facts(run, run.name).verdict
    assert answer.certainty is not None
    assert answer.certainty.probability == 0.5
    assert answer.sentences[2].startswith("The choice is practically tied with config 1")
