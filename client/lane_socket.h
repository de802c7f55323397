// SPDX-License-Identifier: Apache-2.0
//
// The socket of a lane at the client: opens the lane, and weights and programs
// on it, and sees the lane's end. lane/messages.h has the messages.

#ifndef QGEMM_CLIENT_LANE_SOCKET_H_
#define QGEMM_CLIENT_LANE_SOCKET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "lane/messages.h"
#include "qgemm/client_options.h"

namespace qgemm {

// Thread-safe.
class LaneSocket {
 public:
  struct Wanted {
    int64_t operand_bytes = 0;
    uint32_t slots = 0;
    std::string token;  // empty: none
    absl::Span<const DeviceOperands> device_operands;
  };
  // A lane as the server granted it.
  struct Granted {
    std::unique_ptr<LaneSocket> socket;
    lane::Accept accept;
    FileDescriptor segment;
    FileDescriptor doorbell;
    FileDescriptor wake;
    std::vector<uint8_t> regions;  // numbers of the device_operands
  };

  // Attaches the memory of the GPU, too. Errors: INVALID_ARGUMENT (a path or
  // token that is too long), UNAVAILABLE (nobody listens, or no answer by the
  // deadline), INTERNAL (an answer that is none), those of the server.
  static absl::StatusOr<Granted> Connect(const std::string& path,
                                         const Wanted& wanted,
                                         absl::Time deadline);

  LaneSocket(const LaneSocket&) = delete;
  LaneSocket& operator=(const LaneSocket&) = delete;

  // Opens weights or a program; waits for the answer, which Serve takes.
  // Errors: those of the server; UNAVAILABLE if the lane has ended or ends;
  // INVALID_ARGUMENT (a name or client id that is too long); DEADLINE_EXCEEDED.
  absl::StatusOr<lane::Opened> Open(lane::HandleKind kind,
                                    absl::string_view name,
                                    absl::string_view client_id,
                                    absl::Time deadline);
  // The same without waiting: `done` runs once, with no lock held, on the
  // thread of Serve, or on this one if nothing was sent.
  using OpenDone =
      absl::AnyInvocable<void(const absl::StatusOr<lane::Opened>& opened)>;
  void OpenLater(lane::HandleKind kind, absl::string_view name,
                 absl::string_view client_id, OpenDone done);
  // Does not wait for the answer.
  void Close(uint32_t handle);

  // Takes the server's messages until the lane ends, and says why it did. On
  // one thread.
  absl::Status Serve();

  // Ends the lane.
  void HangUp();

 private:
  explicit LaneSocket(FileDescriptor descriptor)
      : descriptor_(std::move(descriptor)) {}

  // Sends an Open, whose answer `done` will get; returns its number.
  absl::StatusOr<uint32_t> SendOpen(lane::HandleKind kind,
                                    absl::string_view name,
                                    absl::string_view client_id, OpenDone* done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A message that came; an error if it is the last.
  absl::Status Take(absl::string_view packet);
  void TakeOpened(const lane::Opened& opened, absl::string_view packet);
  void SendClose(uint32_t handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FileDescriptor descriptor_;
  Mutex mutex_;
  CondVar changed_;
  uint32_t sequence_ ABSL_GUARDED_BY(mutex_) = 0;  // of the last request
  std::map<uint32_t, OpenDone> pending_ ABSL_GUARDED_BY(mutex_);
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // not OK: the lane has ended
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LANE_SOCKET_H_
