// SPDX-License-Identifier: Apache-2.0
//
// Parts of all codec tests: random bytes from a printed seed, decoding of
// an upload cut into pieces, and a sink that counts what it is given.

#ifndef QGEMM_TESTS_KERNELS_FORMATS_CODEC_TESTING_H_
#define QGEMM_TESTS_KERNELS_FORMATS_CODEC_TESTING_H_

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_encoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// A generator with a fresh seed, which it prints.
class FreshRandom {
 public:
  FreshRandom();

  std::mt19937_64& engine() { return engine_; }
  // Uniform in [low, high].
  int64_t Int(int64_t low, int64_t high);
  float Uniform(float low, float high);
  std::vector<uint8_t> Bytes(int64_t count);
  std::vector<float> Gaussian(int64_t count);

 private:
  std::mt19937_64 engine_;
};

// Keeps the canonical form and counts how often each element is written.
class CountingSink final : public WeightsSink {
 public:
  absl::Status Begin(const WeightsHeader& header) override;
  absl::Status WriteCodes(const CodePanel& panel) override;
  absl::Status WriteScales(const GroupPanel& panel) override;
  absl::Status WriteZeros(const GroupPanel& panel) override;
  absl::Status WriteDense(const DensePanel& panel) override;
  absl::Status SetTensorScale(float tensor_scale) override;

  const CanonicalWeights& weights() const { return weights_; }
  // OK if Begin came once and every element of the header's shape was
  // written exactly once.
  absl::Status CheckComplete() const;

 private:
  CanonicalWeights weights_;
  int begins_ = 0;
  std::vector<int> codes_;
  std::vector<int> scales_;
  std::vector<int> zeros_;
  std::vector<int> dense_rows_;
};

// An upload in the making: fills sections in any order.
class Upload {
 public:
  explicit Upload(const WeightsSpec& spec);
  explicit Upload(const EncodedWeights& encoded);

  const WeightsSpec& spec() const { return spec_; }
  // The bytes of a section that the spec has; sized, zero at first.
  std::vector<uint8_t>& operator[](Section section);

  template <typename T>
  void Put(Section section, int64_t index, T value) {
    std::memcpy(&(*this)[section][index * sizeof(T)], &value, sizeof(T));
  }

  struct Decoded {
    CanonicalWeights weights;
    DecodeReport report;
  };
  // Decodes in pieces of `piece_bytes`, 0 for whole sections, and checks
  // that every element was written once.
  absl::StatusOr<Decoded> Decode(int64_t piece_bytes = 0) const;
  // Decodes in pieces of random sizes up to `longest`.
  absl::StatusOr<Decoded> DecodeRandomly(FreshRandom* random,
                                         int64_t longest) const;

 private:
  WeightsSpec spec_;
  std::vector<EncodedWeights::SectionBytes> sections_;
};

// True if everything but the header's bias is equal, bit for bit.
bool SameWeights(const CanonicalWeights& a, const CanonicalWeights& b);

// A spec that decodes; a test changes what it needs.
WeightsSpec KbitSpec(int64_t n, int64_t k, int bits);
WeightsSpec Q4_0Spec(int64_t n, int64_t k);
WeightsSpec TernarySpec(int64_t n, int64_t k, TernaryCoding coding);
WeightsSpec Int4Spec(int64_t n, int64_t k, Int4Layout layout, int64_t group);
WeightsSpec DenseSpec(int64_t n, int64_t k, FloatType type);

// One spec of every kind of wire format, layout and type, small, with bias.
std::vector<WeightsSpec> AllSpecs();

// Bytes that the spec's decoder accepts, random otherwise.
Upload RandomUpload(const WeightsSpec& spec, FreshRandom* random);

}  // namespace qgemm

#endif  // QGEMM_TESTS_KERNELS_FORMATS_CODEC_TESTING_H_
