"""Run every benchmark in turn: `OMP_NUM_THREADS=1 python -m benchmarks`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    failed = []
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        print(f"\n== {path.stem}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{path.stem}"]).returncode:
            failed.append(path.stem)
    print(f"\nmissed their budget or failed: {failed}" if failed else "\nall done")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
