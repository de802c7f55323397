# SPDX-License-Identifier: Apache-2.0
"""Runs the unit tests of a folder, *_test.py, and prints each with its result.

Ends with "N passed, N failed, N skipped"; fails if a test failed or none ran.
With --no_skips a skipped test has failed, and the last line names none.

Usage: unittest_run.py FOLDER [--no_skips]
"""

import sys
import unittest


class CountingResult(unittest.TextTestResult):
    """Counts the tests that pass. What fails may be less than a test, a
    subtest, or none, the set-up of a class: a difference would be wrong."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def names_of(outcomes):
    """The tests, each once, that had the outcomes or whose subtests had."""
    return {getattr(test, "test_case", test).id() for test, _ in outcomes}


def main():
    folder, *options = sys.argv[1:] or [None]
    if not folder or options not in ([], ["--no_skips"]):
        raise SystemExit(__doc__)
    suite = unittest.defaultTestLoader.discover(folder, pattern="*_test.py")
    result = unittest.TextTestRunner(
        stream=sys.stdout, verbosity=2, resultclass=CountingResult).run(suite)
    failed = names_of(result.failures + result.errors)
    skipped = names_of(result.skipped) - failed
    if options:
        failed |= skipped
        print(f"{result.passed} passed, {len(failed)} failed")
    else:
        print(f"{result.passed} passed, {len(failed)} failed, "
              f"{len(skipped)} skipped")
    good = result.wasSuccessful() and not failed and result.testsRun
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
