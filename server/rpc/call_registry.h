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
#include <string>
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
#include "rpc/grpc_status.h"

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

  // From now on CheckServing refuses with `refusal`; the first one stays.
  void BeginDrain(const absl::Status& refusal = Draining());

  // UNAVAILABLE, for what comes while the server drains.
  static absl::Status Draining() {
    return absl::UnavailableError(
        "the server is draining and takes no new requests; try another "
        "replica");
  }

  // OK, or UNAVAILABLE while the server drains or after it has failed.
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
  mutable Mutex mutex_;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  CondVar refused_;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void()>> held_ ABSL_GUARDED_BY(mutex_);
};

// Bound of the calls in a registry, and the words that an error names it by.
struct CallLimit {
  size_t max_calls = std::numeric_limits<size_t>::max();
  absl::string_view noun;  // "uploads"
  absl::string_view flag;  // "--max_uploads"
  // Bound of one client, so that others find a place.
  size_t max_client_calls = std::numeric_limits<size_t>::max();
};

// Time after which a call may find a place that found none.
inline constexpr absl::Duration kPlaceRetryDelay = absl::Milliseconds(500);

// RESOURCE_EXHAUSTED, with the time to retry, for a client that has as many
// calls of a kind, "uploads", as its entry in the access table allows.
absl::Status OverQuota(absl::string_view identity, absl::string_view noun,
                       size_t quota);

// The calls of one streaming RPC: the bound of their number, in all and by
// client, and those that are to be told of a drain. Thread-safe.
template <typename Call>
class CallRegistry {
 public:
  // `live_calls` must outlive the registry.
  explicit CallRegistry(const LiveCalls* live_calls, CallLimit limit = {})
      : live_calls_(live_calls), limit_(limit) {}

  // Registers the call of that client until Leave. `quota` bounds its calls
  // further; 0: it does not. Errors: UNAVAILABLE while the server drains;
  // RESOURCE_EXHAUSTED, with the time to retry, at a limit.
  absl::Status Enter(const std::shared_ptr<Call>& call,
                     const std::string& identity = "", size_t quota = 0) {
    MutexLock lock(&mutex_);
    // Calls() is taken after the drain began, under the same lock: a call is
    // refused here or told there.
    const absl::Status serving = live_calls_->CheckServing();
    if (!serving.ok()) return serving;
    if (calls_.size() >= limit_.max_calls) {
      return Full(absl::StrCat(calls_.size(), " ", limit_.noun,
                               " are in progress and the limit is ",
                               limit_.max_calls));
    }
    const auto known = clients_.find(identity);
    const size_t own = known == clients_.end() ? 0 : known->second;
    if (quota > 0 && own >= quota) {
      return OverQuota(identity, limit_.noun, quota);
    }
    const auto client = clients_.try_emplace(identity, 0).first;
    if (client->second >= limit_.max_client_calls) {
      return Full(absl::StrCat(client->second, " ", limit_.noun, " of ",
                               identity, " are in progress and the limit of ",
                               "one client is ", limit_.max_client_calls));
    }
    ++client->second;
    calls_.emplace(call.get(), Entered{call, client});
    return absl::OkStatus();
  }

  // Returns false, and does nothing, for a call that did not enter.
  bool Leave(Call* call) {
    MutexLock lock(&mutex_);
    const auto found = calls_.find(call);
    if (found == calls_.end()) return false;
    const auto client = found->second.client;
    if (--client->second == 0) clients_.erase(client);
    calls_.erase(found);
    return true;
  }

  // The calls that are registered now.
  std::vector<std::shared_ptr<Call>> Calls() {
    std::vector<std::shared_ptr<Call>> calls;
    MutexLock lock(&mutex_);
    for (const auto& [unused, entered] : calls_) {
      if (auto call = entered.call.lock()) calls.push_back(std::move(call));
    }
    return calls;
  }

 private:
  using Clients = std::map<std::string, size_t>;
  struct Entered {
    std::weak_ptr<Call> call;
    Clients::iterator client;
  };

  absl::Status Full(absl::string_view problem) const {
    return WithRetryDelay(
        absl::ResourceExhaustedError(
            absl::StrCat(problem, " (", limit_.flag, "); try again later")),
        kPlaceRetryDelay);
  }

  const LiveCalls* const live_calls_;
  const CallLimit limit_;
  Mutex mutex_;
  std::map<Call*, Entered> calls_ ABSL_GUARDED_BY(mutex_);
  Clients clients_ ABSL_GUARDED_BY(mutex_);  // those with calls, by identity
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_CALL_REGISTRY_H_
