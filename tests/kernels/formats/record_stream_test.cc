// SPDX-License-Identifier: Apache-2.0

#include "kernels/formats/record_stream.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

TEST(RecordStream, EveryCutGivesTheSameRecordsInOrder) {
  constexpr int64_t kRecordBytes = 5;
  std::vector<uint8_t> bytes(8 * kRecordBytes);
  std::iota(bytes.begin(), bytes.end(), 0);
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      RecordStream stream(kRecordBytes);
      std::vector<uint8_t> seen;
      const auto collect = [&](int64_t record, int64_t count,
                               const uint8_t* data) {
        EXPECT_EQ(record * kRecordBytes, seen.size());
        seen.insert(seen.end(), data, data + count * kRecordBytes);
        return absl::OkStatus();
      };
      const absl::Span<const uint8_t> all = bytes;
      for (const auto piece :
           {all.subspan(0, first), all.subspan(first, second - first),
            all.subspan(second)}) {
        ASSERT_TRUE(stream.Append(piece, collect).ok());
      }
      ASSERT_EQ(seen, bytes) << "cut at " << first << " and " << second;
    }
  }
}

TEST(RecordStream, PassesOnAtMostTheGivenCount) {
  RecordStream stream(2, 3);
  std::vector<int64_t> counts;
  const std::vector<uint8_t> bytes(16);
  ASSERT_TRUE(stream
                  .Append(bytes,
                          [&](int64_t, int64_t count, const uint8_t*) {
                            counts.push_back(count);
                            return absl::OkStatus();
                          })
                  .ok());
  EXPECT_EQ(counts, (std::vector<int64_t>{3, 3, 2}));
}

TEST(RecordStream, ReturnsTheHandlersError) {
  RecordStream stream(2);
  const std::vector<uint8_t> bytes(4);
  const absl::Status status =
      stream.Append(bytes, [](int64_t, int64_t, const uint8_t*) {
        return absl::ResourceExhaustedError("full");
      });
  EXPECT_EQ(status, absl::ResourceExhaustedError("full"));
}

}  // namespace
}  // namespace qgemm
