// SPDX-License-Identifier: Apache-2.0
//
// Calls in progress: their number, the refusal of further ones, and those that
// are told that the server drains. The steps of draining are in server.cc.

#ifndef QGEMM_SERVER_RPC_CALL_REGISTRY_H_
#define QGEMM_SERVER_RPC_CALL_REGISTRY_H_

#include <atomic>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/live_count.h"
#include "base/mutex.h"

namespace qgemm {

// Counts the call objects that a completion queue may still complete, and
// refuses calls while the server drains. Thread-safe. Must outlive its tokens.
class LiveCalls {
 public:
  // Held by each call object from its making to its end.
  class Token {
   public:
    explicit Token(LiveCalls* live_calls) : count_(&live_calls->count_) {
      count_->Add();
    }
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;
    ~Token() { count_->Remove(); }

   private:
    LiveCount* const count_;
  };

  // From now on CheckServing refuses.
  void BeginDrain();

  // OK, or UNAVAILABLE while the server drains.
  absl::Status CheckServing() const;

  // Ends a call that CheckServing refused: runs `refuse` at once, or when
  // held refusals are released.
  void Refuse(absl::AnyInvocable<void()> refuse);

  // Holds refusals from now on: a client that waits for its answer sends
  // nothing more meanwhile. Returns when none has come for `quiet`, or after
  // `limit`.
  void HoldRefusals(absl::Duration quiet, absl::Duration limit);
  void ReleaseRefusals();

  // Returns when no token is held.
  void WaitUntilNone() { count_.WaitUntilNone(); }

 private:
  std::atomic<bool> draining_{false};
  LiveCount count_;
  Mutex mutex_;
  CondVar refused_;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void()>> held_ ABSL_GUARDED_BY(mutex_);
};

// Bound of the calls in a registry, and the words that an error names it by.
struct CallLimit {
  size_t max_calls = std::numeric_limits<size_t>::max();
  absl::string_view noun;  // "uploads"
  absl::string_view flag;  // "--max_uploads"
};

// The calls of one streaming RPC that are to be told of a drain. Thread-safe.
template <typename Call>
class CallRegistry {
 public:
  // `live_calls` must outlive the registry.
  explicit CallRegistry(const LiveCalls* live_calls, CallLimit limit = {})
      : live_calls_(live_calls), limit_(limit) {}

  // Registers the call until Leave. Errors: UNAVAILABLE while the server
  // drains; RESOURCE_EXHAUSTED at the limit.
  absl::Status Enter(const std::shared_ptr<Call>& call) {
    MutexLock lock(&mutex_);
    // Calls() is taken after the drain began, under the same lock: a call is
    // refused here or told there.
    const absl::Status serving = live_calls_->CheckServing();
    if (!serving.ok()) return serving;
    if (calls_.size() >= limit_.max_calls) {
      return absl::ResourceExhaustedError(absl::StrCat(
          calls_.size(), " ", limit_.noun, " are in progress and the limit is ",
          limit_.max_calls, " (", limit_.flag, "); try again later"));
    }
    calls_.emplace(call.get(), call);
    return absl::OkStatus();
  }

  // Does nothing for a call that did not enter.
  void Leave(Call* call) {
    MutexLock lock(&mutex_);
    calls_.erase(call);
  }

  // The calls that are registered now.
  std::vector<std::shared_ptr<Call>> Calls() {
    std::vector<std::shared_ptr<Call>> calls;
    MutexLock lock(&mutex_);
    for (const auto& [unused, weak] : calls_) {
      if (auto call = weak.lock()) calls.push_back(std::move(call));
    }
    return calls;
  }

 private:
  const LiveCalls* const live_calls_;
  const CallLimit limit_;
  Mutex mutex_;
  std::map<Call*, std::weak_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_CALL_REGISTRY_H_
