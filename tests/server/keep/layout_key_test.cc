// SPDX-License-Identifier: Apache-2.0
//
// The key by which a server knows that layers in memory are as it makes them.

#include "server/keep/layout_key.h"

#include <gtest/gtest.h>

#include <memory>

#include "kernels/backends/backends.h"

namespace qgemm {
namespace {

std::unique_ptr<Backend> NewBackend(BackendKind kind) {
  BackendOptions options;
  options.kind = kind;
  options.cpu.threads = 1;
  options.cpu.keep_memory = true;
  options.cuda.keep_memory = true;
  auto backend = CreateBackend(options);
  return backend.ok() ? *std::move(backend) : nullptr;
}

// The bytes of a layer are the same in every process, wherever they are.
TEST(LayoutKeyTest, IsTheSameForEveryBackendOfOneKind) {
  for (const BackendKind kind : {BackendKind::kCpu, BackendKind::kCuda}) {
    const auto first = NewBackend(kind);
    const auto second = NewBackend(kind);
    if (first == nullptr || second == nullptr) continue;  // no GPU
    const auto key = LayoutKeyOf(first.get());
    ASSERT_TRUE(key.ok()) << key.status();
    EXPECT_EQ(*LayoutKeyOf(first.get()), *key);
    EXPECT_EQ(*LayoutKeyOf(second.get()), *key);
  }
}

TEST(LayoutKeyTest, LeavesNoLayerBehind) {
  const auto backend = NewBackend(BackendKind::kCpu);
  ASSERT_TRUE(LayoutKeyOf(backend.get()).ok());
  EXPECT_EQ(backend->memory().weights_bytes, 0);
}

}  // namespace
}  // namespace qgemm
