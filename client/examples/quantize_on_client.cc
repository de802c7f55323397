// SPDX-License-Identifier: Apache-2.0
//
// Quantizes a layer to Q4_0 before it is sent, uploads it with a progress
// callback, and uploads it again, which sends nothing.
//
// Usage: quantize_on_client [SERVER]    (default: 127.0.0.1:50051)

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "qgemm/client.h"

namespace {

constexpr int64_t kN = 256;
constexpr int64_t kK = 512;

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
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(0.013f * i * i);
  qgemm::EncodeOptions encode;
  encode.target = qgemm::QuantizeTarget::kQ4_0;
  const auto encoded = qgemm::EncodeWeights(w, kN, kK, /*bias=*/{}, encode);
  if (!encoded.ok()) return Fail(encoded.status());

  qgemm::LoadOptions load;
  load.name = "examples/quantize_on_client";
  load.progress = [](const qgemm::LoadProgress& progress) {
    std::printf("sent %lld of %lld bytes\n",
                static_cast<long long>(progress.sent_bytes),
                static_cast<long long>(progress.total_bytes));
  };
  const auto first = (*client)->LoadWeights(*encoded, load);
  if (!first.ok()) return Fail(first.status());
  load.progress = nullptr;
  const auto second = (*client)->LoadWeights(*encoded, load);
  if (!second.ok()) return Fail(second.status());
  std::printf("id %s, the second time %s\n", second->weights.id.c_str(),
              second->deduplicated ? "held already" : "sent again");

  const auto freed = (*client)->UnloadWeights(load.name);
  if (!freed.ok()) return Fail(freed.status());
  return second->deduplicated ? 0 : 1;
}
