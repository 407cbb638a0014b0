"""The house: which module may know which, how long a file may be, what an import may load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import drbqo_ray.core.sets
from drbqo_ray.core.sets import UncertaintySet

ROOT = Path(__file__).parents[1]
MAX_FILE_LINES = 600  # a file is as long as its idea; from 500 lines on, ask whether it is one
MAX_FUNCTION_LINES = 50

# room -> (its modules, the rooms it may import from besides its own)
BASE = ("words", "space")
MODEL = (*BASE, "threads", "core", "optimizer", "problem")
BESIDE = ("objective", "storage", "screen")
SCREEN = ("terminal", "status", "callbacks", "display")
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
    "optuna": (("optuna_sampler", "optuna_sampler.*"), (*MODEL, "report")),
    "testing": (("testing", "testing.*"), (*MODEL, *BESIDE, "runtime")),
    "search_cv": (("search_cv", "search_cv.*"), (*MODEL, *BESIDE, "runtime", "report")),
    "top": (
        (
            "experiments",
            "experiments.*",
            "plots",
            "dashboard",
            "dashboard.*",
            "trackers",
            "trackers.*",
            "cli",
            "cli.*",
        ),
        (*MODEL, *BESIDE, "report", "runtime", "tune", "optuna", "search_cv"),
    ),
}
RAY_AT_MODULE_LEVEL = ("runtime.*", "tune_searcher.*")
RAY_INSIDE_FUNCTIONS = ("runtime", "tune", "search_cv", "top")
# modules of the report that read panels by name, and which
PANEL_READERS = {
    "report.facts": {"failures", "parameters", "radius", "ranking", "weights"},
    "report.verdict": {"failures", "parameters", "ranking", "weights"},
    "report.page": {"radius"},
}
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


# one judge: configs are judged in optimizer/ and nowhere else


def private_names() -> set[str]:
    """Attributes of an `Optimizer` that start with an underscore."""
    names: set[str] = set()
    for node in ast.walk(tree(ROOT / "drbqo_ray/optimizer/optimizer.py")):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
            names.add(node.attr)
    return {name for name in names if name.startswith("_") and not name.endswith("__")}


def private_reads(module: ast.Module) -> Iterator[str]:
    """Private attributes of an optimizer that a module outside its room reads: of anything that is
    called one, any that only an optimizer has, and those that a subclass of it reaches for."""
    private = private_names()
    heirs = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef) and any("Optimizer" in ast.unparse(b) for b in node.bases)
    ]
    inside_heirs = {inner for heir in heirs for inner in ast.walk(heir)}
    for node in ast.walk(module):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        if node.attr.endswith("__"):
            continue
        owner = ast.unparse(node.value)
        called = owner.rpartition(".")[2].strip("_").endswith(("optimizer", "opt"))
        known = node.attr in private and (owner not in ("self", "cls") or node in inside_heirs)
        if called or known:
            yield f"line {node.lineno}: {owner}.{node.attr}"


OUTSIDE = [
    path
    for path in sources("drbqo_ray", "workers", "examples", "benchmarks")
    if "optimizer" not in path.relative_to(ROOT).parts
]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.stem)
def test_nobody_looks_inside_the_optimizer(path):
    found = list(private_reads(tree(path)))
    assert not found, f"ask its public methods, `scoring` above all: {found}"


@pytest.mark.parametrize(
    "code",
    [
        "self.run.optimizer._history.usable",
        "opt._sign",
        "self._optimizer._search",
        "search.optimizer_._evaluations",
        "found._history",
        "getting(x)._search.scoring()",
        "class Mine(Optimizer):\n    def f(self): return self._history",
    ],
)
def test_a_look_inside_the_optimizer_is_seen(code):
    assert list(private_reads(ast.parse(code)))


def test_looking_at_ones_own_attributes_is_fine():
    code = "class Other(Base):\n    def f(self): return self._history, self._optimizer.ask()"
    assert not list(private_reads(ast.parse(code)))


def test_configs_are_judged_in_one_place():
    """Only the optimizer completes rows of scores; only `scoring` says by which rule."""
    judges = {"drbqo_ray.core.missing_scores", "drbqo_ray.core.missing_scores.ScoreDraws"}
    for path in OURS:
        names = set(all_imports(path))
        if any(name.startswith("drbqo_ray.core.missing_scores") for name in names):
            assert room_of(module_name(path)) == "optimizer", path
        if names & judges:
            assert module_name(path) == "optimizer.scoring", path


def test_readme_and_docstring_name_the_same_function_to_read_first():
    module = tree(ROOT / "drbqo_ray/optimizer/optimizer.py")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for text in (ast.get_docstring(module) or "", readme):
        assert "Start with `Optimizer._ask`" in text
    functions = {node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    assert code_lines(functions["_ask"]) <= 15, "it reads in a minute"


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


RAY_FREE = ("run", "loop", "session", "executor", "local_executor")


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


SETS = sorted(
    path.stem
    for path in (ROOT / "drbqo_ray/core/sets").glob("*.py")
    if path.stem not in ("__init__", "base")
)


def test_a_set_is_one_file_that_holds_one_set():
    for name in SETS:
        module = import_module(f"drbqo_ray.core.sets.{name}")
        own = [
            each
            for each in vars(module).values()
            if isinstance(each, type)
            and issubclass(each, UncertaintySet)
            and each.__module__ == module.__name__
        ]
        assert len(own) == 1, name
        assert "kind" in vars(own[0]), name
        assert own[0].kind.replace("-", "_") == name


def test_reports_and_journals_ask_the_set_and_know_none_by_name():
    names = {name for name in drbqo_ray.core.sets.__all__ if name[0].isupper()}
    kinds = {name.replace("_", "-") for name in SETS}
    for path in sources("drbqo_ray/report", "drbqo_ray/storage"):
        known = {name.rpartition(".")[2] for name in all_imports(path)}
        assert not known & (names - {"UncertaintySet"}), path
        for node in ast.walk(tree(path)):
            text = node.value if isinstance(node, ast.Constant) else None
            assert text not in kinds, f"{path}:{node.lineno}: {text!r}"


def test_pytest_is_imported_only_by_the_contract_suites():
    for path in OURS:
        if "pytest" in {package_of(name) for name in all_imports(path)}:
            assert room_of(module_name(path)) == "testing", path


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's body, docstring left out: the formatter alone decides the head."""
    assert function.end_lineno is not None
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


PANELS = [path for path in sources("drbqo_ray/report/panels") if not path.stem.startswith("_")]


@pytest.mark.parametrize("path", PANELS, ids=lambda path: path.stem)
def test_a_panel_is_one_file(path):
    """Its module holds all of it under its own name, and knows of other panels only the ranking."""
    (panel,) = [
        n for n in tree(path).body if isinstance(n, ast.ClassDef) and n.name.endswith("Panel")
    ]
    words = {n.value for n in ast.walk(panel) if isinstance(n, ast.Constant)}
    assert path.stem in words, "the key of a panel is the name of its module"
    assert {"gather"} <= {n.name for n in panel.body if isinstance(n, ast.FunctionDef)}
    others = set(panels_read(path)) - {"ranking", path.stem}
    assert not others, others


def test_no_other_module_knows_a_panel_by_name():
    names = {path.stem for path in PANELS}
    for path in OURS:
        if path in PANELS or path.parent.name == "panels":
            continue
        module = module_name(path)
        allowed = PANEL_READERS.get(module, set())
        read = set(panels_read(path)) | {name for name in names if looks_up(path, name)}
        assert read <= allowed, f"{module}: {read - allowed}"
    page = (ROOT / "drbqo_ray/report/page.html").read_text(encoding="utf-8")
    assert not [name for name in names if f'"{name}"' in page]


def looks_up(path: Path, panel: str) -> bool:
    """Whether a module asks for a panel by its key: parts[key], part(key), or key == it."""
    asked = [f"parts['{panel}']", f"part('{panel}')", f"key == '{panel}'"]
    text = ast.unparse(tree(path))
    return any(words in text for words in asked)


def panels_read(path: Path) -> Iterator[str]:
    """Names of the modules of report.panels that a module imports."""
    before = "drbqo_ray.report.panels."
    for name in all_imports(path):
        if name.startswith(before) and name != f"{before}all_panels":
            yield name.removeprefix(before).partition(".")[0]


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


def test_the_walk_of_an_evaluation_names_functions_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    hops = re.findall(r"`((?:runtime|optimizer|storage)/\w+\.py)` `([\w.]+)`", page)
    assert len(hops) >= 11
    for file, name in hops:
        found = {
            f"{owner.name}.{node.name}"
            for owner in ast.walk(tree(ROOT / "drbqo_ray" / file))
            if isinstance(owner, ast.ClassDef)
            for node in owner.body
            if isinstance(node, ast.FunctionDef)
        }
        found |= {
            node.name
            for node in tree(ROOT / "drbqo_ray" / file).body
            if isinstance(node, ast.FunctionDef)
        }
        assert name in found, f"{file} has no {name}"


def test_the_walk_of_an_evaluation_is_short():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\| \d+ \|", page, flags=re.MULTILINE)) <= 12
