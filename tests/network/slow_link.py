# SPDX-License-Identifier: Apache-2.0
"""A cable that delays and loses frames, where the kernel has no netem: carries them
between two TAP devices, which the caller moves to where it wants them.

Usage: slow_link.py DEVICE DEVICE DELAY_MS JITTER_MS LOSS
Prints a line once the devices are there. Order is kept.
"""

import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
FRAME_BYTES = 65536


def open_tap(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF,
                struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def carry(ends, delay_s, jitter_s, loss):
    """For ever: each frame comes out of the other end after its time."""
    waiting = []  # (due, number, device, frame)
    last_due = dict.fromkeys(ends, 0.0)
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    number = 0
    while True:
        timeout = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        for device in select.select(ends, [], [], timeout)[0]:
            frame = os.read(device, FRAME_BYTES)
            if random.random() < loss:
                continue
            due = time.monotonic() + delay_s + random.uniform(0, jitter_s)
            due = last_due[device] = max(due, last_due[device])
            number += 1
            heapq.heappush(waiting, (due, number, other[device], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, device, frame = heapq.heappop(waiting)
            try:
                os.write(device, frame)
            except OSError:
                pass  # a link that is down, or a full queue: lost


def main():
    first, second, delay_ms, jitter_ms, loss = sys.argv[1:]
    ends = [open_tap(first), open_tap(second)]
    print("ready", flush=True)
    carry(ends, float(delay_ms) / 1000, float(jitter_ms) / 1000, float(loss))


if __name__ == "__main__":
    main()
