// SPDX-License-Identifier: Apache-2.0
//
// Names of weights and programs as a lane knows them: each is opened on first
// use and kept.

#ifndef QGEMM_CLIENT_LANE_TARGETS_H_
#define QGEMM_CLIENT_LANE_TARGETS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/answer_wait.h"
#include "client/lane_socket.h"
#include "lane/messages.h"

namespace qgemm {

// Name in a request, and the client it counts for.
struct LaneTarget {
  lane::HandleKind kind = lane::HandleKind::kWeights;
  absl::string_view name;
  absl::string_view client_id;
};

// An open target. It is closed when the last reference goes, as its number is
// another's from then on; so whoever has a request in flight has a reference.
class OpenLaneTarget {
 public:
  // `socket` must outlive it.
  OpenLaneTarget(std::string key, const lane::Opened& opened,
                 LaneSocket* socket)
      : key_(std::move(key)), opened_(opened), socket_(socket) {}
  OpenLaneTarget(const OpenLaneTarget&) = delete;
  OpenLaneTarget& operator=(const OpenLaneTarget&) = delete;
  ~OpenLaneTarget() { socket_->Close(opened_.handle); }

  // That LaneTargets has it by.
  const std::string& key() const { return key_; }
  uint32_t number() const { return opened_.handle; }
  // Size of one row, when the target was opened: elements of weights, bytes of
  // a program's inputs and outputs.
  uint64_t a_row() const {
    return is_program() ? opened_.input_row_bytes : opened_.k;
  }
  uint64_t c_row() const {
    return is_program() ? opened_.output_row_bytes : opened_.n;
  }
  // Times of its calls, whatever their rows: the shortest count.
  AnswerEstimate& answers() const { return answers_; }

 private:
  bool is_program() const { return opened_.kind == lane::HandleKind::kProgram; }

  const std::string key_;
  const lane::Opened opened_;
  LaneSocket* const socket_;
  mutable AnswerEstimate answers_;
};

// Thread-safe.
class LaneTargets {
 public:
  using HandlePtr = std::shared_ptr<const OpenLaneTarget>;

  // `socket` must outlive it and all its handles.
  explicit LaneTargets(LaneSocket* socket) : socket_(socket) {}

  // The target's handle; waits for the server if it is not open. Errors: those
  // of LaneSocket::Open.
  absl::StatusOr<HandlePtr> Find(const LaneTarget& target, absl::Time deadline);

  // Null if it is not open.
  HandlePtr FindOpen(const LaneTarget& target);
  // Opens it without waiting: `done` runs once, with no lock held, as that of
  // LaneSocket::OpenLater.
  using OpenDone = absl::AnyInvocable<void(const absl::Status& status)>;
  void OpenLater(const LaneTarget& target, OpenDone done);

  // The target's shape is not that of its handle, or it is not there any more:
  // the next Find opens it anew.
  void Forget(const HandlePtr& handle);

 private:
  HandlePtr Keep(const std::string& key, const lane::Opened& opened);
  void EndOpening(const std::string& key, const absl::Status& status);
  // Gives all up: the server has no room for more.
  void ForgetAll();

  LaneSocket* const socket_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, HandlePtr> targets_ ABSL_GUARDED_BY(mutex_);
  // Those that OpenLater is opening, and who waits for them.
  absl::flat_hash_map<std::string, std::vector<OpenDone>> opening_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LANE_TARGETS_H_
