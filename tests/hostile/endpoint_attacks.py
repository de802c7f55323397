# SPDX-License-Identifier: Apache-2.0
"""The metrics page: half requests, rubbish, and as many connections as there
are."""

import contextlib
import socket
import time
import urllib.request

from scene import Surprise, expect

SCRAPE_LIMIT_S = 15


def scrape(scene):
    """Seconds that a scrape takes."""
    host, port = scene.metrics
    start = time.monotonic()
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/metrics",
                                    timeout=SCRAPE_LIMIT_S) as page:
            expect(b"qgemm_rpcs_total" in page.read(), "the page is not whole")
    except OSError as error:
        waited = time.monotonic() - start
        raise Surprise(f"no page after {waited:.1f} s: {error}") from error
    return time.monotonic() - start


def slow_scrapers(scene):
    """Connections that send half a request and wait."""
    outcomes = []
    for count in (2, 40, 300):
        with contextlib.ExitStack() as stack:
            for number in range(count):
                slow = stack.enter_context(
                    socket.create_connection(scene.metrics, 5))
                slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: "
                             if number % 2 else b"GET /m")
            outcomes.append(f"beside {count}: {scrape(scene):.1f} s")
    return "; ".join(outcomes)


def unread_pages(scene):
    """Requests by the hundred whose answers nobody reads."""
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            greedy = stack.enter_context(
                socket.create_connection(scene.metrics, 5))
            greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with contextlib.suppress(OSError):
                greedy.settimeout(1)
                greedy.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" *
                               200)
        return f"a scrape beside them took {scrape(scene):.1f} s"


def odd_pages(scene):
    """Paths, methods and bytes that are no request for the page."""
    paths = [b"/../../../../etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd",
             b"//etc/passwd", b"/metrics/../../etc/passwd", b"/" + b"a" * 70000]
    requests = [b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n"
                for path in paths]
    requests += [method + b" /metrics HTTP/1.1\r\nHost: x\r\n"
                 b"Content-Length: 99999999999999999999\r\n\r\nabc"
                 for method in (b"POST", b"PUT", b"TRACE", b"CONNECT")]
    requests += [b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 20000,
                 b"\0" * 5000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                 b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"fffffffffffffffff\r\n"]
    requests += [scene.random.randbytes(500) for _ in range(scene.count(50))]
    leaked = 0
    for request in requests:
        with contextlib.suppress(OSError), socket.create_connection(
                scene.metrics, 5) as connected:
            connected.settimeout(0.2)
            connected.sendall(request)
            leaked += b"root:" in connected.recv(1 << 16)
    expect(not leaked, "a page showed a file of the host")
    return f"{len(requests)} requests; a scrape took {scrape(scene):.1f} s"
