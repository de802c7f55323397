// SPDX-License-Identifier: Apache-2.0
//
// A weights sink that keeps what it is given, counts the calls and fails when
// a test says so.

#ifndef QGEMM_TESTS_SUPPORT_RECORDING_SINK_H_
#define QGEMM_TESTS_SUPPORT_RECORDING_SINK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// Not thread-safe, as sinks are.
class RecordingSink final : public WeightsSink {
 public:
  // The call after `calls` more, Begin included, and all later ones answer
  // `status`.
  void FailAfter(int64_t calls, absl::Status status) {
    calls_until_failure_ = calls;
    failure_ = std::move(status);
  }

  absl::Status Begin(const WeightsHeader& header) override {
    return Count(&begin_calls_, [&] {
      codes_written_.assign(header.n * header.k, 0);
      return weights_.Begin(header);
    });
  }
  absl::Status WriteCodes(const CodePanel& panel) override {
    return Count(&code_panels_, [&] {
      MarkWritten(panel);
      return weights_.WriteCodes(panel);
    });
  }
  absl::Status WriteScales(const GroupPanel& panel) override {
    return Count(&scale_panels_, [&] { return weights_.WriteScales(panel); });
  }
  absl::Status WriteZeros(const GroupPanel& panel) override {
    return Count(&zero_panels_, [&] { return weights_.WriteZeros(panel); });
  }
  absl::Status WriteDense(const DensePanel& panel) override {
    return Count(&dense_panels_, [&] { return weights_.WriteDense(panel); });
  }
  absl::Status SetTensorScale(float tensor_scale) override {
    return Count(&tensor_scale_calls_,
                 [&] { return weights_.SetTensorScale(tensor_scale); });
  }

  const CanonicalWeights& weights() const { return weights_; }
  // Count of writes of each code [n, k]; empty before Begin.
  const std::vector<uint8_t>& codes_written() const { return codes_written_; }
  int64_t begin_calls() const { return begin_calls_; }
  int64_t code_panels() const { return code_panels_; }
  int64_t scale_panels() const { return scale_panels_; }
  int64_t zero_panels() const { return zero_panels_; }
  int64_t dense_panels() const { return dense_panels_; }
  int64_t tensor_scale_calls() const { return tensor_scale_calls_; }

 private:
  template <typename Call>
  absl::Status Count(int64_t* calls, Call call) {
    ++*calls;
    if (!failure_.ok() && calls_until_failure_-- <= 0) return failure_;
    return call();
  }

  void MarkWritten(const CodePanel& panel) {
    const int64_t k = weights_.header().k;
    for (int64_t i = 0; i < panel.rows * panel.columns; ++i) {
      const int64_t row = panel.row_begin + i / panel.columns;
      ++codes_written_[row * k + panel.k_begin + i % panel.columns];
    }
  }

  CanonicalWeights weights_;
  std::vector<uint8_t> codes_written_;
  int64_t begin_calls_ = 0;
  int64_t code_panels_ = 0;
  int64_t scale_panels_ = 0;
  int64_t zero_panels_ = 0;
  int64_t dense_panels_ = 0;
  int64_t tensor_scale_calls_ = 0;
  int64_t calls_until_failure_ = 0;
  absl::Status failure_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_RECORDING_SINK_H_
