// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "server/scheduling/fair_queue.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

WaitingRequest DueAt(absl::Time deadline) {
  WaitingRequest waiting;
  waiting.request = std::make_unique<AdmittedRequest>();
  waiting.request->deadline = deadline;
  return waiting;
}

TEST(DeadlineHeapTest, EmptyHeapHasNoDeadline) {
  const DeadlineHeap heap;
  EXPECT_EQ(heap.first(), nullptr);
  EXPECT_EQ(heap.earliest(), absl::InfiniteFuture());
}

TEST(DeadlineHeapTest, PassesOverRequestsWithoutADeadline) {
  DeadlineHeap heap;
  WaitingRequest waiting = DueAt(absl::InfiniteFuture());
  heap.Push(&waiting);
  EXPECT_EQ(heap.first(), nullptr);
  heap.Remove(&waiting);
  EXPECT_EQ(heap.first(), nullptr);
}

// Against a plain list, over random pushes and removals.
TEST(DeadlineHeapTest, AlwaysShowsTheEarliest) {
  RandomGenerator random(FreshSeed());
  std::vector<std::unique_ptr<WaitingRequest>> in;
  DeadlineHeap heap;
  for (int i = 0; i < 20'000; ++i) {
    if (in.empty() || RandomInt(0, 9, &random) < (i / 1000 % 2 == 0 ? 6 : 4)) {
      in.push_back(std::make_unique<WaitingRequest>(
          DueAt(absl::FromUnixSeconds(RandomInt(0, 500, &random)))));
      heap.Push(in.back().get());
    } else {
      const int64_t index =
          RandomInt(0, static_cast<int64_t>(in.size()) - 1, &random);
      heap.Remove(in[index].get());
      ASSERT_EQ(in[index]->heap_index, -1);
      in.erase(in.begin() + index);
    }
    absl::Time earliest = absl::InfiniteFuture();
    for (const auto& waiting : in) {
      earliest = std::min(earliest, waiting->request->deadline);
    }
    ASSERT_EQ(heap.earliest(), earliest) << "step " << i;
  }
}

}  // namespace
}  // namespace qgemm
