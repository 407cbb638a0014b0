"""A local Ray with two CPUs for the tests of one module."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from drbqo_ray.runtime.ray_cluster import protect_token

ROOT = Path(__file__).parents[2]
CONNECTION_OPTIONS = {"log_to_driver": False, "logging_level": "ERROR"}


def workers_find_the_tests() -> None:
    """Ray's processes inherit the environment, whatever directory pytest was started in."""
    path = os.environ.get("PYTHONPATH", "")
    if str(ROOT) not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), path]))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


@contextmanager
def started_ray() -> Iterator[str]:
    """The address of a Ray with two CPUs that nobody is connected to yet."""
    workers_find_the_tests()
    protect_token()
    offer = {"num_cpus": 2, "object_store_memory": 400_000_000, "include_dashboard": False}
    with _unclosed_files_allowed():
        cluster = Cluster(initialize_head=True, head_node_args=offer)
    try:
        yield cluster.address
    finally:
        with _unclosed_files_allowed():
            cluster.shutdown()


@pytest.fixture(scope="module")
def two_cpus(ray_of_the_session: str) -> Iterator[str]:
    """The address of a local Ray that this process is connected to.

    Starting a Ray takes longer than most tests, so all modules of a process use one, each with a
    connection and workers of its own.
    """
    with _unclosed_files_allowed():
        ray.init(address=ray_of_the_session, **CONNECTION_OPTIONS)
    yield ray_of_the_session
    with _unclosed_files_allowed():
        ray.shutdown()


@contextmanager
def _unclosed_files_allowed() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()
