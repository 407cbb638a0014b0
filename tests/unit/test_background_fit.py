"""Fits in a thread of their own: which one is put into use, and when."""

from __future__ import annotations

import pytest

import drbqo_ray as dr
from drbqo_ray.runtime.background import BackgroundFit
from tests.support.optimizer_problems import SPACE, spend


@pytest.fixture(autouse=True)
def fits_of_little_data(monkeypatch):
    monkeypatch.setattr("drbqo_ray.runtime.background.SMALL", 4)


def searched(count: int) -> dr.Optimizer:
    """A search whose next fit is due."""
    opt = dr.Optimizer(SPACE, 3, n_initial=3)
    spend(opt, count)
    return opt


def started(opt: dr.Optimizer) -> BackgroundFit:
    """Fits of which the first is done, and not in use yet."""
    fits = BackgroundFit()
    fits.follow(opt.model, in_background=True)
    assert fits._thread is not None
    fits._thread.join()
    return fits


def size_of(opt: dr.Optimizer) -> int:
    assert opt.last_fit is not None
    return opt.last_fit.size


def test_a_fit_is_put_into_use_once_it_is_done():
    opt = searched(12)
    before = size_of(opt)
    fits = started(opt)
    assert size_of(opt) == before
    fits.follow(opt.model, in_background=True)
    assert size_of(opt) == 12


def test_an_old_fit_does_not_replace_a_newer_one_when_slots_go_and_come_back():
    opt = searched(12)
    fits = started(opt)  # with four slots: a fit to 12 scores
    fits.follow(opt.model, in_background=False)  # one slot: fits are made at once
    spend(opt, 8)
    newer = opt.last_fit
    assert newer is not None
    assert newer.size > 12
    fits.follow(opt.model, in_background=True)  # four again
    assert opt.last_fit is newer


def test_after_an_old_fit_was_left_out_the_next_one_that_is_due_is_made():
    opt = searched(12)
    fits = started(opt)
    fits.follow(opt.model, in_background=False)
    spend(opt, 8)
    fits.follow(opt.model, in_background=True)
    assert fits._thread is not None
    fits._thread.join()
    fits.follow(opt.model, in_background=True)
    assert size_of(opt) == 20


def test_a_fit_that_breaks_is_raised_where_it_is_wanted(monkeypatch):
    opt = searched(12)
    monkeypatch.setattr("drbqo_ray.core.surrogate.Surrogate.fit", lambda *_: 1 / 0)
    fits = started(opt)
    with pytest.raises(ZeroDivisionError):
        fits.follow(opt.model, in_background=True)
