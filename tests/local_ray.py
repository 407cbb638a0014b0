"""A local Ray with two CPUs for the tests of one module."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from drbqo_ray.cluster.connection import protect_token

ROOT = Path(__file__).parent.parent
CLUSTER_OPTIONS = {
    "include_dashboard": False,
    "log_to_driver": False,
    "logging_level": "ERROR",
}


def workers_find_the_tests() -> None:
    """Ray's processes inherit the environment, whatever directory pytest was started in."""
    path = os.environ.get("PYTHONPATH", "")
    if str(ROOT) not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), path]))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[str]:
    """The address of a local Ray that this process is connected to."""
    workers_find_the_tests()
    protect_token()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        ray.init(address="local", num_cpus=2, object_store_memory=400_000_000, **CLUSTER_OPTIONS)
        yield ray.get_runtime_context().gcs_address
        ray.shutdown()
        gc.collect()
