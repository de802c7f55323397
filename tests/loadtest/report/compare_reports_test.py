# SPDX-License-Identifier: Apache-2.0
"""What is called a difference between two reports, and what is warned of."""

import math
import unittest

import compare_reports as compare
import numpy
import sample_reports as sample

SEED = numpy.random.SeedSequence().entropy
print(f"seed {SEED}")


def random_blocks(random, count, median=1e5, values=200):
    """JSON histograms of lognormal values, rounded as the engine does."""
    drawn = random.lognormal(math.log(median), 0.3, (count, values))
    return [sample.histogram([compare.cell_of(value)[0] for value in block])
            for block in drawn]


def random_run(random, median=1e5):
    """A run of about 6000 answers, with latencies about `median`."""
    blocks = [[compare.cell_of(value)[0] for value in
               random.lognormal(math.log(median), 0.3, random.poisson(100))]
              for _ in range(60)]
    run = sample.run(latencies=sum(blocks, []))
    run["blocks_ns"] = [sample.histogram(block) for block in blocks]
    return run


class BootstrapTest(unittest.TestCase):

    def setUp(self):
        self.random = numpy.random.default_rng(SEED)

    def test_all_blocks_once_are_the_whole_run(self):
        blocks = random_blocks(self.random, 7)
        values = sorted(value for block in blocks
                        for value, _, count in block["buckets"]
                        for _ in range(count))
        figures = compare.Blocks(blocks)
        once = numpy.ones((1, 7))
        self.assertEqual(figures.mean().values(once)[0],
                         sum(values) / len(values))
        for percent in (1, 50, 90, 99, 100):
            exact = values[math.ceil(percent / 100 * len(values)) - 1]
            self.assertAlmostEqual(
                figures.percentile(percent).values(once)[0], exact,
                delta=exact * compare.CELL_WIDTH)

    def test_a_weight_is_that_many_copies(self):
        blocks = random_blocks(self.random, 3)
        copied = compare.Blocks([blocks[0], blocks[0], blocks[2]])
        figures = compare.Blocks(blocks)
        for percent in (10, 50, 99):
            self.assertAlmostEqual(
                figures.percentile(percent).values(
                    numpy.array([[2.0, 0, 1]]))[0],
                copied.percentile(percent).values(numpy.ones((1, 3)))[0], 5)

    def test_the_same_input_gives_the_same_interval(self):
        a, b = (compare.Blocks(random_blocks(self.random, count)).percentile(99)
                for count in (10, 12))
        self.assertEqual(compare.bootstrap(a, b), compare.bootstrap(a, b))

    def test_few_or_empty_blocks_have_no_interval(self):
        few, enough = (compare.Blocks(random_blocks(self.random, count)).mean()
                       for count in (4, 5))
        empty = compare.Blocks([sample.histogram([])] * 10)
        self.assertIsNone(compare.bootstrap(few, enough))
        self.assertIsNone(compare.bootstrap(enough, few))
        self.assertIsNotNone(compare.bootstrap(enough, enough))
        self.assertIsNone(compare.bootstrap(enough, empty.percentile(50)))

    def test_the_interval_has_the_width_of_theory(self):
        # Means of 400 independent blocks of relative deviation d: the ratio's
        # is d * sqrt(2 / 400), of which 1.96 lie to either side.
        deviation, ones = 0.2, numpy.ones(400)
        low, high = compare.bootstrap(*(
            compare.quotient(self.random.normal(1, deviation, 400), ones)
            for _ in range(2)))
        expected = 2 * 1.96 * deviation * math.sqrt(2 / 400)
        # The sample's deviation is known to 1 / sqrt(2 * 800) = 2.5 %, a
        # quantile of 2000 resamples to about 3 %; five times their sum in
        # squares.
        self.assertAlmostEqual(high - low, expected, delta=0.2 * expected)

    def test_the_fewest_blocks_are_not_too_sure(self):
        missed, ones = 0, numpy.ones(compare.MIN_BLOCKS)
        for _ in range(300):
            a, b = (self.random.normal(1, 0.1, compare.MIN_BLOCKS)
                    for _ in range(2))
            low, high = compare.bootstrap(compare.quotient(a, ones),
                                          compare.quotient(b, ones))
            ratio = b.sum() / a.sum()
            missed += ratio * low > 1 or ratio * high < 1
        # 5 % of 300 are 15, of deviation sqrt(300 * 0.05 * 0.95) = 3.8; five
        # of those more come by chance once in a million.
        self.assertLessEqual(missed, 15 + 5 * 3.8)

    def test_values_of_one_cell_are_not_taken_for_certain(self):
        median = compare.Blocks([sample.histogram([100_000] * 50)] * 60
                                ).percentile(50)
        low, high = compare.bootstrap(median, median)
        # Anywhere in a step, uniformly: of deviation step / sqrt(12), and of
        # two means of 60 that times sqrt(2 / 60).
        least = 1.96 * compare.CELL_WIDTH / math.sqrt(12) * math.sqrt(2 / 60)
        self.assertLess(low, 1 - 0.99 * least)
        self.assertGreater(high, 1 + 0.99 * least)


class CompareTest(unittest.TestCase):

    def setUp(self):
        self.random = numpy.random.default_rng(SEED)

    def rows_of(self, a, b):
        return {row.name: row for row in compare.compare_runs(a, b)}

    def text_of(self, a, b):
        return "\n".join(compare.compare(a, b))

    def test_equal_runs_differ_in_about_one_of_twenty_trials(self):
        differences = {}
        for _ in range(40):
            rows = self.rows_of(random_run(self.random),
                                random_run(self.random))
            for name, row in rows.items():
                if row.interval and row.verdict != "no difference shown":
                    differences[name] = differences.get(name, 0) + 1
        # Of 40 trials at 5 %, 12 or more come once in 10^6.
        self.assertLess(max(differences.values(), default=0), 12, differences)

    def test_finds_a_tenth_more_latency(self):
        # Of 6000 answers a side of deviation 0.3, the ratio's standard error
        # is 0.55 % for the mean, more by 1.25 for p50 and by 1.71 for p90.
        a, b = random_run(self.random), random_run(self.random, 1.1e5)
        for name in ("p50 us", "p90 us", "mean us"):
            row = self.rows_of(a, b)[name]
            self.assertEqual(row.verdict, "slower", name)
            self.assertLessEqual(row.interval[0], row.b / row.a)
            self.assertGreaterEqual(row.interval[1], row.b / row.a)
            self.assertEqual(self.rows_of(b, a)[name].verdict, "faster", name)

    def test_rows_per_launch_are_more_or_less_not_faster(self):
        a, b = sample.run(), sample.run()
        b["server"]["launch_rows"]["mean"] *= 2
        for point in b["series"]:
            point["launch_rows"] *= 2
        self.assertEqual(self.rows_of(a, b)["rows per launch"].verdict, "more")
        self.assertEqual(self.rows_of(b, a)["rows per launch"].verdict, "less")

    def test_walks_are_compared_by_their_tokens(self):
        # One has a tenth of the other's calls a token, of as many answers.
        few = random_run(self.random)
        many = random_run(self.random)
        few.update(tokens_per_second=1000.0, token_ms=1.0)
        many.update(tokens_per_second=100.0, token_ms=10.0)
        rows = self.rows_of(many, few)
        self.assertEqual(rows["tokens/s"].verdict, "faster")
        self.assertEqual(rows["ms a token"].verdict, "faster")
        self.assertAlmostEqual(
            sum(rows["tokens/s"].interval) / 2, 10, delta=1)
        self.assertNotIn("tokens/s", self.rows_of(few, sample.run()))

    def test_rows_of_several_classes_are_drawn_from_the_series(self):
        run = sample.run()
        run["classes"].append(run["classes"][0])
        self.assertIsNotNone(self.rows_of(run, run)["rows/s"].interval)
        run["series"] = []
        self.assertEqual(self.rows_of(run, run)["rows/s"].verdict,
                         "0 and 0 stretches of the series, at least 5 needed")

    def test_says_why_there_is_no_interval(self):
        few = sample.run(blocks_ns=sample.run()["blocks_ns"][:4])
        silent = sample.run(server_cpu_us_an_answer=0.0)
        rows = self.rows_of(few, silent)
        self.assertEqual(rows["p50 us"].verdict,
                         "4 and 10 blocks, at least 5 needed")
        self.assertEqual(rows["p99.9 us"].verdict,
                         "2.0 answers above it, at least 10 needed")
        self.assertEqual(rows["client cpu us per answer"].verdict,
                         "one figure per run")
        self.assertEqual(rows["server cpu us per answer"].verdict,
                         "not measured on both sides")

    def test_warns_of_what_should_be_equal(self):
        a, b = sample.report(sample.run()), sample.report(sample.run(
            rate=5, interrupted=True, error_count=3))
        b["environment"]["server"]["device"] = "another"
        b["weights"]["text"] = "q4_0"
        text = self.text_of(a, b)
        for warning in ('server device: "d" in a, "another" in b',
                        'weights: "kbit4 64x64" in a, "q4_0" in b',
                        "b had 3 errors", "b was interrupted",
                        "one had open arrivals"):
            self.assertIn(f"WARNING    {warning}", text)

    def test_lists_options_that_differ_but_not_output_files(self):
        text = self.text_of(
            sample.report(m="1", seed="7", json="a", old="x"),
            sample.report(m="4", seed="7", json="b", zipf="1.1"))
        self.assertIn("option     --m: 1 in a, 4 in b\n"
                      "option     --old: x in a, absent in b\n"
                      "option     --zipf: absent in a, 1.1 in b\n", text)
        self.assertIn("no run to compare", text)

    def test_runs_are_matched_by_label(self):
        a = sample.report(*map(sample.run, ("rate=1", "rate=2", "rate=2")))
        b = sample.report(*map(sample.run, ("rate=2", "rate=3")))
        text = self.text_of(a, b)
        self.assertEqual(text.count("run        rate=2"), 1)
        self.assertIn('only a has the run "rate=1"', text)
        self.assertIn('only b has the run "rate=3"', text)

    def test_a_row_has_both_figures_ratio_interval_and_verdict(self):
        self.assertEqual(
            compare.row_line(compare.Row("p50 us", 100, 110, (1.05, 1.15),
                                         "slower")),
            "p50 us                        100.00       110.00   1.1000  "
            "1.0500 to 1.1500  slower")


if __name__ == "__main__":
    unittest.main()
