// SPDX-License-Identifier: Apache-2.0
//
// Requests of a run, made before it: every layer, or program, times every
// number of rows times every input; and the choice among them for each request.

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

// A program that the server holds.
struct LoadedProgram {
  std::string name;                // in requests
  int64_t input_row_elements = 0;  // of all inputs together, each bf16
  int64_t output_row_bytes = 0;    // of all outputs together
};

// The layers that requests multiply with; or programs, which stand in their
// place: a request then is for program number RequestPick::layer.
struct LoadTargets {
  std::vector<LoadedLayer> layers;
  std::vector<LoadedProgram> programs;  // empty: requests are Gemms
};

// Rows [first, first + rows) of a request of `m` rows: part number `part` of
// `parts`. The first parts have a row more where they cannot be equal.
struct RowRange {
  int64_t first = 0;
  int64_t rows = 0;
};
RowRange RowsOfPart(int64_t m, int part, int parts);

// Requests are numbered from 0 on. Immutable and thread-safe once made.
class LoadSet {
 public:
  // One target or more. As many inputs as asked, fewer where operands would
  // take too much memory.
  // Errors: INVALID_ARGUMENT (a request above gRPC's largest message).
  static absl::StatusOr<std::unique_ptr<LoadSet>> Make(
      const LoadtestOptions& options, LoadTargets targets);

  // As PickRequest.
  PickedRequest Pick(int64_t client, int64_t sequence) const;

  int size() const { return messages_.size() / parts(); }
  // Request i is the messages from i * parts() on.
  const MessageSet& messages() const { return messages_; }
  int parts() const { return request_.parts; }
  RequestPick Describe(int request) const;
  // A [m, k] of a request, or the inputs of its parts one behind the other;
  // made anew, the same bytes each time.
  std::vector<uint8_t> OperandOf(const RequestPick& request) const;
  int64_t OperandRowBytes(const RequestPick& request) const;
  int64_t AnswerBytes(const RequestPick& request) const;

  const std::vector<LoadedLayer>& layers() const { return targets_.layers; }
  const std::vector<LoadedProgram>& programs() const {
    return targets_.programs;
  }
  // Rows of each class, prefill the last if there is any.
  const std::vector<int64_t>& class_rows() const { return class_rows_; }
  int64_t RowsOf(const RequestPick& request) const {
    return class_rows_[request.row_class];
  }
  std::vector<std::string> class_names() const;

 private:
  // The rows that a layer or a program takes and gives.
  struct TargetRows {
    std::string text;  // for messages: "up [14336, 4096]"
    FloatType a_type = FloatType::kBFloat16;
    int64_t a_elements = 0;
    int64_t answer_bytes = 0;
  };

  LoadSet(const LoadtestOptions& options, LoadTargets targets);

  std::vector<TargetRows> RowsOfTargets() const;
  absl::Status AddMessages();
  void AddRequest(const RequestPick& request, const Operand& operand);
  absl::StatusOr<int> InputsThatFit() const;

  const RequestOptions request_;
  const uint64_t seed_;
  const bool walk_;
  const LoadTargets targets_;
  const std::vector<TargetRows> rows_;  // by target
  const Workload workload_;
  std::vector<int64_t> class_rows_;
  int inputs_ = 1;
  MessageSet messages_;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_LOAD_SET_H_
