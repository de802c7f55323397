// SPDX-License-Identifier: Apache-2.0

#include "qgemm/process_settings.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>

#include "absl/synchronization/mutex.h"

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

// Two mutexes taken in both orders, which is no deadlock on one thread, end the
// process where a debug build of Abseil watches.
TEST(SkipLockOrderChecks, LetsMutexesBeTakenInAnyOrder) {
  SkipLockOrderChecks();
  absl::Mutex a;
  absl::Mutex b;
  const auto lock_both = [](absl::Mutex* first, absl::Mutex* second) {
    const absl::MutexLock outer(first);
    const absl::MutexLock inner(second);
  };
  lock_both(&a, &b);
  lock_both(&b, &a);
}

}  // namespace
}  // namespace qgemm
