// SPDX-License-Identifier: Apache-2.0

#include "server/lane/entry_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBytes = 4096;
constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

lane::RequestEntry Legal() {
  lane::RequestEntry entry;
  entry.a_offset = 64;
  entry.a_bytes = 100;
  entry.c_offset = 192;
  entry.c_bytes = kBytes - 192;
  return entry;
}

absl::Status Check(const lane::RequestEntry& entry) {
  return CheckEntry(entry, lane::HandleKind::kWeights, kBytes, kBytes);
}

TEST(EntryChecksTest, TakesOperandsUpToTheLastByte) {
  EXPECT_EQ(Check(Legal()), absl::OkStatus());
  lane::RequestEntry touching = Legal();
  touching.a_bytes = 128;
  EXPECT_EQ(Check(touching), absl::OkStatus());
}

struct Case {
  const char* name;
  uint64_t a_offset, a_bytes, c_offset, c_bytes;
  const char* error;
};

class OperandsTest : public ::testing::TestWithParam<Case> {};

TEST_P(OperandsTest, AreRefusedByName) {
  const Case& wrong = GetParam();
  lane::RequestEntry entry;
  entry.a_offset = wrong.a_offset;
  entry.a_bytes = wrong.a_bytes;
  entry.c_offset = wrong.c_offset;
  entry.c_bytes = wrong.c_bytes;
  const absl::Status status = Check(entry);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.error));
}

INSTANTIATE_TEST_SUITE_P(
    Wrong, OperandsTest,
    ::testing::Values(
        Case{"UnalignedA", 63, 1, 128, 1, "a_offset = 63 is not"},
        Case{"UnalignedC", 0, 1, 129, 1, "c_offset = 129 is not"},
        Case{"EndOfA", 4032, 65, 0, 1, "a_offset = 4032 and a_bytes = 65"},
        Case{"EndOfC", 0, 1, 64, 4033, "c_offset = 64 and c_bytes = 4033"},
        Case{"BehindA", 4160, 0, 0, 1, "a_offset = 4160"},
        Case{"BehindC", 0, 1, 8192, 0, "c_offset = 8192"},
        Case{"HugeA", 0, kMost, 0, 1, "a_bytes = 18446744073709551615"},
        Case{"FarA", kMost - 63, 128, 0, 1, "a_offset = 18446744073709551552"},
        Case{"FarC", 0, 1, kMost - 63, kMost, "c_offset ="},
        Case{"Wrapped", kMost - 63, 64, 0, 1, "reach beyond"},
        Case{"Equal", 0, 64, 0, 64, "overlap"},
        Case{"CInA", 0, 4096, 64, 1, "a [0, 4096) and c [64, 65) overlap"},
        Case{"AInC", 64, 1, 0, 4096, "overlap"}),
    [](const auto& info) { return info.param.name; });

TEST(EntryChecksTest, RefusesTheReservedField) {
  lane::RequestEntry entry = Legal();
  entry.reserved = 7;
  EXPECT_THAT(std::string(Check(entry).message()),
              HasSubstr("reserved = 7; it must be 0"));
}

TEST(EntryChecksTest, RegionsHaveSizesOfTheirOwn) {
  const auto check = [](const lane::RequestEntry& entry, int64_t a_bytes,
                        int64_t c_bytes) {
    return CheckEntry(entry, lane::HandleKind::kWeights, a_bytes, c_bytes);
  };
  lane::RequestEntry entry = Legal();
  EXPECT_EQ(check(entry, 164, kBytes), absl::OkStatus());
  EXPECT_THAT(std::string(check(entry, 163, kBytes).message()),
              HasSubstr("beyond the 163 bytes"));
  EXPECT_THAT(std::string(check(entry, kBytes, kBytes - 1).message()),
              HasSubstr("c_offset = 192"));
  // The same places of two regions are others.
  entry.c_offset = entry.a_offset;
  entry.c_bytes = entry.a_bytes;
  EXPECT_THAT(std::string(Check(entry).message()), HasSubstr("overlap"));
  entry.c_region = 1;
  EXPECT_EQ(Check(entry), absl::OkStatus());
}

TEST(EntryChecksTest, RefusesTypesOfPrograms) {
  for (uint8_t lane::RequestEntry::*const field :
       {&lane::RequestEntry::a_type, &lane::RequestEntry::c_type,
        &lane::RequestEntry::mode, &lane::RequestEntry::rounding}) {
    lane::RequestEntry entry = Legal();
    entry.*field = 1;
    EXPECT_EQ(Check(entry), absl::OkStatus());
    EXPECT_EQ(
        CheckEntry(entry, lane::HandleKind::kProgram, kBytes, kBytes).code(),
        absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace qgemm
