"""Hosts of a cluster on one machine: each has namespaces of its own (network, processes, mounts).

A `Lab` has a head, workers and a host for the driver, and a `switch` between them. Everything it
makes is its own (namespaces, devices, processes, directories) and goes when it is closed: nothing
of it is in the namespace of the machine, so other clusters on the machine are not touched.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
START_SECONDS = 120.0
PORT = 6379
STORE = 80_000_000
# The first process of a host gives it its name, and its own directory where others have theirs.
# It buries orphans, and when it ends, so does every process of the host.
INIT = 'hostname "$0"; mount --bind "$1" "$2"; echo up; while :; do sleep 1; done'


def why_not() -> str | None:
    """Why there can be no lab here, None when there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "there is no /dev/net/tun"
    name = f"dq-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        return f"no network namespace can be made: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return None


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


class Host:
    """One host; made and ended by its `Lab`."""

    def __init__(self, lab: Lab, name: str, number: int) -> None:
        self.lab, self.name = lab, name
        self.space = f"{lab.tag}-{name}"
        self.device = f"{lab.tag}{number}"
        self.address = f"10.77.0.{number}"
        self.directory = lab.directory / name
        self.directory.mkdir()
        self.ray: subprocess.Popen[bytes] | None = None

    def plug_in(self) -> None:
        ip("netns", "add", self.space)
        ip("link", "set", self.device, "netns", self.space, "name", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", self.space, "link", "set", device, "up")
        ip("-n", self.space, "address", "add", f"{self.address}/24", "dev", "eth0")
        # Ray finds the address of a host by asking for the way to the world.
        ip("-n", self.space, "route", "add", "default", "dev", "eth0")

    def boot(self) -> None:
        """Start the first process of the host."""
        unshare = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        init = ["sh", "-c", INIT, self.name, str(self.directory), str(self.lab.shared_name)]
        self._unshare = subprocess.Popen(
            ["ip", "netns", "exec", self.space, *unshare, *init],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._unshare.stdout is not None
        assert self._unshare.stdout.readline() == b"up\n"
        self._unshare.stdout.close()
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        self._init = int(children.read_text())

    def command(self, words: Sequence[str]) -> list[str]:
        """The command that runs `words` on this host."""
        spaces = ["--net", "--uts", "--mount", "--pid"]
        return ["nsenter", f"--target={self._init}", *spaces, "--wd=.", "--", *words]

    def start(self, *words: str, log: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a process on this host; what it writes goes to a log of the lab."""
        with open(self.lab.directory / f"{log}.log", "ab") as file:
            return subprocess.Popen(
                self.command(words),
                cwd=ROOT,
                env={**self.lab.environment, "HOME": str(self.directory), **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def start_ray(self, *words: str, **environment: str) -> None:
        self.ray = self.start(
            str(BIN / "ray"),
            "start",
            "--block",
            f"--node-ip-address={self.address}",
            f"--temp-dir={self.lab.shared_name}",
            f"--object-store-memory={STORE}",
            "--include-log-monitor=false",
            *words,
            log=self.name,
            **environment,
        )

    def pids(self) -> list[int]:
        return [int(pid) for pid in ip("netns", "pids", self.space).split()]

    def processes(self, name: str) -> list[int]:
        """Processes of this host with this word in their command."""
        found = []
        for pid in self.pids():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if any(name in word.decode(errors="replace") for word in words[:3]):
                    found.append(pid)
        return found

    def signal(self, number: int, pids: Iterable[int] | None = None) -> None:
        for pid in self.pids() if pids is None else pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """The host loses its power: every process of it ends at once."""
        os.kill(self._init, signal.SIGKILL)
        self._unshare.wait()
        if self.ray is not None:
            self.ray.wait()
            self.ray = None

    def replace(self) -> None:
        """Another machine with an empty disk comes in its place."""
        shutil.rmtree(self.directory)
        self.directory.mkdir()
        self.boot()

    def set_link(self, ways: Sequence[str] = ("to", "from"), **order: Any) -> None:
        """Change what the switch does to the frames of this host; see `switch`."""
        for way in ways:
            self.lab.order({"port": self.device, "way": way, **order})

    def remove(self) -> None:
        with suppress(ProcessLookupError, AttributeError):
            self.kill()
        subprocess.run(["ip", "netns", "delete", self.space], capture_output=True)


class Lab:
    """A cluster with token authentication: a head without CPUs, workers with one CPU each, and a
    host for the driver without CPUs.

    Args:
        workers: how many workers.
        spares: further hosts on which nothing is started.
    """

    def __init__(self, workers: int, spares: int = 0) -> None:
        self.tag = f"dq{os.getpid() % 100_000}"
        self.directory = Path(tempfile.mkdtemp(prefix="dq-"))
        self.shared_name = self.directory / "r"
        self.shared_name.mkdir()
        self.hosts: list[Host] = []
        self._switch: subprocess.Popen[str] | None = None
        token = self.directory / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        self.environment = {
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_enable_worker_prestart": "0",
            "OMP_NUM_THREADS": "1",
            "LC_ALL": "C.UTF-8",
        }
        try:
            self._build(workers, spares)
        except BaseException:
            self.close()
            raise

    def _build(self, workers: int, spares: int) -> None:
        names = ["head", "driver", *(f"w{n}" for n in range(workers + spares))]
        self.hosts = [Host(self, name, number) for number, name in enumerate(names, 1)]
        self.head, self.driver, *rest = self.hosts
        self.workers, self.spares = rest[:workers], rest[workers:]
        self._switch = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("switch.py"))]
            + [host.device for host in self.hosts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._heard("ready")
        for host in self.hosts:
            host.plug_in()
            host.boot()

    def _heard(self, word: str) -> None:
        assert self._switch is not None
        assert self._switch.stdout is not None
        assert self._switch.stdout.readline().strip() == word

    def order(self, order: dict[str, Any]) -> None:
        assert self._switch is not None
        assert self._switch.stdin is not None
        self._switch.stdin.write(json.dumps(order) + "\n")
        self._switch.stdin.flush()
        self._heard("done")

    @property
    def gcs(self) -> str:
        return f"{self.head.address}:{PORT}"

    def start(self, **environment: str) -> None:
        """Start Ray on every host that should have it and has not."""
        if self.head.ray is None:
            self.start_head(**environment)
            self.wait_for(1)
        for host in (self.driver, *self.workers):
            if host.ray is None:
                self.join(host)
        self.wait_for(2 + len(self.workers))

    def start_head(self, **environment: str) -> None:
        words = ["--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false"]
        self.head.start_ray(*words, **environment)

    def join(self, host: Host) -> None:
        cpus = 0 if host is self.driver else 1
        host.start_ray(f"--address={self.gcs}", f"--num-cpus={cpus}")

    def alive(self) -> list[str]:
        """Addresses of the nodes that Ray calls alive."""
        done = subprocess.run(
            self.head.command([sys.executable, "-m", "tests.cluster.nodes", self.gcs]),
            cwd=ROOT,
            env={**self.environment, "HOME": str(self.head.directory)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stdout.split() if done.returncode == 0 else []

    def wait_for(self, count: int) -> None:
        """Wait until so many nodes are alive."""
        end = time.monotonic() + START_SECONDS
        while len(found := self.alive()) != count:
            assert time.monotonic() < end, (count, found, self.log("head")[-2000:])
            time.sleep(0.5)

    def heal(self) -> None:
        """All links whole, all processes awake."""
        for host in self.hosts:
            host.set_link(cut=False, delay=0.0, loss=0.0)
            host.signal(signal.SIGCONT)

    def stop(self) -> None:
        """End everything on every host."""
        for host in self.hosts:
            host.kill()
            host.replace()

    def log(self, name: str) -> str:
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        for host in self.hosts:
            host.remove()
        if self._switch is not None:
            assert self._switch.stdin is not None
            self._switch.stdin.close()
            self._switch.wait(10)
            assert self._switch.stdout is not None
            self._switch.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)
