# SPDX-License-Identifier: Apache-2.0
"""The table of attacks."""

import dataclasses
import resource
import typing

import connection_attacks
import endpoint_attacks
import gemm_attacks
import header_attacks
import large_requests
import many_connections
import message_attacks
import program_loads
import program_runs
import upload_attacks

# Flags of the server that is attacked: a budget to fill, and limits in time
# that pass within a test.
COMMON_FLAGS = ("--weights_budget_bytes=1GiB", "--idle_timeout=3s",
                "--drain_timeout=10s")


@dataclasses.dataclass(frozen=True)
class Attack:
    """One attack, and the server that it meets."""
    run: typing.Callable      # run(scene): what came of it, or a Surprise
    flags: tuple = COMMON_FLAGS
    limits: tuple = ()        # pairs (resource.RLIMIT_…, value)
    # The attacker, and who shares its proxy, come through HAProxy.
    proxied: bool = False
    # False: gRPC's own weakness, which a proxy must hold. It must not end the
    # server, but others may wait and memory may grow meanwhile.
    bounded: bool = True

    @property
    def name(self):
        return self.run.__name__ + ("_proxied" if self.proxied else "")

    @property
    def server(self):
        """Attacks with the same of these can share one server."""
        return self.flags, self.limits, self.proxied


def of_module(module, *names):
    return [Attack(getattr(module, name)) for name in names]


ATTACKS = [
    *of_module(
        message_attacks, "gzip_bomb", "deflate_bombs", "gzip_bombs_in_streams",
        "unknown_fields", "unknown_fields_in_queries",
        "unknown_fields_in_streams", "nested_groups", "unfinished_messages",
        "unfinished_messages_of_many", "trickled_messages", "length_prefixes",
        "mutated_messages", "oversized_messages"),
    *of_module(
        connection_attacks, "reflection_streams", "watches",
        "calls_of_headers", "crumbs_of_data", "idle_connections",
        "silent_connections", "slow_prefaces", "connection_churn",
        "rapid_resets", "control_floods", "empty_messages",
        "unread_control_frames", "broken_frames", "mutated_http2"),
    *of_module(
        many_connections, "watch_flood", "request_flood",
        "reset_flood_of_many"),
    *of_module(
        header_attacks, "bad_fields", "stock_metadata", "trickled_headers",
        "timeouts", "forged_log", "long_names"),
    *of_module(
        gemm_attacks, "starvation", "invented_clients", "borrowed_client",
        "urgent_requests", "thousands_of_clients", "unread_answers",
        "unread_streams", "never_reading", "partial_operands", "cancel_storm",
        "streams_cut", "absurd_sizes", "mixed_sizes"),
    *of_module(
        upload_attacks, "half_open_uploads", "budget_hog", "slow_uploads",
        "empty_chunks", "uploads_at_once", "abandoned_uploads",
        "cancelled_upload", "names", "tiny_layers", "unread_lists",
        "reload_storm", "odd_headers"),
    *of_module(
        program_runs, "wide_runs", "wide_scratch", "heavy_runs", "false_runs",
        "declared_runs", "cut_runs", "unload_while_running"),
    *of_module(
        program_loads, "program_flood", "large_programs_at_once",
        "program_lists", "mutated_programs"),
    *of_module(
        endpoint_attacks, "slow_scrapers", "unread_pages", "odd_pages"),
    *of_module(large_requests, "big_fragments"),
    Attack(large_requests.large_launch,
           flags=COMMON_FLAGS + ("--launch_timeout=5s",)),
    Attack(header_attacks.small_header_floods, bounded=False),
    Attack(connection_attacks.descriptor_flood,
           limits=((resource.RLIMIT_NOFILE, 128),)),
    Attack(connection_attacks.reflection_descriptors,
           limits=((resource.RLIMIT_NOFILE, 1024),)),
    *(Attack(run, proxied=True) for run in (
        header_attacks.header_floods, header_attacks.bad_fields,
        header_attacks.stock_metadata, header_attacks.trickled_headers,
        connection_attacks.rapid_resets, connection_attacks.control_floods,
        connection_attacks.broken_frames, connection_attacks.mutated_http2,
        message_attacks.gzip_bomb, message_attacks.unknown_fields)),
]
