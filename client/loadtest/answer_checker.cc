// SPDX-License-Identifier: Apache-2.0
//
// Keeps the first answer to each input and compares.

#include "client/loadtest/answer_checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/matrix/fp64_oracle.h"

namespace qgemm {
namespace {

constexpr int64_t kSampleEvery = 16;
// Under a second of the oracle on one core.
constexpr double kSampleMultiplyAdds = 1 << 28;

absl::Span<const uint8_t> AsBytes(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

// Inputs and their answers, one after the other: an oracle's row does not
// depend on the others, so that a pass over the weights serves many.
struct Gathered {
  int64_t rows = 0;
  std::vector<uint8_t> a;
  std::string c;
};

// Rows from which a pass over the weights is worth its while.
constexpr int64_t kRowsAPass = 64;

OracleColumns ColumnsOf(VerifyMode mode, const OracleInputs& oracle,
                        int64_t rows) {
  if (mode == VerifyMode::kAll) return {};
  const WeightsHeader& header = oracle.weights.header();
  const double multiply_adds = static_cast<double>(rows + 1) *
                               static_cast<double>(header.n) *
                               static_cast<double>(header.k);
  OracleColumns columns;
  columns.stride = std::min<int64_t>(
      header.n, 1 + static_cast<int64_t>(multiply_adds / kSampleMultiplyAdds));
  columns.first = static_cast<int64_t>(oracle.seed % columns.stride);
  return columns;
}

void CheckPass(const OracleInputs& oracle, const OracleColumns& columns,
               Gathered* gathered, VerifyReport* report) {
  if (gathered->rows == 0) return;
  const OracleProduct product = Fp64Matmul(
      oracle.weights, oracle.signature, gathered->a, gathered->rows, columns);
  const OracleReport compared = CompareWithOracle(
      product, oracle.weights.header(), oracle.signature, AsBytes(gathered->c));
  report->elements_checked += compared.compared;
  report->worst_tolerance_used =
      std::max(report->worst_tolerance_used, compared.worst_ratio);
  report->status.Update(compared.ToStatus());
  *gathered = Gathered();
}

absl::Status CheckSize(const OracleInputs& oracle, size_t input,
                       absl::string_view answer) {
  const size_t expected =
      oracle.m * oracle.weights.header().n * SizeOf(oracle.signature.c_type);
  if (answer.size() == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the answer to input ", input,
                                          " has ", answer.size(),
                                          " bytes, expected ", expected));
}

}  // namespace

AnswerChecker::AnswerChecker(VerifyMode mode, int64_t inputs)
    : mode_(mode), first_answers_(inputs) {}

void AnswerChecker::OnAnswer(int64_t input, int64_t sequence,
                             absl::string_view c) {
  if (mode_ == VerifyMode::kNone) return;
  if (mode_ == VerifyMode::kSample && sequence % kSampleEvery != 0) return;
  std::shared_ptr<const std::string> first;
  {
    MutexLock lock(&mutex_);
    first = first_answers_[input];
    if (first == nullptr) {
      first_answers_[input] = std::make_shared<const std::string>(c);
      ++report_.answers_compared;
      return;
    }
  }
  const bool different = *first != c;
  MutexLock lock(&mutex_);
  ++report_.answers_compared;
  if (!different) return;
  if (report_.answers_different++ == 0) {
    report_.status = absl::DataLossError(
        absl::StrCat("two answers to input ", input, " differ in their bits"));
  }
}

VerifyReport AnswerChecker::CompareBits() const {
  MutexLock lock(&mutex_);
  return report_;
}

VerifyReport AnswerChecker::CompareWithFp64(const OracleInputs& oracle) const {
  MutexLock lock(&mutex_);
  VerifyReport report = report_;
  int64_t rows = 0;
  for (const auto& answer : first_answers_) rows += answer ? oracle.m : 0;
  const OracleColumns columns = ColumnsOf(mode_, oracle, rows);
  Gathered gathered;
  for (size_t input = 0; input < first_answers_.size(); ++input) {
    if (first_answers_[input] == nullptr) continue;
    const std::string& c = *first_answers_[input];
    const absl::Status size = CheckSize(oracle, input, c);
    report.status.Update(size);
    if (!size.ok()) continue;
    const std::vector<uint8_t>& a = oracle.inputs[input];
    gathered.a.insert(gathered.a.end(), a.begin(), a.end());
    gathered.c += c;
    gathered.rows += oracle.m;
    if (gathered.rows >= kRowsAPass) {
      CheckPass(oracle, columns, &gathered, &report);
    }
  }
  CheckPass(oracle, columns, &gathered, &report);
  return report;
}

}  // namespace qgemm
