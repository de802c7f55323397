// SPDX-License-Identifier: Apache-2.0
//
// Every wire format, on every backend of this build, through a real server:
// it loads, multiplies within the format's accuracy, and gives the same bits
// alone and in company.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/backends/backends.h"
#include "kernels/matrix/fp64_oracle.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/test_server.h"
#include "tests/end_to_end/wire_header.h"
#include "tests/support/random_matrix.h"

namespace qgemm {
namespace {

// Legal for every format: GPTQ and AWQ groups, kbit's tiles.
constexpr int64_t kN = 128;
constexpr int64_t kK = 256;

class FormatsTest
    : public ::testing::TestWithParam<std::tuple<BackendKind, NamedSpec>> {
 protected:
  void SetUp() override {
    BackendOptions options;
    options.kind = Kind();
    options.cpu.threads = 2;
    auto backend = CreateBackend(options);
    if (absl::IsFailedPrecondition(backend.status())) {
      GTEST_SKIP() << backend.status();
    }
    ASSERT_TRUE(backend.ok()) << backend.status();
    server_.emplace(ServerOptions(), *std::move(backend));
  }

  static BackendKind Kind() { return std::get<0>(GetParam()); }

  RandomUpload Load(const Client& client) {
    RandomUpload upload =
        MakeRandomUpload(std::get<1>(GetParam()).spec, &random_);
    const auto answer = client.Load(ToMessages(upload, "layer", 1000));
    EXPECT_TRUE(answer.ok()) << answer.status.error_message();
    return upload;
  }

  v1::GemmRequest Request(const MatmulSignature& signature, int64_t m) {
    const std::vector<uint8_t> a =
        RandomMatrix(signature.a_type, m, kK, &random_);
    v1::GemmRequest request;
    request.set_weights("layer");
    request.set_m(m);
    request.set_a_type(ToWire(signature.a_type));
    request.set_c_type(ToWire(signature.c_type));
    // The enums differ by the wire's zero, which means "not set".
    request.set_mode(
        static_cast<v1::ComputeMode>(static_cast<int>(signature.mode) + 1));
    request.set_a(a.data(), a.size());
    return request;
  }

  // A signature of each mode that the format has on the backend.
  static std::vector<MatmulSignature> Signatures() {
    std::vector<MatmulSignature> signatures(3);
    signatures[1].a_type = FloatType::kBFloat16;
    signatures[1].c_type = FloatType::kFloat32;
    signatures[2].a_type = FloatType::kFloat32;
    signatures[2].c_type = FloatType::kBFloat16;
    const WeightsSpec& spec = std::get<1>(GetParam()).spec;
    MatmulSignature other = signatures[2];
    if (spec.format == WireFormat::kQ4_0) {
      other.mode = ComputeMode::kA8;
      signatures.push_back(other);
    }
    if (spec.format == WireFormat::kTernary) {
      other.mode = ComputeMode::kA32;
      other.c_type = FloatType::kFloat32;
      signatures.push_back(other);
    }
    return signatures;
  }

  RandomGenerator random_{FreshSeed()};
  std::optional<TestServer> server_;
};

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

TEST_P(FormatsTest, LoadsAndMultipliesWithinTolerance) {
  const Client client = server_->NewClient();
  const CanonicalWeights weights = Decode(Load(client));
  for (const MatmulSignature& signature : Signatures()) {
    const v1::GemmRequest request = Request(signature, /*m=*/5);
    const auto answer = client.Gemm(request);
    ASSERT_TRUE(answer.ok()) << answer.status.error_message();
    const OracleProduct oracle =
        Fp64Matmul(weights, signature, BytesOf(request.a()), request.m());
    const OracleReport report = CompareWithOracle(
        oracle, weights.header(), signature, BytesOf(answer.response.c()));
    EXPECT_TRUE(report.passed()) << report.ToStatus();
  }
}

TEST_P(FormatsTest, GivesTheSameBitsAloneAndInCompany) {
  constexpr int kClients = 4;
  constexpr int kRepetitions = 8;
  const Client client = server_->NewClient();
  Load(client);
  std::vector<v1::GemmRequest> requests;
  std::vector<std::string> alone;
  for (int i = 0; i < kClients; ++i) {
    requests.push_back(Request(Signatures()[0], /*m=*/1 + 3 * i));
    const auto answer = client.Gemm(requests.back());
    ASSERT_TRUE(answer.ok()) << answer.status.error_message();
    alone.push_back(answer.response.c());
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      const Client own = server_->NewClient();
      for (int repetition = 0; repetition < kRepetitions; ++repetition) {
        const auto answer = own.Gemm(requests[i]);
        EXPECT_TRUE(answer.ok()) << answer.status.error_message();
        EXPECT_TRUE(answer.response.c() == alone[i]) << "m " << 1 + 3 * i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, FormatsTest,
    ::testing::Combine(::testing::ValuesIn(BackendsInBuild()),
                       ::testing::ValuesIn(AllWireFormats(kN, kK))),
    [](const auto& info) {
      return absl::StrCat(Name(std::get<0>(info.param)), "_",
                          std::get<1>(info.param).name);
    });

}  // namespace
}  // namespace qgemm
