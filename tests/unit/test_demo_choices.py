"""The table of the demo, from evaluations at hand."""

from __future__ import annotations

from drbqo_ray.cli.demo import choices_table
from drbqo_ray.records import Observation


class Worker:
    def __init__(self) -> None:
        self.n_folds = 2
        self.space = {
            "C": {"type": "float", "low": 1e-3, "high": 1e3, "log": True},
            "gamma": {"type": "float", "low": 1e-5, "high": 10.0, "log": True},
        }

    def evaluate_final(self, config: dict[str, float], seed: int) -> dict[str, float]:
        return {"test_accuracy": 0.5}


def test_a_failed_evaluation_is_told_as_one_and_does_not_end_the_demo() -> None:
    good, bad = {"C": 1.0, "gamma": 0.1}, {"C": 10.0, "gamma": 1.0}
    seen = [Observation(k, good, k, "ok", 0.7 + 0.1 * k) for k in range(2)]
    seen.append(Observation(2, bad, 0, "ok", 0.9))
    seen.append(Observation(3, bad, 1, "failed", None, "no rows"))
    table = choices_table(Worker(), seen, 0)
    assert list(table.columns[1].cells) == ["1", "1"]
