#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks a real server, beside clients that check every product, and judges
it. tests/hostile/run.sh prepares and runs it. Ends with
"N passed, N failed, N skipped".

A test asserts liveness, order and memory, never a time: an answer may take a
minute. --strict, for a nightly run on an idle machine, also holds what others
wait for a call against 50 ms, two launches, and twice what they wait in quiet.
"""

import argparse
import dataclasses
import json
import os
import random
import sys
import time

import access_cases
import identity_cases
import lifecycle_cases
import proxy
import tls_cases
from scene import Surprise
from siege import Siege, Outcome
from subject import set_niceness
from table import ATTACKS

CASES = (lifecycle_cases.CASES + identity_cases.CASES +
         access_cases.CASES + tls_cases.CASES)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", help="qgemm_server's binary")
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="attacks to run, in this order; default: all")
    parser.add_argument("--list", action="store_true",
                        help="print the attacks and end")
    parser.add_argument("--minutes", type=float,
                        help="random order for so long: the attacks that share "
                        "a server on one, again and again if time is left")
    parser.add_argument("--seed", type=int,
                        default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--scale", type=float, default=1.0,
                        help="size of each attack; 1 is the full one")
    parser.add_argument("--strict", action="store_true",
                        help="fail if others wait too long")
    parser.add_argument("--report", help="file for the outcomes, JSON")
    return parser.parse_intermixed_args()


class Run:
    """Runs attacks and counts their outcomes."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.outcomes = []
        self.skipped = []

    def start_siege(self, attack):
        return Siege(self.arguments.server, attack, self.arguments.seed,
                     self.arguments.scale)

    def add(self, outcome, attack=None):
        if self.arguments.strict and (attack is None or attack.bounded):
            outcome.problems += [
                f"{kind} waited {p99:.0f} ms (p99), at most {most:.0f}"
                for kind, (p99, most) in outcome.late.items()]
        self.outcomes.append(outcome)
        print_outcome(outcome)

    def skip(self, names, reason):
        if names:
            self.skipped += names
            print(f"-- skipped, {reason}: {', '.join(sorted(names))}",
                  flush=True)

    def runnable(self, attacks):
        """Those that need no proxy, if there is none."""
        if proxy.is_installed():
            return list(attacks)
        self.skip([a.name for a in attacks if a.proxied],
                  "no haproxy (tools/setup.sh test)")
        return [a for a in attacks if not a.proxied]

    def in_order(self, attacks):
        """Each attack settles; neighbours with the same needs share a server
        until one of them fails."""
        pending = self.runnable(attacks)
        while pending:
            needs = pending[0].server
            with self.start_siege(pending[0]) as siege:
                self._share(siege, needs, pending)

    def _share(self, siege, needs, pending):
        while pending and pending[0].server == needs:
            attack = pending.pop(0)
            outcome = siege.run(attack, settles=True)
            self.add(outcome, attack)
            if outcome.problems:
                return
        self.stop(siege)

    def stop(self, siege):
        outcome = Outcome("SIGTERM after them")
        outcome.problems = siege.stop()
        self.add(outcome)

    def at_random(self, attacks, minutes):
        """One server for those that can share one; it settles at the end."""
        end = time.monotonic() + 60 * minutes
        order = random.Random(self.arguments.seed)
        pending = []
        runnable = self.runnable(attacks)
        main_needs = ATTACKS[0].server
        main = next(a for a in ATTACKS if a.server == main_needs)
        left_out = set(runnable)
        with self.start_siege(main) as siege:
            while time.monotonic() < end:
                if not pending:
                    pending = order.sample(runnable, len(runnable))
                attack = pending.pop()
                left_out.discard(attack)
                if attack.server == main_needs:
                    outcome = siege.run(attack, settles=False)
                    self.add(outcome, attack)
                    if not siege.subject.alive:
                        return
                else:
                    with self.start_siege(attack) as other:
                        self.add(other.run(attack, settles=False), attack)
            outcome = Outcome("figures back to the start")
            siege.settle(outcome)
            self.add(outcome)
            self.stop(siege)
        self.skip([a.name for a in left_out], f"not within {minutes:g} minutes")

    def permitted(self, cases):
        """Those that need one user alone, if this one cannot be others."""
        if os.geteuid() == 0:
            return list(cases)
        self.skip([case.__name__ for case in cases
                   if case in identity_cases.CASES], "not root")
        return [case for case in cases if case not in identity_cases.CASES]

    def cases(self, cases):
        for case in self.permitted(cases):
            outcome = Outcome(case.__name__)
            start = time.monotonic()
            try:
                outcome.text = case(self.arguments.server,
                                    self.arguments.seed, self.arguments.scale)
            except Surprise as surprise:
                outcome.problems.append(str(surprise))
            except Exception as error:  # pylint: disable=broad-exception-caught
                outcome.problems.append(repr(error))
            outcome.seconds = time.monotonic() - start
            self.add(outcome)

    def report(self):
        if not self.arguments.report:
            return
        with open(self.arguments.report, "w", encoding="utf-8") as file:
            json.dump({"seed": self.arguments.seed,
                       "scale": self.arguments.scale,
                       "outcomes": [dataclasses.asdict(outcome)
                                    for outcome in self.outcomes]},
                      file, indent=1)


def print_outcome(outcome):
    verdict = "FAILED" if outcome.problems else "ok"
    print(f"-- {outcome.name}: {verdict}, {outcome.seconds:.1f} s")
    if outcome.text:
        print(f"   {outcome.text[:600]}")
    if outcome.answers:
        print(f"   others: {outcome.answers}")
        print(f"   server: peak {outcome.peak_rss_mib:.0f} MiB, "
              f"{outcome.peak_beyond_mib:.0f} beyond its accounts, "
              f"{outcome.settled_mib:.0f} after; cpu {outcome.cpu_s:.1f} s")
    for problem in outcome.problems:
        print(f"   FAILED {problem}")
    sys.stdout.flush()


def main():
    arguments = parse_arguments()
    attacks = [a for a in ATTACKS
               if not arguments.names or a.name in arguments.names]
    cases = [c for c in CASES
             if not arguments.names or c.__name__ in arguments.names]
    if arguments.list:
        for name, function in ([(a.name, a.run) for a in attacks] +
                               [(c.__name__, c) for c in cases]):
            print(f"{name:28} {' '.join(function.__doc__.split())}")
        return 0
    known = {a.name for a in attacks} | {c.__name__ for c in cases}
    unknown = set(arguments.names) - known
    if unknown:
        raise SystemExit(f"no attack {', '.join(sorted(unknown))}; see --list")
    print(f"seed {arguments.seed}, scale {arguments.scale:g}", flush=True)
    set_niceness(-10)  # the bystanders
    run = Run(arguments)
    if arguments.minutes is None:
        run.in_order(attacks)
    else:
        run.at_random(attacks, arguments.minutes)
    run.cases(cases)
    run.report()
    failed = sum(bool(outcome.problems) for outcome in run.outcomes)
    print(f"{len(run.outcomes) - failed} passed, {failed} failed, "
          f"{len(run.skipped)} skipped")
    return 1 if failed or not run.outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
