// SPDX-License-Identifier: Apache-2.0
//
// Layer, number of rows and input of each request of a run: a function of the
// request's numbers, so that threads need not agree on an order. No operands
// and no connections.

#ifndef QGEMM_LOADTEST_WORKLOAD_WORKLOAD_H_
#define QGEMM_LOADTEST_WORKLOAD_WORKLOAD_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm::loadtest {

// A bijection of 64 bits whose outputs look independent of each other: the
// generator of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom
// Number Generators, 2014; constants by Stafford, Mix13), one step from
// `value`.
constexpr uint64_t MixBits(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Uniform in [0, 1), in steps of 2^-53.
constexpr double UnitInterval(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// Uniform in 0..count-1, to within count / 2^64. `count` is above 0.
constexpr uint64_t BelowCount(uint64_t bits, uint64_t count) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * count) >>
                               64);
}

struct RowClass {
  int64_t rows = 1;
  double share = 1;  // of the requests; the shares of a mix sum to 1
};

// One class or more, of different rows each. Immutable, and thread-safe.
class RowMix {
 public:
  // Every request has one row unless said otherwise.
  explicit RowMix(std::vector<RowClass> classes = {RowClass{}});

  const std::vector<RowClass>& classes() const { return classes_; }

  // The index of a class, as often as its share says; `uniform` is within
  // [0, 1).
  int Pick(double uniform) const;

 private:
  std::vector<RowClass> classes_;
  std::vector<double> share_ends_;  // sums of the shares up to each class
};

// "1", or ROWS:WEIGHT separated by commas, as in "1:0.9,16:0.08,256:0.02".
// Weights need not sum to 1; one left out is 1.
// Errors: INVALID_ARGUMENT that names the entry and what is allowed.
absl::StatusOr<RowMix> ParseRowMix(absl::string_view text);

inline constexpr double kMaxZipfExponent = 5;

struct WorkloadOptions {
  int layers = 1;
  // Each client calls the layers in order, from a seeded one on, as a token
  // goes through a model.
  bool walk = false;
  // Without a walk: layer i is drawn in proportion to 1 / (i + 1)^exponent, or,
  // at 0, client + sequence modulo the layers.
  double zipf_exponent = 0;
  RowMix rows;
  int inputs = 1;     // of each layer and class
  uint64_t seed = 1;  // of all draws
};

struct RequestPick {
  int layer = 0;
  int row_class = 0;  // an index into RowMix::classes()
  int input = 0;      // of those of its layer and class
};

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
