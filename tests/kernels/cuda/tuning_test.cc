// SPDX-License-Identifier: Apache-2.0
//
// A tuning's text: there and back, and every way in which it can be wrong
// refused with its field, value and what is legal. Then the file around it.

#include "kernels/cuda/plan/tuning.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;

constexpr char kLegal[] =
    R"({"version": 2, "device": "NVIDIA H100 80GB HBM3",)"
    R"( "max_decode_rows": {"2": 64, "3": 128, "4": 192, "5": 4096}})";

// The legal text with its first `part` replaced.
std::string With(const std::string& part, const std::string& other) {
  std::string text = kLegal;
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), other);
}

void ExpectRefused(const std::string& text,
                   const Matcher<std::string>& message) {
  const absl::Status status = ParseTuning(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(std::string(status.message()), message) << text;
}

TEST(TuningTest, ReadsEveryField) {
  const absl::StatusOr<Tuning> tuning = ParseTuning(kLegal);
  ASSERT_TRUE(tuning.ok()) << tuning.status();
  EXPECT_EQ(tuning->device, "NVIDIA H100 80GB HBM3");
  EXPECT_THAT(tuning->max_decode_rows,
              ::testing::ElementsAre(64, 128, 192, 4096));
}

TEST(TuningTest, ComesBackFromItsText) {
  RandomGenerator random(FreshSeed());
  for (int repeat = 0; repeat < 200; ++repeat) {
    Tuning tuning;
    for (int64_t i = RandomInt(0, 20, &random); i > 0; --i) {
      tuning.device += static_cast<char>(RandomInt(1, 127, &random));
    }
    for (int64_t& rows : tuning.max_decode_rows) {
      rows = 64 * RandomInt(1, 64, &random);
    }
    const absl::StatusOr<Tuning> read = ParseTuning(FormatTuning(tuning));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->device, tuning.device);
    EXPECT_EQ(read->max_decode_rows, tuning.max_decode_rows);
  }
}

TEST(TuningTest, TheDefaultIsLegal) {
  const absl::StatusOr<Tuning> read =
      ParseTuning(FormatTuning(DefaultTuning()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->max_decode_rows, DefaultTuning().max_decode_rows);
}

TEST(TuningTest, WritesADeviceThatIsNoUtf8) {
  Tuning tuning;
  tuning.device = "G\xffU";
  EXPECT_TRUE(ParseTuning(FormatTuning(tuning)).ok());
}

TEST(TuningTest, RefusesAnotherVersion) {
  for (const char* other : {"0", "1", "3", "2.0", "\"1\"", "null", "[1]"}) {
    ExpectRefused(With("\"version\": 2", absl::StrCat("\"version\": ", other)),
                  AllOf(HasSubstr("version = "), HasSubstr("allowed: 2")));
  }
  ExpectRefused(With("\"version\": 2, ", ""), HasSubstr("version is missing"));
}

TEST(TuningTest, RefusesADeviceThatIsNoText) {
  ExpectRefused(With("\"NVIDIA H100 80GB HBM3\"", "7"),
                HasSubstr("device = 7; allowed: the device's name"));
  ExpectRefused(With("\"device\": \"NVIDIA H100 80GB HBM3\",", ""),
                HasSubstr("device is missing"));
}

TEST(TuningTest, RefusesAMissingWidth) {
  ExpectRefused(With("\"4\": 192, ", ""),
                AllOf(HasSubstr("max_decode_rows[\"4\"] is missing"),
                      HasSubstr("multiples of 64 from 64 to 4096")));
  ExpectRefused(With("{\"2\": 64, \"3\": 128, \"4\": 192, \"5\": 4096}", "[]"),
                HasSubstr("max_decode_rows = an array; allowed: an object"));
  ExpectRefused(With(", \"max_decode_rows\"", ", \"max_small_row\""),
                HasSubstr("\"max_small_row\", which is no field"));
}

TEST(TuningTest, RefusesRowsThatAreNoThreshold) {
  for (const char* rows :
       {"0", "-64", "63", "65", "4160", "64.0", "6.4e1", "\"64\"", "true",
        "null", "18446744073709551615", "-9223372036854775808", "1e300",
        "18446744073709551680", "{}"}) {
    ExpectRefused(With("\"4\": 192", absl::StrCat("\"4\": ", rows)),
                  AllOf(HasSubstr("max_decode_rows[\"4\"] = "),
                        HasSubstr("allowed: multiples of 64 from 64 to 4096")));
  }
}

TEST(TuningTest, RefusesAFieldThatItDoesNotKnow) {
  ExpectRefused(With("\"version\"", "\"colour\": 1, \"version\""),
                HasSubstr("\"colour\", which is no field; allowed: version"));
  ExpectRefused(With("\"5\"", "\"6\": 64, \"5\""),
                HasSubstr("max_decode_rows holds \"6\""));
}

TEST(TuningTest, RefusesAFieldThatComesTwice) {
  ExpectRefused(With("\"2\": 64", "\"2\": 64, \"2\": 128"),
                HasSubstr("\"2\" comes twice"));
}

TEST(TuningTest, RefusesWhatIsNoJsonObject) {
  for (const std::string& text :
       {std::string("tuning"), std::string(kLegal) + "x"}) {
    ExpectRefused(text, HasSubstr("tuning: the text is no JSON object; "
                                  "allowed: {\"version\": 2, ...}"));
  }
}

TEST(TuningTest, RefusesATextThatIsTooLong) {
  ExpectRefused(std::string(kLegal) + std::string(64 << 10, ' '),
                HasSubstr("tuning: the text has more than 65536 bytes"));
}

// Broken at random, a text is refused or is a legal tuning.
TEST(TuningTest, TakesNothingIllegalFromABrokenText) {
  RandomGenerator random(FreshSeed());
  int refused = 0;
  for (int repeat = 0; repeat < 20'000; ++repeat) {
    std::string text = kLegal;
    for (int64_t i = RandomInt(1, 4, &random); i > 0; --i) {
      const int64_t at = RandomInt(0, text.size() - 1, &random);
      switch (RandomInt(0, 2, &random)) {
        case 0:
          text[at] = static_cast<char>(RandomInt(0, 255, &random));
          break;
        case 1:
          text.erase(at, RandomInt(1, 20, &random));
          break;
        default:
          text.insert(at, text.substr(RandomInt(0, at, &random), 12));
      }
      if (text.empty()) break;
    }
    const absl::StatusOr<Tuning> tuning = ParseTuning(text);
    if (!tuning.ok()) {
      ++refused;
      ASSERT_EQ(tuning.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    for (const int64_t rows : tuning->max_decode_rows) {
      ASSERT_TRUE(rows >= kMinDecodeRowsLimit && rows <= kMaxDecodeRowsLimit &&
                  rows % 64 == 0)
          << text;
    }
  }
  EXPECT_GT(refused, 10'000);
}

class TuningFileTest : public ::testing::Test {
 protected:
  ~TuningFileTest() override { std::remove(path_.c_str()); }

  const std::string path_ = ::testing::TempDir() + "/tuning.json";
};

TEST_F(TuningFileTest, IsRead) {
  Tuning tuning;
  tuning.max_decode_rows = {64, 128, 256, 512};
  std::ofstream(path_) << FormatTuning(tuning);
  const absl::StatusOr<Tuning> read = ReadTuningFile(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->max_decode_rows, tuning.max_decode_rows);
}

TEST_F(TuningFileTest, ThatIsMissingIsNotFound) {
  const absl::Status status = ReadTuningFile(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(path_));
}

TEST_F(TuningFileTest, ThatIsAFolderCannotBeRead) {
  const absl::Status status = ReadTuningFile(::testing::TempDir()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("directory"));
}

TEST_F(TuningFileTest, ErrorsOfItsTextNameTheFile) {
  std::ofstream(path_) << "{";
  const absl::Status status = ReadTuningFile(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(path_), HasSubstr("no JSON object")));
}

TEST_F(TuningFileTest, ThatIsTooLongIsRefusedWhole) {
  std::ofstream(path_) << kLegal << std::string(1 << 20, ' ');
  EXPECT_EQ(ReadTuningFile(path_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace qgemm::cuda
