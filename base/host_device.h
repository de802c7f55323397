// SPDX-License-Identifier: Apache-2.0
//
// Functions that host and device code share: the macro that begins their
// definitions, and the two divisions every tiling needs.

#ifndef QGEMM_BASE_HOST_DEVICE_H_
#define QGEMM_BASE_HOST_DEVICE_H_

#include <type_traits>

#ifdef __CUDACC__
#define QGEMM_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define QGEMM_HOST_DEVICE inline
#endif

namespace qgemm {

// ceil(a / b) for integers a >= 0 and b > 0, in the wider type; never
// overflows.
template <typename A, typename B>
QGEMM_HOST_DEVICE constexpr std::common_type_t<A, B> CeilDiv(A a, B b) {
  static_assert(std::is_integral_v<A> && std::is_integral_v<B>,
                "CeilDiv divides integers");
  using Wider = std::common_type_t<A, B>;
  const Wider dividend = a;
  const Wider divisor = b;
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

// The smallest multiple of b that is >= a, for integers a >= 0 and b > 0, in
// the wider type, which it must fit.
template <typename A, typename B>
QGEMM_HOST_DEVICE constexpr std::common_type_t<A, B> RoundUp(A a, B b) {
  return CeilDiv(a, b) * b;
}

}  // namespace qgemm

#endif  // QGEMM_BASE_HOST_DEVICE_H_
