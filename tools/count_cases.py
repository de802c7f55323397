#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases that one Bazel test run executed.

Usage: count_cases.py BUILD_EVENTS. Reads the build events (JSON lines) of a
`bazel test --build_event_json_file=BUILD_EVENTS` run, opens the XML report of
every suite and sums GoogleTest's cases. A suite that failed without a failing
case in its report (it crashed, timed out, leaked or did not build) counts as
one failure. Names what failed; ends with "N passed, N failed, N skipped".
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree


class Totals:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def count_report(path):
    """The cases of one XML report; raises ParseError if it is cut short."""
    totals = Totals()
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        if (case.find("failure") is not None or
                case.find("error") is not None):
            totals.failed += 1
            print(f"FAILED {case.get('classname')}.{case.get('name')}")
        elif (case.find("skipped") is not None or
              case.get("status") == "notrun" or
              case.get("result") in ("skipped", "suppressed")):
            totals.skipped += 1
        else:
            totals.passed += 1
    return totals


def count_suite(label, result):
    """The cases of one suite's run, from its testResult event."""
    reports = [urllib.parse.unquote(urllib.parse.urlparse(f["uri"]).path)
               for f in result.get("testActionOutput", [])
               if f.get("name") == "test.xml"]
    totals = Totals()
    for report in reports:
        try:
            totals.add(count_report(report))
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            print(f"{label}: unreadable report: {error}")
    if result.get("status") != "PASSED" and totals.failed == 0:
        print(f"FAILED {label}: {result.get('status')} outside of its cases")
        totals.failed += 1
    return totals


def main():
    totals = Totals()
    not_built = set()
    with open(sys.argv[1], encoding="utf-8") as events:
        for line in events:
            event = json.loads(line)
            identity = event.get("id", {})
            if "testResult" in event:
                label = identity["testResult"]["label"]
                totals.add(count_suite(label, event["testResult"]))
            elif event.get("aborted", {}).get("reason") == "SKIPPED":
                # Incompatible with the configuration: counts as one case.
                totals.skipped += "targetCompleted" in identity
            elif ("targetCompleted" in identity and
                  not event.get("completed", {}).get("success", False)):
                not_built.add(identity["targetCompleted"]["label"])
    for label in sorted(not_built):
        print(f"FAILED {label}: did not build")
    totals.failed += len(not_built)
    print(f"{totals.passed} passed, {totals.failed} failed, "
          f"{totals.skipped} skipped")
    return 1 if totals.failed or not totals.passed else 0


if __name__ == "__main__":
    sys.exit(main())
