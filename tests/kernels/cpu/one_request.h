// SPDX-License-Identifier: Apache-2.0
//
// Loads a layer and runs one request on a backend, waiting for its end.

#ifndef QGEMM_TESTS_KERNELS_CPU_ONE_REQUEST_H_
#define QGEMM_TESTS_KERNELS_CPU_ONE_REQUEST_H_

#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/canonical_weights.h"
#include "tests/support/panel_writer.h"

namespace qgemm::cpu {

// `weights` loaded whole, which must succeed.
inline std::shared_ptr<const ResidentWeights> LoadWhole(
    Backend* backend, const CanonicalWeights& weights) {
  auto builder = backend->NewBuilder();
  CHECK_OK(builder.status());
  CHECK_OK(WriteWhole(weights, builder->get()));
  auto resident = (*builder)->Finish();
  CHECK_OK(resident.status());
  return *std::move(resident);
}

// C of one request of rows `a`, which must succeed. It runs as `parts`, of so
// many rows, one after the other.
inline std::vector<uint8_t> RunInParts(
    Backend* backend, const std::shared_ptr<const ResidentWeights>& weights,
    const MatmulSignature& signature, const std::vector<int64_t>& parts,
    const std::vector<uint8_t>& a) {
  const int64_t rows = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  const int64_t a_row_bytes = weights->k() * SizeOf(signature.a_type);
  const int64_t c_row_bytes = weights->n() * SizeOf(signature.c_type);
  auto a_lease = backend->AcquireStaging(a.size());
  auto c_lease = backend->AcquireStaging(rows * c_row_bytes);
  CHECK_OK(a_lease.status());
  CHECK_OK(c_lease.status());
  std::copy(a.begin(), a.end(), a_lease->data());
  int64_t first = 0;
  for (const int64_t part : parts) {
    const RowSegment segment = {part, a_lease->data() + first * a_row_bytes,
                                c_lease->data() + first * c_row_bytes, rows};
    std::promise<absl::Status> done;
    CHECK_OK(backend->Enqueue(
        {weights, signature, {segment}},
        [&done](absl::Status status, const BatchTimings&, GemmBatch) {
          done.set_value(std::move(status));
        }));
    CHECK_OK(done.get_future().get());
    first += part;
  }
  return {c_lease->data(), c_lease->data() + rows * c_row_bytes};
}

// The same of all `rows` rows at once.
inline std::vector<uint8_t> RunRequest(
    Backend* backend, const std::shared_ptr<const ResidentWeights>& weights,
    const MatmulSignature& signature, int64_t rows,
    const std::vector<uint8_t>& a) {
  return RunInParts(backend, weights, signature, {rows}, a);
}

}  // namespace qgemm::cpu

#endif  // QGEMM_TESTS_KERNELS_CPU_ONE_REQUEST_H_
