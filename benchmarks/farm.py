"""An executor whose time is simulated: W slots, real runs on them, and a clock that jumps.

The coordinator, the session and the loop of `drbqo_ray.runtime` are the real ones. What they would
wait for is computed instead:

- The driver is the line of the simulation. A turn of its loop takes a little for each evaluation
  under way, and each evaluation that it starts a little more.
- The thinking thread is one at a time beside it. A thought is really made, by
  `Coordinator.think`, and takes as long on the simulated clock as it took of the processor. What
  it has put on the shelf is seen at its end, and outcomes that come meanwhile wait for the next.
- Fits of the model run beside both, on a processor of their own.
- A fold takes no real time: how long it runs is drawn by the seed of its suggestion.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drbqo_ray.objective import FoldObjective
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.background import BackgroundFit, Job
from drbqo_ray.runtime.callbacks import Callbacks
from drbqo_ray.runtime.coordinator import Coordinator, Plan
from drbqo_ray.runtime.executor import EvaluationLost
from drbqo_ray.runtime.loop import Loop
from drbqo_ray.runtime.result import Result
from drbqo_ray.runtime.session import Session
from drbqo_ray.runtime.status import RunStatus
from drbqo_ray.storage.location import begin

Seconds = Callable[[], float]


@dataclass(frozen=True)
class Costs:
    """What the runtime itself takes, as `bench_runtime` measures it on two cores.

    Attributes:
        start: seconds of the driver for one evaluation, if nothing else held it up.
        latency: seconds from there to the beginning of the evaluation. Two slots that are filled
            in turn give 1 / overhead evaluations a second, so a slot stands empty for twice the
            overhead: once in the driver's hands, once on the way.
        turn: seconds of one turn of its loop, for each evaluation under way.
        flush: seconds of one flush of the journal.
        lost: share of evaluations whose worker dies halfway.
    """

    start: float = 0.005
    latency: float = 0.005
    turn: float = 3e-6
    flush: float = 0.002
    lost: float = 0.0


@dataclass
class Log:
    """What happened.

    Attributes:
        slots: number of slots.
        starts: when each evaluation began (n,), those that were lost included.
        seconds: how long each ran (n,).
        thinking: seconds the thinking thread was at work.
        longest: its longest thought in seconds.
        fitting: seconds of fits beside the run.
    """

    slots: int
    starts: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    thinking: float = 0.0
    longest: float = 0.0
    fitting: float = 0.0

    @property
    def utilization(self) -> float:
        """Share of the slots' time spent in folds while there was work to hand out: from the
        first start to the last one."""
        return utilization(self.starts, self.seconds, self.slots)

    @property
    def utilization_to_the_end(self) -> float:
        """The same up to the last outcome, when slots run empty for want of work."""
        return float(sum(self.seconds) / (self.slots * self.duration))

    @property
    def duration(self) -> float:
        """From the first start to the last outcome."""
        return float(max(np.add(self.starts, self.seconds)) - min(self.starts))

    @property
    def load(self) -> float:
        """Share of the time that the thinking thread was at work."""
        return self.thinking / self.duration


def utilization(starts: Sequence[float], seconds: Sequence[float], slots: int) -> float:
    """Time in folds over slots x time, from the first start to the last.

    Args:
        starts: when each evaluation began (n,).
        seconds: how long each ran (n,).
        slots: number of slots.
    """
    first, last = min(starts), max(starts)
    ends = np.minimum(np.add(starts, seconds), last)
    if last == first:
        return 1.0
    return float(np.sum(ends - np.array(starts)) / (slots * (last - first)))


class SimulatedClock:
    """Stands still but for what `timed` measures, and for whoever sets `now`.

    Args:
        processor: seconds that computing takes.
    """

    def __init__(self, processor: Seconds = time.thread_time) -> None:
        self.now = 0.0
        self._processor = processor
        self._since: float | None = None

    def __call__(self) -> float:
        """The time; while something is timed it goes on with the processor."""
        return self.now if self._since is None else self.now + self._processor() - self._since

    def timed(self, job: Callable[[], Any], start: float) -> tuple[Any, float]:
        """What a job returns that began at `start`, and how many seconds it took."""
        before, self.now, self._since = self.now, start, self._processor()
        try:
            return job(), self() - start
        finally:
            self.now, self._since = before, None

    def beside(self, job: Callable[[], Any]) -> float:
        """How many seconds a job took that is not part of what is timed."""
        start = self._processor()
        job()
        took = self._processor() - start
        if self._since is not None:
            self._since += took
        return took


@dataclass(eq=False)
class Ticket:
    """Something that is ready at a time, which is not known yet while that is infinite."""

    at: float = math.inf
    result: Callable[[], Any] = lambda: None


class SimulatedExecutor:
    """W slots on a simulated clock; see `Executor`.

    Args:
        objective: what is evaluated; takes no time.
        slots: evaluations at a time.
        fold_seconds: how long the evaluation with a seed runs.
        costs: what the runtime takes.
        processor: seconds that computing takes.
    """

    def __init__(
        self,
        objective: FoldObjective,
        slots: int,
        fold_seconds: Callable[[int], float],
        costs: Costs | None = None,
        processor: Seconds = time.thread_time,
    ) -> None:
        self.slots = slots
        self.objective = objective
        self.fold_seconds = fold_seconds
        self.costs = costs or Costs()
        self.clock = SimulatedClock(processor)
        self.log = Log(slots)
        self._hosts: list[SimulatedHost] = []

    def open(self, plan: Plan) -> SimulatedHost:
        """Open the run's coordinator, which thinks only when the simulation says so."""
        host = SimulatedHost(plan, self)
        self._hosts.append(host)
        return host

    def poll(self, tickets: Sequence[Ticket], seconds: float) -> list[Ticket]:
        """Let the time go on to the first ticket that is ready, but not longer."""
        clock = self.clock
        deadline = clock.now + seconds
        clock.now += self.costs.turn * len(tickets)
        while True:
            for host in self._hosts:
                host.think_until(clock.now)
            ready = [ticket for ticket in tickets if ticket.at <= clock.now]
            if ready or clock.now >= deadline:
                return ready
            ahead = [ticket.at for ticket in tickets] + [host.thought_ends for host in self._hosts]
            clock.now = min(deadline, *(at for at in ahead if at > clock.now))


class SimulatedHost:
    """One run on a simulated executor; see `RunHost`."""

    def __init__(self, plan: Plan, executor: SimulatedExecutor) -> None:
        self._executor = executor
        self._clock, self._costs, self._log = executor.clock, executor.costs, executor.log
        self._coordinator = Coordinator(
            plan.place.directory,
            plan.problem,
            plan.limits.most,
            plan.session(),
            durable=False,
            clock=self._clock,
            fits=BackgroundFit(self._begin_fit),
            stepwise=True,
        )
        self._shelf = self._coordinator.n_suggestions
        self._takes: list[tuple[Ticket, int, int, int]] = []
        self.thought_ends = math.inf
        self._idle_since = 0.0

    def call(self, method: str, *arguments: Any) -> Ticket:
        """Call the coordinator; a suggestion that is not on the shelf is waited for."""
        now = self._clock.now
        self.think_until(now)
        if method == "take":
            first, count, slots = arguments
            self._coordinator.request(first + count, slots)
            ticket = Ticket()
            self._takes.append((ticket, first, count, slots))
            self._serve(now)
        else:
            found = getattr(self._coordinator, method)(*arguments)
            ticket = Ticket(now + self._costs.flush * (method == "tell"), lambda: found)
        self._idle_since = now
        self.think_until(now)
        return ticket

    def think_until(self, now: float) -> None:
        """Make the thoughts that begin before `now`, and end those that end before."""
        while True:
            if self.thought_ends > now and not math.isinf(self.thought_ends):
                return
            if not math.isinf(self.thought_ends):
                self._idle_since, self.thought_ends = self.thought_ends, math.inf
                self._shelf = self._coordinator.n_suggestions
                self._serve(self._idle_since)
            thought, took = self._clock.timed(self._coordinator.think, self._idle_since)
            if not thought:
                return
            if self._coordinator.n_suggestions > self._shelf:
                took += self._costs.flush
            self._log.thinking += took
            self._log.longest = max(self._log.longest, took)
            self.thought_ends = self._idle_since + took

    def _serve(self, now: float) -> None:
        """Answer the takes whose suggestions are on the shelf."""
        for take in [take for take in self._takes if take[1] < self._shelf]:
            ticket, first, count, slots = take
            self._takes.remove(take)
            found = self._coordinator.take(first, min(count, self._shelf - first), slots)
            ticket.at, ticket.result = now, lambda found=found: found  # type: ignore[misc]

    def _begin_fit(self, job: Job) -> SimulatedFit:
        began = self._clock()
        took = self._clock.beside(job)
        self._log.fitting += took
        return SimulatedFit(self._clock, began + took)

    def start(self, suggestion: Suggestion, attempt: int) -> Ticket:
        """Begin an evaluation; a share of them is lost halfway, once."""
        costs, seconds = self._costs, self._executor.fold_seconds(suggestion.seed)
        self._clock.now += costs.start
        chance = np.random.default_rng([suggestion.seed, attempt]).random()
        lost = chance < costs.lost
        seconds = seconds / 2 if lost else seconds
        begun = self._clock.now + costs.latency
        self._log.starts.append(begun)
        self._log.seconds.append(seconds)

        def outcome() -> Observation:
            if lost:
                raise EvaluationLost("lost", "its worker died")
            score = self._executor.objective(suggestion.config, suggestion.context, suggestion.seed)
            return Observation.of(suggestion, score, seconds=seconds, attempts=attempt)

        return Ticket(begun + seconds, outcome)

    def result(self, ticket: Ticket) -> Any:
        """What came of it."""
        return ticket.result()

    def ages(self) -> Mapping[tuple[int, int], float]:
        """None: nothing simulated has a time limit."""
        return {}

    def cancel(self, ticket: Ticket) -> None:
        """End an evaluation."""

        def lost() -> Any:
            raise EvaluationLost("lost", "cancelled")

        ticket.at, ticket.result = self._clock.now, lost

    def close(self, wait: bool) -> None:
        """Close the journal."""
        self._coordinator.close()


@dataclass(frozen=True)
class SimulatedFit:
    """A fit under way until a time."""

    clock: SimulatedClock
    ends: float

    def is_alive(self) -> bool:
        """Whether it still goes on."""
        return self.clock() < self.ends


def run_simulated(plan: Plan, executor: SimulatedExecutor) -> Result:
    """A whole run by the real loop on simulated slots."""
    sessions: list[Session] = []
    status = RunStatus(
        "simulation",
        plan.limits.n_evaluations,
        lambda: executor.slots,
        plan.problem.n_folds,
        clock=executor.clock,
    )

    def opener() -> Session:
        begin(plan.place, plan.problem, plan.resume)
        session = Session(plan, executor.open(plan), Callbacks(()), status, False)
        sessions.append(session)
        return session

    Loop([opener], executor).run()
    (session,) = sessions
    if session.error is not None:
        raise session.error
    assert session.result is not None
    return session.result
