// SPDX-License-Identifier: Apache-2.0
//
// Parts of all conformance suites: the backend under test, a seeded
// generator, and the names of instances.

#ifndef QGEMM_TESTS_CONFORMANCE_CONFORMANCE_FIXTURE_H_
#define QGEMM_TESTS_CONFORMANCE_CONFORMANCE_FIXTURE_H_

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/matrix/backend.h"
#include "tests/conformance/conformance_backends.h"
#include "tests/support/random_weights.h"
#include "tests/support/seeds.h"

namespace qgemm {

// A test on a fresh backend, skipped where the host cannot run it.
class ConformanceTest : public testing::Test {
 protected:
  virtual const ConformanceBackend& tested() const = 0;

  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Backend>> created = tested().create();
    if (absl::IsFailedPrecondition(created.status())) {
      GTEST_SKIP() << created.status();
    }
    ASSERT_TRUE(created.ok()) << created.status();
    backend_ = *std::move(created);
  }

  Backend* backend() { return backend_.get(); }
  void DestroyBackend() { backend_.reset(); }
  RandomGenerator* random() { return &random_; }

 private:
  RandomGenerator random_{FreshSeed()};
  std::unique_ptr<Backend> backend_;
};

// Facts that do not depend on the weights.
class PerBackendTest : public ConformanceTest,
                       public testing::WithParamInterface<ConformanceBackend> {
 protected:
  const ConformanceBackend& tested() const override { return GetParam(); }
};

// Facts to be shown for each kind of weights.
class PerRecipeTest : public ConformanceTest,
                      public testing::WithParamInterface<
                          std::tuple<ConformanceBackend, WeightsRecipe>> {
 protected:
  const ConformanceBackend& tested() const override {
    return std::get<0>(GetParam());
  }
  const WeightsRecipe& recipe() const { return std::get<1>(GetParam()); }
};

inline std::string BackendName(
    const testing::TestParamInfo<ConformanceBackend>& info) {
  return info.param.name;
}

inline std::string BackendAndRecipeName(
    const testing::TestParamInfo<std::tuple<ConformanceBackend, WeightsRecipe>>&
        info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
}

// Every mode, input, output and rounding, supported or not.
inline std::vector<MatmulSignature> AllSignatures() {
  constexpr FloatType kTypes[] = {FloatType::kFloat16, FloatType::kBFloat16,
                                  FloatType::kFloat32};
  std::vector<MatmulSignature> signatures;
  for (const FloatType a : kTypes) {
    for (const FloatType c : kTypes) {
      for (const ComputeMode mode :
           {ComputeMode::kA16, ComputeMode::kA8, ComputeMode::kA32}) {
        signatures.push_back({a, c, mode, FloatType::kBFloat16});
      }
      if (a == FloatType::kFloat32) {
        signatures.push_back({a, c, ComputeMode::kA16, FloatType::kFloat16});
      }
    }
  }
  return signatures;
}

inline std::string NameOf(const MatmulSignature& signature) {
  const bool rounds = signature.mode == ComputeMode::kA16 &&
                      signature.a_type == FloatType::kFloat32;
  return absl::StrCat(
      Name(signature.mode), " ", Name(signature.a_type), rounds ? " as " : "",
      rounds ? Name(signature.rounding) : "", " to ", Name(signature.c_type));
}

// Some k that is legal for the recipe, up to `largest`: one near a block
// boundary, or any.
inline int64_t RandomLegalK(const WeightsRecipe& recipe, int64_t largest,
                            RandomGenerator* random) {
  constexpr int64_t kNear[] = {1,  2,   7,   8,   16,  32,   64,
                               96, 128, 256, 384, 512, 1024, 2048};
  const int64_t unit = recipe.k_multiple;
  while (true) {
    int64_t k =
        RandomInt(0, 3, random) == 0
            ? RandomInt(1, largest, random)
            : RandomElement(kNear, random) + RandomInt(-1, 1, random) * unit;
    k = (k + unit - 1) / unit * unit;
    if (k >= 1 && k <= largest) return k;
  }
}

}  // namespace qgemm

#endif  // QGEMM_TESTS_CONFORMANCE_CONFORMANCE_FIXTURE_H_
