// SPDX-License-Identifier: Apache-2.0
//
// A case: its layer built once and copied, the product checked, then timed,
// then cuBLAS beside it.

#include "bench/gpu_measurer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "bench/cuda/cublas_baseline.h"
#include "bench/cuda/gpu_gemm.h"
#include "bench/cuda/gpu_machine.h"
#include "bench/cuda/gpu_read_roof.h"
#include "bench/cuda/graph_timer.h"
#include "bench/cuda/product_check.h"
#include "bench/cuda/random_arena.h"
#include "bench/cuda/weights_copies.h"
#include "bench/rotation.h"
#include "bench/sampled_rows.h"
#include "bench/synthetic_layer.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/stream.h"

namespace qgemm {
namespace cuda {
namespace {

constexpr int kDevice = 0;
constexpr uint64_t kSeed = 1;
constexpr int64_t kSampledRows = 8;
// With one measurement of cuBLAS and one of dequantizing beside it a case
// stays below a second.
constexpr absl::Duration kReplayBudget = absl::Milliseconds(200);
// Above so many rows a layer may as well be dequantized.
constexpr int64_t kMaxFusedRows = 64;

// The resident layer, its copies, and the truth about some rows.
struct Layer {
  BenchCase bench_case;
  WeightsCopies copies;
  std::unique_ptr<SampledRows> sample;
  bool was_timed = false;
};

class GpuMeasurer final : public Measurer {
 public:
  static absl::StatusOr<std::unique_ptr<Measurer>> Create(
      const GpuMeasurerOptions& options);

  BenchMachine machine() const override { return machine_; }
  absl::StatusOr<ReadRoof> MeasureRoof() override {
    return MeasureGpuReadRoof(device_.traits.sm_count, *timer_, stream_.get());
  }
  absl::StatusOr<CaseResult> Measure(const BenchCase& bench_case) override;

 private:
  explicit GpuMeasurer(const GpuMeasurerOptions& options) : options_(options) {}

  absl::Status Open();
  absl::Status Load(const BenchCase& bench_case);
  absl::StatusOr<GemmMemory> TakeMemory(const GemmScheme& scheme);
  absl::Status Check(const GemmScheme& scheme, const GemmMemory& memory);
  absl::StatusOr<CaseResult> TimeCase(const GemmScheme& scheme,
                                      const GemmMemory& memory);
  absl::Status AddBaselines(const GemmScheme& scheme, uint8_t* c,
                            CaseResult& result);

  const GpuMeasurerOptions options_;
  Device device_;
  BenchMachine machine_;
  std::unique_ptr<Backend> backend_;  // builds layers
  Stream stream_;
  std::optional<GraphTimer> timer_;
  std::optional<ProductCheck> check_;
  std::unique_ptr<GpuGemm> gemm_;
  RandomArena activations_{1.0f};
  DeviceBuffer c_;
  std::unique_ptr<CublasBaseline> cublas_;
  std::optional<Layer> layer_;
};

absl::StatusOr<std::unique_ptr<Measurer>> GpuMeasurer::Create(
    const GpuMeasurerOptions& options) {
  std::unique_ptr<GpuMeasurer> measurer(new GpuMeasurer(options));
  RETURN_IF_ERROR(measurer->Open());
  return measurer;
}

absl::Status GpuMeasurer::Open() {
  CudaOptions backend_options;
  backend_options.device = kDevice;
  ASSIGN_OR_RETURN(backend_, CreateCudaBackend(backend_options));
  ASSIGN_OR_RETURN(device_, OpenDevice(kDevice));
  RETURN_IF_ERROR(ToStatus(PreparePrefillGemm(device_), "prepare kernels"));
  ASSIGN_OR_RETURN(machine_, DescribeMachine(backend_->describe()));
  ASSIGN_OR_RETURN(stream_, Stream::Create());
  ASSIGN_OR_RETURN(timer_, GraphTimer::Create(stream_.get(), kReplayBudget));
  ASSIGN_OR_RETURN(check_, ProductCheck::Create(stream_.get()));
  ASSIGN_OR_RETURN(gemm_, GpuGemm::Create(device_));
  BaselineEnvironment environment;
  environment.timer = &*timer_;
  environment.activations = &activations_;
  environment.stream = stream_.get();
  environment.rotate_bytes = options_.rotate_bytes;
  environment.l2_bytes = device_.traits.l2_bytes;
  ASSIGN_OR_RETURN(cublas_, CublasBaseline::Create(environment));
  return absl::OkStatus();
}

absl::Status GpuMeasurer::Load(const BenchCase& bench_case) {
  if (layer_.has_value() && SameLayer(layer_->bench_case, bench_case)) {
    return absl::OkStatus();
  }
  layer_.reset();
  Layer layer;
  layer.bench_case = bench_case;
  ASSIGN_OR_RETURN(std::shared_ptr<const ResidentWeights> weights,
                   MakeSyntheticLayer(bench_case, kSeed, backend_.get()));
  const int64_t copies =
      CopiesFor(weights->resident_bytes(), options_.rotate_bytes);
  ASSIGN_OR_RETURN(
      layer.copies,
      CopyWeights(std::static_pointer_cast<const CudaWeights>(weights), copies,
                  stream_.get()));
  layer.sample = std::make_unique<SampledRows>(kSampledRows);
  RETURN_IF_ERROR(WriteSyntheticLayer(bench_case, kSeed, layer.sample.get()));
  layer_ = std::move(layer);
  return stream_.Synchronize();
}

absl::StatusOr<GemmMemory> GpuMeasurer::TakeMemory(const GemmScheme& scheme) {
  const BenchCase& bench_case = scheme.bench_case;
  GemmMemory memory;
  ASSIGN_OR_RETURN(memory.a,
                   activations_.Take(bench_case.dtype,
                                     scheme.padded_rows() * bench_case.shape.k,
                                     stream_.get()));
  RETURN_IF_ERROR(GrowBuffer(
      scheme.padded_rows() * bench_case.shape.n * SizeOf(bench_case.dtype),
      c_));
  memory.c = c_.data();
  return memory;
}

absl::Status GpuMeasurer::Check(const GemmScheme& scheme,
                                const GemmMemory& memory) {
  const BenchCase& bench_case = scheme.bench_case;
  RETURN_IF_ERROR(
      gemm_->WarmUp(scheme, layer_->copies.front(), memory, stream_.get()));
  RETURN_IF_ERROR(check_->Poison(bench_case, memory.c));
  RETURN_IF_ERROR(
      gemm_->Enqueue(scheme, layer_->copies.front(), memory, stream_.get()));
  RETURN_IF_ERROR(check_->CheckWritten(bench_case, memory.c));
  return check_->CheckSample(bench_case, *layer_->sample, memory);
}

absl::StatusOr<CaseResult> GpuMeasurer::TimeCase(const GemmScheme& scheme,
                                                 const GemmMemory& memory) {
  const BenchCase& bench_case = scheme.bench_case;
  const WeightsCopies& copies = layer_->copies;
  const int64_t count = static_cast<int64_t>(copies.size());
  const int64_t bytes = copies.front()->resident_bytes();
  const LaunchRange range = {
      LeastLaunches(bytes, device_.traits.l2_bytes, count), count};
  RETURN_IF_ERROR(check_->Poison(bench_case, memory.c));
  ASSIGN_OR_RETURN(
      const GraphTimes times, timer_->Time(range, [&](int64_t launch) {
        return gemm_->Enqueue(scheme, copies[launch], memory, stream_.get());
      }));
  RETURN_IF_ERROR(check_->CheckWritten(bench_case, memory.c));
  CaseResult result;
  result.median = times.median;
  result.fastest = times.fastest;
  result.slowest = times.slowest;
  result.bytes_moved = bytes + bench_case.m *
                                   (bench_case.shape.k + bench_case.shape.n) *
                                   SizeOf(bench_case.dtype);
  result.copies = static_cast<int>(times.launches);
  result.kernel = std::string(Name(scheme.choice.path));
  result.kernel_reason = std::string(Explain(scheme.choice.reason));
  return result;
}

absl::Status GpuMeasurer::AddBaselines(const GemmScheme& scheme, uint8_t* c,
                                       CaseResult& result) {
  const BenchCase& bench_case = scheme.bench_case;
  // Few rows are bound by memory, whatever the clocks.
  const int64_t launches = bench_case.m > kMaxFusedRows ? result.copies : 1;
  ASSIGN_OR_RETURN(result.cublas, cublas_->Dense(bench_case, launches, c));
  if (bench_case.mode == ComputeMode::kA32 ||
      (bench_case.format == "ternary" && bench_case.m <= kMaxFusedRows)) {
    ASSIGN_OR_RETURN(result.cublas_fp32, cublas_->DenseInFp32(bench_case));
  }
  if (bench_case.m <= kMaxFusedRows || bench_case.format == "dense" ||
      bench_case.dtype == FloatType::kFloat32) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(result.dequantize_cublas,
                   cublas_->Dequantized(bench_case, layer_->copies, c));
  return absl::OkStatus();
}

absl::StatusOr<CaseResult> GpuMeasurer::Measure(const BenchCase& bench_case) {
  RETURN_IF_ERROR(Load(bench_case));
  const CudaWeights& weights = *layer_->copies.front();
  RETURN_IF_ERROR(backend_->CheckSupport(weights, bench_case.signature()));
  const GemmScheme scheme =
      GpuGemm::SchemeOf(bench_case, weights, device_.traits);
  ASSIGN_OR_RETURN(const GemmMemory memory, TakeMemory(scheme));
  RETURN_IF_ERROR(Check(scheme, memory));
  // The first time of a layer comes out up to a fifth too long, in all replays
  // and whatever precedes them.
  if (!std::exchange(layer_->was_timed, true)) {
    RETURN_IF_ERROR(TimeCase(scheme, memory).status());
  }
  ASSIGN_OR_RETURN(CaseResult result, TimeCase(scheme, memory));
  if (options_.with_baselines) {
    RETURN_IF_ERROR(AddBaselines(scheme, memory.c, result));
  }
  return result;
}

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<Measurer>> CreateGpuMeasurer(
    const GpuMeasurerOptions& options) {
  return cuda::GpuMeasurer::Create(options);
}

}  // namespace qgemm
