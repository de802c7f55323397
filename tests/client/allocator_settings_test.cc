// SPDX-License-Identifier: Apache-2.0

#include "client/allocator_settings.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>

namespace qgemm {
namespace {

constexpr size_t kOperandBytes = 16 << 20;

// Blocks that the allocator holds mapped of their own while one more is there.
size_t MappedBlocksBeside(size_t bytes) {
  void* volatile const block = std::malloc(bytes);  // not optimized away
  const size_t mapped = mallinfo2().hblks;
  std::free(block);
  return mapped;
}

TEST(KeepFreedOperandMemory, TakesOperandsFromTheHeapAndKeepsThem) {
  KeepFreedOperandMemory();
  EXPECT_EQ(MappedBlocksBeside(kOperandBytes), mallinfo2().hblks);
  EXPECT_GE(mallinfo2().fordblks, kOperandBytes) << "free, and still there";
}

}  // namespace
}  // namespace qgemm
