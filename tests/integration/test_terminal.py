"""The command line in a real terminal: what is seen while folds fail and Ctrl-C is pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from tests.support.screen import lines_on_screen

ROOT = Path(__file__).parents[2]
COLUMNS = 100
OBJECTIVE = """import time

def moody(config, fold, seed):
    time.sleep(0.1)
    if int(1000 * config["x"]) % 6 == 0:
        raise ValueError("the rows hold\\n  a NaN")
    return 1 - (config["x"] - 0.3) ** 2
"""


class TerminalOf:
    """A process whose input and output are a terminal."""

    def __init__(self, command: list[str], directory: Path, environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        _keep_output_at_ctrl_c(slave)
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.written = ""

    def read_until(self, pattern: str, seconds: float = 90.0) -> None:
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.written):
            assert time.monotonic() < deadline, self.written[-3000:]
            if not self._read():
                assert re.search(pattern, self.written), self.written[-3000:]

    def read_to_the_end(self) -> None:
        while self._read():
            pass
        self.process.wait(timeout=30)

    def press_ctrl_c(self) -> None:
        os.write(self._master, b"\x03")

    def _read(self) -> bool:
        if select.select([self._master], [], [], 1.0)[0]:
            try:
                piece = os.read(self._master, 65536).decode(errors="replace")
            except OSError:  # how Linux says that the other end is closed
                return False
            self.written += piece.replace("\r\n", "\n")
        return True

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


def _keep_output_at_ctrl_c(terminal: int) -> None:
    """On Ctrl-C the kernel throws away what nobody has read yet: half a drawing, now and then."""
    modes = termios.tcgetattr(terminal)
    modes[3] |= termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, modes)


def test_failures_and_ctrl_c_scroll_above_one_bar(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OBJECTIVE)
    (tmp_path / "space.yaml").write_text("x: float 0 1\n")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_") and k != "COLUMNS"}
    mine = {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    command = "run --objective mine:moody --space space.yaml --folds 4 --evaluations 1000"
    command += " --storage runs/HEAD --method random --max-in-flight 2"
    terminal = TerminalOf(
        [sys.executable, "-m", "drbqo_ray.cli.main", *command.split()], tmp_path, kept | mine
    )
    try:
        terminal.read_until("starting Ray")
        terminal.read_until(r"HEAD.*0/1000")
        terminal.read_until(r"(?s)(Evaluation \d+ \(fold \d\) failed.*){4}")
        terminal.read_until("config")
        terminal.press_ctrl_c()
        terminal.read_to_the_end()
    finally:
        terminal.close()
    assert terminal.process.returncode == 130
    seen = lines_on_screen(terminal.written, COLUMNS)
    text = "\n".join(seen)
    heads = re.findall(r"^HEAD  ━*─*  (\d+)/1000  \d+ s$", text, re.M)
    assert len(heads) == 1, text
    assert text.count("HEAD  ") == 1, text
    assert "starting Ray" not in text
    failures = re.findall(r"^Evaluation (\d+) \(fold \d\) failed: ", text, re.M)
    assert len(failures) == len(set(failures)) >= 4, text
    assert text.count(" failed: ValueError: the rows hold a NaN\n") == len(failures)
    assert text.count("Traceback (most recent call last)") == 1
    assert text.count("Stopping: running folds get a moment to end.") == 1
    found = re.search(r"^per fold  (\d+) (\d+) (\d+) (\d+)$", text, re.M)
    assert found is not None, text
    assert sum(int(count) for count in found.groups()) == int(heads[0])
    assert re.search(r"^config    x=0\.\d+$", text, re.M), text
    assert terminal.written.count("\x1b[?25l") == terminal.written.count("\x1b[?25h")
