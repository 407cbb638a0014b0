"""What the journals of finished cells say: the reports along each trace, and their worth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drbqo_ray.errors import JournalError
from drbqo_ray.experiments.cell import Cell
from drbqo_ray.experiments.problems import Judgment
from drbqo_ray.records import Config
from drbqo_ray.storage.changes import refuse_changes
from drbqo_ray.storage.journal import JOURNAL, JournalRecord, read_journal


@dataclass(frozen=True)
class FinishedCell:
    """A cell that was run to its end.

    Attributes:
        reports: by label, the number of the reported config at t = 0 .. horizon.
        judgments: what the reported configs are worth, by number.
        configs: the reported configs, by number.
        commit: the code that finished it; None in journals that do not say.
    """

    reports: dict[str, list[int]]
    judgments: dict[int, Judgment]
    configs: dict[int, Config]
    commit: str | None = None


def is_finished(cell: Cell, storage: Path) -> bool:
    """Whether the journal of a cell has its last record."""
    records = _records(cell, storage)
    return bool(records) and records[-1].kind == "finish"


def read_cell(cell: Cell, storage: Path) -> FinishedCell:
    """The content of the journal of a finished cell.

    Raises:
        JournalError: the cell is not finished, or its journal is damaged.
    """
    records = _records(cell, storage)
    if not records or records[-1].kind != "finish":
        raise JournalError(
            f"The cell {cell.name} is not finished. Give the command that runs the experiment"
            " again; it goes on where it stopped."
        )
    along = [record.data["reports"] for record in records if "reports" in record.data]
    reports = {label: [step[label] for step in along] for label in cell.reports}
    finish = records[-1].data
    judged = {int(k): data for k, data in finish["judged"].items()}
    judgments = {k: _judgment(data["contexts"], data["test_error"]) for k, data in judged.items()}
    configs = {k: data["config"] for k, data in judged.items()}
    return FinishedCell(reports, judgments, configs, finish.get("commit"))


def _judgment(contexts: list[float] | None, test_error: float | None) -> Judgment:
    return Judgment(None if contexts is None else tuple(contexts), test_error)


def _records(cell: Cell, storage: Path) -> list[JournalRecord]:
    """The records of a cell, none if it was never begun."""
    path = cell.directory(storage) / JOURNAL
    if not path.exists() or path.stat().st_size == 0:
        return []
    header, *records = read_journal(path)
    refuse_changes(header.data["problem"], cell.header(), str(path.parent))
    return records
