"""A ledger on Ray that brings home what the score of a fold leaves out.

The runtime returns one number per fold. Times, further metrics and exceptions travel beside it:
a worker writes them here, pickled, before it returns the number, and the driver takes them out
when the outcome is acknowledged. The module imports nothing heavy, so its process starts quickly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class FoldLedger:
    """Pickled entries that wait to be fetched, by the seed and the fold of their suggestion."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, int], bytes] = {}

    def write(self, seed: int, fold: int, entry: bytes) -> None:
        """Keep an entry."""
        self._entries[seed, fold] = entry

    def take(self, seed: int, fold: int) -> bytes | None:
        """Hand an entry over, None when there is none."""
        return self._entries.pop((seed, fold), None)


@contextmanager
def open_ledger() -> Iterator[Any]:
    """Handle of a ledger on the driver's node for the time of the block; it needs no CPU."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    ledger = ray.remote(num_cpus=0, scheduling_strategy=here)(FoldLedger).remote()
    try:
        yield ledger
    finally:
        ray.kill(ledger)
