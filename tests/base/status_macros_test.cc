// SPDX-License-Identifier: Apache-2.0
//
// RETURN_IF_ERROR and ASSIGN_OR_RETURN leave on errors and only then.

#include "base/status_macros.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

// Returns `status` unless it is OK, then ABORTED.
absl::Status Forward(const absl::Status& status, int* evaluations) {
  const auto evaluate = [&] {
    ++*evaluations;
    return status;
  };
  RETURN_IF_ERROR(evaluate());
  return absl::AbortedError("went on");
}

absl::StatusOr<int> AddUp(const absl::StatusOr<int>& a,
                          const absl::StatusOr<int>& b) {
  ASSIGN_OR_RETURN(int sum, a);
  ASSIGN_OR_RETURN(const int more, b);
  sum += more;
  return sum;
}

absl::StatusOr<std::unique_ptr<int>> Take(
    absl::StatusOr<std::unique_ptr<int>> source) {
  std::unique_ptr<int> taken;
  ASSIGN_OR_RETURN(taken, std::move(source));
  return taken;
}

TEST(ReturnIfErrorTest, LeavesWithTheErrorAndEvaluatesOnce) {
  int evaluations = 0;
  EXPECT_EQ(Forward(absl::DataLossError("torn"), &evaluations),
            absl::DataLossError("torn"));
  EXPECT_EQ(evaluations, 1);
}

TEST(ReturnIfErrorTest, GoesOnWhenOk) {
  int evaluations = 0;
  EXPECT_EQ(Forward(absl::OkStatus(), &evaluations),
            absl::AbortedError("went on"));
  EXPECT_EQ(evaluations, 1);
}

TEST(AssignOrReturnTest, AssignsValues) { EXPECT_EQ(*AddUp(3, 4), 7); }

TEST(AssignOrReturnTest, LeavesWithTheFirstError) {
  EXPECT_EQ(AddUp(absl::NotFoundError("a"), absl::AbortedError("b")).status(),
            absl::NotFoundError("a"));
  EXPECT_EQ(AddUp(3, absl::AbortedError("b")).status(),
            absl::AbortedError("b"));
}

TEST(AssignOrReturnTest, MovesValuesThatCannotBeCopied) {
  absl::StatusOr<std::unique_ptr<int>> taken = Take(std::make_unique<int>(5));
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(**taken, 5);
}

}  // namespace
}  // namespace qgemm
