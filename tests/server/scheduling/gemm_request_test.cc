// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/gemm_request.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(CompleteTest, CountsForTheLayerAndTheClient) {
  const RequestTraffic traffic = {std::make_shared<Traffic>(),
                                  std::make_shared<Traffic>()};
  for (const absl::Status& status :
       {absl::OkStatus(), absl::UnavailableError("draining"),
        absl::OkStatus()}) {
    auto request = std::make_unique<AdmittedRequest>();
    request->m = 3;
    request->traffic = traffic;
    request->done = [](const absl::Status&, const GemmTimings&,
                       std::unique_ptr<AdmittedRequest>) {};
    Complete({std::move(request), {}}, status);
  }
  for (const auto& counted : {traffic.layer, traffic.client}) {
    EXPECT_EQ(counted->requests(), 2);
    EXPECT_EQ(counted->rows(), 6);
    EXPECT_EQ(counted->dropped(), 1);
  }
}

}  // namespace
}  // namespace qgemm
