// SPDX-License-Identifier: Apache-2.0
//
// Which of the layers under load a request takes. Any request's answer follows
// from its numbers, so that threads need not agree on an order.

#ifndef QGEMM_LOADTEST_WORKLOAD_WEIGHTS_PICK_H_
#define QGEMM_LOADTEST_WORKLOAD_WEIGHTS_PICK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace qgemm {

enum class LayerOrder : uint8_t {
  kInTurn,  // each as often: client + sequence, modulo the layers
  kZipf,    // drawn; layer i in proportion to 1 / (i + 1)^exponent
  kWalk,    // each client in order, as a token goes through a model
};

// Where the clients of a walk begin.
enum class WalkStart : uint8_t { kFirstLayer, kSeededLayer };

inline constexpr double kMaxZipfExponent = 5;

struct LayerPickOptions {
  int layers = 1;
  LayerOrder order = LayerOrder::kInTurn;
  double zipf_exponent = 1;  // kZipf: above 0, at most kMaxZipfExponent
  WalkStart walk_start = WalkStart::kSeededLayer;  // kWalk
  uint64_t seed = 1;
};

// Immutable, and thread-safe; picks allocate nothing.
class LayerPicker {
 public:
  // Errors: INVALID_ARGUMENT (no layers, an exponent out of its range).
  static absl::StatusOr<LayerPicker> Create(const LayerPickOptions& options);

  // The layer of a client's request number `sequence`, from 0. Clients that
  // send one request each, as arrivals do, differ in `client` alone.
  int Pick(int64_t client, int64_t sequence) const;

  // How many times the client has gone through all layers before that request:
  // kWalk; in the other orders each request is a pass of its own.
  int64_t Pass(int64_t client, int64_t sequence) const;

 private:
  explicit LayerPicker(const LayerPickOptions& options);

  int64_t WalkPosition(int64_t client, int64_t sequence) const;

  LayerPickOptions options_;
  std::vector<double> zipf_ends_;  // the distribution function, by layer
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_WORKLOAD_WEIGHTS_PICK_H_
