"""What the pages of the documentation hold."""

from __future__ import annotations

import re


def blocks_of(page: str) -> list[tuple[str, str]]:
    """The fenced blocks of a Markdown page, in order: language, "" without one, and content."""
    return re.findall(r"^```(\S*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
