// SPDX-License-Identifier: Apache-2.0
//
// Places of uploads, shared out between clients.

#ifndef QGEMM_SERVER_RPC_UPLOAD_PLACES_H_
#define QGEMM_SERVER_RPC_UPLOAD_PLACES_H_

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "rpc/grpc_status.h"
#include "server/rpc/call_registry.h"

namespace qgemm {

// A client may take every place that is free. When none is, the client that has
// most gives its latest to one that will still have fewer: each of two clients
// has half of the places then, and none is shut out while there are more places
// than clients. A client with a quota has at most so many. Places are few, so
// lists are searched. Thread-safe.
template <typename Call>
class UploadPlaces {
 public:
  // `live_calls` must outlive the places; `max_uploads` is at least 1.
  UploadPlaces(const LiveCalls* live_calls, size_t max_uploads)
      : live_calls_(live_calls), max_uploads_(max_uploads) {}

  // Takes a place until Leave, unless the client has `quota` of them (0: any
  // number). Returns the call that lost its place for it,
  // which the caller must end, or null. Errors: UNAVAILABLE while the server
  // drains; RESOURCE_EXHAUSTED, with the time to retry, if there is no place.
  absl::StatusOr<std::shared_ptr<Call>> Enter(const std::shared_ptr<Call>& call,
                                              const std::string& identity,
                                              size_t quota = 0) {
    MutexLock lock(&mutex_);
    // Calls() is taken after the drain began, under the same lock: a call is
    // refused here or told there.
    const absl::Status serving = live_calls_->CheckServing();
    if (!serving.ok()) return serving;
    if (quota > 0 && Count(identity) >= quota) {
      return OverQuota(identity, "uploads", quota);
    }
    std::shared_ptr<Call> displaced;
    if (places_.size() >= max_uploads_) {
      const auto place = PlaceFor(identity);
      if (place == places_.end()) return Full(identity);
      displaced = place->weak.lock();
      places_.erase(place);
    }
    places_.push_back({identity, call.get(), call});
    return displaced;
  }

  // Does nothing for a call that has no place.
  void Leave(Call* call) {
    MutexLock lock(&mutex_);
    places_.remove_if(
        [call](const Place& place) { return place.call == call; });
  }

  // The calls that have a place now.
  std::vector<std::shared_ptr<Call>> Calls() {
    std::vector<std::shared_ptr<Call>> calls;
    MutexLock lock(&mutex_);
    for (const Place& place : places_) {
      if (auto call = place.weak.lock()) calls.push_back(std::move(call));
    }
    return calls;
  }

  // The error of a call that lost its place.
  absl::Status Displaced() const {
    return WithRetryDelay(
        absl::ResourceExhaustedError(absl::StrCat(
            "all ", max_uploads_, " places for uploads (--max_uploads) were ",
            "taken and this client had most of them; this upload, its latest, ",
            "made room for another client; upload again")),
        kPlaceRetryDelay);
  }

 private:
  struct Place {
    std::string identity;
    Call* call;
    std::weak_ptr<Call> weak;
  };
  using Places = std::list<Place>;  // in the order of Enter

  size_t Count(const std::string& identity) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::count_if(
        places_.begin(), places_.end(),
        [&](const Place& place) { return place.identity == identity; });
  }

  // The latest place of the client that has most, if it has at least two more
  // than this one; else the end.
  typename Places::iterator PlaceFor(const std::string& identity)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    size_t most = Count(identity) + 1;
    auto chosen = places_.end();
    for (auto place = places_.begin(); place != places_.end(); ++place) {
      const size_t count = Count(place->identity);
      const bool is_later =
          chosen != places_.end() && chosen->identity == place->identity;
      if (count > most || is_later) {
        most = count;
        chosen = place;
      }
    }
    return chosen;
  }

  absl::Status Full(const std::string& identity) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return WithRetryDelay(
        absl::ResourceExhaustedError(absl::StrCat(
            places_.size(), " uploads are in progress, ", Count(identity),
            " of this client's, and the limit is ", max_uploads_,
            " (--max_uploads); try again later")),
        kPlaceRetryDelay);
  }

  const LiveCalls* const live_calls_;
  const size_t max_uploads_;
  Mutex mutex_;
  Places places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_UPLOAD_PLACES_H_
