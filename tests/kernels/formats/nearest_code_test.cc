// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/formats/codebooks.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

int FirstNearest(const std::vector<float>& codebook, float value) {
  int best = 0;
  for (size_t i = 1; i < codebook.size(); ++i) {
    const float distance = std::fabs(value - codebook[i]);
    if (distance < std::fabs(value - codebook[best])) best = i;
  }
  return best;
}

// Values around every midpoint of two entries, and random ones.
std::vector<float> Probes(const std::vector<float>& codebook,
                          FreshRandom* random) {
  std::vector<float> probes = {-1.0f, -0.0f, 0.0f, 1.0f};
  for (const float a : codebook) {
    for (const float b : codebook) {
      float value = (a + b) / 2;
      for (int i = 0; i < 4; ++i) value = std::nextafter(value, -2.0f);
      for (int i = 0; i < 9; ++i) {
        probes.push_back(std::clamp(value, -1.0f, 1.0f));
        value = std::nextafter(value, 2.0f);
      }
    }
  }
  for (int i = 0; i < 4096; ++i) probes.push_back(random->Uniform(-1, 1));
  probes.resize((probes.size() + 31) / 32 * 32);
  return probes;
}

void ExpectLinearSearch(const std::vector<float>& codebook) {
  FreshRandom random;
  const std::vector<float> probes = Probes(codebook, &random);
  const NearestCode nearest(codebook);
  for (size_t i = 0; i < probes.size(); i += 32) {
    uint8_t codes[32];
    nearest.Find32(&probes[i], codes);
    for (int j = 0; j < 32; ++j) {
      ASSERT_EQ(codes[j], FirstNearest(codebook, probes[i + j]))
          << "value " << probes[i + j];
    }
  }
}

TEST(NearestCode, DefaultCodebooksMatchLinearSearch) {
  for (int bits = 2; bits <= 5; ++bits) {
    ExpectLinearSearch(DefaultKbitCodebook(bits));
  }
}

TEST(NearestCode, DescendingCodebookGivesTiesToItsFirst) {
  std::vector<float> codebook = LinearCodebook16(-8);
  for (float& value : codebook) value /= 8;
  ExpectLinearSearch(codebook);
  std::reverse(codebook.begin(), codebook.end());
  ExpectLinearSearch(codebook);
}

TEST(NearestCode, RepeatedValuesGiveTheFirst) {
  // FP4: sign and magnitude, so zero is there twice.
  ExpectLinearSearch({0.0f, 0.0052f, 0.6667f, 1.0f, 0.3333f, 0.5f, 0.1667f,
                      0.25f, -0.0f, -0.0052f, -0.6667f, -1.0f, -0.3333f, -0.5f,
                      -0.1667f, -0.25f});
  ExpectLinearSearch({0.5f, 0.5f, 0.5f, 0.5f});
}

TEST(NearestCode, ShuffledCodebooksMatchLinearSearch) {
  FreshRandom random;
  std::vector<float> codebook = DefaultKbitCodebook(5);
  std::shuffle(codebook.begin(), codebook.end(), random.engine());
  ExpectLinearSearch(codebook);
}

TEST(NearestCode, EntriesAsCloseAsRoundingMatchLinearSearch) {
  ExpectLinearSearch({1e-9f, 0.0f, 2e-9f, 1.0f});
  ExpectLinearSearch({0.3f, std::nextafter(0.3f, 1.0f), -3e38f, 3e38f});
}

TEST(NearestCode, EntriesOutsideTheRangeMatchLinearSearch) {
  ExpectLinearSearch({-100.0f, 0.25f, 7.0f, 1000.0f});
}

}  // namespace
}  // namespace qgemm
