"""Rules that hold for every file of the package: plain data only, nothing that runs text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "drbqo_ray"
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "dill", "shelve", "marshal", "_pickle"}
FORBIDDEN_BUILTINS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_CALLS = {
    "yaml.load",
    "yaml.load_all",
    "yaml.unsafe_load",
    "yaml.unsafe_load_all",
    "yaml.full_load",
    "yaml.full_load_all",
    "joblib.load",
    "ray.cloudpickle.load",
    "ray.cloudpickle.loads",
    "os.system",
    "os.popen",
}
FORBIDDEN_NAMES = {"UnsafeLoader", "FullLoader", "CUnsafeLoader", "CFullLoader"}
# An exception of the user's estimator travels between the processes of one run, as the objective
# does, which reaches local ones through a pipe; nothing on disk is ever unpickled.
ALLOWED = {
    "search_cv/fold_fit.py",
    "runtime/local_executor.py",
    "runtime/local_worker.py",
}


def violations(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            found = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found = {f"{node.module}.{alias.name}" for alias in node.names}
        else:
            found = set()
        if found & FORBIDDEN_CALLS or any(FORBIDDEN_MODULES & set(n.split(".")) for n in found):
            yield f"line {line}: imports {found}"
        if isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_NAMES | {"cloudpickle"}:
            yield f"line {line}: {node.attr}"
        if isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
            yield f"line {line}: {node.id}"
        if isinstance(node, ast.Call):
            yield from _call_violations(node)


def _call_violations(node: ast.Call) -> Iterator[str]:
    name = ast.unparse(node.func)
    options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    if name in FORBIDDEN_BUILTINS | FORBIDDEN_CALLS:
        yield f"line {node.lineno}: calls {name}"
    if name.endswith("torch.load") and options.get("weights_only") != "True":
        yield f"line {node.lineno}: torch.load without weights_only=True"
    if options.get("allow_pickle", "False") != "False":
        yield f"line {node.lineno}: allow_pickle"
    if options.get("shell", "False") != "False":
        yield f"line {node.lineno}: a command through the shell"
    if "dashboard_host" in options:
        yield f"line {node.lineno}: dashboard_host"


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_file_unpickles_or_runs_text(path: Path) -> None:
    if str(path.relative_to(PACKAGE)) not in ALLOWED:
        assert list(violations(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, cloudpickle as cp",
        "from pickle import loads",
        "from ray import cloudpickle",
        "import ray.cloudpickle as p",
        "from joblib import load",
        "import ray\nray.cloudpickle.loads(b)",
        "eval('1')",
        "exec(text)",
        "__import__(name)",
        "yaml.load(text, Loader=yaml.SafeLoader)",
        "yaml.unsafe_load(text)",
        "yaml.parse(text, Loader=yaml.UnsafeLoader)",
        "from yaml import UnsafeLoader\nUnsafeLoader(text)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(text, shell=True)",
        "os.system(text)",
        "ray.init(dashboard_host='0.0.0.0')",
    ],
)
def test_the_gate_sees_what_it_should(source: str) -> None:
    assert list(violations(source))


@pytest.mark.parametrize(
    "source",
    [
        "yaml.safe_load(text)",
        "yaml.compose(text, Loader=yaml.SafeLoader)",
        "torch.load(path, weights_only=True)",
        "np.load(path, allow_pickle=False)",
        "re.compile(text)",
        "model.eval()",
        "json.loads(text)",
        "from joblib import hash",
    ],
)
def test_the_gate_lets_good_code_pass(source: str) -> None:
    assert not list(violations(source))
