"""`drbqo demo`: tune a support vector machine on sonar, robustly, on local Ray.

Five folds, two slots. It ends with a table of the robust choice beside the choice that plain
cross-validation would make from the same evaluations, both retrained and tested on held-out data.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import nan
from typing import Any

from rich.console import Console
from rich.table import Table

from drbqo_ray.objective import load_objective
from drbqo_ray.optimizer.methods import DEFAULT
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.records import Observation
from drbqo_ray.runtime.run import run
from drbqo_ray.space.space import Space

OBJECTIVE = "workers.svm:sonar"
EVALUATIONS = 60
RADIUS = 1.0
SLOTS = 2


def main(evaluations: int = EVALUATIONS, seed: int = 0) -> int:
    """Run the demo; returns the exit code."""
    worker: Any = load_objective(OBJECTIVE)
    console = Console(file=sys.stdout)
    console.print(
        f"Tuning C and gamma of an RBF SVM on sonar: {evaluations} single-fold evaluations, "
        f"{worker.n_folds} folds, chi-square radius {RADIUS:g}, {SLOTS} slots."
    )
    result = run(
        OBJECTIVE,
        worker.space,
        worker.n_folds,
        n_evaluations=evaluations,
        uncertainty=RADIUS,
        max_in_flight=SLOTS,
        seed=seed,
        progress=True,
    )
    if result.recommendation is None:
        console.print("No config can be recommended; see the failures above.")
        return 1
    console.print(choices_table(worker, result.observations, seed))
    console.print(
        "robust: score under the worst re-weighting of the folds; mean: under equal weights; "
        "worst fold: lowest score of a fold. The model fills in folds that were not trained."
    )
    console.print(f"The robust choice is {result.verdict}.")
    return 0


def choices_table(worker: Any, observations: Sequence[Observation], seed: int) -> Table:
    """The choice of the robust value and that of the mean side by side, from all evaluations."""
    cautious, plain = (_told(worker, observations, radius, seed) for radius in (RADIUS, 0.0))
    table = Table(title="Robust against mean choice, from the same evaluations")
    for column in ("choice", "C", "gamma", "robust", "mean", "worst fold", "test accuracy"):
        table.add_column(column, justify="left" if column == "choice" else "right")
    for name, model in (("robust", cautious), ("mean", plain)):
        config = model.recommend().config
        (row,), (even_row,) = cautious.completed_scores([config]), plain.completed_scores([config])
        robust, _ = cautious.uncertainty.worst_case(row)
        test = worker.evaluate_final(config, seed)["test_accuracy"]
        chosen = (f"{config[key]:.4g}" for key in ("C", "gamma"))
        values = (robust, even_row.mean(), row.min(), test)
        table.add_row(name, *chosen, *(f"{value:.3f}" for value in values))
    return table


def _told(worker: Any, observations: Sequence[Observation], radius: float, seed: int) -> Optimizer:
    model = Optimizer(
        Space(worker.space), worker.n_folds, method=DEFAULT, uncertainty=radius, seed=seed
    )
    for seen in observations:
        model.observe(seen.config, seen.context, nan if seen.score is None else seen.score)
    return model
