// SPDX-License-Identifier: Apache-2.0
//
// Verification first, then the report as text and as JSON.

#include "cli/answer.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/checked_math.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "cli/output.h"
#include "client/weights_stream.h"
#include "kernels/formats/weights_decoder.h"

namespace qgemm::cli {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;

absl::Status Decode(const WeightsStream& stream, CanonicalWeights* weights) {
  const std::unique_ptr<WeightsDecoder> decoder =
      NewWeightsDecoder(stream.spec, weights);
  std::vector<uint8_t> buffer(kPieceBytes);
  for (const SectionSize& section : SectionsOf(stream.spec)) {
    for (int64_t done = 0; done < section.bytes;) {
      const auto piece = absl::MakeSpan(
          buffer.data(), std::min(kPieceBytes, section.bytes - done));
      RETURN_IF_ERROR(ReadFully(stream, piece));
      RETURN_IF_ERROR(decoder->Append(section.section, piece));
      done += piece.size();
    }
  }
  return decoder->Finish().status();
}

// As many of `n` columns as the budget of products allows, evenly spaced.
OracleColumns SampledColumns(int64_t m, int64_t n, int64_t k) {
  const int64_t columns = std::max<int64_t>(1, kMaxProducts / k / m);
  OracleColumns sampled;
  sampled.stride = CeilDiv(n, std::min(n, columns));
  return sampled;
}

double Microseconds(absl::Duration duration) {
  return absl::ToDoubleMicroseconds(duration);
}

OrderedJson ReportJson(const GemmReport& report) {
  const GemmResult& result = report.result;
  OrderedJson object = {{"weights", report.weights.id},
                        {"format", report.weights.format},
                        {"m", result.m},
                        {"n", result.n},
                        {"k", report.weights.k},
                        {"mode", std::string(Name(report.signature.mode))},
                        {"a_type", std::string(Name(report.signature.a_type))},
                        {"c_type", std::string(Name(report.signature.c_type))},
                        {"round_trip_us", Microseconds(report.round_trip)},
                        {"server_us", ToJson(result.timings)},
                        {"launch_rows", result.timings.launch_rows},
                        {"launch_requests", result.timings.launch_requests}};
  if (report.verified.has_value()) {
    const OracleReport& verified = *report.verified;
    object["verify"] = {{"passed", verified.passed()},
                        {"compared", verified.compared},
                        {"worst_ratio", verified.worst_ratio},
                        {"relative_norm", verified.relative_norm}};
  }
  return object;
}

std::string FirstValues(const GemmResult& result) {
  constexpr size_t kShown = 4;
  const std::vector<float> values = result.ToFloats();
  std::string text;
  for (size_t i = 0; i < std::min(kShown, values.size()); ++i) {
    absl::StrAppendFormat(&text, "%s%.6g", i > 0 ? ", " : "", values[i]);
  }
  return text;
}

std::string VerifyText(const OracleReport& verified) {
  return absl::StrFormat(
      "%s: %d values, worst error %.3f of the tolerance, relative norm %.2e",
      verified.passed() ? "passed" : "FAILED", verified.compared,
      verified.worst_ratio, verified.relative_norm);
}

std::string ReportText(const GemmReport& report) {
  const GemmResult& result = report.result;
  std::vector<std::pair<std::string, std::string>> fields = {
      {"C", absl::StrCat(
                "[", result.m, ", ", result.n, "] ",
                Name(report.signature.c_type), " = A [", result.m, ", ",
                report.weights.k, "] ", Name(report.signature.a_type), " * ",
                report.weights.format, ", mode ", Name(report.signature.mode))},
      {"round trip",
       absl::StrFormat("%.0f us", Microseconds(report.round_trip))},
      {"server", FormatTimings(result.timings)},
      {"C starts with", FirstValues(result)}};
  if (!report.out_path.empty()) {
    fields.emplace_back("written to", report.out_path);
  }
  if (report.verified.has_value()) {
    fields.emplace_back("fp64 check", VerifyText(*report.verified));
  }
  return FormatFields(fields);
}

}  // namespace

absl::StatusOr<CanonicalWeights> DecodeWeights(const WeightsStream& stream,
                                               const std::string& weights_id) {
  ASSIGN_OR_RETURN(const Sha256Digest digest, HashOf(stream));
  const std::string id = ToHex(digest);
  if (id != weights_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the server's weights ", weights_id, " are not these, whose id is ", id,
        "; give --verify the flags that `qgemm load` was given"));
  }
  CanonicalWeights weights;
  RETURN_IF_ERROR(Decode(stream, &weights));
  return weights;
}

absl::StatusOr<OracleReport> VerifyAnswer(const WeightsStream& stream,
                                          const std::string& weights_id,
                                          const AnswerToCheck& answer) {
  ASSIGN_OR_RETURN(const CanonicalWeights weights,
                   DecodeWeights(stream, weights_id));
  const WeightsHeader& header = weights.header();
  const OracleProduct product =
      Fp64Matmul(weights, answer.signature, answer.a, answer.m,
                 SampledColumns(answer.m, header.n, header.k));
  return CompareWithOracle(product, header, answer.signature, answer.c);
}

std::string FormatGemmReport(const GemmReport& report, GemmReportStyle style) {
  return style == GemmReportStyle::kJson ? FormatJson(ReportJson(report))
                                         : ReportText(report);
}

}  // namespace qgemm::cli
