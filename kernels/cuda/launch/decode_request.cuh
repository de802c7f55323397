// SPDX-License-Identifier: Apache-2.0
//
// A decode GEMM of one request in one kernel: the first block brings the rows
// from the host while all blocks' weights come, results go to the host where
// they are made, and the block that ends last writes the stamps. Bits are those
// of the decode kernel, whose parts it consists of.
//
// Blocks wait for the first one alone, which starts first and waits for none,
// so that all come to an end, whatever else the device runs.

#ifndef QGEMM_KERNELS_CUDA_LAUNCH_DECODE_REQUEST_CUH_
#define QGEMM_KERNELS_CUDA_LAUNCH_DECODE_REQUEST_CUH_

#include <cstdint>

#include "kernels/cuda/device/decode_gemm/kernel.cuh"
#include "kernels/cuda/launch/batch_stamps.cuh"
#include "kernels/cuda/launch/kernel_table.cuh"

namespace qgemm::cuda {

// Loads of 16 bytes of a thread that brings rows; all are under way together,
// since a PCIe read takes about a microsecond.
inline constexpr int kRequestLoads = 4;

struct RequestArguments {
  GemmArguments gemm;     // its a is on the device, its c the host's
  const uint8_t* host_a;  // [m, k] without gaps, 16-byte aligned
  int a_bytes;            // a multiple of 16
  BatchProgress* progress;
  BatchStamps* stamps;
};

using DecodeRequestKernel = void (*)(RequestArguments);

// By TileLayout::codes; tiles of 8 rows of A alone.
template <int kCodes>
const KernelTable<DecodeRequestKernel>& DecodeRequestKernels();

// Activations are there once the first block has brought them.
struct WaitForRows {
  const unsigned* brought;  // null: nothing is read

  __device__ __forceinline__ void operator()() const {
    if (brought == nullptr) return;
    AwaitCount(brought, 1);
    AsyncProxyFence();
  }
};

// Steps of the threads that multiply besides: those of the first block bring
// the rows. Their loads are under way from the construction on.
class RequestSteps {
 public:
  __device__ __forceinline__ RequestSteps(const RequestArguments& request,
                                          int threads)
      : request_(request), threads_(threads) {
    if (blockIdx.x != 0) return;
    StampGatherBegin(request.progress);
#pragma unroll
    for (int i = 0; i < kRequestLoads; ++i) {
      const int at = PlaceOfLoad(i);
      if (at < request.a_bytes) {
        loaded_[i] =
            __ldcv(reinterpret_cast<const uint4*>(request.host_a + at));
      }
    }
  }

  __device__ __forceinline__ void BeforeMainloop() const {
    if (blockIdx.x != 0) return;
    uint8_t* const a =
        static_cast<uint8_t*>(const_cast<void*>(request_.gemm.a));
#pragma unroll
    for (int i = 0; i < kRequestLoads; ++i) {
      const int at = PlaceOfLoad(i);
      if (at < request_.a_bytes) {
        *reinterpret_cast<uint4*>(a + at) = loaded_[i];
      }
    }
    AsyncProxyFence();
    NamedBarrier(kConsumersBarrier, threads_);
    if (threadIdx.x != 0) return;
    request_.progress->gather_end = NowNanos();
    ReleaseCount(&request_.progress->brought);
  }

  __device__ __forceinline__ void BeforeEpilogue() const {}

 private:
  __device__ __forceinline__ int PlaceOfLoad(int i) const {
    return (i * threads_ + static_cast<int>(threadIdx.x)) * 16;
  }

  const RequestArguments& request_;
  const int threads_;
  uint4 loaded_[kRequestLoads];
};

// The block's results are on their way to the host. Called by the threads that
// made them; the last block tells the host.
__device__ __forceinline__ void EndRequest(const RequestArguments& request,
                                           int threads) {
  NamedBarrier(kConsumersBarrier, threads);
  if (threadIdx.x != 0) return;
  BatchProgress* const progress = request.progress;
  BatchStamps* const stamps = request.stamps;
  const unsigned long long now = NowNanos();  // NOLINT
  __threadfence_system();
  if (atomicAdd(&progress->scattered_blocks, 1u) + 1 < gridDim.x) return;
  // Written by other blocks, which their atomics have told of.
  __threadfence();
  const uint64_t sequence = __ldcg(&progress->sequence) + 1;
  stamps->gather_begin = __ldcg(&progress->gather_begin);
  stamps->gather_end = __ldcg(&progress->gather_end);
  stamps->scatter_begin = now;
  stamps->scatter_end = NowNanos();
  progress->scattered_blocks = 0;
  progress->brought = 0;
  progress->gather_end = 0;
  progress->sequence = sequence;
  __threadfence_system();
  *const_cast<volatile uint64_t*>(&stamps->sequence) = sequence;
}

template <int kCodes, ScaleKind kScale, bool kZeros, typename T>
__global__ void __launch_bounds__(kMaxThreads, 1)
    DecodeRequest(const __grid_constant__ RequestArguments request) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) char shared[];
  const GemmArguments& args = request.gemm;
  const DecodeSmemLayout smem = SmemLayoutOf(args, kCodes, /*tile_m=*/8);
  const BlockWork work = WorkOf(args, blockIdx.x);
  const Ring ring{SharedAddress(shared) + smem.barriers, args.slots};
  const int consumers = BlockShape(args).consumers;
  if (threadIdx.x >= consumers) {
    const bool reads = work.begin < work.end;
    Produce<1>(args, smem, work, ring, shared,
               WaitForRows{reads ? &request.progress->brought : nullptr},
               OneSource(args, work));
    return;
  }
  Multiply<kCodes, kScale, kZeros, T, 1>(args, smem, work, ring, shared,
                                         RequestSteps(request, consumers));
  DecodeEpilogue<8, StoreResults>(args, work, smem, shared, {consumers, false},
                                  {})
      .Run();
  EndRequest(request, consumers);
#endif
}

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_LAUNCH_DECODE_REQUEST_CUH_
