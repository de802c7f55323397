// SPDX-License-Identifier: Apache-2.0

#include "loadtest/verify/verify.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/crc32c.h"
#include "kernels/matrix/fp64_oracle.h"
#include "loadtest/workload/workload.h"

namespace qgemm::loadtest {
namespace {

constexpr uint64_t kSampleEvery = 16;

// The first one, and of the others one in kSampleEvery at random: at regular
// distances a walk would show the same few layers again and again.
bool IsInSample(int64_t sequence) {
  return sequence == 0 ||
         MixBits(static_cast<uint64_t>(sequence)) % kSampleEvery == 0;
}

using Pieces = absl::Span<const absl::string_view>;

// Rows of one pass over the weights.
constexpr int64_t kRowsAPass = 64;

absl::Span<const uint8_t> AsBytes(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

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

// One layer's check. Gathers requests and their answers, one after the other:
// an oracle's row does not depend on the others, so that a pass over the
// weights serves many.
struct Check {
  const CanonicalWeights& weights;
  const MatmulSignature& signature;
  OracleColumns columns;
  VerifyReport* report;
  int64_t rows = 0;
  std::vector<uint8_t> a = {};
  std::string c = {};

  void Pass() {
    if (rows == 0) return;
    const OracleProduct product =
        Fp64Matmul(weights, signature, a, rows, columns);
    const OracleReport compared =
        CompareWithOracle(product, weights.header(), signature, AsBytes(c));
    report->elements_checked += compared.compared;
    report->worst_tolerance_used =
        std::max(report->worst_tolerance_used, compared.worst_ratio);
    report->status.Update(compared.ToStatus());
    rows = 0;
    a.clear();
    c.clear();
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
    a.insert(a.end(), answer.a.begin(), answer.a.end());
    c += *answer.c;
    rows += answer.m;
    if (rows >= kRowsAPass) Pass();
  }
};

}  // namespace

absl::string_view Name(VerifyMode mode) {
  constexpr absl::string_view kNames[] = {"none", "sample", "all"};
  return kNames[static_cast<size_t>(mode)];
}

AnswerChecker::AnswerChecker(VerifyMode mode, int messages, int64_t kept_bytes)
    : mode_(mode), room_bytes_(kept_bytes), first_(messages) {
  report_.mode = std::string(Name(mode));
}

bool AnswerChecker::Wants(int64_t sequence) const {
  return mode_ == VerifyMode::kAll ||
         (mode_ == VerifyMode::kSample && IsInSample(sequence));
}

void AnswerChecker::OnAnswer(int message, int64_t sequence, Pieces c) {
  if (!Wants(sequence)) return;
  int64_t bytes = 0;
  uint32_t crc32c = 0;
  for (absl::string_view piece : c) {
    bytes += piece.size();
    crc32c = ExtendCrc32c(crc32c, piece);
  }
  MutexLock lock(&mutex_);
  ++report_.answers_compared;
  First& first = first_[message];
  if (!first.seen) {
    first.seen = true;
    first.bytes = bytes;
    first.crc32c = crc32c;
    if (bytes > room_bytes_) return;
    room_bytes_ -= bytes;
    first.kept = std::make_shared<const std::string>(absl::StrJoin(c, ""));
    return;
  }
  if (first.bytes == bytes && first.crc32c == crc32c) return;
  if (report_.answers_different++ > 0) return;
  report_.status = absl::DataLossError(absl::StrCat(
      "two answers to request ", message, " differ in their bits"));
}

VerifyReport AnswerChecker::Report() const {
  MutexLock lock(&mutex_);
  return report_;
}

std::shared_ptr<const std::string> AnswerChecker::Kept(int message) const {
  MutexLock lock(&mutex_);
  return first_[message].kept;
}

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

}  // namespace qgemm::loadtest
