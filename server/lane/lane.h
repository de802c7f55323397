// SPDX-License-Identifier: Apache-2.0
//
// One lane on the server's side: its memory, its client, its handles, and
// whether it goes on. What is done with its requests is in lane_requests.h; its
// socket is in lane_control.h.

#ifndef QGEMM_SERVER_LANE_LANE_H_
#define QGEMM_SERVER_LANE_LANE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "kernels/matrix/backend.h"
#include "lane/messages.h"
#include "server/lane/lane_memory.h"
#include "server/lane/rings.h"
#include "server/net/peer_table.h"
#include "server/rpc/call_gate.h"

namespace qgemm {

// The right that lanes need, as Gemm and Run do.
inline constexpr Rpc kLaneRpc = {"Lane", RpcAccess::Needs(Right::kCompute)};

// A client by what its lane's socket and hello showed, judged by the access
// table that is in force. Thread-safe.
class LaneClient {
 public:
  // `gate` must outlive the client; `connection` is the socket's peer.
  LaneClient(const CallGate* gate, std::shared_ptr<const Peer> connection,
             const std::string& token);
  LaneClient(const LaneClient&) = delete;
  LaneClient& operator=(const LaneClient&) = delete;

  // Errors: UNAUTHENTICATED, PERMISSION_DENIED, RESOURCE_EXHAUSTED (the
  // client's quota of connections).
  absl::StatusOr<std::shared_ptr<const Peer>> Current() const;

  const std::shared_ptr<const Peer>& connection() const { return connection_; }

 private:
  CallGate::Admission Judge() const;

  const CallGate* const gate_;
  const std::shared_ptr<const Peer> connection_;
  const std::string authorization_;  // "Bearer TOKEN"; empty without a token
  mutable Mutex mutex_;
  mutable CallGate::Admission admission_ ABSL_GUARDED_BY(mutex_);
};

// Weights or a program by the name, or id, that it was opened by.
struct LaneHandle {
  lane::HandleKind kind = lane::HandleKind::kWeights;
  std::string name;
  std::string client_id;  // of its requests; may be empty
};

// The handles of one lane. Thread-safe.
class LaneHandles {
 public:
  // No quota counts their memory, so that this and --max_lanes bound it
  // (docs/operations.md#memory): with names of lane::kMaxNameBytes a handle has
  // 384 bytes, and 50 of the table. Several client ids for each of the hundreds
  // of layers or programs of a model are fewer.
  static constexpr size_t kMostHandles = 2048;

  // Returns the handle's number. Errors: RESOURCE_EXHAUSTED (too many).
  absl::StatusOr<uint32_t> Open(LaneHandle handle);
  // NOT_FOUND if it is not open.
  absl::Status Close(uint32_t number);
  // NOT_FOUND if it is not open.
  absl::StatusOr<std::shared_ptr<const LaneHandle>> Find(uint32_t number) const;

 private:
  mutable Mutex mutex_;
  uint32_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint32_t, std::shared_ptr<const LaneHandle>> open_
      ABSL_GUARDED_BY(mutex_);
};

// Addresses are the backend's: the host must not use those of a GPU.
struct LaneRegion {
  uint8_t* data = nullptr;
  int64_t size_bytes = 0;
};

// Regions by their numbers: 0 is the segment's operands, others come and stay.
// Attach on one thread at a time; Find is thread-safe and waits for nobody.
class LaneRegions {
 public:
  explicit LaneRegions(LaneRegion operands) : operands_(operands) {}
  LaneRegions(const LaneRegions&) = delete;
  LaneRegions& operator=(const LaneRegions&) = delete;

  // OK, or RESOURCE_EXHAUSTED: the lane has as many as it may.
  absl::Status CheckRoom() const;
  // Returns the region's number; there must be room.
  uint32_t Attach(StagingLease memory);

  // INVALID_ARGUMENT names `field` if there is no such region.
  absl::StatusOr<LaneRegion> Find(const char* field, uint8_t number) const;

 private:
  const LaneRegion operands_;
  std::array<StagingLease, lane::kMaxRegions> attached_;
  std::atomic<uint32_t> count_{0};  // those before it do not change any more
};

// Thread-safe, but for `requests`. Requests of a lane hold a reference each, so
// that its memory outlives its last launch.
class Lane {
 public:
  // `doorbell` is the eventfd that the client rings, `wake` the socket that
  // wakes it.
  Lane(std::unique_ptr<const LaneMemory> memory, FileDescriptor doorbell,
       FileDescriptor wake, std::shared_ptr<const LaneClient> client);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const LaneMemory& memory() const { return *memory_; }
  const LaneClient& client() const { return *client_; }
  int doorbell() const { return doorbell_.get(); }
  LaneRegions& regions() { return regions_; }
  LaneHandles& handles() { return handles_; }
  const LaneHandles& handles() const { return handles_; }
  CompletionWriter& completions() { return completions_; }

  // Belongs to the poller's thread.
  RequestReader& requests() { return requests_; }

  // Says, once, why the lane must end: the client broke the protocol. Nothing
  // is taken from it any more. Returns false if that was said before.
  bool Break(const absl::Status& violation);
  // OK, or that.
  absl::Status violation() const;
  bool is_broken() const { return broken_.load(std::memory_order_acquire); }

  // True once the client has gone; its requests that wait are dropped then.
  const std::atomic<bool>& client_left() const { return client_left_; }
  void SetClientLeft() { client_left_.store(true, std::memory_order_release); }

 private:
  const std::unique_ptr<const LaneMemory> memory_;
  const FileDescriptor doorbell_;
  const std::shared_ptr<const LaneClient> client_;
  LaneRegions regions_;
  RequestReader requests_;
  CompletionWriter completions_;
  LaneHandles handles_;
  std::atomic<bool> broken_{false};
  std::atomic<bool> client_left_{false};
  mutable Mutex mutex_;
  absl::Status violation_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_LANE_LANE_H_
