// SPDX-License-Identifier: Apache-2.0
//
// A small layer of random bytes, as uploads bring it, and its way into a state
// directory.

#ifndef QGEMM_TESTS_SERVER_STORAGE_RANDOM_LAYER_H_
#define QGEMM_TESTS_SERVER_STORAGE_RANDOM_LAYER_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "kernels/formats/weights_spec.h"
#include "server/storage/state_directory.h"
#include "tests/support/seeds.h"

namespace qgemm {

struct RandomLayer {
  WeightsSpec spec;
  std::string payload;
  Sha256Digest digest;

  std::string id() const { return ToHex(digest); }
};

// A dense layer of finite values with a bias: two sections.
inline RandomLayer MakeRandomLayer(int64_t n, int64_t k,
                                   RandomGenerator* random) {
  RandomLayer layer;
  layer.spec.format = WireFormat::kDense;
  layer.spec.n = n;
  layer.spec.k = k;
  layer.spec.has_bias = true;
  layer.payload.resize(TotalBytes(layer.spec));
  // No exponent is that of an infinity, neither in the bias nor in the weights.
  for (size_t i = 0; i < layer.payload.size(); ++i) {
    const int mask = i % 2 == 1 ? 0x3f : 0xff;
    layer.payload[i] = static_cast<char>((*random)() & mask);
  }
  Sha256 hash;
  hash.Update(CanonicalText(layer.spec));
  hash.Update(layer.payload);
  layer.digest = hash.Finish();
  return layer;
}

// Uploads the layer in pieces of any size, by the key if there is one.
inline absl::StatusOr<StateDirectory::FileHold> KeepLayer(
    const RandomLayer& layer, StateDirectory* directory,
    RandomGenerator* random, const UploadKey* key = nullptr) {
  ASSIGN_OR_RETURN(auto upload, directory->Begin(layer.spec, key));
  absl::string_view left = layer.payload;
  while (!left.empty()) {
    const absl::string_view piece =
        left.substr(0, RandomInt(1, static_cast<int64_t>(left.size()), random));
    RETURN_IF_ERROR(upload->Append(piece));
    left.remove_prefix(piece.size());
  }
  return directory->Keep(std::move(upload), layer.digest);
}

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_STORAGE_RANDOM_LAYER_H_
