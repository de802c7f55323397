// SPDX-License-Identifier: Apache-2.0
//
// One client of several servers: weights go to each, calls to the one with the
// least to do, and on to another when a server goes.
//
// Usage: several_servers TARGETS [CA [CERTIFICATE KEY [TOKEN]]]
// TARGETS are addresses with commas between them; the others are files, "" for
// none.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "qgemm/client.h"

namespace {

constexpr int64_t kN = 96;
constexpr int64_t kK = 256;
constexpr int kCalls = 20;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

qgemm::ClientOptions OptionsOf(const std::vector<std::string>& files) {
  qgemm::ClientOptions options;
  if (!files[0].empty()) {
    qgemm::TlsOptions& tls = options.tls.emplace();
    tls.ca_file = files[0];
    tls.certificate_file = files[1];
    tls.key_file = files[2];
  }
  options.token_file = files[3];
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files(argv + (argc > 1 ? 2 : 1), argv + argc);
  files.resize(4);
  const auto client = qgemm::Client::Connect(
      argc > 1 ? argv[1] : "127.0.0.1:50051", OptionsOf(files));
  if (!client.ok()) return Fail(client.status());

  const std::vector<float> w(kN * kK, 0.25f);
  qgemm::DenseUpload dense;
  dense.n = kN;
  dense.k = kK;
  dense.SetValues(w);
  qgemm::LoadOptions load;
  load.name = "examples/several_servers";
  // If it fails at some servers, the error names them.
  const auto loaded = (*client)->LoadWeights(dense, load);
  if (!loaded.ok()) return Fail(loaded.status());

  const std::vector<float> a(kK, 0.5f);
  int moved = 0;
  for (int i = 0; i < kCalls; ++i) {
    qgemm::GemmRequest gemm;
    gemm.weights = load.name;
    gemm.m = 1;
    gemm.SetA(a);
    gemm.deadline = absl::Now() + absl::Seconds(30);
    const auto result = (*client)->Gemm(gemm);
    if (!result.ok()) return Fail(result.status());
    if (result->attempts > 1) ++moved;
  }
  std::printf("%d calls, %d of them after a failed attempt\n", kCalls, moved);

  const auto freed = (*client)->UnloadWeights(load.name);
  if (!freed.ok()) return Fail(freed.status());
  return 0;
}
