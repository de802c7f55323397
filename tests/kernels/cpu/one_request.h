// SPDX-License-Identifier: Apache-2.0
//
// Loads a layer and runs one request on a backend, waiting for its end.

#ifndef QGEMM_TESTS_KERNELS_CPU_ONE_REQUEST_H_
#define QGEMM_TESTS_KERNELS_CPU_ONE_REQUEST_H_

#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
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

// C of one request of `rows` rows `a`, which must succeed.
inline std::vector<uint8_t> RunRequest(
    Backend* backend, std::shared_ptr<const ResidentWeights> weights,
    const MatmulSignature& signature, int64_t rows,
    const std::vector<uint8_t>& a) {
  const int64_t c_bytes = rows * weights->n() * SizeOf(signature.c_type);
  auto a_lease = backend->AcquireStaging(a.size());
  auto c_lease = backend->AcquireStaging(c_bytes);
  CHECK_OK(a_lease.status());
  CHECK_OK(c_lease.status());
  std::copy(a.begin(), a.end(), a_lease->data());
  std::promise<absl::Status> done;
  CHECK_OK(backend->Enqueue(
      {std::move(weights),
       signature,
       {{rows, a_lease->data(), c_lease->data()}}},
      [&done](absl::Status status, const BatchTimings&, GemmBatch) {
        done.set_value(std::move(status));
      }));
  CHECK_OK(done.get_future().get());
  return {c_lease->data(), c_lease->data() + c_bytes};
}

}  // namespace qgemm::cpu

#endif  // QGEMM_TESTS_KERNELS_CPU_ONE_REQUEST_H_
