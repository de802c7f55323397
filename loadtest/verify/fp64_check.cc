// SPDX-License-Identifier: Apache-2.0

#include "loadtest/verify/fp64_check.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/matrix/fp64_oracle.h"

namespace qgemm {
namespace {

// Rows from which a pass over the weights is worth its while.
constexpr int64_t kRowsAPass = 64;

absl::Span<const uint8_t> AsBytes(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

// Requests and their answers, one after the other: an oracle's row does not
// depend on the others, so that a pass over the weights serves many.
struct Gathered {
  int64_t rows = 0;
  std::vector<uint8_t> a;
  std::string c;
};

OracleColumns ColumnsOf(const WeightsHeader& header, int64_t rows,
                        const Fp64Budget& budget) {
  OracleColumns columns;
  if (budget.multiply_adds <= 0) return columns;
  const double whole = static_cast<double>(rows + 1) *
                       static_cast<double>(header.n) *
                       static_cast<double>(header.k);
  columns.stride = std::min<int64_t>(
      header.n, 1 + static_cast<int64_t>(whole / budget.multiply_adds));
  columns.first = static_cast<int64_t>(budget.seed % columns.stride);
  return columns;
}

// One layer's check.
struct Check {
  const CanonicalWeights& weights;
  const MatmulSignature& signature;
  OracleColumns columns;
  VerifyReport* report;
  Gathered gathered = {};

  void Pass() {
    if (gathered.rows == 0) return;
    const OracleProduct product =
        Fp64Matmul(weights, signature, gathered.a, gathered.rows, columns);
    const OracleReport compared = CompareWithOracle(
        product, weights.header(), signature, AsBytes(gathered.c));
    report->elements_checked += compared.compared;
    report->worst_tolerance_used =
        std::max(report->worst_tolerance_used, compared.worst_ratio);
    report->status.Update(compared.ToStatus());
    gathered = Gathered();
  }

  void Add(const AnsweredRequest& answer) {
    const size_t expected =
        answer.m * weights.header().n * SizeOf(signature.c_type);
    if (answer.c->size() != expected) {
      report->status.Update(absl::DataLossError(
          absl::StrCat("the answer to ", answer.name, " has ", answer.c->size(),
                       " bytes, expected ", expected)));
      return;
    }
    gathered.a.insert(gathered.a.end(), answer.a.begin(), answer.a.end());
    gathered.c += *answer.c;
    gathered.rows += answer.m;
    if (gathered.rows >= kRowsAPass) Pass();
  }
};

}  // namespace

void CheckAgainstFp64(const CanonicalWeights& weights,
                      const MatmulSignature& signature,
                      const std::vector<AnsweredRequest>& answers,
                      const Fp64Budget& budget, VerifyReport* report) {
  int64_t rows = 0;
  for (const AnsweredRequest& answer : answers) rows += answer.m;
  Check check{weights, signature, ColumnsOf(weights.header(), rows, budget),
              report};
  for (const AnsweredRequest& answer : answers) check.Add(answer);
  check.Pass();
}

}  // namespace qgemm
