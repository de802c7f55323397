// SPDX-License-Identifier: Apache-2.0

#include "kernels/formats/weights_spec.h"

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
constexpr WeightsLimits kNoLimits = {kHuge, kHuge};

// That the message holds the field with its value, and what is legal.
void ExpectRefused(const WeightsSpec& spec, const std::string& field_and_value,
                   const std::string& legal) {
  const absl::Status status = Validate(spec, WeightsLimits());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(field_and_value), HasSubstr(legal)));
}

TEST(Validate, AcceptsEveryKindOfUpload) {
  for (const WeightsSpec& spec : AllSpecs()) {
    EXPECT_TRUE(Validate(spec, WeightsLimits()).ok()) << CanonicalText(spec);
  }
}

TEST(Validate, RefusesSizesOutsideTheLimits) {
  for (const int64_t size : {int64_t{0}, int64_t{-1}, (int64_t{1} << 20) + 1,
                             kHuge, std::numeric_limits<int64_t>::min()}) {
    const std::string value = std::to_string(size);
    ExpectRefused(DenseSpec(size, 32, FloatType::kFloat32), "n = " + value,
                  "1 to 1048576");
    ExpectRefused(DenseSpec(32, size, FloatType::kFloat32), "k = " + value,
                  "1 to 1048576");
  }
}

TEST(Validate, RefusesWhatOverflowsWhateverTheLimits) {
  for (const int64_t size : {int64_t{1} << 31, int64_t{1} << 62, kHuge}) {
    const WeightsSpec wide = DenseSpec(1, size, FloatType::kFloat32);
    const WeightsSpec tall = DenseSpec(size, 1, FloatType::kFloat32);
    EXPECT_FALSE(Validate(wide, kNoLimits).ok());
    EXPECT_FALSE(Validate(tall, kNoLimits).ok());
  }
  const int64_t most = (int64_t{1} << 31) - 1;
  const absl::Status status =
      Validate(DenseSpec(most, most, FloatType::kFloat32), kNoLimits);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("n * k = 2147483647 * 2147483647"));
}

TEST(Validate, LargestLegalSizesDoNotOverflow) {
  const int64_t n = int64_t{1} << 26;
  const int64_t k = int64_t{1} << 30;
  WeightsSpec spec = DenseSpec(n, k, FloatType::kFloat32);
  ASSERT_TRUE(Validate(spec, kNoLimits).ok());
  EXPECT_EQ(TotalBytes(spec), int64_t{1} << 58);
}

TEST(Validate, RefusesIllegalWidths) {
  for (const int bits : {-1, 0, 1, 6, 8, 64}) {
    ExpectRefused(KbitSpec(1, 32, bits), "bits = " + std::to_string(bits),
                  "2, 3, 4 or 5");
  }
}

TEST(Validate, RefusesBrokenBlocks) {
  ExpectRefused(KbitSpec(1, 100, 4), "k = 100", "kbit needs a multiple of 32");
  ExpectRefused(Q4_0Spec(1, 33), "k = 33", "q4_0 needs a multiple of 32");
  WeightsSpec dense = DenseSpec(1, 48, FloatType::kFloat32);
  dense.quantize_to = QuantizeTarget::kQ4_0;
  ExpectRefused(dense, "k = 48", "q4_0 needs a multiple of 32");
  dense.quantize_to = QuantizeTarget::kKbit;
  dense.bits = 4;
  ExpectRefused(dense, "k = 48", "kbit needs a multiple of 32");
}

TEST(Validate, RefusesTilesThatDoNotFit) {
  WeightsSpec spec = KbitSpec(64, 64, 4);
  spec.kbit_layout = KbitLayout::kTiled;
  ExpectRefused(spec, "n = 64", "multiple of 128");
}

TEST(Validate, RefusesIllegalGroups) {
  for (const int64_t group :
       {int64_t{-32}, int64_t{1}, int64_t{16}, int64_t{256}, kHuge}) {
    ExpectRefused(Int4Spec(8, 64, Int4Layout::kPlain, group),
                  "group_size = " + std::to_string(group), "32, 64, 128, or 0");
  }
}

TEST(Validate, GptqAndAwqNeedWholeGroupsAndWords) {
  for (const Int4Layout layout :
       {Int4Layout::kGptqV1, Int4Layout::kGptqV2, Int4Layout::kAwq}) {
    ExpectRefused(Int4Spec(8, 96, layout, 64), "k = 96", "multiple of 64");
    ExpectRefused(Int4Spec(12, 64, layout, 64), "n = 12", "multiple of 8");
    ExpectRefused(Int4Spec(8, 12, layout, 0), "k = 12", "multiple of 8");
  }
}

TEST(Validate, RefusesScaleTypesOfOtherFormats) {
  WeightsSpec kbit = KbitSpec(1, 32, 4);
  kbit.scale_type = ScaleType::kBFloat16;
  ExpectRefused(kbit, "scale_type = bf16", "e4m4, fp16 or fp32");
  WeightsSpec int4 = Int4Spec(1, 32, Int4Layout::kPlain, 32);
  int4.scale_type = ScaleType::kE4m4;
  ExpectRefused(int4, "scale_type = e4m4", "fp16, bf16 or fp32");
}

TEST(Validate, RefusesFp32AsResidentType) {
  WeightsSpec spec = DenseSpec(1, 1, FloatType::kFloat32);
  spec.resident_type = FloatType::kFloat32;
  ExpectRefused(spec, "resident_type = fp32", "fp16 or bf16");
}

TEST(Validate, RefusesUnknownEnumValues) {
  WeightsSpec spec = Q4_0Spec(1, 32);
  spec.format = static_cast<WireFormat>(99);
  ExpectRefused(spec, "format = 99", "unknown");
  spec = TernarySpec(1, 1, static_cast<TernaryCoding>(99));
  ExpectRefused(spec, "coding", "unknown");
}

TEST(Validate, RefusesFieldsThatTheFormatDoesNotUse) {
  using Change = void (*)(WeightsSpec*);
  const Change changes[] = {
      [](WeightsSpec* s) { s->bits = 4; },
      [](WeightsSpec* s) { s->kbit_layout = KbitLayout::kTiled; },
      [](WeightsSpec* s) { s->has_codebook = true; },
      [](WeightsSpec* s) { s->scale_type = ScaleType::kFloat32; },
      [](WeightsSpec* s) { s->ternary_coding = TernaryCoding::kPacked012; },
      [](WeightsSpec* s) { s->tensor_wide_scale = true; },
      [](WeightsSpec* s) { s->int4_layout = Int4Layout::kAwq; },
      [](WeightsSpec* s) { s->group_size = 32; },
      [](WeightsSpec* s) { s->has_zeros = true; },
      [](WeightsSpec* s) { s->has_group_index = true; },
      [](WeightsSpec* s) { s->dense_type = FloatType::kFloat32; },
      [](WeightsSpec* s) { s->quantize_to = QuantizeTarget::kInt4; },
      [](WeightsSpec* s) { s->resident_type = FloatType::kBFloat16; },
  };
  for (const Change change : changes) {
    WeightsSpec spec = Q4_0Spec(8, 32);
    change(&spec);
    ExpectRefused(spec, " = ", "format q4_0 does not use it");
  }
}

TEST(Validate, OnlyGptqHasAGroupIndexAndOnlyPlainOptionalZeros) {
  for (const Int4Layout layout : {Int4Layout::kPlain, Int4Layout::kAwq}) {
    WeightsSpec spec = Int4Spec(8, 32, layout, 32);
    spec.has_group_index = true;
    ExpectRefused(spec, "group_index = 1", "does not use");
  }
  WeightsSpec spec = Int4Spec(8, 32, Int4Layout::kGptqV1, 32);
  spec.has_zeros = true;
  ExpectRefused(spec, "zeros = 1", "does not use");
}

TEST(SectionsOf, AreInOrderWithBytesOfEachKind) {
  WeightsSpec spec = Int4Spec(16, 64, Int4Layout::kGptqV2, 32);
  spec.has_bias = true;
  spec.has_group_index = true;
  std::vector<std::pair<Section, int64_t>> sections;
  for (const SectionSize& size : SectionsOf(spec)) {
    sections.emplace_back(size.section, size.bytes);
  }
  EXPECT_EQ(sections, (std::vector<std::pair<Section, int64_t>>{
                          {Section::kGroupIndex, 4 * 64},
                          {Section::kBias, 4 * 16},
                          {Section::kScales, 2 * 2 * 16},
                          {Section::kZeros, 2 * 16 / 2},
                          {Section::kCodes, 64 / 2 * 16}}));
  EXPECT_EQ(TotalBytes(spec), 256 + 64 + 64 + 16 + 512);
}

TEST(SectionsOf, TiledKbitIsPaddedTo64Columns) {
  WeightsSpec spec = KbitSpec(128, 96, 3);
  EXPECT_EQ(TotalBytes(spec), 128 * 3 * (1 + 3 * 4));
  spec.kbit_layout = KbitLayout::kTiled;
  EXPECT_EQ(TotalBytes(spec), 128 * 4 * (1 + 3 * 4));
}

TEST(HeaderOf, GroupCountsAndSizesFollowTheSpec) {
  for (const WeightsSpec& spec : AllSpecs()) {
    const WeightsHeader header = HeaderOf(spec);
    EXPECT_EQ(header.n, spec.n);
    EXPECT_EQ(header.k, spec.k);
    EXPECT_EQ(header.bias.size(), spec.n);
    EXPECT_EQ(header.permutation.empty(), !spec.has_group_index);
    if (header.kind == WeightsHeader::Kind::kDense) continue;
    EXPECT_EQ(header.codebook.size(), 1u << header.bits) << CanonicalText(spec);
    EXPECT_GE(header.group_size, 1);
  }
}

TEST(CanonicalText, KbitHasItsFieldsOnly) {
  EXPECT_EQ(CanonicalText(KbitSpec(7, 64, 4)),
            "qgemm-weights-v1\nformat=kbit\nn=7\nk=64\nbias=0\nbits=4\n"
            "layout=flat\nscale_type=e4m4\ncodebook=0\n");
}

TEST(CanonicalText, DenseToInt4NamesBothSides) {
  WeightsSpec spec = DenseSpec(7, 64, FloatType::kBFloat16);
  spec.quantize_to = QuantizeTarget::kInt4;
  spec.group_size = 64;
  spec.has_bias = true;
  EXPECT_EQ(CanonicalText(spec),
            "qgemm-weights-v1\nformat=dense\nn=7\nk=64\nbias=1\ntype=bf16\n"
            "quantize_to=int4\nscale_type=fp16\ngroup_size=64\nzeros=0\n");
}

TEST(CanonicalText, TellsAllSpecsApart) {
  std::set<std::string> texts;
  const std::vector<WeightsSpec> specs = AllSpecs();
  for (const WeightsSpec& spec : specs) texts.insert(CanonicalText(spec));
  EXPECT_EQ(texts.size(), specs.size());
}

TEST(ParseCanonicalText, ReadsEverySpec) {
  for (const WeightsSpec& spec : AllSpecs()) {
    const std::string text = CanonicalText(spec);
    const auto parsed = ParseCanonicalText(text, WeightsLimits());
    ASSERT_TRUE(parsed.ok()) << text << parsed.status();
    EXPECT_EQ(CanonicalText(*parsed), text);
  }
}

TEST(ParseCanonicalText, RefusesEveryOtherText) {
  const std::string text = CanonicalText(KbitSpec(7, 64, 4));
  for (size_t i = 0; i <= text.size(); ++i) {
    for (const char inserted : {'0', '=', '\n', 'x', '\0'}) {
      std::string other = text;
      other.insert(i, 1, inserted);
      const auto parsed = ParseCanonicalText(other, WeightsLimits());
      // n=70 and the like are texts of other specs.
      EXPECT_TRUE(!parsed.ok() || CanonicalText(*parsed) == other) << other;
    }
    EXPECT_FALSE(ParseCanonicalText(text.substr(0, i), WeightsLimits()).ok() &&
                 i < text.size());
  }
  EXPECT_FALSE(ParseCanonicalText(text + text, WeightsLimits()).ok());
  EXPECT_FALSE(
      ParseCanonicalText(CanonicalText(KbitSpec(7, 63, 4)), WeightsLimits())
          .ok());
}

TEST(ResidentFormatName, IsOfWhatIsResident) {
  EXPECT_EQ(ResidentFormatName(KbitSpec(1, 32, 5)), "kbit5");
  EXPECT_EQ(ResidentFormatName(Q4_0Spec(1, 32)), "q4_0");
  WeightsSpec dense = DenseSpec(1, 32, FloatType::kFloat32);
  EXPECT_EQ(ResidentFormatName(dense), "dense");
  dense.quantize_to = QuantizeTarget::kKbit;
  dense.bits = 2;
  EXPECT_EQ(ResidentFormatName(dense), "kbit2");
  dense.quantize_to = QuantizeTarget::kTernary;
  EXPECT_EQ(ResidentFormatName(dense), "ternary");
}

}  // namespace
}  // namespace qgemm
