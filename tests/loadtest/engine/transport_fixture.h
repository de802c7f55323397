// SPDX-License-Identifier: Apache-2.0
//
// A transport's two ends in a test: a server whose answers the test decides,
// and a sink that keeps what requests came to.

#ifndef QGEMM_TESTS_LOADTEST_ENGINE_TRANSPORT_FIXTURE_H_
#define QGEMM_TESTS_LOADTEST_ENGINE_TRANSPORT_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "loadtest/engine/message_set.h"
#include "loadtest/engine/transport.h"
#include "tests/client/fake_service.h"

namespace qgemm::loadtest {

// The end of a request; C joined.
struct End {
  absl::Status status;
  bool cut = false;
  Timings timings;
  std::string c;
};

// Keeps ends by slot until they are asked for.
class RecordingSink final : public RequestSink {
 public:
  explicit RecordingSink(int slots) : ends_(slots) {}

  void OnEnd(int slot, const EndedRequest& end) override {
    auto kept = std::make_unique<End>();
    // A copy, since Abseil, which is not instrumented, hides from
    // ThreadSanitizer how it counts references to a status.
    kept->status = absl::Status(end.status.code(), end.status.message());
    kept->cut = end.cut;
    kept->timings = end.timings;
    for (absl::string_view piece : end.c) absl::StrAppend(&kept->c, piece);
    MutexLock lock(&mutex_);
    ends_[slot] = std::move(kept);
    changed_.SignalAll();
  }

  End Await(int slot) {
    MutexLock lock(&mutex_);
    while (ends_[slot] == nullptr) changed_.Wait(&mutex_);
    const End end = *ends_[slot];
    ends_[slot].reset();
    return end;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<End>> ends_ ABSL_GUARDED_BY(mutex_);
};

class TransportTest : public testing::Test {
 protected:
  static constexpr int kSlots = 4;
  static constexpr absl::Duration kTimeout = absl::Seconds(60);

  TransportTest() {
    options_.target = service_.address();
    options_.channels = 2;
    GemmRequest gemm;
    gemm.m = 2;
    for (const std::string a : {"abcd", "efgh"}) {
      gemm.weights = absl::StrCat("layer", messages_.size());
      messages_.AddGemm(gemm, std::make_shared<const std::vector<uint8_t>>(
                                  a.begin(), a.end()));
    }
  }

  std::unique_ptr<Transport> Open(const OpenTransport& open) {
    absl::StatusOr<std::unique_ptr<Transport>> transport = open(kSlots, &sink_);
    EXPECT_TRUE(transport.ok()) << transport.status();
    return *std::move(transport);
  }

  FakeService service_;
  MessageSet messages_;
  TransportOptions options_;
  RecordingSink sink_{kSlots};
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_TESTS_LOADTEST_ENGINE_TRANSPORT_FIXTURE_H_
