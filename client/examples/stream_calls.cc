// SPDX-License-Identifier: Apache-2.0
//
// Multiplies many single rows over one stream, and one A that is sent in
// fragments beside them.
//
// Usage: stream_calls [SERVER]    (default: 127.0.0.1:50051)

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "qgemm/client.h"
#include "qgemm/process_settings.h"

namespace {

constexpr int64_t kN = 64;
constexpr int64_t kK = 128;
constexpr int kRequests = 100;
constexpr int64_t kManyRows = 4096;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

// Sends `gemm` so many times; the callback counts rows that were answered.
absl::Status SubmitAll(qgemm::GemmStream* stream,
                       const qgemm::GemmRequest& gemm, int count,
                       std::atomic<int64_t>* rows) {
  for (int i = 0; i < count; ++i) {
    const auto request = stream->Submit(
        gemm, [rows](const absl::StatusOr<qgemm::GemmResult>& result) {
          if (result.ok()) *rows += result->m;
        });
    if (!request.ok()) return request.status();
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  qgemm::KeepFreedOperandMemory();
  qgemm::SkipLockOrderChecks();
  const auto client =
      qgemm::Client::Connect(argc > 1 ? argv[1] : "127.0.0.1:50051");
  if (!client.ok()) return Fail(client.status());

  std::vector<float> w(kN * kK);
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(0.23f * i);
  qgemm::DenseUpload dense;
  dense.n = kN;
  dense.k = kK;
  dense.SetValues(w);
  dense.target = qgemm::QuantizeTarget::kInt4;
  const auto loaded = (*client)->LoadWeights(dense);
  if (!loaded.ok()) return Fail(loaded.status());

  const std::vector<float> a(kManyRows * kK, 0.5f);
  qgemm::GemmRequest many;
  many.weights = loaded->weights.id;
  many.m = kManyRows;
  many.SetA(a);
  qgemm::GemmRequest single = many;
  single.m = 1;
  single.a = many.a.subspan(0, kK * sizeof(float));

  const auto stream = (*client)->GemmStream();
  if (!stream.ok()) return Fail(stream.status());
  std::atomic<int64_t> rows{0};
  absl::Status finished = SubmitAll(stream->get(), many, 1, &rows);
  finished.Update(SubmitAll(stream->get(), single, kRequests, &rows));
  finished.Update((*stream)->Finish());
  if (!finished.ok()) return Fail(finished);
  constexpr int64_t kAllRows = kManyRows + kRequests;
  std::printf("%lld rows of %lld\n", static_cast<long long>(rows),
              static_cast<long long>(kAllRows));

  const auto freed = (*client)->UnloadWeights(loaded->weights.id);
  if (!freed.ok()) return Fail(freed.status());
  return rows == kAllRows ? 0 : 1;
}
