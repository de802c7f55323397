// SPDX-License-Identifier: Apache-2.0
//
// Step by step; the first that fails ends it.

#include "kernels/cuda/backend_parts.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/a32_gemm.h"
#include "kernels/cuda/launch/decode_group.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/w4a8_gemm.h"
#include "kernels/cuda/plan/smem_layout.h"
#include "kernels/cuda/plan/tuning.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/imported_memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/host/batch_checks.h"

namespace qgemm::cuda {
namespace {

// Batches on the device at one time: one that copies in, one that computes,
// one that copies out.
constexpr int kLaunchContexts = 3;

// Health is to tell of a lost device within a second.
constexpr absl::Duration kWatchInterval = absl::Milliseconds(250);

absl::Status CheckCudaOptions(const CudaOptions& options) {
  return CheckOptions(
      "cuda backend",
      {{"device", options.device},
       {"max_weights_bytes", options.max_weights_bytes},
       {"max_staging_bytes", options.max_staging_bytes},
       {"max_pooled_staging_bytes", options.max_pooled_staging_bytes},
       {"max_n", options.max_n},
       {"max_k", options.max_k},
       {"max_batch_rows", options.max_batch_rows}});
}

absl::Status CheckSharedMemory(const DeviceTraits& traits) {
  if (traits.shared_bytes_per_block >= kMinBlockBytes) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the GPU gives a block ", traits.shared_bytes_per_block,
      " bytes of shared memory; the cuda backend needs ", kMinBlockBytes));
}

// The device with its kernels ready.
absl::StatusOr<Device> PrepareDevice(int index) {
  ASSIGN_OR_RETURN(Device device, OpenDevice(index));
  RETURN_IF_ERROR(CheckSharedMemory(device.traits));
  RETURN_IF_ERROR(ToStatus(PrepareDecodeGemm(device), "prepare kernels"));
  RETURN_IF_ERROR(ToStatus(PrepareDecodeGroup(device), "prepare kernels"));
  RETURN_IF_ERROR(ToStatus(PrepareA32Gemm(device), "prepare kernels"));
  RETURN_IF_ERROR(ToStatus(PreparePrefillGemm(device), "prepare kernels"));
  RETURN_IF_ERROR(ToStatus(PrepareW4A8Gemm(device), "prepare kernels"));
  return device;
}

// Thresholds of another GPU may cost time; they never cost correctness.
void WarnOfForeignTuning(const Tuning& tuning, const Device& device) {
  if (tuning.device.empty() || tuning.device == device.name) return;
  LOG(WARNING) << "cuda backend: the tuning was measured on \"" << tuning.device
               << "\" and is used on \"" << device.name << "\"";
}

// Opens cuBLASLt, or goes on without it.
absl::Status OpenCublas(BackendParts& parts) {
  absl::StatusOr<std::unique_ptr<CublasGemm>> cublas =
      CublasGemm::Create(parts.device.traits);
  if (cublas.ok()) {
    parts.cublas = *std::move(cublas);
    return absl::OkStatus();
  }
  if (!absl::IsFailedPrecondition(cublas.status()) ||
      parts.policy.forced == KernelPath::kPrefill ||
      parts.policy.forced == KernelPath::kCublas) {
    return cublas.status();
  }
  parts.no_cublas = cublas.status();
  parts.policy.has_cublas = false;
  return absl::OkStatus();
}

void FillIn(BackendParts& parts) {
  CudaOptions& options = parts.options;
  if (options.max_weights_bytes == 0) {
    options.max_weights_bytes = parts.device.total_bytes;
  }
  if (options.max_staging_bytes == 0) {
    options.max_staging_bytes = HostMemoryBytes();
  }
}

}  // namespace

absl::StatusOr<BackendParts> MakeBackendParts(const CudaOptions& options) {
  RETURN_IF_ERROR(CheckCudaOptions(options));
  BackendParts parts;
  parts.options = options;
  parts.policy.forced = options.kernel;
  if (!options.tuning_file.empty()) {
    ASSIGN_OR_RETURN(parts.policy.tuning, ReadTuningFile(options.tuning_file));
  }
  ASSIGN_OR_RETURN(parts.device, PrepareDevice(options.device));
  WarnOfForeignTuning(parts.policy.tuning, parts.device);
  RETURN_IF_ERROR(OpenCublas(parts));
  ASSIGN_OR_RETURN(parts.program_stream, Stream::Create());
  for (int i = 0; i < kLaunchContexts; ++i) {
    ASSIGN_OR_RETURN(auto context,
                     LaunchContext::Create(parts.program_stream.get()));
    parts.contexts.push_back(std::move(context));
  }
  FillIn(parts);
  ByteBudgetOptions budget;
  budget.name = "cuda backend: memory of weights";
  budget.limit_bytes = parts.options.max_weights_bytes;
  parts.weights = std::make_shared<ByteBudget>(std::move(budget));
  if (options.keep_memory) {
    ASSIGN_OR_RETURN(parts.kept, CudaKeptMemory::Create(
                                     {parts.device.index, parts.device.traits,
                                      LimitsOf(parts.options), parts.weights}));
  }
  return parts;
}

BackendLimits LimitsOf(const CudaOptions& options) {
  BackendLimits limits;
  limits.max_n = options.max_n;
  limits.max_k = options.max_k;
  limits.max_batch_rows = options.max_batch_rows;
  return limits;
}

absl::StatusOr<PinnedBuffer> AllocatePinned(int device, int64_t size_bytes) {
  RETURN_IF_ERROR(SetCurrentDevice(device));
  return PinnedBuffer::Allocate(size_bytes);
}

absl::StatusOr<StagingLease> RegisterHostMemory(int device, uint8_t* data,
                                                int64_t size_bytes) {
  RETURN_IF_ERROR(SetCurrentDevice(device));
  ASSIGN_OR_RETURN(RegisteredMemory memory,
                   RegisteredMemory::Register(data, size_bytes));
  return StagingLease(data, size_bytes, [memory = std::move(memory)] {});
}

absl::StatusOr<StagingLease> MapDeviceMemory(int device,
                                             const DeviceMemory& memory) {
  RETURN_IF_ERROR(SetCurrentDevice(device));
  ASSIGN_OR_RETURN(ImportedMemory mapped,
                   ImportedMemory::Map(device, memory.descriptor,
                                       memory.size_bytes, memory.device_uuid));
  uint8_t* const data = mapped.data();
  return StagingLease(data, memory.size_bytes, [mapped = std::move(mapped)] {});
}

void DeviceWatcher::Start(std::function<void(const absl::Status&)> lost) {
  thread_ = std::thread([this, lost = std::move(lost)] {
    const absl::Status end = Watch();
    if (absl::IsUnavailable(end)) {
      lost(end);
    } else if (!end.ok()) {
      LOG(ERROR) << "cuda backend: an idle GPU is not watched: "
                 << end.message();
    }
  });
}

void DeviceWatcher::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stopped_.SignalAll();
  thread_.join();
}

absl::Status DeviceWatcher::Watch() {
  RETURN_IF_ERROR(SetCurrentDevice(device_index_));
  ASSIGN_OR_RETURN(const Stream stream, Stream::Create());
  ASSIGN_OR_RETURN(Event event, Event::Create(EventKind::kOrdering));
  while (Pause()) {
    const cudaError_t code = cudaEventQuery(event.get());
    if (code == cudaErrorNotReady) continue;  // of a busy device
    RETURN_IF_ERROR(ToStatus(code, "ask if the GPU answers"));
    RETURN_IF_ERROR(event.Record(stream.get()));
  }
  return absl::OkStatus();
}

bool DeviceWatcher::Pause() {
  MutexLock lock(&mutex_);
  if (!stopping_) stopped_.WaitFor(&mutex_, kWatchInterval);
  return !stopping_;
}

}  // namespace qgemm::cuda
