"""A terminal for tests: a stream that says what a person would see."""

from __future__ import annotations

import io
import re

_PIECE = re.compile(r"\x1b\[([0-9;?]*)([a-zA-Z])|(\r)|(\n)|([^\x1b\r\n]+)")


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def lines_on_screen(written: str, columns: int = 80) -> list[str]:
    """The lines of a terminal after all this was written to it, from the first one ever shown.

    Knows what rich's live displays use: cursor up, erase line, colors, and lines that wrap.
    """
    rows: list[str] = [""]
    row = column = 0
    for codes, letter, back, down, text in _PIECE.findall(written):
        if back:
            column = 0
        elif down:
            row, column = row + 1, 0
        elif letter == "A":
            row = max(row - int(codes or 1), 0)
        elif letter == "K":
            assert codes == "2"
            rows[row] = ""
        elif letter:
            assert letter in "mhl", letter
        for character in text:
            if column == columns:
                row, column = row + 1, 0
            rows += [""] * (row + 1 - len(rows))
            rows[row] = rows[row].ljust(column)[:column] + character + rows[row][column + 1 :]
            column += 1
        rows += [""] * (row + 1 - len(rows))
    return [line.rstrip() for line in rows]
