// SPDX-License-Identifier: Apache-2.0
//
// Lines that clients make the libraries write: escaped, cut, limited.

#include "rpc/library_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A header value that forges a line of ours and clears the terminal.
constexpr char kHostile[] =
    "te: x\nI 2026-01-01T00:00:00.000Z main.cc:1] drained\x1b[2J";
constexpr char kEscaped[] =
    "text=\"te: x\\nI 2026-01-01T00:00:00.000Z main.cc:1] drained\\x1b[2J\"";

class LibraryLogTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // gRPC's own default
    LogLibraries();
  }
  void SetUp() override { testing::internal::CaptureStderr(); }
  static std::string Captured() {
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(LibraryLogTest, GrpcCannotForgeALine) {
  gpr_log(GPR_ERROR, "%s", kHostile);
  const std::string captured = Captured();
  EXPECT_EQ(captured.front(), 'E');
  EXPECT_THAT(captured, HasSubstr("] grpc "));
  EXPECT_THAT(captured, HasSubstr(kEscaped));
  EXPECT_THAT(captured, Not(HasSubstr("\nI ")));
}

TEST_F(LibraryLogTest, ProtobufCannotForgeALine) {
  GOOGLE_LOG(ERROR) << kHostile;
  const std::string captured = Captured();
  EXPECT_EQ(captured.front(), 'E');
  EXPECT_THAT(captured, HasSubstr("] protobuf "));
  EXPECT_THAT(captured, HasSubstr(kEscaped));
}

TEST_F(LibraryLogTest, LongLinesAreCut) {
  gpr_log(GPR_ERROR, "%s", std::string(10'000, 'x').c_str());
  const std::string captured = Captured();
  EXPECT_THAT(captured, HasSubstr("xxx[+"));
  EXPECT_LT(captured.size(), 1000u);
}

// The last test: it uses up the libraries' lines.
TEST_F(LibraryLogTest, FloodsOfBothAreCut) {
  for (int i = 0; i < 20'000; ++i) {
    gpr_log(GPR_ERROR, "%s", kHostile);
    GOOGLE_LOG(ERROR) << kHostile;
  }
  EXPECT_LT(Captured().size(), 200'000u);
}

}  // namespace
}  // namespace qgemm
