// SPDX-License-Identifier: Apache-2.0
//
// Uploads a dense layer that the server quantizes to 4 bits, multiplies two
// rows of activations with it, and unloads it.
//
// Usage: load_and_multiply [SERVER]    (default: 127.0.0.1:50051)

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "absl/time/clock.h"
#include "qgemm/client.h"

namespace {

constexpr int64_t kN = 96;
constexpr int64_t kK = 256;
constexpr int64_t kM = 2;

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
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(0.37f * i);
  qgemm::DenseUpload dense;
  dense.n = kN;
  dense.k = kK;
  dense.SetValues(w);
  dense.target = qgemm::QuantizeTarget::kKbit;
  dense.bits = 4;
  qgemm::LoadOptions load;
  load.name = "examples/load_and_multiply";
  const auto loaded = (*client)->LoadWeights(dense, load);
  if (!loaded.ok()) return Fail(loaded.status());
  std::printf("%s: %lld bytes resident\n", loaded->weights.format.c_str(),
              static_cast<long long>(loaded->weights.resident_bytes));

  const std::vector<float> a(kM * kK, 0.5f);
  qgemm::GemmRequest gemm;
  gemm.weights = load.name;
  gemm.m = kM;
  gemm.SetA(a);
  gemm.deadline = absl::Now() + absl::Seconds(30);
  const auto result = (*client)->Gemm(gemm);
  if (!result.ok()) return Fail(result.status());
  const std::vector<float> c = result->ToFloats();
  std::printf("C is %lld x %lld and starts with %g\n",
              static_cast<long long>(result->m),
              static_cast<long long>(result->n), c[0]);

  const auto freed = (*client)->UnloadWeights(load.name);
  if (!freed.ok()) return Fail(freed.status());
  return 0;
}
