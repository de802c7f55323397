#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one attack of the table as a process and, where it may, a user of its
own, so that the server can tell it from others. hostile_test.py starts it.

Usage: attacker.py NAME JSON    (the fields of a Scene, and uid)
"""

import json
import os
import socket
import sys
import traceback

import layers
from scene import Scene, Surprise
from subject import set_niceness
from table import ATTACKS


def become(uid):
    """Leaves root behind. Modules that load others when they are first used do
    so before: another user may not read them."""
    socket.getaddrinfo("127.0.0.1", 0)
    layers.channel_to("127.0.0.1:1").close()
    layers.CheckedLayer("", 1, 1, 1, 1)
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def main():
    name, fields = sys.argv[1], json.loads(sys.argv[2])
    attack = next(attack for attack in ATTACKS if attack.name == name)
    set_niceness(10)
    uid = fields.pop("uid")
    if uid is not None:
        become(uid)
    fields["tcp"] = tuple(fields["tcp"])
    fields["metrics"] = tuple(fields["metrics"])
    scene = Scene(**fields)
    try:
        print(attack.run(scene), flush=True)
    except Surprise as surprise:
        print(f"SURPRISE {surprise}", flush=True)
        return 1
    except OSError as error:
        # The server may end an attacker's connection whenever it likes.
        print(f"connection ended: {error}", flush=True)
    except Exception:  # pylint: disable=broad-exception-caught
        print("SURPRISE " + traceback.format_exc(limit=-3).replace(
            "\n", " | "), flush=True)
        return 1
    finally:
        scene.close()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads that wait for a server's answer are left
