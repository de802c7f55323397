// SPDX-License-Identifier: Apache-2.0
//
// Decode kernel up to a limit of rows, then whichever of prefill kernel and
// cuBLASLt has the lower estimate.

#include "kernels/cuda/plan/kernel_path.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/host_device.h"
#include "kernels/cuda/plan/n_chunk_plan.h"
#include "kernels/cuda/plan/prefill_plan.h"
#include "kernels/cuda/plan/tile_plan.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// A small layer is dequantized within L2, so that cuBLASLt's path costs it
// little. On an H100, kbit4, decode kernel and dequantize + cuBLASLt in us:
// 1024x4096 at M = 128 10.0 and 8.8; 4096x4096 at M = 128 23.4 and 24.8, at 256
// 44.8 and 32.8; 2048x10240 at 256 45.1 and 38.5; 4096x11008 73 and 81.
constexpr int64_t kTinyElements = int64_t{8} << 20;
constexpr int64_t kSmallElements = int64_t{32} << 20;

// Time of a wave of blocks of several 64 rows, over the estimate for 64. On an
// H200, kbit4, M = 128, estimated and measured in us: 4096x4096 12.0 and 13.3,
// 2048x1536 6.6 and 7.2, 1024x4096 5.7 and 6.2.
constexpr double kSharedWave = 1.09;

int64_t MaxDecodeRowsOfSize(int64_t elements) {
  if (elements < kTinyElements) return kDecodeBlockM;
  if (elements < kSmallElements) return 2 * kDecodeBlockM;
  return kNoLimit;
}

bool OffersPrefill(const LayerShape& layer, const DeviceTraits& device) {
  return layer.tiles != nullptr && OffersPrefill(*layer.tiles, device);
}

double CublasEstimate(const LayerShape& layer, int64_t m,
                      const DeviceTraits& device) {
  const NChunkProblem problem =
      NChunkProblemOf(m, layer.n, layer.k, layer.needs_fp32_sums);
  return CublasMicroseconds(problem, NChunkRows(problem, device), device);
}

std::string Describe(const KernelChoice& choice) {
  return absl::StrCat(Name(choice.path), " (", Explain(choice.reason), ")");
}

}  // namespace

absl::string_view Name(KernelPath path) {
  for (const auto& [name, named] : kKernelPaths) {
    if (named == path) return name;
  }
  if (path == KernelPath::kA32) return "a32";
  return path == KernelPath::kW4A8 ? "w4a8" : "unknown";
}

absl::StatusOr<KernelPath> ParseKernelPath(absl::string_view name) {
  for (const auto& [known, path] : kKernelPaths) {
    if (name == known) return path;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("kernel = \"", name,
                   "\" is not known; use auto, decode, prefill or cublas"));
}

absl::string_view Explain(ChoiceReason reason) {
  switch (reason) {
    case ChoiceReason::kForced:
      return "forced";
    case ChoiceReason::kFewRows:
      return "few rows";
    case ChoiceReason::kNoDecodeKernel:
      return "few rows, no decode kernel for this layer";
    case ChoiceReason::kNoCublas:
      return "no cuBLASLt on this system";
    case ChoiceReason::kPrefillFaster:
      return "estimated faster than cuBLASLt";
    case ChoiceReason::kCublasFaster:
      return "estimated faster than the prefill kernel";
    case ChoiceReason::kNoPrefillKernel:
      return "no prefill kernel for this layer on this GPU";
    case ChoiceReason::kOnlyKernel:
      return "the mode's only kernel";
  }
  return "";
}

int64_t DecodeKernelMaxM(const TileLayout& layout, const DeviceTraits& device) {
  if (!OffersPrefill(layout, device)) return 0;
  const TileConfig& config = layout.tile_config;
  const double once = DecodeMicroseconds({layout.n, layout.k}, config, device);
  const int64_t blocks = config.n_blocks * config.split_k;
  int64_t rows = kDecodeBlockM;
  for (; rows < kMaxDecodeM; rows += kDecodeBlockM) {
    const int64_t next = rows + kDecodeBlockM;
    const int64_t waves =
        CeilDiv(next / kDecodeBlockM * blocks, int64_t{device.sm_count});
    const double time = static_cast<double>(waves) * once * kSharedWave;
    if (time > EstimatePrefill(layout, next, device).microseconds) break;
  }
  return rows;
}

int64_t MaxSharedRows(const LayerShape& layer, const KernelPolicy& policy) {
  if (!policy.has_cublas || policy.forced == KernelPath::kDecode) {
    return kNoLimit;
  }
  if (policy.forced != KernelPath::kAuto) return 0;
  // Without a decode kernel launches of few rows differ only in that requests
  // share them.
  if (!layer.has_decode_kernel()) return kDecodeBlockM;
  return std::min(policy.tuning.max_decode_rows[layer.tiles->bits - 2],
                  layer.decode_kernel_max_m > 0
                      ? layer.decode_kernel_max_m
                      : MaxDecodeRowsOfSize(layer.n * layer.k));
}

KernelChoice ChooseKernelPath(const LayerShape& layer, int64_t m,
                              const DeviceTraits& device,
                              const KernelPolicy& policy) {
  if (m > MaxSharedRows(layer, policy)) {
    return ChooseManyRowsPath(layer, m, device, policy);
  }
  if (!layer.has_decode_kernel()) {
    return {KernelPath::kCublas, ChoiceReason::kNoDecodeKernel};
  }
  const ChoiceReason reason = !policy.has_cublas ? ChoiceReason::kNoCublas
                              : policy.forced == KernelPath::kDecode
                                  ? ChoiceReason::kForced
                                  : ChoiceReason::kFewRows;
  return {KernelPath::kDecode, reason};
}

KernelChoice ChooseManyRowsPath(const LayerShape& layer, int64_t m,
                                const DeviceTraits& device,
                                const KernelPolicy& policy) {
  if (policy.forced == KernelPath::kCublas) {
    return {KernelPath::kCublas, ChoiceReason::kForced};
  }
  if (!OffersPrefill(layer, device)) {
    return {KernelPath::kCublas, ChoiceReason::kNoPrefillKernel};
  }
  if (policy.forced == KernelPath::kPrefill) {
    return {KernelPath::kPrefill, ChoiceReason::kForced};
  }
  return EstimatePrefill(*layer.tiles, m, device).microseconds <=
                 CublasEstimate(layer, m, device)
             ? KernelChoice{KernelPath::kPrefill, ChoiceReason::kPrefillFaster}
             : KernelChoice{KernelPath::kCublas, ChoiceReason::kCublasFaster};
}

std::string DescribeKernelPaths(const LayerShape& layer,
                                const DeviceTraits& device,
                                const KernelPolicy& policy) {
  constexpr int64_t kMaxM = 8192;  // a batch's usual limit
  const int64_t max_shared = MaxSharedRows(layer, policy);
  std::string text;
  if (max_shared > 0) {
    absl::StrAppend(&text,
                    Describe(ChooseKernelPath(layer, 1, device, policy)));
    if (max_shared == kNoLimit) return absl::StrCat(text, " for every m");
    absl::StrAppend(&text, " up to m = ", max_shared, ", then ");
  }
  KernelChoice choice =
      ChooseManyRowsPath(layer, max_shared + 1, device, policy);
  absl::StrAppend(&text, Describe(choice));
  for (int64_t m = RoundUp(max_shared + 1, kDecodeBlockM); m <= kMaxM; m *= 2) {
    const KernelChoice next = ChooseManyRowsPath(layer, m, device, policy);
    if (next.path == choice.path) continue;
    absl::StrAppend(&text, ", by m = ", m, " ", Describe(next));
    choice = next;
  }
  return text;
}

}  // namespace qgemm::cuda
