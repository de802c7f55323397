// SPDX-License-Identifier: Apache-2.0
//
// Layer, number of rows and input of each request of a run: a function of the
// request's numbers, so that threads need not agree on an order. No operands
// and no connections.

#ifndef QGEMM_LOADTEST_WORKLOAD_WORKLOAD_H_
#define QGEMM_LOADTEST_WORKLOAD_WORKLOAD_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm::loadtest {

struct RowClass {
  int64_t rows = 1;
  double share = 1;  // of the requests; the shares of a mix sum to 1
};

// One class or more, of different rows each. Immutable, and thread-safe.
class RowMix {
 public:
  // Every request has one row.
  RowMix() : RowMix({RowClass{}}) {}

  const std::vector<RowClass>& classes() const { return classes_; }

  // The index of a class, as often as its share says; `uniform` is within
  // [0, 1).
  int Pick(double uniform) const;

 private:
  friend absl::StatusOr<RowMix> ParseRowMix(absl::string_view text);

  explicit RowMix(std::vector<RowClass> classes);

  std::vector<RowClass> classes_;
  std::vector<double> share_ends_;  // sums of the shares up to each class
};

// "1", or ROWS:WEIGHT separated by commas, as in "1:0.9,16:0.08,256:0.02".
// Weights need not sum to 1; one left out is 1.
// Errors: INVALID_ARGUMENT that names the entry and what is allowed.
absl::StatusOr<RowMix> ParseRowMix(absl::string_view text);

enum class LayerOrder : uint8_t {
  kRoundRobin,  // each as often: client + sequence, modulo the layers
  kZipf,        // drawn; layer i in proportion to 1 / (i + 1)^exponent
  kWalk,        // each client in order, from a seeded layer on, as a token goes
                // through a model
};

inline constexpr double kMaxZipfExponent = 5;

struct WorkloadOptions {
  int layers = 1;
  LayerOrder order = LayerOrder::kRoundRobin;
  double zipf_exponent = 1;  // kZipf: above 0, at most kMaxZipfExponent
  RowMix rows;
  int inputs = 1;     // of each layer and class
  uint64_t seed = 1;  // of all draws
};

struct RequestPick {
  int layer = 0;
  int row_class = 0;  // an index into RowMix::classes()
  int input = 0;      // of those of its layer and class
};

inline bool operator==(const RequestPick& a, const RequestPick& b) {
  return a.layer == b.layer && a.row_class == b.row_class && a.input == b.input;
}

// Immutable, thread-safe; picks allocate nothing.
class Workload {
 public:
  explicit Workload(const WorkloadOptions& options);

  // Request number `sequence`, from 0, of a client, or of the arrival of that
  // index. A walking client keeps its rows for a pass through all layers, as
  // a token or a prompt does; else every request draws its own.
  RequestPick Pick(int64_t client, int64_t sequence) const;

 private:
  int PickLayer(int64_t client, int64_t sequence) const;
  // Steps of a walking client from the first layer on.
  int64_t WalkPosition(int64_t client, int64_t sequence) const;

  WorkloadOptions options_;
  std::vector<double> zipf_ends_;  // the distribution function, by layer
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_WORKLOAD_WORKLOAD_H_
