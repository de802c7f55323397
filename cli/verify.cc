// SPDX-License-Identifier: Apache-2.0

#include "cli/verify.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/weights_stream.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/matrix/canonical_weights.h"

namespace qgemm {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;
// fp64 multiplications that take a few seconds.
constexpr int64_t kMaxProducts = int64_t{1} << 30;

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

// Of `n` columns, as many as the budget of products allows.
OracleColumns SampledColumns(int64_t m, int64_t n, int64_t k) {
  const int64_t columns = std::max<int64_t>(1, kMaxProducts / k / m);
  OracleColumns sampled;
  sampled.stride = CeilDiv(n, std::min(n, columns));
  return sampled;
}

}  // namespace

absl::StatusOr<OracleReport> VerifyAnswer(const WeightsStream& stream,
                                          const std::string& weights_id,
                                          const AnswerToCheck& answer) {
  ASSIGN_OR_RETURN(const Sha256Digest digest, HashOf(stream));
  const std::string id = ToHex(digest);
  if (id != weights_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the server's weights ", weights_id, " are not these, whose id is ", id,
        "; give --verify the flags that `qgemm load` was given"));
  }
  CanonicalWeights weights;
  RETURN_IF_ERROR(Decode(stream, &weights));
  const WeightsHeader& header = weights.header();
  const OracleProduct product =
      Fp64Matmul(weights, answer.signature, answer.a, answer.m,
                 SampledColumns(answer.m, header.n, header.k));
  return CompareWithOracle(product, header, answer.signature, answer.c);
}

}  // namespace qgemm
