// SPDX-License-Identifier: Apache-2.0
//
// Every interleaving of a side that sleeps and sides that publish, over a model
// of their words: nobody sleeps while there are news.

#include "lane/doorbell.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"

namespace qgemm {
namespace {

// Lets one of some threads run until its next step, as a list of choices says,
// and counts the choices that there were.
class Interleaving {
 public:
  struct Choice {
    size_t chosen = 0;
    size_t enabled = 0;
  };

  explicit Interleaving(std::vector<Choice> prefix)
      : choices_(std::move(prefix)) {}

  // Runs the threads to their ends; false if all that are left are blocked for
  // ever.
  bool Run(const std::vector<std::function<void()>>& programs) {
    states_.assign(programs.size(), {});
    std::vector<std::thread> threads;
    for (size_t i = 0; i < programs.size(); ++i) {
      threads.emplace_back([this, i, &programs] {
        Await(i);
        programs[i]();
        MutexLock lock(&mutex_);
        states_[i].ended = true;
        running_ = kNobody;
        changed_.SignalAll();
      });
    }
    const bool ended = Schedule();
    for (std::thread& thread : threads) thread.join();
    return ended;
  }

  // A step of thread `i`: one read or write that others see.
  void Step(size_t i) {
    {
      MutexLock lock(&mutex_);
      running_ = kNobody;
      changed_.SignalAll();
    }
    Await(i);
  }

  // Blocks thread `i` until `ready`; false if that never comes.
  bool Block(size_t i, std::function<bool()> ready) {
    {
      MutexLock lock(&mutex_);
      states_[i].ready = std::move(ready);
    }
    Step(i);
    MutexLock lock(&mutex_);
    states_[i].ready = nullptr;
    return !stuck_;
  }

  // The choices of the run that comes next in the order of all; empty after the
  // last.
  std::vector<Choice> Next() const {
    std::vector<Choice> next = choices_;
    while (!next.empty() && next.back().chosen + 1 == next.back().enabled) {
      next.pop_back();
    }
    if (!next.empty()) ++next.back().chosen;
    return next;
  }

 private:
  static constexpr size_t kNobody = ~size_t{0};

  struct State {
    bool ended = false;
    std::function<bool()> ready;  // null: it can go on
  };

  void Await(size_t i) {
    MutexLock lock(&mutex_);
    while (running_ != i) changed_.Wait(&mutex_);
  }

  bool Schedule() {
    for (size_t step = 0;; ++step) {
      MutexLock lock(&mutex_);
      while (running_ != kNobody) changed_.Wait(&mutex_);
      std::vector<size_t> enabled;
      size_t left = 0;
      for (size_t i = 0; i < states_.size(); ++i) {
        if (states_[i].ended) continue;
        ++left;
        if (stuck_ || states_[i].ready == nullptr || states_[i].ready()) {
          enabled.push_back(i);
        }
      }
      if (left == 0) return !stuck_;
      if (enabled.empty()) {
        stuck_ = true;  // lets the blocked ones see that, and end
        continue;
      }
      if (step == choices_.size()) choices_.push_back({0, 0});
      choices_[step].enabled = enabled.size();
      running_ = enabled[choices_[step].chosen];
      changed_.SignalAll();
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<State> states_;
  std::vector<Choice> choices_;
  size_t running_ = kNobody;
  bool stuck_ = false;
};

thread_local Interleaving* interleaving = nullptr;
thread_local size_t self = 0;

// std::atomic<uint32_t> as far as the protocol uses it, sequentially
// consistent.
class ModelWord {
 public:
  uint32_t load() const {
    interleaving->Step(self);
    return value_;
  }
  void store(uint32_t value) {
    interleaving->Step(self);
    value_ = value;
  }
  void add(uint32_t value) {
    interleaving->Step(self);
    value_ += value;
  }

 private:
  uint32_t value_ = 0;
};

using FallAsleepFunction =
    std::function<bool(ModelWord& sleeps, const std::function<bool()>&)>;

struct Outcome {
  int runs = 0;
  int stuck = 0;
};

// One waiter that wants all news of some publishers.
Outcome RunAll(int publishers, int news_each, const FallAsleepFunction& sleep) {
  Outcome outcome;
  std::vector<Interleaving::Choice> prefix;
  do {
    Interleaving run(prefix);
    ModelWord sleeps;
    ModelWord published;
    int wakes = 0;  // pending, as an eventfd counts them
    const auto enter = [&run](size_t i) {
      interleaving = &run;
      self = i;
    };
    std::vector<std::function<void()>> programs;
    programs.push_back([&] {
      enter(0);
      const auto wanted = static_cast<uint32_t>(publishers * news_each);
      uint32_t seen = 0;
      while (seen < wanted) {
        const uint32_t now = published.load();
        if (now != seen) {
          seen = now;
          continue;
        }
        const bool asleep =
            sleep(sleeps, [&] { return published.load() != seen; });
        if (!asleep) continue;
        if (!run.Block(0, [&wakes] { return wakes > 0; })) return;
        wakes = 0;
        lane::StayAwake(sleeps);
      }
    });
    for (int i = 0; i < publishers; ++i) {
      programs.push_back([&, i] {
        enter(i + 1);
        for (int each = 0; each < news_each; ++each) {
          published.add(1);
          if (lane::MustWake(sleeps)) ++wakes;
        }
      });
    }
    if (!run.Run(programs)) ++outcome.stuck;
    ++outcome.runs;
    prefix = run.Next();
  } while (!prefix.empty());
  return outcome;
}

TEST(DoorbellTest, NoNewsAreMissedInAnyInterleaving) {
  const auto protocol = &lane::FallAsleep<ModelWord, std::function<bool()>>;
  for (const auto& [publishers, news] :
       {std::pair(1, 1), std::pair(1, 2), std::pair(2, 1)}) {
    const Outcome outcome = RunAll(publishers, news, protocol);
    EXPECT_GT(outcome.runs, 5);
    EXPECT_EQ(outcome.stuck, 0) << "of " << outcome.runs;
  }
}

TEST(DoorbellTest, TheModelFindsASleepThatLooksForNewsTooEarly) {
  const Outcome outcome = RunAll(
      1, 1, [](ModelWord& sleeps, const std::function<bool()>& has_news) {
        if (has_news()) return false;
        sleeps.store(1);
        return true;
      });
  EXPECT_GT(outcome.stuck, 0);
}

}  // namespace
}  // namespace qgemm
