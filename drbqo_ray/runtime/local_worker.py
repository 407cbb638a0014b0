"""What a process of the local executor does: load the objective, then evaluate fold after fold."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import traceback
from multiprocessing.connection import Connection
from queue import SimpleQueue

from drbqo_ray.records import Observation
from drbqo_ray.runtime.tasks import evaluate


def main(pipe: int) -> None:
    """Serve the process at the other end of a pipe until it closes it or ends.

    The first message is the objective, pickled, every other one a suggestion, its attempt and its
    threads. The answer to the objective is None and to a suggestion its outcome; it is a traceback
    to what cannot be unpickled here.

    Args:
        pipe: file descriptor of the pipe.
    """
    connection = Connection(pipe)
    orders: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, orders), daemon=True).start()
    try:
        objective = pickle.loads(orders.get())
    except BaseException:
        connection.send(traceback.format_exc())
        return
    connection.send(None)
    node = socket.gethostname()
    while True:
        answer: Observation | str
        try:
            suggestion, attempt, threads = pickle.loads(orders.get())
        except BaseException:
            answer = traceback.format_exc()
        else:
            answer = evaluate(objective, suggestion, attempt, threads, node)
        connection.send(answer)


def _listen(connection: Connection, orders: SimpleQueue[bytes]) -> None:
    """Take orders, even while a fold is trained: it ends at once when nobody waits for it."""
    try:
        while True:
            orders.put(connection.recv_bytes())
    except (EOFError, OSError):
        os.killpg(0, signal.SIGKILL)
