"""An Ethernet switch in user space whose ports can be cut, slowed down and made to lose frames.

Usage: switch.py PORT...

Each port is a TAP device with that name, which the caller then moves into the network namespace of
a host. It writes "ready" and reads orders from standard input, one JSON object a line:

    {"port": NAME, "way": "to" or "from", "cut": bool, "delay": seconds, "loss": chance}

"to" is towards the host. It ends with its standard input, and its devices end with it. Linux has
bridges and `tc netem` for this, but netem is missing in small kernels, and one way is enough.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

TUNSETIFF, TAP, NO_HEADER = 0x400454CA, 0x0002, 0x1000
LONGEST_FRAME = 65_536
AT_A_TIME = 64


@dataclass
class Way:
    """What happens to frames in one direction of a port."""

    cut: bool = False
    delay: float = 0.0
    loss: float = 0.0

    def swallows(self, chances: random.Random) -> bool:
        return self.cut or chances.random() < self.loss


@dataclass
class Port:
    fd: int
    ways: dict[str, Way] = field(default_factory=lambda: {"to": Way(), "from": Way()})


def opened(name: str) -> Port:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), TAP | NO_HEADER))
    return Port(fd)


class Switch:
    """Frames go to the port where their receiver was last heard, or to all."""

    def __init__(self, names: list[str]) -> None:
        self.ports = {name: opened(name) for name in names}
        self._by_fd = {port.fd: name for name, port in self.ports.items()}
        self._known: dict[bytes, str] = {}
        self._waiting: list[tuple[float, int, str, bytes]] = []
        self._count = 0
        self._chances = random.Random(0)

    def run(self) -> None:
        poll = select.poll()
        poll.register(0, select.POLLIN)
        for port in self.ports.values():
            poll.register(port.fd, select.POLLIN)
        while True:
            pause = None
            if self._waiting:
                pause = max(self._waiting[0][0] - time.monotonic(), 0.0) * 1000
            for fd, _ in poll.poll(pause):
                if fd == 0:
                    if not self._obey():
                        return
                else:
                    self._receive(self._by_fd[fd])
            self._deliver()

    def _obey(self) -> bool:
        line = sys.stdin.readline()
        if line:
            order = json.loads(line)
            way = self.ports[order.pop("port")].ways[order.pop("way")]
            for name, value in order.items():
                setattr(way, name, value)
            print("done", flush=True)
        return bool(line)

    def _receive(self, source: str) -> None:
        for _ in range(AT_A_TIME):
            try:
                frame = os.read(self.ports[source].fd, LONGEST_FRAME)
            except OSError:  # nothing more, or the host is down
                return
            way = self.ports[source].ways["from"]
            if not way.swallows(self._chances):
                self._known[frame[6:12]] = source
                self._send(source, frame, time.monotonic() + way.delay)

    def _send(self, source: str, frame: bytes, now: float) -> None:
        receiver = self._known.get(frame[:6])
        for name in self.ports if receiver is None else (receiver,):
            way = self.ports[name].ways["to"]
            if name != source and not way.swallows(self._chances):
                self._count += 1
                heapq.heappush(self._waiting, (now + way.delay, self._count, name, frame))

    def _deliver(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            _, _, name, frame = heapq.heappop(self._waiting)
            with suppress(OSError):  # the device is down or full: an Ethernet may lose frames
                os.write(self.ports[name].fd, frame)


if __name__ == "__main__":
    switch = Switch(sys.argv[1:])
    print("ready", flush=True)
    switch.run()
