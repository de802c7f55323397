// SPDX-License-Identifier: Apache-2.0
//
// Bytes that a cipher adds to a client's, however they come.

#include "server/net/tls_records.h"

#include <gtest/gtest.h>

#include <string>

namespace qgemm {
namespace {

constexpr unsigned char kHandshake = 22;
constexpr unsigned char kData = 23;

std::string Record(unsigned char type, size_t bytes) {
  std::string record = {static_cast<char>(type), 3, 3,
                        static_cast<char>(bytes >> 8),
                        static_cast<char>(bytes & 0xff)};
  return record + std::string(bytes, '\x17');
}

TEST(TlsRecordsTest, CountsHeadersAndTags) {
  TlsRecords records;
  EXPECT_EQ(records.Add(Record(kHandshake, 500)), 5);
  EXPECT_EQ(records.Add(Record(kData, 16'384)), 5 + 16);
  EXPECT_EQ(records.Add(Record(kData, 100) + Record(kData, 200)), 42);
}

TEST(TlsRecordsTest, CountsTheSameByteByByte) {
  const std::string bytes =
      Record(kHandshake, 3) + Record(kData, 300) + Record(kData, 20);
  TlsRecords records;
  int64_t added_bytes = 0;
  for (const char byte : bytes) added_bytes += records.Add({&byte, 1});
  EXPECT_EQ(added_bytes, 5 + 21 + 21);
}

TEST(TlsRecordsTest, CountsNoMoreThanARecordHas) {
  TlsRecords records;
  EXPECT_EQ(records.Add(Record(kData, 3)), 8);
  EXPECT_EQ(records.Add(Record(kData, 0)), 5);
}

// 16 of tag and one of data: the least of any cipher.
TEST(TlsRecordsTest, LeavesAByteOfARecordOfOne) {
  TlsRecords records;
  const std::string record = Record(kData, 17);
  EXPECT_EQ(static_cast<int64_t>(record.size()) - records.Add(record), 1);
}

}  // namespace
}  // namespace qgemm
