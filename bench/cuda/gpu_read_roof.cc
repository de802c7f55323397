// SPDX-License-Identifier: Apache-2.0
//
// Which grid reads fastest differs from GPU to GPU by a few per cent.

#include "bench/cuda/gpu_read_roof.h"

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "bench/cuda/probe_kernels.h"
#include "bench/cuda/random_arena.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kRoofBytes = int64_t{1} << 30;
// Passes of a replay: what a graph's start costs is shared out.
constexpr int64_t kPasses = 4;

struct RoofVariant {
  int loads_in_flight;
  int blocks_per_sm;
};

constexpr RoofVariant kVariants[] = {{4, 4}, {4, 8}, {4, 16}, {4, 32},
                                     {8, 4}, {8, 8}, {8, 16}};

double GbpsOf(absl::Duration pass) {
  return kRoofBytes / absl::ToDoubleNanoseconds(pass);
}

}  // namespace

absl::StatusOr<ReadRoof> MeasureGpuReadRoof(int sm_count,
                                            const GraphTimer& timer,
                                            cudaStream_t stream) {
  RandomArena arena(1.0f);
  ASSIGN_OR_RETURN(
      const uint8_t* memory,
      arena.Take(FloatType::kFloat32, kRoofBytes / sizeof(float), stream));
  ASSIGN_OR_RETURN(const DeviceBuffer sink,
                   DeviceBuffer::Allocate(sizeof(uint32_t)));
  uint32_t* const word = reinterpret_cast<uint32_t*>(sink.data());
  ReadRoof roof;
  for (const RoofVariant& variant : kVariants) {
    const ReadGrid grid = {variant.loads_in_flight,
                           variant.blocks_per_sm * sm_count};
    ASSIGN_OR_RETURN(
        const GraphTimes times, timer.Time({kPasses, kPasses}, [&](int64_t) {
          return ToStatus(LaunchRead(memory, kRoofBytes, grid, word, stream),
                          "read memory");
        }));
    if (GbpsOf(times.fastest) > roof.gbps) {
      roof = {GbpsOf(times.fastest), GbpsOf(times.median)};
    }
  }
  return roof;
}

}  // namespace qgemm::cuda
