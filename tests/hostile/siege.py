# SPDX-License-Identifier: Apache-2.0
"""One server under attack with bystanders beside it, and the judgement: no
death, no deafness, nobody else wrong or lost, memory bounded, figures back."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import threading
import time

import proxy
from bystanders import Bystanders
from subject import MIB, Subject

ATTACKER_UID = 60001
ATTACK_LIMIT_S = 150
ANSWER_LIMIT_S = 60
SETTLE_LIMIT_S = 75
SAMPLE_PAUSE_S = 0.2
# Memory beyond what the server accounts for, during an attack and after it.
MAX_BEYOND_BYTES = 600 * MIB
MAX_SETTLED_BYTES = 100 * MIB
MAX_LOG_BYTES = 2 * MIB
# Differences that bystanders, who come and go, make themselves.
SPARE_DESCRIPTORS, SPARE_THREADS, SPARE_LAYERS = 24, 12, 1


@dataclasses.dataclass
class Outcome:
    """Result of one attack."""
    name: str
    text: str = ""
    seconds: float = 0.0
    answers: str = ""
    p99_ms: dict = dataclasses.field(default_factory=dict)
    quiet_p99_ms: dict = dataclasses.field(default_factory=dict)
    launch_ms: float = 0.0  # the longest launch
    peak_rss_mib: float = 0.0
    peak_beyond_mib: float = 0.0
    settled_mib: float = float("nan")
    cpu_s: float = 0.0
    problems: list = dataclasses.field(default_factory=list)

    @property
    def late(self):
        """The kinds of bystanders that waited longer than others may make
        them: 50 ms, two launches, and twice what they wait in quiet."""
        limits = {kind: 50 + 2 * (self.quiet_p99_ms.get(kind, 0) +
                                  self.launch_ms)
                  for kind in self.p99_ms}
        return {kind: (p99, limits[kind])
                for kind, p99 in self.p99_ms.items() if p99 > limits[kind]}


class MemorySampler(threading.Thread):
    """The most that the server holds, and the most beyond its accounts."""

    def __init__(self, subject):
        super().__init__(daemon=True)
        self._subject = subject
        self._over = threading.Event()
        self.peak_rss = 0
        self.peak_beyond = 0

    def run(self):
        accounted = 0
        while not self._over.wait(SAMPLE_PAUSE_S):
            try:
                rss = self._subject.rss_bytes()
                with contextlib.suppress(OSError):
                    accounted = self._subject.figures().accounted_bytes
            except (OSError, AttributeError):
                return  # the server has ended; others say so
            self.peak_rss = max(self.peak_rss, rss)
            self.peak_beyond = max(self.peak_beyond, rss - accounted)

    def end(self):
        self._over.set()
        self.join()


class Siege:
    """A server, its proxy if the attack wants one, and its bystanders; for a
    with block."""

    def __init__(self, binary, attack, seed, scale):
        self._binary = binary
        self._attack = attack
        self._seed = seed
        self._scale = scale
        self._stack = contextlib.ExitStack()
        self.subject = None
        self._proxy = None
        self._bystanders = None
        self._start_figures = None
        self._quiet = {}

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.subject = stack.enter_context(Subject(
                self._binary, self._attack.flags, dict(self._attack.limits)))
            if self._attack.proxied:
                self._proxy = stack.enter_context(
                    proxy.Proxy(self.subject.addresses.tcp))
            self._bystanders = stack.enter_context(Bystanders(
                self.subject.addresses,
                tcp_target=self._proxy.target if self._proxy else None))
            self._wait_for_all("in quiet")
            self._bystanders.take()
            time.sleep(2)  # a quiet while, to measure it
            self._quiet = p99s(self._bystanders.take())
            self._start_figures = self.subject.figures()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def run(self, attack, settles):
        """One attack; the server is judged at its end or, if it settles, when
        its figures are back."""
        outcome = Outcome(attack.name, quiet_p99_ms=self._quiet)
        self._bystanders.take()
        log_start = self.subject.log_bytes()
        launches = self.subject.launches()
        sampler = MemorySampler(self.subject)
        sampler.start()
        cpu, start = self.subject.cpu_s(), time.monotonic()
        outcome.text = self._attack_once(attack, outcome)
        outcome.seconds = time.monotonic() - start
        sampler.end()
        if not self.subject.alive:
            outcome.problems.append(
                f"the server ended with {self.subject.process.returncode}: "
                f"{self.subject.log()[-500:]}")
            return outcome
        outcome.cpu_s = self.subject.cpu_s() - cpu
        outcome.launch_ms = longest_ms(launches, self.subject.launches())
        self._judge_others(attack, outcome)
        self._judge_memory(attack, outcome, sampler)
        self._judge_log(outcome, log_start)
        if settles:
            self.settle(outcome)
        return outcome

    def _attack_once(self, attack, outcome):
        """The attack's own words; it ends with its process."""
        addresses = self.subject.addresses
        fields = {
            "tcp": self._proxy.address if attack.proxied else addresses.tcp,
            "unix": addresses.unix, "metrics": addresses.metrics,
            "seed": self._seed, "scale": self._scale,
            "uid": ATTACKER_UID if os.geteuid() == 0 else None}
        program = os.path.join(os.path.dirname(__file__), "attacker.py")
        process = subprocess.Popen(
            [sys.executable, program, attack.name, json.dumps(fields)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            text, _ = process.communicate(timeout=ATTACK_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return f"cut off after {ATTACK_LIMIT_S} s"
        if process.returncode != 0:
            outcome.problems.append(text.strip() or
                                    f"attacker: {process.returncode}")
        return text.strip()

    def _judge_others(self, attack, outcome):
        during = self._bystanders.take()
        outcome.answers = str(during)
        outcome.p99_ms = p99s(during)
        for problems in (during.problems,
                         self._wait_for_all("after the attack")):
            outcome.problems += problems[:3]
            if len(problems) > 3:
                outcome.problems.append(f"… {len(problems)} of these; the "
                                        f"last: {problems[-1]}")

    def _wait_for_all(self, when):
        """Waits until each kind of bystander has had an answer, over both
        listeners; the problems met meanwhile."""
        limit = time.monotonic() + ANSWER_LIMIT_S
        missing, problems = set(Bystanders.KINDS), []
        while missing:
            time.sleep(0.05)
            taken = self._bystanders.take()
            problems += taken.problems
            missing -= {kind for kind in missing
                        if len(taken.latencies.get(kind, ())) > 0}
            if missing and not self.subject.alive:
                return problems + [f"the server ended with "
                                   f"{self.subject.process.returncode}"]
            if missing and time.monotonic() > limit:
                return problems + [f"no answer {when} for "
                                   f"{', '.join(sorted(missing))} in "
                                   f"{ANSWER_LIMIT_S} s"]
        return problems

    def _judge_memory(self, attack, outcome, sampler):
        outcome.peak_rss_mib = sampler.peak_rss / MIB
        outcome.peak_beyond_mib = sampler.peak_beyond / MIB
        if attack.bounded and sampler.peak_beyond > MAX_BEYOND_BYTES:
            outcome.problems.append(
                f"{outcome.peak_beyond_mib:.0f} MiB beyond the accounts; at "
                f"most {MAX_BEYOND_BYTES // MIB}")

    def _judge_log(self, outcome, log_start):
        grown = self.subject.log_bytes() - log_start
        if grown > MAX_LOG_BYTES:
            outcome.problems.append(f"{grown / MIB:.1f} MiB of log")
        foreign = self.subject.foreign_log_lines(log_start)
        if foreign:
            outcome.problems.append(
                f"{len(foreign)} foreign lines in the log: "
                f"{foreign[0][:200]!r}")

    def settle(self, outcome):
        """Waits until the server's figures are back where they began."""
        limit = time.monotonic() + SETTLE_LIMIT_S
        while True:
            try:
                figures = self.subject.figures()
            except OSError as error:
                outcome.problems.append(f"no figures: {error}; "
                                        f"{self.subject.log()[-500:]}")
                return
            left = self._left_over(figures)
            if not left or time.monotonic() > limit:
                break
            time.sleep(0.25)
        outcome.settled_mib = figures.beyond_accounts / MIB
        outcome.problems += left

    def _left_over(self, figures):
        start = self._start_figures
        left = []
        if figures.beyond_accounts > MAX_SETTLED_BYTES:
            left.append(f"{figures.beyond_accounts / MIB:.0f} MiB beyond the "
                        "accounts stay")
        if figures.descriptors > start.descriptors + SPARE_DESCRIPTORS:
            left.append(f"{figures.descriptors} descriptors stay of "
                        f"{start.descriptors}")
        if figures.threads > start.threads + SPARE_THREADS:
            left.append(f"{figures.threads} threads stay of {start.threads}")
        if figures.layers > start.layers + SPARE_LAYERS:
            left.append(f"{figures.layers} layers stay of {start.layers}")
        if figures.queued > SPARE_DESCRIPTORS:
            left.append(f"{figures.queued} requests stay queued")
        return left

    def stop(self):
        """Ends bystanders, then the server; the problems."""
        self._bystanders.__exit__()
        code, seconds = self.subject.stop()
        if code != 0:
            return [f"SIGTERM: exit code {code} after {seconds:.1f} s: "
                    f"{self.subject.log()[-300:]}"]
        return []


def longest_ms(before, after):
    """The bound of the longest launch between two counts."""
    bounds = sorted(after)
    new = [after[bound] - before.get(bound, 0) for bound in bounds]
    return 1e3 * next((bound for bound, count in zip(bounds, new)
                       if count == new[-1] and count), 0.0)


def p99s(summary):
    return {kind: 1e3 * summary.quantile_s(kind, 0.99)
            for kind in summary.latencies}
