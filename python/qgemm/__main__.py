# SPDX-License-Identifier: Apache-2.0
"""python -m qgemm: the commands that take a whole model.

`qgemm load-model` and `qgemm plan` of the command line run these. Exit codes: 0
done, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from typing import Optional, Sequence

from qgemm.loading import command


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="qgemm", description="Whole models onto a qgemm server.")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND")
    command.add_commands(commands)
    return command.run(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
