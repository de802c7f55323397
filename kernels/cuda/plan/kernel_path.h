// SPDX-License-Identifier: Apache-2.0
//
// The choice of the kernel that multiplies a request. Pure: a layer, a number
// of rows, a device and a policy in, a path and the reason for it out.

#ifndef QGEMM_KERNELS_CUDA_PLAN_KERNEL_PATH_H_
#define QGEMM_KERNELS_CUDA_PLAN_KERNEL_PATH_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/layout/device_traits.h"
#include "kernels/cuda/layout/tile_layout.h"
#include "kernels/cuda/plan/tuning.h"

namespace qgemm::cuda {

enum class KernelPath : uint8_t {
  kAuto,     // as ChooseKernelPath finds fastest
  kDecode,   // the fused kernel for few rows; requests share its launches
  kPrefill,  // the fused kernel for many rows; kCublas for layers it lacks
  kCublas,   // dequantize N-chunks of the layer, multiply them by cuBLASLt
  kW4A8,  // the kernel of mode A8, which has no other: never chosen or forced
  kA32,   // that of mode A32, likewise
};

// Names in flags and reports; kW4A8 and kA32 are in reports only.
inline constexpr std::pair<const char*, KernelPath> kKernelPaths[] = {
    {"auto", KernelPath::kAuto},
    {"decode", KernelPath::kDecode},
    {"prefill", KernelPath::kPrefill},
    {"cublas", KernelPath::kCublas},
};
absl::string_view Name(KernelPath path);
// INVALID_ARGUMENT for other names.
absl::StatusOr<KernelPath> ParseKernelPath(absl::string_view name);

// Layer facts that ChooseKernelPath uses.
struct LayerShape {
  int64_t n = 0;
  int64_t k = 0;
  const TileLayout* tiles = nullptr;  // null for a dense layer
  // DecodeKernelMaxM of the layer.
  int64_t decode_kernel_max_m = 0;
  // cuBLASLt cannot store C as it is wanted: there is a bias, or C has another
  // type than A.
  bool needs_fp32_sums = false;

  bool has_decode_kernel() const {
    return tiles != nullptr && tiles->has_decode_kernel;
  }
};

// Inputs of ChooseKernelPath besides layer, rows and device.
struct KernelPolicy {
  KernelPath forced = KernelPath::kAuto;  // overrides the choice (--kernel)
  Tuning tuning = DefaultTuning();
  bool has_cublas = true;  // cuBLASLt is on this system
};

enum class ChoiceReason : uint8_t {
  kForced,
  kFewRows,         // at most the decode kernel's limit for the layer
  kNoDecodeKernel,  // few rows of a layer that it does not multiply
  kNoCublas,
  kPrefillFaster,  // by estimate
  kCublasFaster,   // by estimate
  kNoPrefillKernel,
  kOnlyKernel,  // of the mode
};
absl::string_view Explain(ChoiceReason reason);

struct KernelChoice {
  KernelPath path;  // not kAuto
  ChoiceReason reason;
};

// Rows up to which the decode kernel is expected to be faster than the prefill
// kernel, a multiple of kDecodeBlockM; 0 where that does not multiply the
// layer. Depends on the layer and the device alone.
int64_t DecodeKernelMaxM(const TileLayout& layout, const DeviceTraits& device);

// Rows of the longest request that shares launches with others: all of a
// launch's rows then go to the decode kernel, or where the layer has none to
// cuBLASLt, as 64 rows. 0: none does.
int64_t MaxSharedRows(const LayerShape& layer, const KernelPolicy& policy);

// The kernel for a request of `m` rows.
KernelChoice ChooseKernelPath(const LayerShape& layer, int64_t m,
                              const DeviceTraits& device,
                              const KernelPolicy& policy);

// The kernel for a launch of `m` rows of a request of more than MaxSharedRows.
KernelChoice ChooseManyRowsPath(const LayerShape& layer, int64_t m,
                                const DeviceTraits& device,
                                const KernelPolicy& policy);

// The choices for a layer by number of rows, with their reasons, in one line.
std::string DescribeKernelPaths(const LayerShape& layer,
                                const DeviceTraits& device,
                                const KernelPolicy& policy);

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_PLAN_KERNEL_PATH_H_
