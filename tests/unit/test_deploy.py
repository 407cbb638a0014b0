"""The files that bring a run to a cluster: each is valid, safe and of one version."""

from __future__ import annotations

import copy
import logging
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import jsonschema
import numpy as np
import pytest
import yaml

from drbqo_ray.cli.main import cli
from drbqo_ray.objective import load_objective
from drbqo_ray.space.file import parse_space

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cluster.md").read_text()
CLUSTER = yaml.safe_load((ROOT / "cluster.yaml").read_text())
RAYJOB, CLAIM = yaml.safe_load_all((ROOT / "deploy" / "rayjob.yaml").read_text())
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
SLURM = ROOT / "deploy" / "slurm.sh"
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
)


def validate(config: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    logging.getLogger("ray.autoscaler._private.util").setLevel(logging.WARNING)
    validate_config(prepare_config(copy.deepcopy(config)))


def test_the_cluster_file_is_valid_for_the_launcher_of_ray() -> None:
    validate(CLUSTER)


@pytest.mark.parametrize("change", [{"workers": 3}, {"max_workers": "8"}, {"docker": []}])
def test_the_launcher_would_see_a_mistake(change: dict[str, Any]) -> None:
    with pytest.raises((jsonschema.ValidationError, AttributeError)):
        validate(CLUSTER | change)


def test_the_cluster_asks_for_a_token_and_keeps_its_dashboard_to_itself() -> None:
    assert "--env RAY_AUTH_MODE=token" in CLUSTER["docker"]["run_options"]
    assert CLUSTER["file_mounts"]["/home/ray/.ray/auth_token"] == "~/.ray/auth_token"
    starts = [c for c in CLUSTER["head_start_ray_commands"] if "--head" in c]
    assert all("--dashboard-host=127.0.0.1" in command for command in starts)
    assert starts


def test_no_file_opens_the_dashboard_to_the_network() -> None:
    for path in [ROOT / "cluster.yaml", *(ROOT / "deploy").iterdir(), ROOT / "docs/cluster.md"]:
        hosts = re.findall(r"dashboard[-_]host[=: '\"]*([^\s'\",]+)", path.read_text())
        assert set(hosts) <= {"127.0.0.1", "localhost"}, path


def test_every_image_has_the_pinned_version_of_ray() -> None:
    tag = f"rayproject/ray:{PINS['ray']}-py311-cpu"
    assert CLUSTER["docker"]["image"] == tag
    assert re.findall(r"^FROM (.*)$", DOCKERFILE, re.MULTILINE) == [tag]
    assert RAYJOB["spec"]["rayClusterSpec"]["rayVersion"] == PINS["ray"]


def test_both_recipes_install_under_the_constraints() -> None:
    assert "torch" in PINS
    assert "pip install --no-cache-dir --constraint constraints.txt" in DOCKERFILE
    (install,) = [c for c in CLUSTER["setup_commands"] if c.startswith("pip install")]
    assert "--constraint /home/ray/project/constraints.txt" in install


def test_the_image_recipe_copies_files_that_exist() -> None:
    for line in re.findall(r"^COPY --chown=\S+ (.*)$", DOCKERFILE, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists(), name


RAYJOB_FIELDS = {
    "entrypoint",
    "runtimeEnvYAML",
    "backoffLimit",
    "activeDeadlineSeconds",
    "shutdownAfterJobFinishes",
    "ttlSecondsAfterFinished",
    "rayClusterSpec",
}
CLUSTER_FIELDS = {
    "rayVersion",
    "enableInTreeAutoscaling",
    "authOptions",
    "headGroupSpec",
    "workerGroupSpecs",
}
GROUP_FIELDS = {
    "groupName",
    "replicas",
    "minReplicas",
    "maxReplicas",
    "rayStartParams",
    "template",
}


def test_the_job_has_the_form_of_a_rayjob() -> None:
    assert (RAYJOB["apiVersion"], RAYJOB["kind"]) == ("ray.io/v1", "RayJob")
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", RAYJOB["metadata"]["name"])
    assert set(RAYJOB["spec"]) <= RAYJOB_FIELDS
    cluster = RAYJOB["spec"]["rayClusterSpec"]
    assert set(cluster) <= CLUSTER_FIELDS
    assert cluster["authOptions"] == {"mode": "token"}
    for group in cluster["workerGroupSpecs"]:
        assert set(group) == GROUP_FIELDS
        assert 0 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    assert isinstance(yaml.safe_load(RAYJOB["spec"]["runtimeEnvYAML"])["env_vars"], dict)


def test_every_pod_of_the_job_has_one_image_limits_and_its_volumes() -> None:
    cluster = RAYJOB["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    pods = [group["template"]["spec"] for group in groups]
    containers = [container for pod in pods for container in pod["containers"]]
    assert len({container["image"] for container in containers}) == 1
    for pod in pods:
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert container["resources"]["limits"] == container["resources"]["requests"]
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    claims = [volume.get("persistentVolumeClaim") for pod in pods for volume in pod["volumes"]]
    assert {"claimName": CLAIM["metadata"]["name"]} in claims


def commands(text: str) -> list[list[str]]:
    """Every whole `drbqo ...` command in a text, as words; not mere mentions of one."""
    found = re.findall(r"(?:^|[\s'`])(drbqo (?:run|resume|status) [^\n`'|&;<>]*)", text)
    words = [shlex.split(command, comments=True) for command in found]
    return [command for command in words if "--objective" in command or command[1] != "run"]


def parse(words: list[str]) -> None:
    """Parse a command without running it."""
    command = cli.commands[words[1]]
    command.make_context(words[1], list(words[2:]))


@pytest.mark.parametrize(
    "words", [commands(RAYJOB["spec"]["entrypoint"])[0], *commands(PAGE)], ids=" ".join
)
def test_every_command_we_write_down_can_be_parsed(words: list[str]) -> None:
    parse(words)


def test_a_wrong_command_would_be_seen() -> None:
    assert len(commands(PAGE)) >= 6
    with pytest.raises(click.UsageError):
        parse(shlex.split("drbqo run --objective m:a --evaluations 1 --storage x --fold 3"))


def test_the_slurm_script_has_good_syntax_and_a_token_of_its_own() -> None:
    subprocess.run(["bash", "-n", str(SLURM)], check=True)
    text = SLURM.read_text()
    assert "umask 077" in text
    assert "RAY_AUTH_MODE=token" in text
    assert text.index("export RAY_AUTH_MODE") < text.index("ray start")


def test_the_example_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, space = re.findall(r"```(?:python|yaml)\n# [^\n]*\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "page_objective.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    objective = load_objective("page_objective:score")
    config = parse_space(space).from_unit(np.full(3, 0.6))
    assert 0.5 < objective(config, 9, 0) <= 1


def test_the_page_says_what_users_must_know() -> None:
    for words in (
        "arbitrary code",
        "RAY_AUTH_MODE=token",
        "chmod 600",
        "power loss",
        "object store",
        "30 seconds",
        "drbqo resume",
        "--insecure",
        "not encrypted",
    ):
        assert words in PAGE, words
