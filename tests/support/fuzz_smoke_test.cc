// SPDX-License-Identifier: Apache-2.0
//
// A short run of a fuzz target without libFuzzer: random inputs, and edits of
// those before them, as many as QGEMM_FUZZ_INPUTS says. tools/fuzz.sh runs the
// same target for longer, led by coverage.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "tests/support/seeds.h"

// Given by fuzz.bzl; static analysis does without.
#ifndef QGEMM_SMOKE_INPUTS
#define QGEMM_SMOKE_INPUTS 1000
#endif

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace qgemm {
namespace {

constexpr int64_t kMaxBytes = 400;

int64_t Inputs() {
  const char* const inputs = std::getenv("QGEMM_FUZZ_INPUTS");
  return inputs == nullptr ? QGEMM_SMOKE_INPUTS : std::atoll(inputs);
}

std::string RandomBytes(int64_t size, RandomGenerator* random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

// Changes, doubles or drops some bytes.
std::string Edited(std::string bytes, RandomGenerator* random) {
  for (int64_t left = RandomInt(1, 8, random); left > 0; --left) {
    const int64_t size = static_cast<int64_t>(bytes.size());
    const int64_t at = RandomInt(0, size, random);
    switch (RandomInt(0, 2, random)) {
      case 0:
        bytes.insert(at, RandomBytes(RandomInt(1, 8, random), random));
        break;
      case 1:
        bytes.erase(at, RandomInt(1, 8, random));
        break;
      default:
        if (at < size) bytes[at] = static_cast<char>((*random)());
    }
  }
  return bytes.substr(0, kMaxBytes);
}

TEST(FuzzSmoke, NoInputBreaksTheTarget) {
  RandomGenerator random(FreshSeed());
  std::string input;
  for (int64_t left = Inputs(); left > 0; --left) {
    input = RandomInt(0, 3, &random) == 0
                ? RandomBytes(RandomInt(0, kMaxBytes, &random), &random)
                : Edited(std::move(input), &random);
    ASSERT_EQ(LLVMFuzzerTestOneInput(
                  reinterpret_cast<const uint8_t*>(input.data()), input.size()),
              0);
  }
}

}  // namespace
}  // namespace qgemm
