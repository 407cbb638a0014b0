from __future__ import annotations

import functools
import sys
import textwrap
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from drbqo_ray.errors import ObjectiveError
from drbqo_ray.objective import (
    FoldObjective,
    as_objective,
    check_folds,
    check_objective,
    load_objective,
    objective_name,
)
from drbqo_ray.records import read_score

MODULE = """
    import functools

    limit = 3

    def good(config, fold, seed):
        return config["x"] * fold

    def too_few(config, fold):
        return 0.0

    def needs_more(config, fold, seed, data):
        return 0.0

    def make():
        return good

    def makes_nothing():
        return 7

    def fails():
        raise RuntimeError("no data here")

    class Folds:
        n_folds = 4

        def __init__(self, data="sonar"):
            self.data = data

        def __call__(self, config, fold, seed):
            return 1.0

    class NeedsData:
        def __init__(self, data):
            pass

        def __call__(self, config, fold, seed):
            return 1.0

    class NotCallable:
        pass

    folds = Folds("glass")

    class Nested:
        inner = staticmethod(good)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current directory with a user's module that is not on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (tmp_path / "folds_of_mine.py").write_text(textwrap.dedent(MODULE))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("folds_of_mine", "broken", "needy", "workers"):
            del sys.modules[name]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("attribute", ["good", "make", "Folds", "folds", "Nested.inner"])
def test_objectives_factories_and_classes_are_found_in_the_current_directory(attribute):
    objective = load_objective(f"folds_of_mine:{attribute}")
    assert isinstance(objective, FoldObjective)
    assert objective({"x": 2.0}, 1, 0) in (1.0, 2.0)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("folds_of_mine", "named by module and attribute"),
        ("folds_of_mine:", "named by module and attribute"),
        (":good", "named by module and attribute"),
        (7, "named by module and attribute"),
        ("no_such_module:good", "no module 'no_such_module' here"),
        ("folds_of_mine.deeper:good", "no module 'folds_of_mine.deeper' here|cannot be imported"),
        ("folds_of_mine:god", "has no attribute 'god'.*It defines .*good"),
        ("folds_of_mine:limit", "must be callable"),
        ("folds_of_mine:too_few", r"must take \(config, fold, seed\).*too_few\(config, fold\)"),
        ("folds_of_mine:needs_more", r"must take \(config, fold, seed\)"),
        ("folds_of_mine:makes_nothing", "must be callable.*Got 7"),
        ("folds_of_mine:fails", "cannot be made: RuntimeError: no data here"),
        ("folds_of_mine:NeedsData", "instances need arguments"),
        ("folds_of_mine:NotCallable", "must be callable"),
        ("os:abort", "standard library.*'os:abort'"),
        ("os.path:join", "standard library"),
        ("antigravity:webbrowser", "standard library"),
        ("builtins:print", "standard library"),
        ("folds_of_mine:functools.namedtuple", "standard library"),
        ("folds_of_mine:functools.__dict__.clear", "standard library"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(spec, message):
    with pytest.raises(ObjectiveError, match=message):
        load_objective(spec)


def test_a_module_that_breaks_or_needs_another_says_so(here):
    (here / "broken.py").write_text("1 / 0")
    (here / "needy.py").write_text("import not_installed_anywhere")
    with pytest.raises(ObjectiveError, match="cannot be imported: ZeroDivisionError"):
        load_objective("broken:objective")
    with pytest.raises(ObjectiveError, match="needs 'not_installed_anywhere'"):
        load_objective("needy:objective")


def test_a_foreign_workers_package_is_named_with_the_cure(here, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "workers"]:
        monkeypatch.delitem(sys.modules, name)
    (here / "workers").mkdir()
    (here / "workers" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(here)
    # As installed from a wheel: an editable install finds its modules by a hook of its own.
    finders = [finder for finder in sys.meta_path if "editable" not in finder.__module__]
    monkeypatch.setattr(sys, "meta_path", finders)
    with pytest.raises(ObjectiveError, match=r"stands for .*remove its __init__\.py") as at:
        load_objective("workers.svm:sonar")
    assert str(here / "workers") in str(at.value)


def test_the_workers_of_the_package_are_found_as_instance_and_as_class():
    assert load_objective("workers.svm:glass").n_folds == 5
    assert load_objective("workers.svm:SVMFolds").n_folds == 5


def test_a_callable_is_checked_and_named():
    def objective(config, fold, seed):
        return 0.0

    found, name = as_objective(objective)
    assert found is objective
    assert name.endswith("test_a_callable_is_checked_and_named.<locals>.objective")
    assert objective_name(functools.partial(objective)).endswith("<locals>.objective")
    with pytest.raises(ObjectiveError, match="must take"):
        as_objective(lambda config: 0.0)
    with pytest.raises(ObjectiveError, match="must be callable"):
        check_objective(3)


def test_an_objective_with_another_number_of_folds_is_refused():
    class Five:
        n_folds = 5

    check_folds(Five(), 5)
    check_folds(object(), 3)
    with pytest.raises(ObjectiveError, match=r"has 5 folds\. Got 3"):
        check_folds(Five(), 3)


@pytest.mark.parametrize(
    "value",
    [1, 0.5, np.float32(0.5), np.int64(2), np.array(0.25), torch.tensor(0.5), Fraction(1, 2)],
)
def test_numbers_of_every_make_are_scores(value):
    assert read_score(value) == (float(value), None)


class NoRepr:
    def __repr__(self):
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must be one number, got None of type NoneType"),
        ("0.5", "must be one number, got '0.5' of type str"),
        (True, "must be one number"),
        (np.array(True), "must be one number"),
        (1j, "must be one number"),
        ([0.5], "must be one number"),
        (np.array([0.5]), "must be one number"),
        (Decimal("0.5"), "must be one number"),
        (10**400, "fits a float"),
        (float("nan"), "finite"),
        (np.float32("inf"), "finite"),
        (NoRepr(), "got an object of type NoRepr"),
    ],
)
def test_anything_else_is_not_and_the_reason_says_what_it_was(value, message):
    score, reason = read_score(value)
    assert score is None
    assert message in reason
