// SPDX-License-Identifier: Apache-2.0
//
// Memory of clients on the GPU, exported and imported as lanes do: the bits of
// staging, and what is no such memory refused.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <vector>

#include "base/file_descriptor.h"
#include "tests/kernels/cuda/backend_test.h"

namespace qgemm::cuda {
namespace {

// A function of the driver, which tests do not link.
template <typename Function>
Function LookUp(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  CHECK(cudaGetDriverEntryPointByVersion(name, &found, 10020, cudaEnableDefault,
                                         &result) == cudaSuccess &&
        result == cudaDriverEntryPointSuccess)
      << name;
  return reinterpret_cast<Function>(found);
}

// An allocation that other processes may map, of 2 MiB.
class ExportedMemory {
 public:
  static constexpr int64_t kBytes = int64_t{2} << 20;

  ExportedMemory() {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(LookUp<decltype(&cuMemCreate)>("cuMemCreate")(
              &handle_, kBytes, &properties, 0) == CUDA_SUCCESS);
    int descriptor = -1;
    CHECK(LookUp<decltype(&cuMemExportToShareableHandle)>(
              "cuMemExportToShareableHandle")(
              &descriptor, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
              0) == CUDA_SUCCESS);
    descriptor_.Reset(descriptor);
  }
  ExportedMemory(const ExportedMemory&) = delete;
  ExportedMemory& operator=(const ExportedMemory&) = delete;
  ~ExportedMemory() {
    LookUp<decltype(&cuMemRelease)>("cuMemRelease")(handle_);
  }

  // As a client tells it; of GPU 0.
  DeviceMemory Told(int64_t size_bytes = kBytes) const {
    cudaDeviceProp properties = {};
    CHECK(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
    DeviceMemory memory;
    memory.descriptor = descriptor_.get();
    memory.size_bytes = size_bytes;
    std::memcpy(memory.device_uuid.data(), &properties.uuid,
                memory.device_uuid.size());
    return memory;
  }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
  FileDescriptor descriptor_;
};

class OperandMemoryTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    backend_ = NewBackend();
  }

  void Multiply(std::shared_ptr<const ResidentWeights> weights, int64_t rows,
                const uint8_t* a, uint8_t* c) {
    std::promise<absl::Status> done;
    ASSERT_EQ(backend_->Enqueue({std::move(weights), {}, {{rows, a, c}}},
                                [&](absl::Status status, const BatchTimings&,
                                    GemmBatch) { done.set_value(status); }),
              absl::OkStatus());
    EXPECT_EQ(done.get_future().get(), absl::OkStatus());
  }

  RandomGenerator random_{FreshSeed()};
  std::unique_ptr<Backend> backend_;
};

TEST_F(OperandMemoryTest, OfTheGpuGivesTheBitsOfStaging) {
  constexpr int64_t kN = 256;
  constexpr int64_t kK = 512;
  const auto weights =
      LoadWhole(backend_.get(),
                RandomWeights(WeightsRecipeNamed("kbit4"), kN, kK, &random_));
  const ExportedMemory exported;
  absl::StatusOr<StagingLease> lent =
      backend_->ImportDeviceMemory(exported.Told());
  ASSERT_TRUE(lent.ok()) << lent.status();
  // By kernels and by DMA copy engines.
  for (const int64_t rows : {1, 3, 700}) {
    const auto a = RandomMatrix(FloatType::kFloat16, rows, kK, &random_);
    const int64_t c_bytes = rows * kN * 2;
    const StagingLease staged_a = *backend_->AcquireStaging(a.size());
    const StagingLease staged_c = *backend_->AcquireStaging(c_bytes);
    std::copy(a.begin(), a.end(), staged_a.data());
    Multiply(weights, rows, staged_a.data(), staged_c.data());
    uint8_t* const device_a = lent->data();
    uint8_t* const device_c = lent->data() + ExportedMemory::kBytes / 2;
    ASSERT_EQ(cudaMemcpy(device_a, a.data(), a.size(), cudaMemcpyDefault),
              cudaSuccess);
    Multiply(weights, rows, device_a, device_c);
    std::vector<uint8_t> c(c_bytes);
    ASSERT_EQ(cudaMemcpy(c.data(), device_c, c_bytes, cudaMemcpyDefault),
              cudaSuccess);
    EXPECT_TRUE(std::equal(c.begin(), c.end(), staged_c.data())) << rows;
  }
}

TEST_F(OperandMemoryTest, RefusesWhatIsNoneOfTheGpu) {
  const ExportedMemory exported;
  const auto code = [&](const DeviceMemory& memory) {
    return backend_->ImportDeviceMemory(memory).status().code();
  };
  EXPECT_EQ(code(exported.Told(2 * ExportedMemory::kBytes)),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(exported.Told(1)), absl::StatusCode::kInvalidArgument);
  DeviceMemory other = exported.Told();
  other.device_uuid[3] ^= 1;
  EXPECT_EQ(code(other), absl::StatusCode::kInvalidArgument);
  const FileDescriptor file(open("/dev/null", O_RDWR | O_CLOEXEC));
  DeviceMemory none = exported.Told();
  none.descriptor = file.get();
  EXPECT_EQ(code(none), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend_->failure(), absl::OkStatus());
}

}  // namespace
}  // namespace qgemm::cuda
