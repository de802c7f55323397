// SPDX-License-Identifier: Apache-2.0
//
// Keeps several multiplications in flight: some by callback, some by future.
//
// Usage: async_calls [SERVER]    (default: 127.0.0.1:50051)

#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <future>
#include <mutex>
#include <vector>

#include "qgemm/client.h"

namespace {

constexpr int64_t kN = 64;
constexpr int64_t kK = 128;
constexpr int kCalls = 16;

// Counts callbacks; the client runs them on a thread of its own.
class Countdown {
 public:
  explicit Countdown(int count) : left_(count) {}

  void Done(bool ok) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!ok) ++failed_;
    if (--left_ == 0) all_done_.notify_all();
  }
  // Waits for all; returns how many failed.
  int Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (left_ > 0) all_done_.wait(lock);
    return failed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_done_;
  int left_;
  int failed_ = 0;
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto client =
      qgemm::Client::Connect(argc > 1 ? argv[1] : "127.0.0.1:50051");
  if (!client.ok()) return Fail(client.status());

  std::vector<float> w(kN * kK);
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::cos(0.11f * i);
  qgemm::DenseUpload dense;
  dense.n = kN;
  dense.k = kK;
  dense.SetValues(w);
  dense.target = qgemm::QuantizeTarget::kInt4;
  const auto loaded = (*client)->LoadWeights(dense);
  if (!loaded.ok()) return Fail(loaded.status());

  const std::vector<float> a(kK, 1.0f);
  qgemm::GemmRequest gemm;
  gemm.weights = loaded->weights.id;
  gemm.m = 1;
  gemm.SetA(a);

  Countdown countdown(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    (*client)->GemmAsync(
        gemm, [&countdown](const absl::StatusOr<qgemm::GemmResult>& result) {
          countdown.Done(result.ok());
        });
  }
  std::vector<std::future<absl::StatusOr<qgemm::GemmResult>>> futures;
  futures.reserve(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    futures.push_back((*client)->GemmFuture(gemm));
  }
  int failed = countdown.Wait();
  for (auto& future : futures) {
    if (!future.get().ok()) ++failed;
  }
  std::printf("%d calls, %d failed\n", 2 * kCalls, failed);

  const auto freed = (*client)->UnloadWeights(loaded->weights.id);
  if (!freed.ok()) return Fail(freed.status());
  return failed == 0 ? 0 : 1;
}
