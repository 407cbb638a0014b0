"""The examples for Ray Tune join a Ray by themselves and print what their first lines promise."""

from __future__ import annotations

import pytest
import ray

from tests.support.example_files import EVALUATIONS, FOR_TUNE, assert_promised, run_as_main

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
TRIALS = {"21_tune_cnn_fractional.py": "3"}  # all of them at once on two CPUs; each loads torch


@pytest.fixture
def address(ray_of_the_session, monkeypatch):
    """The Ray that an example finds; its connection is closed afterwards."""
    monkeypatch.setenv("RAY_ADDRESS", ray_of_the_session)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize("path", FOR_TUNE, ids=lambda path: path.name)
def test_an_example_prints_what_it_promises(path, tmp_path, monkeypatch, capsys):
    run_as_main(path, tmp_path, monkeypatch, TRIALS.get(path.name, EVALUATIONS))
    assert_promised(path, capsys.readouterr().out)
    assert list(tmp_path.iterdir()) == []
