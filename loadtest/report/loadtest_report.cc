// SPDX-License-Identifier: Apache-2.0

#include "loadtest/report/loadtest_report.h"

namespace qgemm {

absl::string_view Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed:
      return "passed";
    case Verdict::kErrors:
      return "errors";
    case Verdict::kUsage:
      return "usage";
    case Verdict::kSloMissed:
      return "slo missed";
    case Verdict::kLag:
      return "generator lag";
    case Verdict::kWrongAnswer:
      return "wrong answer";
    case Verdict::kNotStarted:
      return "not started";
    case Verdict::kNotWritten:
      return "report not written";
    case Verdict::kInterrupted:
      return "interrupted";
  }
  return "";
}

const RunResult* LoadtestReport::headline_run() const {
  return headline < runs.size() ? &runs[headline] : nullptr;
}

Verdict LoadtestReport::verdict() const {
  return findings.empty() ? Verdict::kPassed : findings.front().verdict;
}

}  // namespace qgemm
