# SPDX-License-Identifier: Apache-2.0
"""The percentile file against an example computed by hand."""

import unittest

import report_data as data
import report_hgrm
import sample_reports as sample

HEAD = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n"

# Levels go 0, 10, …, 50 (five to the first half), 55, …, 75 (five to the
# second), 77.5. The four values reach 25, 50, 75 and 100 %. Their mean is 250,
# the deviation sqrt((150² + 50² + 50² + 150²) / 4) = 111.803.
FOUR_VALUES = HEAD + """\
     100.000 0.000000000000          1           1.00
     100.000 0.100000000000          1           1.11
     100.000 0.200000000000          1           1.25
     200.000 0.300000000000          2           1.43
     200.000 0.400000000000          2           1.67
     200.000 0.500000000000          2           2.00
     300.000 0.550000000000          3           2.22
     300.000 0.600000000000          3           2.50
     300.000 0.650000000000          3           2.86
     300.000 0.700000000000          3           3.33
     300.000 0.750000000000          3           4.00
     400.000 0.775000000000          4           4.44
     400.000 1.000000000000          4
#[Mean    =      250.000, StdDeviation   =      111.803]
#[Max     =      400.000, Total count    =            4]
#[Buckets =            1, SubBuckets     =         2048]
"""


def text_of(values, unit=1):
    return report_hgrm.text(data.Histogram([sample.histogram(values)]), unit)


class HgrmTest(unittest.TestCase):

    def test_is_the_example_computed_by_hand(self):
        self.assertEqual(text_of([100, 200, 300, 400]), FOUR_VALUES)

    def test_divides_by_the_unit_and_keeps_the_maximum(self):
        text = text_of([3000500], 1000)
        self.assertIn("\n    3000.500 1.000000000000", text)
        # 2048 << 11 is the first power of two above it.
        self.assertIn("#[Buckets =           12,", text)

    def test_without_values_has_no_rows(self):
        self.assertTrue(text_of([]).startswith(HEAD + "#[Mean    =        0.0"))


if __name__ == "__main__":
    unittest.main()
