// SPDX-License-Identifier: Apache-2.0
//
// FakeLane: a lane's server in the test's process whose answers the test
// decides. Works, on a real socket and real shared memory.

#ifndef QGEMM_TESTS_CLIENT_FAKE_LANE_H_
#define QGEMM_TESTS_CLIENT_FAKE_LANE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "lane/messages.h"
#include "lane/segment.h"

namespace qgemm {

// Thread-safe. Handlers run on a thread of the lane that the request came by.
class FakeLane {
 public:
  // A request as it came.
  struct Request {
    lane::RequestEntry entry;
    lane::HandleKind kind = lane::HandleKind::kWeights;
    std::string name;
    std::string client_id;
    absl::Span<const uint8_t> a;
    absl::Span<uint8_t> c;
  };
  struct Answer {
    absl::Status status;
    absl::Duration retry_delay = absl::ZeroDuration();
    uint64_t kernel_ns = 0;
  };
  using Handler = std::function<Answer(const Request&)>;
  // Elements of a row of weights, bytes of a row of a program.
  struct Shape {
    uint64_t a_row = 0;
    uint64_t c_row = 0;
  };

  FakeLane();
  FakeLane(const FakeLane&) = delete;
  FakeLane& operator=(const FakeLane&) = delete;
  ~FakeLane();

  const std::string& path() const { return path_; }

  // Without a handler the answer is A, repeated or cut to the size of C.
  void set_handler(Handler handler);
  // Shape that a name is opened with; other names are NOT_FOUND.
  void set_shape(const std::string& name, Shape shape);
  // Lanes that are opened from now on end at once with this; OK: they do not.
  void set_refusal(absl::Status refusal);
  // Changes the next grants before they are sent.
  void set_grant_edit(std::function<void(lane::Accept*)> edit);
  // The answer to memory that a client attaches from now on; OK: it is taken.
  // Files stand for a GPU's.
  void set_attach_status(absl::Status status);
  // Handles of a lane at most; more are RESOURCE_EXHAUSTED.
  void set_max_handles(int count);

  // Requests wait, once taken, until OpenGate.
  void CloseGate();
  void OpenGate();
  void AwaitAtGate(int count);

  // A lane whose client opens a target stands still, once it has taken the
  // message, until ReleaseOpens.
  void HoldOpens();
  void ReleaseOpens();

  // Ends all lanes with kEnd, or without a word.
  void EndLanes(absl::string_view reason);
  void DropLanes();

  // So far, of all lanes.
  int lanes() const;
  int requests() const;
  // "+name" for each handle opened, "-name" for each closed.
  std::vector<std::string> handle_log() const;
  std::string token() const;  // of the last hello
  Request last_request() const;

 private:
  struct LaneState;
  struct Handle {
    lane::HandleKind kind = lane::HandleKind::kWeights;
    std::string name;
    std::string client_id;
  };

  void AcceptLanes();
  void Serve(LaneState* state);
  bool Greet(LaneState* state);
  // False: the client has hung up.
  bool TakeMessage(LaneState* state);
  void Open(LaneState* state, const std::string& packet);
  void Attach(LaneState* state, const std::string& packet,
              FileDescriptor memory);
  void TakeRequests(LaneState* state);
  void AnswerReady(LaneState* state);
  void Complete(LaneState* state, const Request& request);
  void KickLanes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::string folder_;
  std::string path_;
  FileDescriptor listener_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  Handler handler_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Shape> shapes_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  absl::Status attach_status_ ABSL_GUARDED_BY(mutex_);
  std::function<void(lane::Accept*)> grant_edit_ ABSL_GUARDED_BY(mutex_);
  int max_handles_ ABSL_GUARDED_BY(mutex_) = 1 << 20;
  bool gate_open_ ABSL_GUARDED_BY(mutex_) = true;
  int at_gate_ ABSL_GUARDED_BY(mutex_) = 0;
  bool holds_opens_ ABSL_GUARDED_BY(mutex_) = false;
  int requests_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> handle_log_ ABSL_GUARDED_BY(mutex_);
  std::string token_ ABSL_GUARDED_BY(mutex_);
  Request last_request_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<LaneState>> lanes_ ABSL_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_CLIENT_FAKE_LANE_H_
