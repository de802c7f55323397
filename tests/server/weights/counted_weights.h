// SPDX-License-Identifier: Apache-2.0
//
// Resident layer without contents that counts its living instances.

#ifndef QGEMM_TESTS_SERVER_WEIGHTS_COUNTED_WEIGHTS_H_
#define QGEMM_TESTS_SERVER_WEIGHTS_COUNTED_WEIGHTS_H_

#include <atomic>
#include <cstdint>

#include "kernels/matrix/backend.h"

namespace qgemm {

class CountedWeights final : public ResidentWeights {
 public:
  // `live` must outlive the layer.
  CountedWeights(int64_t n, int64_t bytes, std::atomic<int64_t>* live)
      : ResidentWeights(n, 1), bytes_(bytes), live_(live) {
    ++*live_;
  }
  ~CountedWeights() override { --*live_; }

  int64_t resident_bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
  std::atomic<int64_t>* const live_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_WEIGHTS_COUNTED_WEIGHTS_H_
