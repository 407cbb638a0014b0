"""irace with the folds as instances: a race of configs that drops those a test finds worse.

    apt-get install r-cran-irace

The race runs in R. For every evaluation it sends a line through a socket on this machine and waits
for the cost; when it is over it sends the config it settled on. Floats on a log scale go as their
logarithm, since irace rounds to decimal places, and choices by their position.

irace refuses a budget that is too small for its plan. The plan is its own where the budget allows
it; else it has fewer survivors, then fewer iterations, then a first test after fewer folds.
"""

from __future__ import annotations

import math
import shutil
import socket
import subprocess
import tempfile
from functools import cache
from itertools import product
from pathlib import Path

import drbqo_ray as dr
from benchmarks.quality.learners import Config, Parameters
from benchmarks.quality.peers import Purse

SECONDS = 3600
DIGITS = 10
RACE = r"""
library(irace)
given <- commandArgs(TRUE)
number <- function(i) as.integer(given[i])
line <- socketConnection("127.0.0.1", number(1), open = "r+", blocking = TRUE, timeout = 3600)
say <- function(...) { writeLines(paste(...), line); flush(line) }
values <- function(config) {
  shown <- sapply(config, function(v) if (is.numeric(v)) sprintf("%.12g", v) else as.character(v))
  paste(paste(names(config), shown, sep = "="), collapse = " ")
}
runner <- function(experiment, scenario) {
  say("evaluate", experiment$instance, values(experiment$configuration))
  list(cost = as.numeric(readLines(line, 1)))
}
parameters <- readParameters(text = paste(readLines(given[2]), collapse = "\n"), digits = number(9))
scenario <- list(
  targetRunner = runner, instances = seq_len(number(3)), maxExperiments = number(4),
  seed = number(5), firstTest = number(6), mu = number(6), nbIterations = number(7),
  minNbSurvival = number(8), digits = number(9), deterministic = given[10] == "yes",
  logFile = "", quiet = TRUE)
best <- irace(scenario, parameters)
say("best", values(best[1, parameters$names, drop = FALSE]))
close(line)
"""


class IraceFolds:
    """One race over a whole budget; it minimizes the mean cost over the folds."""

    def __init__(self, purse: Purse, seed: int, most: int) -> None:
        self._purse, self._seed = purse, seed
        self.price = most
        self._best: Config = {}

    def step(self) -> None:
        """Run the race; it may leave some of the budget."""
        with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as door:
            race, table = Path(name) / "race.R", Path(name) / "parameters.txt"
            race.write_text(RACE, "utf-8")
            table.write_text(parameter_table(self._purse.problem.parameters), "utf-8")
            words = [str(race), str(door.getsockname()[1]), str(table), *self._settings()]
            with (
                open(Path(name) / "said", "w+", encoding="utf-8") as said,
                subprocess.Popen(
                    ["Rscript", "--vanilla", *words], stdout=said, stderr=said, cwd=name
                ) as process,
            ):
                self._serve(door, process)
                if process.wait() != 0 or not self._best:
                    said.seek(0)
                    raise RuntimeError(f"irace failed:\n{said.read()[-2000:]}")

    def _settings(self) -> list[str]:
        problem = self._purse.problem
        first, iterations, survivors = plan(self.price, len(problem.parameters), problem.n_folds)
        numbers = [problem.n_folds, self.price, self._seed + 1, first, iterations, survivors]
        return [*map(str, numbers), str(DIGITS), "yes" if problem.expected is None else "no"]

    def _serve(self, door: socket.socket, process: subprocess.Popen[bytes]) -> None:
        """Answer the race until it ends."""
        door.settimeout(1.0)
        while True:
            try:
                line, _ = door.accept()
                break
            except TimeoutError:
                if process.poll() is not None:
                    return
        line.settimeout(SECONDS)
        with line, line.makefile("rw", encoding="utf-8", newline="\n") as stream:
            for text in stream:
                kind, *words = text.split()
                if kind == "best":
                    self._best = self._config(words)
                    return
                if self._purse.spent >= self.price:
                    raise RuntimeError(f"irace wants more than {self.price} folds")
                score = self._purse.fold(self._config(words[1:]), int(words[0]) - 1)
                stream.write(f"{float(self._purse.problem.ceiling - score)!r}\n")
                stream.flush()

    def _config(self, words: list[str]) -> Config:
        """The config that the race wrote as name=value."""
        given = dict(word.split("=", 1) for word in words)
        parameters = self._purse.problem.parameters
        return {name: _value(item, given[name]) for name, item in parameters.items()}

    def recommend(self) -> dict[str, Config]:
        return {"irace": self._best}

    @staticmethod
    @cache
    def is_installed() -> bool:
        """Whether R can load irace."""
        if shutil.which("Rscript") is None:
            return False
        asked = ["Rscript", "--vanilla", "-e", "library(irace)"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def plan(budget: int, d: int, folds: int) -> tuple[int, int, int]:
    """First test, iterations and survivors: irace's own, or the next smaller that its budget pays.

    Zero iterations are irace's own number, and more as long as the budget lasts.

    Args:
        budget: fold evaluations.
        d: number of hyperparameters.
        folds: number of folds; the first test comes after at most so many.
    """
    usual = math.floor(2 + math.log2(d))
    down = range(usual, 1, -1)
    for first, iterations, survivors in product(range(min(5, folds), 1, -1), down, down):
        if _least_budget(first, iterations, survivors) <= budget:
            return first, 0 if iterations == usual else iterations, survivors
    return 2, 2, 1


def _least_budget(first: int, iterations: int, survivors: int) -> int:
    """What irace 3.5 wants for a plan, one new fold before and one after each further test."""
    return (survivors + 1) * iterations * (first + 1 + min(iterations - 1, 5))


def parameter_table(parameters: Parameters) -> str:
    """The hyperparameters as irace reads them: name, switch, type, domain."""
    rows = []
    for name, item in parameters.items():
        if isinstance(item, dr.Choice):
            rows.append(f'{name} "" c ({",".join(map(str, range(len(item.options))))})')
        elif isinstance(item, dr.Int):
            rows.append(f'{name} "" {"i,log" if item.log else "i"} ({item.low}, {item.high})')
        else:
            ends = [math.log10(v) if item.log else v for v in (item.low, item.high)]
            rows.append(f'{name} "" r ({ends[0]:.{DIGITS}f}, {ends[1]:.{DIGITS}f})')
    return "\n".join(rows) + "\n"


def _value(item: dr.Float | dr.Int | dr.Choice, text: str) -> object:
    if isinstance(item, dr.Choice):
        return item.options[int(text)]
    if isinstance(item, dr.Int):
        return int(float(text))
    value = 10.0 ** float(text) if item.log else float(text)
    return min(max(value, item.low), item.high)
