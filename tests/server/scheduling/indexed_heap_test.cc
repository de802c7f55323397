// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/indexed_heap.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

struct Item {
  int64_t key = 0;
  int64_t index = -1;
};

struct Less {
  bool operator()(const Item& a, const Item& b) const { return a.key < b.key; }
};

using Heap = IndexedHeap<Item, &Item::index, Less>;

TEST(IndexedHeapTest, IgnoresWhatIsNotInIt) {
  Heap heap;
  Item item;
  heap.Remove(&item);
  heap.Moved(&item);
  EXPECT_TRUE(heap.empty());
  EXPECT_EQ(heap.first(), nullptr);
}

// Against a plain list, over random pushes, removals and changes.
TEST(IndexedHeapTest, ShowsTheLeastAndAllBelowABound) {
  RandomGenerator random(FreshSeed());
  std::vector<std::unique_ptr<Item>> in;
  Heap heap;
  for (int i = 0; i < 20'000; ++i) {
    const int64_t draw = RandomInt(0, 9, &random);
    if (in.empty() || draw < (i / 1000 % 2 == 0 ? 5 : 3)) {
      in.push_back(std::make_unique<Item>());
      in.back()->key = RandomInt(0, 500, &random);
      heap.Push(in.back().get());
    } else {
      const int64_t at =
          RandomInt(0, static_cast<int64_t>(in.size()) - 1, &random);
      if (draw < 7) {
        in[at]->key = RandomInt(0, 500, &random);
        heap.Moved(in[at].get());
      } else {
        heap.Remove(in[at].get());
        in.erase(in.begin() + at);
      }
    }
    const int64_t bound = RandomInt(0, 500, &random);
    int64_t below = 0;
    int64_t least = 501;
    for (const auto& item : in) {
      below += item->key < bound;
      least = std::min(least, item->key);
    }
    int64_t visited = 0;
    heap.VisitFirst([&](const Item& item) { return item.key < bound; },
                    [&](Item*) { ++visited; });
    ASSERT_EQ(heap.empty() ? 501 : heap.first()->key, least) << "step " << i;
    ASSERT_EQ(visited, below) << "step " << i;
  }
}

}  // namespace
}  // namespace qgemm
