"""The ground that all tests stand on: settings of the process, and one Ray for all modules."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("drbqo_ray.testing")
# One thread for numerical libraries: the suite runs on few cores, beside Ray's processes.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("RAY_AUTH_MODE", "token")  # read when Ray is imported
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so, and the processes that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.disable()  # importing and collecting thousands of tests makes many objects and no garbage


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def ray_of_the_session() -> Iterator[str]:
    """The address of a Ray that is started for the first module that asks for it."""
    from tests.support.local_ray import started_ray

    with started_ray() as address:
        yield address
