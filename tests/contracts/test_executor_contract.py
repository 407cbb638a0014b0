"""Every executor keeps the contract of `drbqo_ray.testing.executors`."""

from __future__ import annotations

import pytest

from drbqo_ray.runtime import local_executor
from drbqo_ray.testing.executors import ExecutorContract, Opened
from tests.support.local_ray import two_cpus  # noqa: F401


class TestLocal(ExecutorContract):
    @pytest.fixture
    def opened(self) -> Opened:
        return local_executor.open_executor


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("two_cpus")
class TestRay(ExecutorContract):
    @pytest.fixture
    def opened(self) -> Opened:
        from drbqo_ray.runtime import ray_executor

        return ray_executor.open_executor
