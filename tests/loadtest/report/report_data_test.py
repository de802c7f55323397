# SPDX-License-Identifier: Apache-2.0
"""The rules by which reports are read."""

import json
import pathlib
import tempfile
import unittest

import report_charts
import report_data as data
import report_sweep_charts
import sample_reports as sample


class ReadingTest(unittest.TestCase):

    def refusal_of(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "file.json")
            path.write_text(text, encoding="utf-8")
            with self.assertRaises(data.ReportError) as refused:
                data.load(path)
        return str(refused.exception)

    def test_refuses_what_is_no_report_and_says_why(self):
        self.assertIn("file.json", self.refusal_of("hello"))
        self.assertIn('"schema" is not', self.refusal_of("[]"))
        self.assertIn('"schema" is not', self.refusal_of('{"schema": "x"}'))

    def test_refuses_other_versions_and_says_which_it_reads(self):
        for version in (2, 4, "3", None):
            report = dict(sample.report(), schema_version=version)
            self.assertIn(f"schema_version is {version!r}, this program reads "
                          "3", self.refusal_of(json.dumps(report)))

    def test_refuses_a_headline_that_is_no_run(self):
        report = dict(sample.report(sample.run()), headline=1)
        self.assertIn("headline is 1 of 1", self.refusal_of(json.dumps(report)))

    def test_durations_are_those_of_flags(self):
        for text, ns in (("1.5ms", 1.5e6), ("1h30m", 5.4e12), ("0", 0),
                         ("250us", 250e3), ("inf", float("inf")),
                         ("", None), ("5", None), ("1x", None)):
            self.assertEqual(data.duration_ns(text), ns, text)


class HistogramTest(unittest.TestCase):

    def test_percentiles_are_bucket_ends_up_to_the_maximum(self):
        values = data.Histogram([{"min": 1, "max": 21, "sum": 32.0, "buckets":
                                  [[1, 1, 1], [10, 11, 1], [20, 23, 1]]}])
        for percent, value in ((0, 1), (33.3, 1), (33.4, 11), (66.6, 11),
                               (66.7, 21), (100, 21)):
            self.assertEqual(values.percentile(percent), value, percent)

    def test_merging_adds_equal_buckets(self):
        part = sample.histogram([1, 1, 5])
        both = data.Histogram([part, part, sample.histogram([])])
        self.assertEqual(both.buckets, [(1, 1, 4), (5, 5, 2)])
        self.assertEqual((both.count, both.sum, both.max), (6, 14, 5))

    def test_nothing_is_zero(self):
        nothing = data.Histogram([])
        self.assertEqual((nothing.mean(), nothing.percentile(99)), (0, 0))


class PercentileRuleTest(unittest.TestCase):

    def test_needs_ten_answers_above(self):
        for percent, enough in ((50, 20), (90, 100), (99, 1000), (99.9, 10000),
                                (99.99, 100000)):
            self.assertTrue(data.has_answers_above(enough, percent), percent)
            self.assertFalse(data.has_answers_above(enough - 1, percent),
                             percent)

    def test_the_spectrum_ends_where_ten_answers_are_above(self):
        run = sample.run(latencies=range(1000, 3000))
        chart = report_charts.spectrum(sample.report(run), run)[0]
        rows = chart.spec["layer"][0]["data"]["values"]
        last = max(row["percent"] for row in rows)
        self.assertTrue(data.has_answers_above(2000, last))
        self.assertLess(99, last)  # p99 has 20

    def test_few_answers_have_no_spectrum(self):
        run = sample.run(latencies=[1] * 9)
        self.assertEqual(report_charts.spectrum(sample.report(run), run), [])

    def test_a_sweep_leaves_out_percentiles_of_few_answers(self):
        chart = report_sweep_charts.sweep(sample.sweep())[0]
        shown = {row["quantity"]
                 for row in chart.spec["layer"][0]["data"]["values"]}
        self.assertEqual(shown, {"p50", "p99"})


class KneeTest(unittest.TestCase):

    def test_is_the_highest_rate_that_meets_the_slo(self):
        self.assertEqual(data.knee(sample.sweep()), 0)
        report = sample.report(*(sample.run(f"rate={rate}", rate) for rate in
                                 (500, 4000, 1000)), slo="p99=1ms")
        self.assertEqual(data.knee(report), 1)

    def test_there_is_none_without_an_slo(self):
        report = dict(sample.sweep())
        report["options"] = dict(report["options"], slo="")
        self.assertIsNone(data.knee(report))
        self.assertIn("no knee", report_sweep_charts.knee_note(report))

    def test_there_is_none_if_every_run_misses_it(self):
        report = dict(sample.sweep())
        report["options"] = dict(report["options"], slo="p50=1ns")
        self.assertIsNone(data.knee(report))
        self.assertEqual(report_sweep_charts.knee_note(report),
                         "No run met the SLO: there is no knee.")

    def test_a_single_run_and_closed_loops_have_none(self):
        for runs in ([sample.run("rate=1", 1)],
                     [sample.run("concurrency=1"),
                      sample.run("concurrency=2")]):
            self.assertIsNone(data.knee(sample.report(*runs, slo="p99=1s")))

    def test_a_searched_peak_is_the_knee(self):
        report = sample.report(sample.run("rate=10", 10),
                               sample.run("rate=20", 20),
                               sample.run("confirm rate=10", 10), slo="p99=1s")
        report["peak"] = {"slo": "p99=1s", "rate": 10.0, "confirmed": True}
        self.assertEqual(data.knee(report), 2)


class FailureTest(unittest.TestCase):

    def failures_of(self, rate=1000, allow_errors="", **fields):
        run = sample.run("", rate, **fields)
        return data.failures(sample.report(run, allow_errors=allow_errors), run)

    def test_a_good_run_has_none(self):
        self.assertEqual(self.failures_of(), [])

    def test_errors_fail_a_run_unless_they_are_allowed(self):
        errors = {"UNAVAILABLE": {"count": 3, "first_message": ""}}
        self.assertEqual(self.failures_of(errors=errors), ["3 UNAVAILABLE"])
        self.assertEqual(self.failures_of(errors=errors, allow_errors=
                                          "NOT_FOUND,UNAVAILABLE"), [])

    def test_arrivals_must_be_sent_and_in_time(self):
        self.assertEqual(self.failures_of(sent=1980), [])
        self.assertEqual(self.failures_of(sent=1979),
                         ["21 of 2000 due requests never sent"])
        late = sample.summary([10_001])
        self.assertEqual(self.failures_of(lag_us=late), ["generator late"])
        self.assertEqual(self.failures_of(rate=0, lag_us=late), [])

    def test_failed_runs_are_marked(self):
        rows = report_sweep_charts.sweep(sample.sweep())[1].spec["layer"][1][
            "data"]["values"]
        self.assertEqual({row["run"] for row in rows if row["failed"]},
                         {"rate=4000"})


class LooksTest(unittest.TestCase):

    def test_every_quantity_has_a_colour_of_its_own(self):
        colours = [*report_charts.COLOURS.values(),
                   *report_charts.CLASS_COLOURS]
        self.assertEqual(len(colours), len(set(colours)))

    def test_flags_that_differ_from_their_defaults_come_first(self):
        options = data.ordered_options(sample.report())
        self.assertEqual([name for name, _, changed in options if changed],
                         [options[0][0]])

    def test_logarithmic_axes_have_a_few_round_labels(self):
        self.assertEqual(report_charts.log_ticks(80, 30000),
                         [100.0, 1000.0, 10000.0])
        for low, high in ((24, 41), (100, 156), (0.2, 7), (3, 2e7)):
            self.assertGreaterEqual(len(report_charts.log_ticks(low, high)), 3)


if __name__ == "__main__":
    unittest.main()
