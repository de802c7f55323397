// SPDX-License-Identifier: Apache-2.0
//
// Places at which the host has the rows of batches of one request. Clients
// decode from and to the same memory again and again: a recording may have its
// addresses as parameters, and the GPU then need not read them from the host
// first.

#ifndef QGEMM_KERNELS_CUDA_PLAN_RECURRING_PLACES_H_
#define QGEMM_KERNELS_CUDA_PLAN_RECURRING_PLACES_H_

#include <array>
#include <cstdint>
#include <utility>

namespace qgemm::cuda {

// The inputs and outputs of a request of m rows. Null pointers: none, or those
// of any.
struct RequestPlace {
  const uint8_t* inputs = nullptr;
  uint8_t* outputs = nullptr;
  int64_t m = 0;

  friend bool operator==(const RequestPlace& one, const RequestPlace& other) {
    return one.inputs == other.inputs && one.outputs == other.outputs &&
           one.m == other.m;
  }
  template <typename Hash>
  friend Hash AbslHashValue(Hash hash, const RequestPlace& place) {
    return Hash::combine(std::move(hash), place.inputs, place.outputs, place.m);
  }
};

// The places of late.
class RecurringPlaces {
 public:
  // Places that are told apart. A client with more of them gains nothing.
  static constexpr int kMax = 16;
  // Times that a place came before it counts as one that comes again: a
  // recording of it takes as long as some ten batches.
  static constexpr int kTimesBefore = 8;

  // True if it comes again.
  bool Observe(const RequestPlace& place) {
    Seen* seen = &places_[0];
    for (Seen& each : places_) {
      if (each.place == place) {
        seen = &each;
        break;
      }
      if (each.last < seen->last) seen = &each;
    }
    if (!(seen->place == place)) *seen = {place, 0, 0};
    seen->last = ++observed_;
    if (seen->times == kTimesBefore) return true;
    ++seen->times;
    return false;
  }

 private:
  struct Seen {
    RequestPlace place;
    int times = 0;
    uint64_t last = 0;
  };

  std::array<Seen, kMax> places_;
  uint64_t observed_ = 0;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_RECURRING_PLACES_H_
