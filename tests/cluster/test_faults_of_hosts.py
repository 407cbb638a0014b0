"""Runs on a cluster of hosts with networks of their own, while links fail.

After each fault: every suggestion is answered once, whatever was acknowledged is in the journal,
the journal is what a fresh optimizer makes of it, and the time lost is bounded.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter

import pytest

from tests.cluster.lab import Lab, why_not
from tests.support.journal_checks import assert_sound, records_of

WORKERS, EVALUATIONS, BEFORE = 3, 60, 9
RUN_SECONDS = 150.0
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def lab():
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the hosts go, whatever ends us
    lab = Lab(WORKERS)
    try:
        lab.start()
        yield lab
    finally:
        lab.close()


def cut(host, seconds):
    host.set_link(cut=True)
    time.sleep(seconds)
    host.set_link(cut=False)


def slow_and_lossy(lab):
    for host in lab.workers:
        host.set_link(delay=0.1, loss=0.05)


FAULTS = {
    "none": (lambda lab: None, 15.0),
    "link of a worker cut 5 s": (lambda lab: cut(lab.workers[0], 5), 20.0),
    "link of a worker cut 15 s": (lambda lab: cut(lab.workers[0], 15), 20.0),
    "link of the driver cut 20 s": (lambda lab: cut(lab.driver, 20), 40.0),
    "200 ms and 5 % loss each way": (slow_and_lossy, 60.0),
}


def acknowledged(lab, log):
    lines = [line.split() for line in lab.log(log).splitlines()]
    return [(int(w[1]), float(w[2])) for w in lines if len(w) == 3 and w[0] == "ack"]


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_or_doubled_and_the_time_lost_is_bounded(lab, fault, record_property):
    inject, allowed = FAULTS[fault]
    tag = f"run{list(FAULTS).index(fault)}"
    directory, calls = lab.directory / tag, lab.directory / f"{tag}-calls"
    calls.mkdir()
    words = [sys.executable, "-m", "tests.cluster.driver", str(directory), str(calls)]
    words += [str(EVALUATIONS), "1"]
    driver = lab.driver.start(*words, log=tag, RAY_ADDRESS=lab.gcs)
    try:
        while len(acknowledged(lab, tag)) < BEFORE:
            assert driver.poll() is None, lab.log(tag)
            time.sleep(0.1)
        inject(lab)
        assert driver.wait(RUN_SECONDS) == 0, lab.log(tag)
    finally:
        lab.heal()
        if driver.poll() is None:
            lab.driver.signal(9, lab.driver.processes("tests.cluster.driver"))
            driver.wait()
    acks = acknowledged(lab, tag)
    told = [record["id"] for record in records_of(directory, "tell", "fail")]
    assert sorted(told) == list(range(EVALUATIONS))
    assert Counter(number for number, _ in acks) == Counter(told)
    assert not records_of(directory, "conflict", "fail")
    assert_sound(directory)
    lost = acks[-1][1] - acks[0][1] - (EVALUATIONS - 1) / WORKERS
    record_property("seconds lost", round(lost, 1))
    print(f"{fault}: {lost:.1f} s lost")
    assert lost <= allowed
