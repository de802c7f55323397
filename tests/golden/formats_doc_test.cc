// SPDX-License-Identifier: Apache-2.0
//
// The worked examples of docs/formats.md: the `layer` blocks of the page
// itself are decoded and compared. A block is a canonical text, then sections
// in hexadecimal, weights by row in decimal, and the id.

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/sha256.h"
#include "gtest/gtest.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/canonical_weights.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/spec_text.h"

namespace qgemm {
namespace {

struct Example {
  int line = 0;  // of the page, where the block begins
  std::string text;
  std::vector<std::pair<Section, std::string>> sections;
  std::vector<float> weights;
  float tensor_scale = 1.0f;
  std::string id;
};

void PrintTo(const Example& example, std::ostream* stream) {
  *stream << "docs/formats.md:" << example.line;
}

// Appends bytes to the last section, or opens the next one.
void AddBytes(Section section, absl::string_view hex, Example* example) {
  if (example->sections.empty() || example->sections.back().first != section) {
    example->sections.push_back({section, ""});
  }
  example->sections.back().second +=
      absl::HexStringToBytes(absl::StrReplaceAll(hex, {{" ", ""}}));
}

void AddWeights(absl::string_view decimals, Example* example) {
  for (const absl::string_view decimal :
       absl::StrSplit(decimals, ' ', absl::SkipEmpty())) {
    float weight;
    CHECK(absl::SimpleAtof(decimal, &weight)) << decimal;
    example->weights.push_back(weight);
  }
}

void AddLine(absl::string_view line, Example* example) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(line, absl::MaxSplits(": ", 1));
  const auto [key, value] = parts;
  if (absl::ascii_isspace(line[0])) {
    AddWeights(line, example);
  } else if (value.empty()) {
    absl::StrAppend(&example->text, line, "\n");
  } else if (key == "weights") {
    AddWeights(value, example);
  } else if (key == "id") {
    example->id = std::string(value);
  } else if (key == "tensor_scale") {
    CHECK(absl::SimpleAtof(value, &example->tensor_scale)) << value;
  } else {
    const absl::StatusOr<Section> section = ParseSection(key);
    CHECK(section.ok()) << key << ": " << section.status();
    AddBytes(*section, value, example);
  }
}

std::vector<Example> Examples() {
  const absl::StatusOr<std::string> page = ReadWholeFile("docs/formats.md");
  CHECK(page.ok()) << page.status();
  std::vector<Example> examples;
  bool inside = false;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(*page, '\n')) {
    ++number;
    if (line == "```layer") {
      inside = true;
      examples.emplace_back();
      examples.back().line = number;
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      AddLine(line, &examples.back());
    }
  }
  return examples;
}

class FormatsDocTest : public testing::TestWithParam<Example> {
 protected:
  FormatsDocTest() : spec_(ParseSpecText(GetParam().text)) {}

  const absl::StatusOr<WeightsSpec> spec_;
};

TEST_P(FormatsDocTest, TextIsCanonical) {
  ASSERT_TRUE(spec_.ok()) << spec_.status();
  EXPECT_EQ(Validate(*spec_, WeightsLimits()), absl::OkStatus());
  EXPECT_EQ(CanonicalText(*spec_), GetParam().text);
}

TEST_P(FormatsDocTest, IdIsTheHashOfTextAndBytes) {
  ASSERT_TRUE(spec_.ok()) << spec_.status();
  Sha256 hash;
  hash.Update(CanonicalText(*spec_));
  for (const auto& [section, bytes] : GetParam().sections) hash.Update(bytes);
  EXPECT_EQ(ToHex(hash.Finish()), GetParam().id);
}

TEST_P(FormatsDocTest, BytesDecodeToTheWeights) {
  ASSERT_TRUE(spec_.ok()) << spec_.status();
  CanonicalWeights weights;
  const std::unique_ptr<WeightsDecoder> decoder =
      NewWeightsDecoder(*spec_, &weights);
  for (const auto& [section, bytes] : GetParam().sections) {
    const absl::Span<const uint8_t> span(
        reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ASSERT_EQ(decoder->Append(section, span), absl::OkStatus());
  }
  ASSERT_EQ(decoder->Finish().status(), absl::OkStatus());
  EXPECT_EQ(weights.tensor_scale(), GetParam().tensor_scale);
  ASSERT_EQ(GetParam().weights.size(), spec_->n * spec_->k);
  for (int64_t row = 0; row < spec_->n; ++row) {
    for (int64_t column = 0; column < spec_->k; ++column) {
      const int64_t feature = weights.InputFeature(column);
      EXPECT_EQ(static_cast<float>(weights.Weight(row, column)),
                GetParam().weights[row * spec_->k + feature])
          << "row " << row << ", input feature " << feature;
    }
  }
}

std::string NameOf(const testing::TestParamInfo<Example>& info) {
  return absl::StrCat("Line", info.param.line);
}

INSTANTIATE_TEST_SUITE_P(Page, FormatsDocTest, testing::ValuesIn(Examples()),
                         NameOf);

TEST(FormatsDocCoverageTest, EveryFormatAndInt4LayoutHasAnExample) {
  std::string texts;
  for (const Example& example : Examples()) texts += example.text;
  for (const char* line : {"format=kbit\n", "format=q4_0\n", "format=ternary\n",
                           "layout=plain\n", "layout=gptq_v1\n", "layout=awq\n",
                           "quantize_to=none\n", "quantize_to=ternary\n"}) {
    EXPECT_NE(texts.find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace qgemm
