// SPDX-License-Identifier: Apache-2.0
//
// Requests of a run, made before it: every layer times every number of rows
// times every input; and the choice among them for each request.

#ifndef QGEMM_LOADTEST_LOAD_SET_H_
#define QGEMM_LOADTEST_LOAD_SET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "loadtest/engine/load_generator.h"
#include "loadtest/engine/message_set.h"
#include "loadtest/options.h"
#include "loadtest/workload/workload.h"

namespace qgemm::loadtest {

// Virtual clients from this number on send prefill requests.
inline constexpr int64_t kFirstPrefillClient = int64_t{1} << 40;

// A layer that the server holds.
struct LoadedLayer {
  std::string name;  // in requests
  std::string format;
  int64_t k = 0;
  int64_t n = 0;
  int64_t resident_bytes = 0;
};

// Immutable and thread-safe once made.
class LoadSet {
 public:
  // `layers` has one or more. As many inputs as asked, fewer where operands
  // would take too much memory.
  // Errors: INVALID_ARGUMENT (a request above gRPC's largest message).
  static absl::StatusOr<std::unique_ptr<LoadSet>> Make(
      const LoadtestOptions& options, std::vector<LoadedLayer> layers);

  // As PickRequest.
  PickedRequest Pick(int64_t client, int64_t sequence) const;

  const MessageSet& messages() const { return messages_; }
  RequestPick Describe(int message) const;
  // A [m, k] of a message, made anew; the same bytes each time.
  std::vector<uint8_t> OperandOf(const RequestPick& message) const;
  int64_t AnswerBytes(const RequestPick& message) const;

  const std::vector<LoadedLayer>& layers() const { return layers_; }
  // Rows of each class, prefill the last if there is any.
  const std::vector<int64_t>& class_rows() const { return class_rows_; }
  int64_t RowsOf(const RequestPick& message) const {
    return class_rows_[message.row_class];
  }
  std::vector<std::string> class_names() const;

 private:
  LoadSet(const LoadtestOptions& options, std::vector<LoadedLayer> layers);

  absl::Status AddMessages();
  absl::StatusOr<int> InputsThatFit() const;

  const RequestOptions request_;
  const uint64_t seed_;
  const bool walk_;
  const std::vector<LoadedLayer> layers_;
  const Workload workload_;
  std::vector<int64_t> class_rows_;
  int inputs_ = 1;
  MessageSet messages_;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_LOAD_SET_H_
