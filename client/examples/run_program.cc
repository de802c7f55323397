// SPDX-License-Identifier: Apache-2.0
//
// Uploads the three layers of a gated FFN, registers the FFN as a program, runs
// two rows through it with one call, and unloads all of it.
//
// Usage: run_program [SERVER]    (default: 127.0.0.1:50051)

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "qgemm/client.h"

namespace {

constexpr int64_t kHidden = 64;
constexpr int64_t kFfn = 160;
constexpr int64_t kM = 2;
constexpr char kPrefix[] = "examples/run_program/";

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

// Uploads a layer [n, k] that the server quantizes to 4 bits.
absl::Status Load(const std::string& name, int64_t n, int64_t k,
                  qgemm::Client* client) {
  std::vector<float> w(n * k);
  for (size_t i = 0; i < w.size(); ++i) w[i] = 0.1f * std::sin(0.37f * i);
  qgemm::DenseUpload dense;
  dense.n = n;
  dense.k = k;
  dense.SetValues(w);
  dense.target = qgemm::QuantizeTarget::kKbit;
  dense.bits = 4;
  qgemm::LoadOptions options;
  options.name = kPrefix + name;
  return client->LoadWeights(dense, options).status();
}

// x + down(silu(gate(h)) * up(h)) with h = RMS x; x and the result are fp32.
qgemm::Program GatedFfn() {
  const std::string prefix = kPrefix;
  qgemm::ProgramBuilder builder(qgemm::NumberType::kBFloat16);
  const auto x = builder.Input(kHidden, {"x", qgemm::NumberType::kFloat32});
  const auto norm = builder.Constant(std::vector<float>(kHidden, 1.0f));
  const auto h = builder.RmsNorm(x, norm, 1e-5f);
  const auto gate = builder.Gemm(h, prefix + "gate");
  const auto up = builder.Gemm(h, prefix + "up");
  const auto gated =
      builder.Mul(builder.Act(gate, qgemm::Activation::kSilu), up);
  const auto down = builder.Gemm(gated, prefix + "down");
  builder.Output(builder.Add(x, down, {"y", qgemm::NumberType::kFloat32}));
  return builder.Build();
}

absl::Status LoadAll(qgemm::Client* client) {
  for (const char* name : {"gate", "up"}) {
    const absl::Status loaded = Load(name, kFfn, kHidden, client);
    if (!loaded.ok()) return loaded;
  }
  return Load("down", kHidden, kFfn, client);
}

}  // namespace

int main(int argc, char** argv) {
  const auto client =
      qgemm::Client::Connect(argc > 1 ? argv[1] : "127.0.0.1:50051");
  if (!client.ok()) return Fail(client.status());
  const absl::Status loaded = LoadAll(client->get());
  if (!loaded.ok()) return Fail(loaded);

  qgemm::RegisterOptions options;
  options.name = std::string(kPrefix) + "ffn";
  const auto registered = (*client)->RegisterProgram(GatedFfn(), options);
  if (!registered.ok()) return Fail(registered.status());
  std::printf("%s has %lld ops\n", registered->program.id.c_str(),
              static_cast<long long>(registered->program.ops));

  const std::vector<float> x(kM * kHidden, 0.5f);
  std::vector<float> y(kM * kHidden);
  qgemm::RunRequest run;
  run.program = options.name;
  run.m = kM;
  run.inputs = {qgemm::AsBytes(x)};
  run.outputs = {qgemm::AsWritableBytes(absl::MakeSpan(y))};
  run.deadline = absl::Now() + absl::Seconds(30);
  const auto result = (*client)->Run(run);
  if (!result.ok()) return Fail(result.status());
  std::printf("y is %lld x %lld and starts with %g\n",
              static_cast<long long>(result->m),
              static_cast<long long>(kHidden), y[0]);

  const auto freed = (*client)->UnloadProgram(options.name);
  if (!freed.ok()) return Fail(freed.status());
  for (const char* name : {"gate", "up", "down"}) {
    const auto unloaded = (*client)->UnloadWeights(kPrefix + std::string(name));
    if (!unloaded.ok()) return Fail(unloaded.status());
  }
  return 0;
}
