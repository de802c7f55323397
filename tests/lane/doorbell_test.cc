// SPDX-License-Identifier: Apache-2.0
//
// Every interleaving of a side that sleeps and sides that publish, over a model
// of their words: nobody sleeps while there are news.

#include "lane/doorbell.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace qgemm {
namespace {

// The words, and how far each thread has come: the results of its steps, each a
// read or a write that others see.
struct World {
  struct Thread {
    std::vector<uint32_t> results;
    bool waits = false;  // its next step waits for a wake
    bool ended = false;
  };

  uint32_t sleeps = 0;
  uint32_t published = 0;
  int wakes = 0;  // pending, as an eventfd counts them
  std::vector<Thread> threads;
};

// Takes one step of a thread: runs its program from the start, with the results
// that its earlier steps had, until one step more is done.
class Step {
 public:
  Step(World* world, size_t thread)
      : world_(*world), thread_(world->threads[thread]) {}

  // A step of the program; `waits` if it needs a wake. Once the one step is
  // done the others do nothing.
  uint32_t Do(const std::function<uint32_t(World&)>& action,
              bool waits = false) {
    if (next_ < thread_.results.size() && !stopped_) {
      return thread_.results[next_++];
    }
    if (done_) {
      if (!stopped_) thread_.waits = waits;
      stopped_ = true;
      return 0;
    }
    done_ = true;
    thread_.waits = false;
    thread_.results.push_back(action(world_));
    return thread_.results[next_++];
  }

  // True once the program has to return.
  bool stopped() const { return stopped_; }

  void EndUnlessStopped() {
    if (!stopped_) thread_.ended = true;
  }

 private:
  World& world_;
  World::Thread& thread_;
  size_t next_ = 0;
  bool done_ = false;
  bool stopped_ = false;
};

// std::atomic<uint32_t> as far as the protocol uses it, sequentially
// consistent.
class ModelWord {
 public:
  ModelWord(Step* step, uint32_t World::*word) : step_(*step), word_(word) {}

  uint32_t load() const {
    return step_.Do([this](World& world) { return world.*word_; });
  }
  void store(uint32_t value) {
    step_.Do([this, value](World& world) { return world.*word_ = value; });
  }

 private:
  Step& step_;
  uint32_t World::*const word_;
};

using HasNews = std::function<bool()>;
using FallAsleep = std::function<bool(ModelWord& sleeps, const HasNews&)>;

// One waiter that wants all news of some publishers.
class Model {
 public:
  Model(int publishers, int news_each, FallAsleep fall_asleep)
      : publishers_(publishers),
        news_each_(news_each),
        fall_asleep_(std::move(fall_asleep)) {}

  void Explore() {
    World world;
    world.threads.resize(1 + publishers_);
    Explore(world);
  }

  int64_t ends() const { return ends_; }
  // Interleavings after which the waiter sleeps for ever.
  int64_t stuck() const { return stuck_; }

 private:
  void Explore(const World& world) {
    bool any = false;
    bool all_ended = true;
    for (size_t i = 0; i < world.threads.size(); ++i) {
      const World::Thread& thread = world.threads[i];
      all_ended = all_ended && thread.ended;
      if (thread.ended || (thread.waits && world.wakes == 0)) continue;
      any = true;
      World after = world;
      Step step(&after, i);
      i == 0 ? Wait(&step) : Publish(&step);
      step.EndUnlessStopped();
      Explore(after);
    }
    if (any) return;
    ++ends_;
    if (!all_ended) ++stuck_;
  }

  void Wait(Step* step) const {
    ModelWord sleeps(step, &World::sleeps);
    const ModelWord published(step, &World::published);
    const auto wanted = static_cast<uint32_t>(publishers_ * news_each_);
    uint32_t seen = 0;
    while (seen < wanted && !step->stopped()) {
      const uint32_t now = published.load();
      if (now != seen) {
        seen = now;
        continue;
      }
      if (!fall_asleep_(sleeps, [&] { return published.load() != seen; })) {
        continue;
      }
      constexpr bool kWaits = true;
      step->Do([](World& world) -> uint32_t { return world.wakes = 0; },
               kWaits);
      lane::StayAwake(sleeps);
    }
  }

  void Publish(Step* step) const {
    const ModelWord sleeps(step, &World::sleeps);
    for (int i = 0; i < news_each_ && !step->stopped(); ++i) {
      step->Do([](World& world) { return ++world.published; });
      if (!lane::MustWake(sleeps)) continue;
      step->Do([](World& world) -> uint32_t { return ++world.wakes; });
    }
  }

  const int publishers_;
  const int news_each_;
  const FallAsleep fall_asleep_;
  int64_t ends_ = 0;
  int64_t stuck_ = 0;
};

TEST(DoorbellTest, NoNewsAreMissedInAnyInterleaving) {
  for (const auto& [publishers, news] :
       {std::pair(1, 1), std::pair(1, 2), std::pair(1, 3), std::pair(2, 1)}) {
    Model model(publishers, news, &lane::FallAsleep<ModelWord, HasNews>);
    model.Explore();
    EXPECT_GT(model.ends(), 5);
    EXPECT_EQ(model.stuck(), 0) << "of " << model.ends();
  }
}

TEST(DoorbellTest, TheModelFindsASleepThatLooksForNewsTooEarly) {
  Model model(1, 1, [](ModelWord& sleeps, const HasNews& has_news) {
    if (has_news()) return false;
    sleeps.store(1);
    return true;
  });
  model.Explore();
  EXPECT_GT(model.stuck(), 0);
}

}  // namespace
}  // namespace qgemm
