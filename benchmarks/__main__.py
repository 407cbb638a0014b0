"""Run the benchmarks and save one table: `python -m benchmarks [--out DIR] [--only NAME ...]`.

Each benchmark runs in a process of its own with one thread. The table goes to DIR/benchmarks.md and
DIR/benchmarks.json, what they print to DIR/NAME.log. A benchmark that is named in --only replaces
its old lines and leaves those of the others in place. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.table import read_lines, save_table
from drbqo_ray.experiments.provenance import provenance

# name -> module and arguments; {out} is the directory of results
JOBS: dict[str, list[str]] = {
    "suggestion": ["speed.suggestion"],
    "scale": ["bench_scale"],
    "simulate": ["simulate", "--check"],
    "quality": ["quality", "--out", "{out}/quality"],
    "model": ["quality.model"],
    "logistic": ["quality.logistic"],
    "stability": ["quality.stability"],
    "environments": ["quality.environments"],
    "runtime": ["runtime.overhead"],
    "journal": ["runtime.journal"],
    "search_cv": ["runtime.adapters", "search_cv"],
    "tune": ["runtime.adapters", "tune"],
    "threads": ["speed.pieces", "threads"],
    "worst_case": ["speed.pieces", "worst_case"],
    "cnn": ["speed.pieces", "cnn"],
    "optuna_pruner": ["quality.optuna_pruner"],
}
LIBRARIES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "ray",
    "torch",
    "gpytorch",
    "botorch",
    "optuna",
    "smac",
)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def run_job(name: str, out: Path) -> bool:
    """Run one benchmark, keep its lines and its output; whether it came to its end."""
    lines, log = out / f"{name}.jsonl", out / f"{name}.log"
    lines.unlink(missing_ok=True)
    module, *options = [part.format(out=out) for part in JOBS[name]]
    command = [sys.executable, "-m", f"benchmarks.{module}", *options]
    command += ["--save", str(lines)]
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    with (
        open(log, "w", encoding="utf-8") as file,
        subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as job,
    ):
        assert job.stdout is not None
        for text in job.stdout:
            print(text, end="", flush=True)
            file.write(text)
    return lines.exists() and len(read_lines(lines)) > 0 and not _crashed(log)


def _crashed(log: Path) -> bool:
    return "Traceback (most recent call last)" in log.read_text("utf-8")


def about() -> dict[str, Any]:
    """Where the table comes from."""
    found = provenance("python -m benchmarks")
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    found["threads"] = "1, pinned"
    found["machine"] = f"{os.cpu_count()} x {_processor()}"
    found["load average"] = f"{os.getloadavg()[0]:.1f} at the end"
    return found


def _processor() -> str:
    try:
        listed = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in listed if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    missing = []
    for name in args.only:
        print(f"\n== {name}", flush=True)
        if not run_job(name, args.out):
            missing.append(name)
    lines = [line for name in JOBS for line in read_lines(args.out / f"{name}.jsonl")]
    page = save_table(args.out, lines, about(), missing)
    missed = [line for line in lines if line.kept is False]
    print(f"\n{len(lines)} lines in {page}; {len(missed)} missed their bound")
    for line in missed:
        print(f"  {line.bench}: {line}")
    if missing:
        print(f"not run to their end: {missing}")
    return min(len(missed) + len(missing), 100)


if __name__ == "__main__":
    sys.exit(main())
