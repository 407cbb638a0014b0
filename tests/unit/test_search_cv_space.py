"""Spaces a search takes, and settings it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from tests.support.quick_search import X, Y, search


def test_spaces_of_other_packages_and_plain_options_are_understood():
    from ray import tune

    space = {
        "C": scipy.stats.loguniform(0.1, 10.0),
        "gamma": tune.uniform(0.01, 1.0),
        "kernel": ["rbf", "poly"],
        "degree": np.array([2, 3]),
        "shrinking": (True, False),
        "cache_size": range(100, 103),
        "tol": dr.Float(1e-4, 1e-2, log=True),
    }
    ours = search(SVC(), space, n_evaluations=12).fit(X, Y)
    for config in ours.cv_results_["params"]:
        assert 0.1 <= config["C"] <= 10.0
        assert 0.01 <= config["gamma"] <= 1.0
        assert config["kernel"] in ("rbf", "poly")
        assert config["degree"] in (2, 3)
        assert config["shrinking"] in (True, False)
        assert config["cache_size"] in (100, 101, 102)


def test_conditional_parameters_are_masked_where_they_do_not_apply():
    space = {"kernel": ["rbf", "poly"], "degree": dr.Int(1, 3, when={"kernel": ["poly"]})}
    ours = search(SVC(), space, n_evaluations=99).fit(X, Y)
    assert ours.n_evaluations_ == (1 + 3) * 3
    masked = np.ma.getmaskarray(ours.cv_results_["param_degree"])
    np.testing.assert_array_equal(masked, ours.cv_results_["param_kernel"] == "rbf")


def test_steps_of_a_pipeline_can_be_searched_and_stay_untrained():
    options = [StandardScaler(), MinMaxScaler(), "passthrough"]
    pipe = Pipeline([("scale", StandardScaler()), ("svc", SVC())])
    ours = search(pipe, {"scale": options, "svc__C": [0.1, 10.0]}, n_evaluations=99).fit(X, Y)
    assert ours.n_evaluations_ == 18
    assert ours.best_params_["scale"] in options
    assert not hasattr(options[0], "mean_")


def test_one_config_alone_is_a_space_too():
    ours = search(SVC(), {"C": [2.0]}, method="drbqo").fit(X, Y)
    assert ours.best_params_ == {"C": 2.0}
    assert ours.n_evaluations_ == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_evaluations": 0}, "n_evaluations"),
        ({"n_evaluations": 2.5}, "n_evaluations"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"error_score": "nan"}, "error_score"),
        ({"method": "grid"}, "method"),
        ({"uncertainty": -1.0}, "radius"),
        ({"space": {"c": [1.0]}}, r"\['c'\]"),
        ({"space": {}}, "non-empty"),
        ({"space": []}, "at least one"),
        ({"space": [{"C": [1.0]}, 3]}, "dict"),
        ({"space": [{"C": [1.0]}, {"c": [1.0]}]}, r"\['c'\]"),
        ({"space": [{"C": [1.0]}, {"dict no.": [1.0]}]}, "dict no."),
        ({"error_score": np.ones(2)}, "error_score"),
        ({"error_score": True}, "error_score"),
        ({"cv": []}, "cv must give at least one split"),
        ({"scoring": ["accuracy"], "cv": 1000}, "refit"),
        ({"space": {"C": 1.0}}, "Float, Int or Choice"),
    ],
)
def test_wrong_settings_are_refused_in_fit_and_only_there(options, message):
    ours = search(**options)
    with pytest.raises(InvalidInput, match=message):
        ours.fit(X, Y)
    assert not hasattr(ours, "cv_results_")
