// SPDX-License-Identifier: Apache-2.0
//
// The tasks of a queue; its completions are what tests/end_to_end is made of.

#include "rpc/completion_queue.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/live_count.h"

namespace qgemm {
namespace {

class CompletionQueueTest : public testing::Test {
 protected:
  CompletionQueueTest() {
    grpc::ServerBuilder builder;
    queue_ = std::make_unique<CompletionQueue>(builder.AddCompletionQueue());
    server_ = builder.BuildAndStart();
    queue_->Start();
  }

  ~CompletionQueueTest() override {
    server_->Shutdown();
    queue_->ShutDown();
  }

  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(CompletionQueueTest, RunsTasksInOrderOnItsThread) {
  constexpr int kTasks = 1000;
  LiveCount tasks;
  std::vector<int> order;
  std::set<std::thread::id> threads;
  for (int i = 0; i < kTasks; ++i) {
    tasks.Add();
    queue_->Submit([&, i] {
      order.push_back(i);
      threads.insert(std::this_thread::get_id());
      tasks.Remove();
    });
  }
  tasks.WaitUntilNone();
  ASSERT_EQ(order.size(), static_cast<size_t>(kTasks));
  for (int i = 0; i < kTasks; ++i) EXPECT_EQ(order[i], i);
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 0u);
}

TEST_F(CompletionQueueTest, RunsEveryTaskOfManyThreadsOnce) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 500;
  LiveCount tasks;
  std::vector<std::atomic<int>> runs(kThreads * kTasks);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kTasks; ++i) {
        tasks.Add();
        queue_->Submit([&tasks, run = &runs[thread * kTasks + i]] {
          ++*run;
          tasks.Remove();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  tasks.WaitUntilNone();
  for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
}

// Each waits for the one before: the queue would sleep for ever if a task that
// is submitted while others run were lost.
TEST_F(CompletionQueueTest, ATaskMaySubmitAnother) {
  LiveCount tasks;
  tasks.Add();
  int left = 300;
  const std::function<void()> step = [&] {
    if (--left == 0) return tasks.Remove();
    queue_->Submit(step);
  };
  queue_->Submit(step);
  tasks.WaitUntilNone();
  EXPECT_EQ(left, 0);
}

// Counts its completions and tells on which thread they ran.
class CountingTag final : public CompletionTag {
 public:
  CountingTag(const CompletionQueue* queue, LiveCount* pending)
      : queue_(queue), pending_(pending) {
    pending_->Add();
  }
  void Set() {
    alarm_.Set(queue_->queue(), gpr_inf_past(GPR_CLOCK_MONOTONIC), Publish());
  }
  void Complete(bool) override {
    if (queue_->OnQueueThread()) ++completions_;
    pending_->Remove();
  }
  int completions() const { return completions_; }

 private:
  const CompletionQueue* const queue_;
  LiveCount* const pending_;
  grpc::Alarm alarm_;
  int completions_ = 0;
};

TEST(ClientCompletionQueue, CompletesOnItsThreads) {
  CompletionQueue queue;
  queue.Start(/*threads=*/3);
  EXPECT_EQ(queue.server_queue(), nullptr);
  EXPECT_FALSE(queue.OnQueueThread());
  LiveCount pending;
  std::vector<std::unique_ptr<CountingTag>> tags;
  for (int i = 0; i < 100; ++i) {
    tags.push_back(std::make_unique<CountingTag>(&queue, &pending));
    tags.back()->Set();
  }
  pending.WaitUntilNone();
  for (const auto& tag : tags) EXPECT_EQ(tag->completions(), 1);
}

}  // namespace
}  // namespace qgemm
