// SPDX-License-Identifier: Apache-2.0
//
// Uploads by their client and their layer: one at a time of each, and those
// that were cut off, which wait to be continued.

#ifndef QGEMM_SERVER_WEIGHTS_UPLOAD_TABLE_H_
#define QGEMM_SERVER_WEIGHTS_UPLOAD_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/backend.h"
#include "server/access/principal.h"
#include "server/metrics/server_metrics.h"
#include "server/storage/state_directory.h"
#include "server/weights/upload_session.h"
#include "server/weights/weight_store.h"

namespace qgemm {

struct UploadTableOptions {
  // Time for which an upload waits to be continued; 0: none does.
  absl::Duration linger = absl::Minutes(2);
  // Uploads that wait at one time.
  size_t max_waiting = 4;
};

// Parts of the server that uploads work with; they outlive the table. `metrics`
// may be null.
struct UploadParts {
  Backend* backend = nullptr;
  WeightStore* store = nullptr;
  const Clock* clock = nullptr;
  ServerMetrics* metrics = nullptr;
};

// An upload that was cut off keeps its memory, its place on the disk and its
// share of its client's quota, until it is continued, or has waited for too
// long, or somebody has no room. When too many wait, the client with most of
// them loses its oldest. Nobody but its client learns of an upload.
//
// Thread-safe. No function is called with a lock of the table held.
class UploadTable {
 private:
  struct Entry;

 public:
  // The right to make one upload, until this goes. Move-only; must not outlive
  // the table.
  class Claim {
   public:
    Claim(Claim&& other) noexcept { *this = std::move(other); }
    Claim& operator=(Claim&& other) noexcept;
    ~Claim() { Release(); }

    // The session to continue, once; null if there is none.
    std::unique_ptr<UploadSession> TakeSession() { return std::move(session_); }
    // Bytes for Received.
    void SetReceived(int64_t bytes);
    // Ends the claim; the session waits to be continued if it can be.
    void Keep(std::unique_ptr<UploadSession> session,
              std::shared_ptr<const Principal> caller);
    // Ends the claim.
    void Release();

   private:
    friend class UploadTable;

    Claim() = default;

    UploadTable* table_ = nullptr;
    std::shared_ptr<Entry> entry_;
    std::unique_ptr<UploadSession> session_;
    std::shared_ptr<const Principal> caller_;  // the session's
  };

  // The upload that has the claim, or wants it.
  struct Claimant {
    // Asks the upload to end soon, because its client continues it elsewhere.
    std::function<void()> give_way;
    // Runs once, when the claim may be had: another Acquire is due.
    std::function<void()> on_turn;
  };
  enum class Urgency : uint8_t { kWaits, kTakesOver };

  UploadTable(const UploadParts& parts, const UploadTableOptions& options);
  UploadTable(const UploadTable&) = delete;
  UploadTable& operator=(const UploadTable&) = delete;
  // Uploads that wait are left on the disk for the next process.
  ~UploadTable();

  // Claims the upload of that layer by that client; nullopt while another has
  // it, which is told to give way to one that takes over.
  std::optional<Claim> Acquire(const UploadKey& key, Claimant claimant,
                               Urgency urgency);

  // Bytes that the server has of the client's upload of that layer, also of one
  // in progress, or on the disk since a process before this one: those are read
  // and checked, which takes as long. 0 if there is none, or the layer is held.
  // Errors: those of
  // UploadSession::Start.
  absl::StatusOr<int64_t> Received(
      const std::shared_ptr<const Principal>& caller, const Sha256Digest& id,
      const WeightsLimits& limits);

  // Gives up one upload that waits: the oldest, or that client's oldest. False
  // if there is none.
  bool GiveUp(const std::string* owner);

  // Gives up what has waited for too long; to be called now and then.
  void Sweep(absl::Time now);

  bool keeps_any() const { return options_.linger > absl::ZeroDuration(); }

 private:
  using Key = std::pair<std::string, Sha256Digest>;

  struct Entry {
    Key key;
    std::atomic<int64_t> received{0};
    // The rest is guarded by the table's lock.
    bool is_claimed = true;
    std::function<void()> give_way;
    std::vector<std::function<void()>> on_turn;
    // Waits to be continued, unless the entry is claimed.
    std::unique_ptr<UploadSession> session;
    std::shared_ptr<const Principal> caller;
    absl::Time until;
  };

  static Key KeyOf(const UploadKey& key) { return {key.owner, key.id}; }

  void Free(const std::shared_ptr<Entry>& entry);
  void Wait(const std::shared_ptr<Entry>& entry,
            std::unique_ptr<UploadSession> session,
            std::shared_ptr<const Principal> caller);
  // Claims the entry, so that its file is gone before the next upload of it
  // begins, and drops its session.
  void Drop(const std::shared_ptr<Entry>& entry);
  // The one that waits and has been there longest, of that client if one is
  // named; null if none does.
  std::shared_ptr<Entry> Oldest(const std::string* owner) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The client with most of those that wait; null unless there are too many.
  const std::string* Crowding() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UploadParts parts_;
  const UploadTableOptions options_;
  const absl::Time start_;
  mutable Mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  bool parts_dropped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_UPLOAD_TABLE_H_
