"""The house: which module may know which, how long a file may be, what an import may load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_FILE_LINES = 600  # a file is as long as its idea; from 500 lines on, ask whether it is one
MAX_FUNCTION_LINES = 50

# room -> (its modules, the rooms it may import from besides its own)
BASE = ("words", "space")
MODEL = (*BASE, "threads", "core", "optimizer", "problem")
BESIDE = ("objective", "storage", "screen")
SCREEN = ("terminal", "tally", "coverage", "live_region", "display")
ROOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "words": (("errors", "types", "records"), ()),
    "threads": (("threads",), ("words",)),
    "space": (("space", "space.*"), ("words",)),
    "core": (("core", "core.*"), (*BASE, "threads")),
    "optimizer": (("optimizer", "optimizer.*"), (*BASE, "threads", "core")),
    "objective": (("objective",), ("words",)),
    "problem": (("problem",), (*BASE, "core", "optimizer", "objective")),
    "storage": (("storage", "storage.*"), MODEL),
    "screen": (
        tuple(f"runtime.{name}{rest}" for name in SCREEN for rest in ("", ".*")),
        ("words",),
    ),
    "report": (("report", "report.*"), (*MODEL, "screen")),
    "runtime": (("runtime", "runtime.*"), (*MODEL, *BESIDE, "report")),
    "tune": (("tune_searcher", "tune_searcher.*"), (*MODEL, *BESIDE, "report")),
    "testing": (("testing", "testing.*"), (*MODEL, *BESIDE, "runtime")),
    "search_cv": (("search_cv", "search_cv.*"), (*MODEL, *BESIDE, "runtime", "report")),
    "top": (
        ("experiments", "experiments.*", "plots", "cli", "cli.*"),
        (*MODEL, *BESIDE, "report", "runtime", "tune", "search_cv"),
    ),
}
RAY_AT_MODULE_LEVEL = ("runtime.*", "tune_searcher.*")
RAY_INSIDE_FUNCTIONS = ("runtime", "tune", "search_cv", "top")
# what pure mathematics has no business with
WORLDLY = {"ray", "os", "io", "pathlib", "time", "datetime", "random", "json", "subprocess"}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def sources(*packages: str) -> list[Path]:
    return sorted(path for name in packages for path in (ROOT / name).rglob("*.py"))


def module_name(path: Path) -> str:
    """Dotted name below its package, e.g. core.gp; empty for the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(part for part in parts if part != "__init__")


def imported(node: ast.AST) -> Iterator[str]:
    """Full names a statement imports: packages, modules, and names out of modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def all_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        yield from imported(node)


def imports_at_load(node: ast.AST) -> Iterator[str]:
    """What is imported when the module is: all but function bodies and TYPE_CHECKING blocks."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield from imported(child)
        yield from imports_at_load(child)


def package_of(name: str) -> str:
    return name.partition(".")[0]


def room_of(module: str) -> str | None:
    for room, (patterns, _) in ROOMS.items():
        if any(fnmatch(module, pattern) for pattern in patterns):
            return room
    return None


def target_room(name: str) -> str | None:
    """Room of the module that an imported name drbqo_ray.a.b comes from."""
    inner = name.removeprefix("drbqo_ray.")
    return room_of(inner) or room_of(inner.rpartition(".")[0])


OURS = [path for path in sources("drbqo_ray") if module_name(path)]
ids = [module_name(path) for path in OURS]


def test_every_module_has_a_room():
    homeless = [name for name in ids if room_of(name) is None]
    assert not homeless, f"give them a room in {Path(__file__).name}: {homeless}"


@pytest.mark.parametrize("path", OURS, ids=ids)
def test_a_module_imports_only_from_rooms_it_may_know(path):
    room = room_of(module_name(path))
    assert room is not None
    allowed = {room, *ROOMS[room][1]}
    ours = [name for name in all_imports(path) if name.startswith("drbqo_ray.")]
    wrong = [name for name in ours if target_room(name) not in allowed]
    assert not wrong, f"{room} may know {sorted(allowed)}, not {wrong}"
    if room != "top":
        assert "drbqo_ray" not in all_imports(path), "the package itself knows every room"


def test_few_modules_lie_loose_at_the_root():
    loose = [path.name for path in (ROOT / "drbqo_ray").glob("*.py")]
    assert len(loose) <= 8, sorted(loose)


def test_no_line_is_kept_from_the_formatter():
    for path in sources("drbqo_ray", "workers", "benchmarks", "examples", "tests"):
        assert "# fmt: " + "skip" not in path.read_text(encoding="utf-8"), path


def test_no_arrow_points_up():
    order = list(ROOMS)
    for room, (_, known) in ROOMS.items():
        assert all(order.index(other) < order.index(room) for other in known), room


def test_relative_imports_are_not_used():
    for path in sources("drbqo_ray", "workers"):
        for node in ast.walk(tree(path)):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path


def test_ray_is_imported_only_in_the_runtime_and_the_tune_adapter():
    for path in OURS:
        module = module_name(path)
        if any(package_of(name) == "ray" for name in imports_at_load(tree(path))):
            assert any(fnmatch(module, pattern) for pattern in RAY_AT_MODULE_LEVEL), module
        if any(package_of(name) == "ray" for name in all_imports(path)):
            assert room_of(module) in RAY_INSIDE_FUNCTIONS, module


RAY_FREE = ("run", "run_many", "loop", "session", "folds", "executor", "local_executor")


@pytest.mark.parametrize("module", RAY_FREE)
def test_there_is_one_loop_for_all_executors_and_it_does_not_know_ray(module):
    path = ROOT / "drbqo_ray" / "runtime" / f"{module}.py"
    known = {package_of(name) for name in all_imports(path)}
    assert "ray" not in known
    ours = {name for name in all_imports(path) if name.startswith("drbqo_ray.runtime")}
    assert not [name for name in ours if name.split(".")[2] in ("actor", "ray_executor")]


@pytest.mark.parametrize("room", ["runtime", "report", "search_cv", "cli", "plots"])
def test_a_run_is_read_by_the_one_replay(room):
    """Whoever wants to know a run asks `stored_run`, and sees a `ReplayedRun`, never records."""
    for path in OURS:
        if module_name(path).partition(".")[0] == room:
            names = {name.rpartition(".")[2] for name in all_imports(path)}
            assert not names & {"read_journal", "JournalRecord"}, path


def test_one_module_waits_for_ray_and_its_tasks():
    """Whoever would write a second loop over Ray's tasks in `runtime` is caught here."""
    waiting = [
        path.stem
        for path in sources("drbqo_ray/runtime")
        if "ray.wait(" in path.read_text(encoding="utf-8")
    ]
    assert waiting == ["ray_executor"]


def test_torch_is_imported_only_inside_functions():
    for path in sources("drbqo_ray"):
        heavy = {package_of(name) for name in imports_at_load(tree(path))}
        assert not heavy & {"torch", "gpytorch", "botorch"}, path


@pytest.mark.parametrize(("package", "other"), [("workers", "drbqo_ray"), ("drbqo_ray", "workers")])
def test_workers_and_the_package_never_import_each_other(package, other):
    for path in sources(package):
        assert other not in {package_of(name) for name in all_imports(path)}, path


def test_workers_are_a_namespace_package():
    assert not (ROOT / "workers" / "__init__.py").exists()


@pytest.mark.parametrize("path", sources("drbqo_ray/core"), ids=lambda path: path.stem)
def test_the_core_knows_no_files_clocks_or_global_random_state(path):
    assert not {package_of(name) for name in all_imports(path)} & WORLDLY
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = ast.unparse(node.func)
            assert not called.startswith("np.random."), f"{path}: {called}"
            assert called != "open"


@pytest.mark.parametrize("path", sources("drbqo_ray", "workers"), ids=lambda path: path.stem)
def test_files_and_functions_are_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert code_lines(node) <= MAX_FUNCTION_LINES, f"{path}: {node.name}"


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's body, docstring left out: the formatter alone decides the head."""
    assert function.end_lineno is not None
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


def test_a_worker_loads_little_of_us():
    code = (
        "import sys, drbqo_ray.runtime.tasks, drbqo_ray.runtime.local_worker;"
        "print([m for m in ('ray', 'scipy', 'pandas', 'cloudpickle') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"


def test_importing_the_package_loads_neither_ray_nor_torch_nor_sklearn():
    code = (
        "import sys, drbqo_ray;"
        "drbqo_ray.Optimizer, drbqo_ray.Space, drbqo_ray.ChiSquareBall;"
        "print([m for m in ('ray', 'torch', 'gpytorch', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"
