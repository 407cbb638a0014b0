"""The runs of a folder, held ready for a page that asks for them every few seconds.

A journal is read again only when its size or its time has changed. The best value takes the model,
so one thread works it out in the background, the newest run first, and rests nine times as long as
a run took: whoever watches does not hold up the runs that are watched. Summaries are small; of
pages only the last few are kept, and no optimizer.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from drbqo_ray.errors import DrbqoError, InvalidInput
from drbqo_ray.report.page import render_page
from drbqo_ray.runtime.comparison import compare
from drbqo_ray.runtime.run_report import journal_facts
from drbqo_ray.storage.journal import JOURNAL
from drbqo_ray.storage.listing import HeldLocks, RunSummary, judged, places, summarize
from drbqo_ray.storage.location import RunLocation
from drbqo_ray.storage.mirror import is_object_store

PAUSE_SECONDS, STORE_PAUSE_SECONDS = 0.5, 15.0
RESTS = 9.0
MOST_PAGES = 8
MOST_COMPARED = 12
Stamp = tuple[int, int, bool]


@dataclass
class _Entry:
    """One run: where it is, what was read of it, and of which journal."""

    place: RunLocation
    summary: RunSummary
    stamp: Stamp
    due: float = 0.0


@dataclass(frozen=True)
class _Page:
    """A page, the journal it was made of, and until when it will do."""

    stamp: str
    body: bytes
    rests_until: float


class Shelf:
    """The runs at or below a folder or an address.

    Args:
        storage: the folder, which may be made later, or the address of an object store.
    """

    def __init__(self, storage: str | Path) -> None:
        self._storage = str(storage)
        self._remote = is_object_store(self._storage)
        self._pause = STORE_PAUSE_SECONDS if self._remote else PAUSE_SECONDS
        self._entries: dict[str, _Entry] = {}
        self._pages: OrderedDict[str, _Page] = OrderedDict()
        self._looked = float("-inf")
        self._trouble: str | None = None
        self._guard, self._making = threading.Lock(), threading.Lock()
        self._wanted, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._judge_on, name="judging", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop working in the background."""
        self._closed.set()
        self._wanted.set()
        self._thread.join()

    def listing(self) -> dict[str, Any]:
        """All runs as plain data, the one written last first."""
        with self._guard:
            self._look()
            found = [(id, entry.summary) for id, entry in self._entries.items()]
            trouble = self._trouble
        found.sort(key=lambda pair: (-pair[1].modified, pair[1].name))
        runs = [{"id": id, **_shown(summary)} for id, summary in found]
        return {"storage": self._storage, "trouble": trouble, "runs": runs}

    def version(self, id: str) -> str:
        """A word that changes whenever the page of a run does; LookupError without such a run."""
        place = self._place(id)
        page = self._pages.get(id)
        if page is not None and monotonic() < page.rests_until:
            return page.stamp
        return _word(place)

    def page(self, id: str) -> bytes:
        """The report of a run; LookupError without such a run, DrbqoError when it has none."""
        place, name = self._place(id), self._entries[id].summary.name
        with self._making:
            version = self.version(id)
            page = self._pages.get(id)
            if page is None or page.stamp != version:
                start = monotonic()
                facts = journal_facts(place.directory, name)
                body = render_page(facts, version).encode("utf-8")
                now = monotonic()
                page = _Page(version, body, now + RESTS * (now - start))
                self._pages[id] = page
            self._pages.move_to_end(id)
            while len(self._pages) > MOST_PAGES:
                self._pages.popitem(last=False)
            return page.body

    def comparison(self, ids: list[str]) -> dict[str, Any]:
        """Some runs beside each other as plain data; LookupError for one that is not there."""
        if not 1 <= len(ids) <= MOST_COMPARED:
            raise InvalidInput(
                f"1 to {MOST_COMPARED} runs are compared at a time.", len(ids), "Choose fewer."
            )
        found = [(self._entry(id).summary.name, self._place(id)) for id in ids]
        with self._making:
            return compare(found).to_dict()

    def _entry(self, id: str) -> _Entry:
        with self._guard:
            self._look()
            return self._entries[id]

    def _place(self, id: str) -> RunLocation:
        return self._entry(id).place

    def _look(self) -> None:
        """Bring the entries up to what is on disk, at most every so often."""
        if monotonic() - self._looked < self._pause:
            return
        locks, entries = HeldLocks(), {}
        try:
            found = places(self._storage)
            self._trouble = None
        except DrbqoError as error:
            missing = not self._remote and not Path(self._storage).expanduser().exists()
            found, self._trouble = [], "The folder does not exist yet." if missing else str(error)
        for name, place in found:
            id = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            stamp = _stamp(place, locks)
            known = self._entries.get(id)
            if known is None or known.stamp != stamp:
                known = _fresh(place, name, stamp, locks, known)
            entries[id] = known
        self._entries = entries
        self._looked = monotonic()
        self._wanted.set()

    def _judge_on(self) -> None:
        while not self._closed.is_set():
            self._wanted.wait()
            self._wanted.clear()
            while (next_one := self._next()) is not None and not self._closed.is_set():
                id, entry = next_one
                start = monotonic()
                summary = judged(entry.summary)
                spent = monotonic() - start
                with self._guard:
                    now = self._entries.get(id)
                    if now is not None:
                        now.summary = replace(
                            now.summary,
                            best=summary.best,
                            best_config=summary.best_config,
                            note=summary.note,
                            judged=now.stamp == entry.stamp,
                        )
                        going = summary.state in ("running", "open")
                        now.due = monotonic() + (RESTS * spent if going else 0.0)

    def _next(self) -> tuple[str, _Entry] | None:
        """The newest run that is to be judged and has rested."""
        with self._guard:
            waiting = [
                (id, replace(entry))
                for id, entry in self._entries.items()
                if not entry.summary.judged and entry.due <= monotonic()
            ]
        return max(waiting, key=lambda pair: pair[1].summary.modified, default=None)


def _fresh(
    place: RunLocation, name: str, stamp: Stamp, locks: HeldLocks, before: _Entry | None
) -> _Entry:
    """A run read again; its best value stays until there is a new one."""
    summary = summarize(place, name, locks)
    if summary.kind != "run" or summary.state == "unreadable":
        summary = replace(summary, judged=True)
    elif before is not None and not summary.judged:
        earlier = before.summary
        summary = replace(summary, best=earlier.best, best_config=earlier.best_config)
    return _Entry(place, summary, stamp, 0.0 if before is None else before.due)


def _stamp(place: RunLocation, locks: HeldLocks) -> Stamp:
    try:
        found = (place.directory / JOURNAL).stat()
    except OSError:
        return (-1, -1, False)
    return found.st_size, found.st_mtime_ns, locks.state_of(place.directory) == "running"


def _word(place: RunLocation) -> str:
    size, modified, _ = _stamp(place, HeldLocks())
    return f"{size}-{modified}"


def _shown(summary: RunSummary) -> dict[str, Any]:
    plain = summary.to_dict()
    return {name: value for name, value in plain.items() if name != "path"}
