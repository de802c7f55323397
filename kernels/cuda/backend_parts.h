// SPDX-License-Identifier: Apache-2.0
//
// Opens a GPU: checks the options, prepares its kernels, finds cuBLASLt; makes
// memory for operands, and watches the GPU. Batches and their threads are in
// cuda_backend.cc.

#ifndef QGEMM_KERNELS_CUDA_BACKEND_PARTS_H_
#define QGEMM_KERNELS_CUDA_BACKEND_PARTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "base/mutex.h"
#include "kernels/cuda/cublas_gemm.h"
#include "kernels/cuda/cuda_kept_memory.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/cuda/launch_context.h"
#include "kernels/cuda/plan/kernel_path.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/matrix/backend.h"

namespace qgemm::cuda {

// A GPU that is ready for batches.
struct BackendParts {
  CudaOptions options;  // without zeros that stand for something else
  Device device;
  KernelPolicy policy;
  std::unique_ptr<CublasGemm> cublas;  // null if there is no cuBLASLt
  absl::Status no_cublas;              // why
  Stream program_stream;               // of all contexts
  std::vector<std::unique_ptr<LaunchContext>> contexts;
  std::shared_ptr<ByteBudget> weights;   // of all layers together
  std::unique_ptr<CudaKeptMemory> kept;  // null without options.keep_memory
};

// Errors: as of CreateCudaBackend.
absl::StatusOr<BackendParts> MakeBackendParts(const CudaOptions& options);

// Shapes and batches that the options allow.
BackendLimits LimitsOf(const CudaOptions& options);

// Memory that batches read rows from and write results to, by addresses that
// are the GPU's and the host's: pinned memory of the server's, and memory of
// clients, as Backend::LeaseHostMemory and Backend::ImportDeviceMemory have it.
// All make GPU `device` the calling thread's current one, and take their time:
// none belongs in the steady state.
absl::StatusOr<PinnedBuffer> AllocatePinned(int device, int64_t size_bytes);
absl::StatusOr<StagingLease> RegisterHostMemory(int device, uint8_t* data,
                                                int64_t size_bytes);
absl::StatusOr<StagingLease> MapDeviceMemory(int device,
                                             const DeviceMemory& memory);

// Notices that a GPU is lost while nothing is computed on it: a thread of its
// own enqueues an event on a stream of its own four times a second, and asks
// for the one before. It alone may hang in the driver with nobody waiting for
// it. Start once; Stop before the end.
class DeviceWatcher {
 public:
  // The GPU as the runtime counts.
  explicit DeviceWatcher(int device_index) : device_index_(device_index) {}
  DeviceWatcher(const DeviceWatcher&) = delete;
  DeviceWatcher& operator=(const DeviceWatcher&) = delete;

  // `lost` runs at most once, on the thread, with the sticky error.
  void Start(std::function<void(const absl::Status&)> lost);

  void Stop();

 private:
  // Returns a sticky error, or that the watcher cannot work; OK once stopped.
  absl::Status Watch();
  // False once stopped.
  bool Pause();

  const int device_index_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_BACKEND_PARTS_H_
