// SPDX-License-Identifier: Apache-2.0
//
// Codecs against bytes and weights made by an independent implementation
// (make_golden.py): every comparison is exact.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_encoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/canonical_weights.h"
#include "tests/golden/golden_file.h"

namespace qgemm {

void PrintTo(const GoldenCase& golden, std::ostream* stream) {
  *stream << golden.name;
}

namespace {

std::vector<GoldenCase> AllCases() {
  absl::StatusOr<std::vector<GoldenCase>> cases =
      ReadGoldenCases("tests/golden/golden.txt", "tests/golden/golden.bin");
  CHECK(cases.ok()) << cases.status();
  return *std::move(cases);
}

std::vector<GoldenCase> EncodeCases() {
  std::vector<GoldenCase> cases = AllCases();
  cases.erase(std::remove_if(cases.begin(), cases.end(),
                             [](const GoldenCase& golden) {
                               return !golden.encode.has_value();
                             }),
              cases.end());
  return cases;
}

std::string NameOf(const testing::TestParamInfo<GoldenCase>& info) {
  return info.param.name;
}

absl::string_view AsText(absl::Span<const uint8_t> bytes) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()),
                           bytes.size());
}

struct Decoded {
  CanonicalWeights weights;
  DecodeReport report;
};

// Decodes the upload in pieces of 1 to `max_piece_bytes` random bytes.
absl::Status Decode(const EncodedWeights& upload, size_t max_piece_bytes,
                    std::mt19937* random, Decoded* decoded) {
  const std::unique_ptr<WeightsDecoder> decoder =
      NewWeightsDecoder(upload.spec, &decoded->weights);
  for (const EncodedWeights::SectionBytes& section : upload.sections) {
    absl::Span<const uint8_t> rest = section.bytes;
    while (!rest.empty()) {
      const absl::Span<const uint8_t> piece = rest.first(
          std::min<size_t>(rest.size(), 1 + (*random)() % max_piece_bytes));
      RETURN_IF_ERROR(decoder->Append(section.section, piece));
      rest.remove_prefix(piece.size());
    }
  }
  ASSIGN_OR_RETURN(decoded->report, decoder->Finish());
  return absl::OkStatus();
}

// A row in the caller's column order, without negative zeros.
std::vector<double> RowOf(const CanonicalWeights& weights, int64_t row) {
  std::vector<double> values(weights.header().k);
  for (int64_t column = 0; column < weights.header().k; ++column) {
    values[weights.InputFeature(column)] = weights.Weight(row, column) + 0.0;
  }
  return values;
}

std::vector<uint8_t> DigestOf(const std::vector<double>& row) {
  Sha256 hash;
  hash.Update(absl::string_view(reinterpret_cast<const char*>(row.data()),
                                row.size() * sizeof(double)));
  const Sha256Digest digest = hash.Finish();
  return std::vector<uint8_t>(digest.begin(), digest.begin() + 8);
}

void ExpectWeights(const GoldenCase& golden, const CanonicalWeights& weights) {
  const int64_t n = golden.upload.spec.n;
  const int64_t k = golden.upload.spec.k;
  ASSERT_EQ(weights.header().n, n);
  ASSERT_EQ(weights.header().k, k);
  ASSERT_EQ(golden.weights.size() + golden.row_digests.size(),
            golden.weights.empty() ? n * 8 : n * k);
  for (int64_t row = 0; row < n; ++row) {
    const std::vector<double> values = RowOf(weights, row);
    if (golden.weights.empty()) {
      const auto digest = golden.row_digests.begin() + row * 8;
      ASSERT_EQ(DigestOf(values), std::vector<uint8_t>(digest, digest + 8))
          << "row " << row;
      continue;
    }
    for (int64_t column = 0; column < k; ++column) {
      ASSERT_EQ(values[column], golden.weights[row * k + column])
          << "row " << row << ", column " << column;
    }
  }
}

std::vector<float> BiasOf(const GoldenCase& golden) {
  const std::vector<uint8_t> bytes = golden.SectionBytes(Section::kBias);
  std::vector<float> bias;
  for (size_t i = 0; i < bytes.size(); i += 4) {
    bias.push_back(LoadFloat(FloatType::kFloat32, &bytes[i]));
  }
  return bias;
}

void ExpectDecoded(const GoldenCase& golden, const Decoded& decoded) {
  ExpectWeights(golden, decoded.weights);
  EXPECT_EQ(decoded.weights.header().bias, BiasOf(golden));
  EXPECT_EQ(decoded.weights.header().permutation, golden.permutation);
  EXPECT_EQ(decoded.weights.tensor_scale(), golden.tensor_scale);
  EXPECT_EQ(decoded.report.flushed_blocks, golden.flushed_blocks);
}

class GoldenTest : public testing::TestWithParam<GoldenCase> {
 protected:
  GoldenTest() : seed_(std::random_device{}()), random_(seed_) {}

  const uint32_t seed_;
  std::mt19937 random_;
};

TEST_P(GoldenTest, SpecIsLegalAndPrintsAsItsText) {
  const WeightsSpec& spec = GetParam().upload.spec;
  EXPECT_EQ(Validate(spec, WeightsLimits()), absl::OkStatus());
  EXPECT_EQ(CanonicalText(spec), GetParam().canonical_text);
}

TEST_P(GoldenTest, SectionsAreThoseTheSpecImplies) {
  const EncodedWeights& upload = GetParam().upload;
  const std::vector<SectionSize> implied = SectionsOf(upload.spec);
  ASSERT_EQ(implied.size(), upload.sections.size());
  int64_t total = 0;
  for (size_t i = 0; i < implied.size(); ++i) {
    EXPECT_EQ(implied[i].section, upload.sections[i].section);
    EXPECT_EQ(implied[i].bytes, upload.sections[i].bytes.size())
        << Name(implied[i].section);
    total += upload.sections[i].bytes.size();
  }
  EXPECT_EQ(TotalBytes(upload.spec), total);
}

TEST_P(GoldenTest, IdIsTheHashOfTextAndBytes) {
  Sha256 hash;
  hash.Update(CanonicalText(GetParam().upload.spec));
  for (const auto& section : GetParam().upload.sections) {
    hash.Update(AsText(section.bytes));
  }
  EXPECT_EQ(ToHex(hash.Finish()), GetParam().id);
}

TEST_P(GoldenTest, DecodesWholeSectionsExactly) {
  Decoded decoded;
  const std::unique_ptr<WeightsDecoder> decoder =
      NewWeightsDecoder(GetParam().upload.spec, &decoded.weights);
  for (const auto& section : GetParam().upload.sections) {
    ASSERT_EQ(decoder->Append(section.section, section.bytes),
              absl::OkStatus());
  }
  const absl::StatusOr<DecodeReport> report = decoder->Finish();
  ASSERT_TRUE(report.ok()) << report.status();
  decoded.report = *report;
  ExpectDecoded(GetParam(), decoded);
}

TEST_P(GoldenTest, DecodesPiecesOfAnySizeExactly) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  for (const size_t max_piece_bytes : {1, 7, 100, 5000}) {
    Decoded decoded;
    ASSERT_EQ(Decode(GetParam().upload, max_piece_bytes, &random_, &decoded),
              absl::OkStatus());
    ExpectDecoded(GetParam(), decoded);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(AllCases()),
                         NameOf);

class GoldenEncodeTest : public testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenEncodeTest, EncodesToTheSameBytes) {
  const GoldenCase& golden = GetParam();
  const EncodedWeights& expected = golden.upload;
  const absl::StatusOr<EncodedWeights> encoded =
      EncodeWeights(golden.input, expected.spec.n, expected.spec.k,
                    BiasOf(golden), *golden.encode);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_EQ(CanonicalText(encoded->spec), golden.canonical_text);
  ASSERT_EQ(encoded->sections.size(), expected.sections.size());
  for (size_t i = 0; i < expected.sections.size(); ++i) {
    ASSERT_EQ(encoded->sections[i].section, expected.sections[i].section);
    EXPECT_EQ(encoded->sections[i].bytes, expected.sections[i].bytes)
        << Name(expected.sections[i].section);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenEncodeTest,
                         testing::ValuesIn(EncodeCases()), NameOf);

}  // namespace
}  // namespace qgemm
