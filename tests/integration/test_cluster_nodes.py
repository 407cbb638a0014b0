"""A cluster of several nodes, simulated on this machine, that come and go during a run."""

from __future__ import annotations

import gc
import threading
import time
import warnings
from contextlib import suppress

import pytest
import ray
from ray.cluster_utils import Cluster

from drbqo_ray.errors import DrbqoError, InvalidInput
from drbqo_ray.problem import check_resources
from drbqo_ray.runtime.ray_cluster import protect_token
from drbqo_ray.runtime.run import run
from drbqo_ray.runtime.slots import Slots, capacity, task_options
from tests.support.faulty_objectives import NotesItsNode
from tests.support.fold_objectives import SPACE, SlowUntil
from tests.support.journal_checks import assert_sound, records_of
from tests.support.local_ray import CONNECTION_OPTIONS, workers_find_the_tests

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def cluster():
    """A head without CPUs, where the driver lives, and three nodes with one CPU each."""
    workers_find_the_tests()
    protect_token()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        small = {"object_store_memory": 100_000_000}
        head = {"num_cpus": 0, "include_dashboard": False, **small}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            nodes = [cluster.add_node(num_cpus=1, wait=False, **small) for _ in range(3)]
            ray.init(address=cluster.address, **CONNECTION_OPTIONS)
            cluster.wait_for_nodes()
            yield cluster, nodes, small
        finally:
            ray.shutdown()
            cluster.shutdown()
            gc.collect()


def wait_for(directory, condition, running):
    """Wait until the outcomes of a run meet a condition, or the run has ended."""
    while running.is_alive():
        with suppress(DrbqoError):  # the journal may not be there yet
            if condition(records_of(directory, "tell")):
                return
        time.sleep(0.05)


def test_a_run_outlives_two_of_three_nodes_and_uses_a_new_one(cluster, tmp_path):
    cluster, nodes, small = cluster
    directory = tmp_path / "run"
    found = []
    options = {"n_evaluations": 80, "method": "random", "storage": directory, "progress": False}
    objective = SlowUntil(0.6, str(tmp_path / "all seen"))
    running = threading.Thread(target=lambda: found.append(run(objective, SPACE, 3, **options)))
    running.start()
    names = {node.node_id[:12] for node in nodes}
    wait_for(directory, lambda told: {o["node"] for o in told} == names, running)
    cluster.remove_node(nodes[0], allow_graceful=False)
    removed_at = len(records_of(directory, "tell"))
    wait_for(directory, lambda told: len(told) >= removed_at + 3, running)
    cluster.remove_node(nodes[1], allow_graceful=False)
    removed_at = len(records_of(directory, "tell"))
    wait_for(directory, lambda told: len(told) >= removed_at + 3, running)
    added = cluster.add_node(num_cpus=1, **small).node_id[:12]
    wait_for(directory, lambda told: added in {o["node"] for o in told}, running)
    (tmp_path / "all seen").touch()
    running.join()
    [result] = found
    assert result.stopped == "finished"
    assert sorted(o.id for o in result.observations) == list(range(80))
    assert {o.status for o in result.observations} == {"ok"}
    assert_sound(directory)
    used = {record["node"] for record in records_of(directory, "tell")}
    assert used == names | {added}


class Removals:
    """Takes nodes out of a running cluster, adds others, and watches where folds run.

    Attributes:
        alive: nodes with a CPU, the oldest first.
        back: seconds after each removal until folds begun since then ran on all living nodes.
    """

    def __init__(self, cluster, nodes, small, notes, running):
        self._cluster, self._small, self._notes, self._running = cluster, small, notes, running
        self.alive = list(nodes)
        self.back: list[float] = []

    def wait_until_busy(self, since: float) -> None:
        """Wait until a fold that began after `since` runs on every living node."""
        names = {node.node_id[:12] for node in self.alive}
        while self._running.is_alive():
            notes = [note.name.split("-") for note in self._notes.iterdir()]
            if names <= {node for node, began, _ in notes if float(began) > since}:
                return
            time.sleep(0.02)
        raise AssertionError("the run has ended too early")

    def remove(self, replace: bool) -> None:
        """Kill the oldest node in the middle of its fold; `replace` adds another one."""
        self.wait_until_busy(0.0)
        self._cluster.remove_node(self.alive.pop(0), allow_graceful=False)
        removed = time.monotonic()
        if replace:
            self.alive.append(self._cluster.add_node(num_cpus=1, **self._small))
        self.wait_until_busy(removed)
        self.back.append(time.monotonic() - removed)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_run_that_loses_five_nodes_loses_no_evaluation_and_is_soon_at_full_use_again(
    cluster, tmp_path
):
    directory, notes = tmp_path / "run", tmp_path / "notes"
    notes.mkdir()
    found = []
    options = {"n_evaluations": 300, "method": "random", "storage": directory, "progress": False}
    objective = NotesItsNode(1.5, str(notes), str(tmp_path / "over"))
    running = threading.Thread(target=lambda: found.append(run(objective, SPACE, 3, **options)))
    running.start()
    removals = Removals(*cluster, notes, running)
    try:
        for number in range(5):
            removals.remove(replace=number < 4)
    finally:
        (tmp_path / "over").touch()
        running.join()
    [result] = found
    assert max(removals.back) < 60.0
    assert result.stopped == "finished"
    assert sorted(o.id for o in result.observations) == list(range(300))
    assert {o.status for o in result.observations} == {"ok"}
    assert result.to_dataframe()["attempts"].max() >= 2
    assert_sound(directory)


# Counting slots, without Ray.


def node(alive=True, **resources):
    return {"Alive": alive, "Resources": resources}


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({}, 7),
        ({"CPU": 2}, 3),
        ({"CPU": 0.5}, 14),
        ({"GPU": 1}, 2),
        ({"CPU": 0, "GPU": 0.5}, 4),
        ({"CPU": 0}, 7),
        ({"CPU": 1, "memory": 6e9}, 1),
        ({"tpu": 1}, 0),
    ],
)
def test_slots_are_what_fits_on_living_nodes(needs, expected):
    nodes = [node(CPU=4.0, memory=8e9), node(CPU=3.0, GPU=2.0), node(alive=False, CPU=64.0)]
    assert capacity(nodes, check_resources(needs)) == expected


def test_resources_become_options_of_a_task():
    needs = check_resources({"GPU": 1, "memory": 1e9, "big-disk": 0.5})
    assert task_options(needs) == {
        "num_cpus": 1.0,
        "num_gpus": 1.0,
        "memory": 1_000_000_000,
        "resources": {"big-disk": 0.5},
    }


def test_a_need_that_no_machine_meets_is_refused_on_a_local_ray(monkeypatch):
    monkeypatch.setattr(ray, "nodes", lambda: [node(CPU=2.0)])
    assert Slots(check_resources({"GPU": 1}), None, local=False).count == 1
    with pytest.raises(InvalidInput, match=r"offers \{'CPU': 2.0\}"):
        Slots(check_resources({"GPU": 1}), None, local=True)
