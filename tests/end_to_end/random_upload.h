// SPDX-License-Identifier: Apache-2.0
//
// Random legal bytes for any wire format, the messages that upload them, and
// the layer that they mean.

#ifndef QGEMM_TESTS_END_TO_END_RANDOM_UPLOAD_H_
#define QGEMM_TESTS_END_TO_END_RANDOM_UPLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/canonical_weights.h"
#include "qgemm/v1/qgemm.pb.h"
#include "tests/support/seeds.h"

namespace qgemm {

// One upload in memory: a byte string a section, in order.
struct RandomUpload {
  WeightsSpec spec;
  struct SectionBytes {
    Section section;
    std::string bytes;
  };
  std::vector<SectionBytes> sections;
};

// Bytes that the spec's decoder takes, of weights around 1 in size.
RandomUpload MakeRandomUpload(const WeightsSpec& spec, RandomGenerator* random);

// The layer, as the project's own decoder reads it.
CanonicalWeights Decode(const RandomUpload& upload);

// The id of docs/formats.md#identity, 32 bytes.
std::string IdOf(const RandomUpload& upload);

// The stream of messages: the header, then chunks of at most `chunk_bytes`.
std::vector<v1::LoadWeightsRequest> ToMessages(const RandomUpload& upload,
                                               const std::string& name,
                                               int64_t chunk_bytes = 65536);

// Sets a chunk's bytes and their checksum.
void SetChunkBytes(const std::string& bytes, v1::WeightsChunk* chunk);

// A spec and what to call it: every wire format with each of its variants.
struct NamedSpec {
  std::string name;  // letters, digits and underscores
  WeightsSpec spec;
};
std::vector<NamedSpec> AllWireFormats(int64_t n, int64_t k);

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_RANDOM_UPLOAD_H_
