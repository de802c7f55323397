# SPDX-License-Identifier: Apache-2.0
"""The rules and the dashboard of ops/ against a real Prometheus that scrapes a
real server under load."""

import contextlib
import json
import os
import re
import subprocess
import unittest

import scene

# Their series appear when it first happens, with a GPU, or with TLS
# (ops/README.md).
EMPTY_WHEN_HEALTHY = {
    "QgemmLaunchErrors", "QgemmQueueStuck", "QgemmGpuSilent",
    "QgemmGpuMemoryErrors", "QgemmGpuHot", "QgemmCertificateEnds",
    "Failed launches",
}


def panels():
    """(title, expression) of each query of the dashboard."""
    dashboard = json.loads((scene.OPS / "dashboard.json").read_text("utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], (
                target["expr"].replace("$instance", ".*").replace(
                    "$__rate_interval", "1m"))


class OpsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.server = stack.enter_context(
            scene.server_under_load(os.environ["QGEMM_SERVER"]))
        cls.prometheus = stack.enter_context(scene.prometheus_of(cls.server))
        # Some scrapes, and an evaluation of the rules after them.
        scene.wait_for(
            lambda: cls.prometheus.query(
                "qgemm:rpc_latency_seconds:p99_rate5m > 0"), "a first rate")

    def assert_has_data(self, name, expression):
        if name in EMPTY_WHEN_HEALTHY or name.startswith("GPU "):
            self.prometheus.query(expression)
            return
        with self.subTest(name=name, expression=expression):
            scene.wait_for(lambda: self.prometheus.query(expression),
                           expression)

    def test_every_rule_has_data(self):
        groups = self.prometheus.ask("rules")["groups"]
        found = [rule for group in groups for rule in group["rules"]]
        self.assertGreater(len(found), 20)
        for rule in found:
            # Without its bound an alert has a value whether it fires or not.
            self.assert_has_data(rule["name"], re.sub(
                r" (==|>=|>) ([0-9.]+)$", r" \1 bool \2", rule["query"]))

    def test_the_rules_are_well_formed(self):
        checked = subprocess.run(
            ["promtool", "check", "rules", "--lint-fatal", "rules.yml"],
            cwd=scene.OPS, capture_output=True, text=True)
        self.assertEqual(0, checked.returncode,
                         checked.stdout + checked.stderr)

    def test_every_panel_has_data(self):
        found = list(panels())
        self.assertGreater(len(found), 40)
        for title, expression in found:
            self.assert_has_data(title, expression)

    def test_a_healthy_server_fires_no_alert(self):
        alerts = self.prometheus.ask("alerts")["alerts"]
        self.assertEqual([], [a for a in alerts if a["state"] == "firing"])

    def test_what_is_counted_by_layer_and_client_is_this_load(self):
        uid = f"uid {os.getuid()}"
        for expression in (
                f'qgemm_layer_rows_total{{layer="{scene.LAYER}"}} > 0',
                f'qgemm_layer_bytes{{layer="{scene.LAYER}"}} > 0',
                f'qgemm_client_requests_total{{client="{uid}"}} > 0',
                'qgemm_connections{transport="tcp"} == 1',
                'qgemm_connections{transport="unix"} == 1',
                'qgemm_transport_bytes_total{direction="received", '
                'transport="tcp"} > 0',
                'qgemm_transport_bytes_total{direction="sent", '
                'transport="unix"} > 0',
                'qgemm_health{state="serving"} == 1',
                'qgemm_build_info{backend="cpu"}'):
            with self.subTest(expression=expression):
                scene.wait_for(lambda: self.prometheus.query(expression),
                               expression)

    def test_an_upload_in_progress_is_counted(self):
        def shows(count):
            return f"\nqgemm_uploads {count}\n" in self.server.get("/metrics")
        with scene.half_open_upload(self.server.addresses[0]):
            scene.wait_for(lambda: shows(1), "an upload")
        scene.wait_for(lambda: shows(0), "the end of the upload")

    def test_names_and_texts_of_metrics_are_good(self):
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=self.server.get("/metrics"),
            capture_output=True, text=True)
        self.assertEqual("", checked.stdout + checked.stderr)
        self.assertEqual(0, checked.returncode)

    def test_alerts_fire_when_they_should(self):
        checked = subprocess.run(
            ["promtool", "test", "rules", "rules_test.yml"], cwd=scene.OPS,
            capture_output=True, text=True)
        self.assertEqual(0, checked.returncode,
                         checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
