// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/status_page.h"

#include <prometheus/collectable.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/metrics/server_metrics.h"
#include "server/metrics/traffic.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StatusPageTest : public ::testing::Test {
 protected:
  std::string Look() {
    return page_
        .Render(metrics_.registry()->Collect(), metrics_.health(), clock_.Now(),
                clock_.Now())
        .body;
  }

  FakeClock clock_;
  const GemmTimings timings_ = {};
  ServerMetrics metrics_;
  StatusPage page_;
};

TEST(EscapeHtmlTest, LeavesNoMarkup) {
  EXPECT_EQ(EscapeHtml("<a href=\"x\">&'"),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
}

TEST_F(StatusPageTest, ShowsTheStateWithItsReason) {
  metrics_.SetHealth(HealthState::kFailed, "launch 7 is 30 s old");
  const std::string page = Look();
  EXPECT_THAT(page, HasSubstr("<span class=\"state failed\">failed</span>"));
  EXPECT_THAT(page, HasSubstr("<p>launch 7 is 30 s old</p>"));
}

TEST_F(StatusPageTest, EveryTextFromElsewhereIsEscaped) {
  const std::string evil = "<script>alert(1)</script>";
  metrics_.SetHealth(HealthState::kFailed, evil);
  metrics_.SetBuildInfo({evil, evil, evil, evil});
  metrics_.LayerTraffic(evil)->RequestComputed(1);
  metrics_.ClientTraffic(evil)->RequestComputed(1);
  const std::string page = Look();
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert"));
}

TEST_F(StatusPageTest, RatesAreThoseSinceTheLookBefore) {
  const auto layer = metrics_.LayerTraffic("mlp.up");
  for (int i = 0; i < 50; ++i) {
    metrics_.RequestsComputed(2, {&timings_});
    layer->RequestComputed(2);
  }
  EXPECT_THAT(Look(), HasSubstr("<td>Requests</td><td>–</td>"));
  for (int i = 0; i < 80; ++i) metrics_.RequestsComputed(4, {&timings_});
  clock_.Advance(absl::Seconds(2));
  const std::string page = Look();
  EXPECT_THAT(page, HasSubstr("<td>Requests</td><td>40/s</td>"));
  EXPECT_THAT(page, HasSubstr("<td>Rows</td><td>160/s</td>"));
  EXPECT_THAT(page, HasSubstr("<td>mlp.up</td><td>50</td><td>0/s</td>"));
}

TEST_F(StatusPageTest, ASecondViewerTakesNoRatesAway) {
  Look();
  for (int i = 0; i < 30; ++i) metrics_.RequestsComputed(1, {&timings_});
  clock_.Advance(absl::Seconds(2));
  Look();
  clock_.Advance(absl::Seconds(1) / 2);
  EXPECT_THAT(Look(), HasSubstr("<td>Requests</td><td>12/s</td>"));
}

TEST_F(StatusPageTest, ALookLongAgoGivesNoRates) {
  Look();
  clock_.Advance(StatusPage::kMaxAge + absl::Seconds(1));
  EXPECT_THAT(Look(), HasSubstr("<td>Requests</td><td>–</td>"));
}

TEST_F(StatusPageTest, LatencyIsThatSinceTheLookBefore) {
  metrics_.RpcEnded("Gemm", absl::StatusCode::kOk, absl::Seconds(30));
  Look();
  for (int i = 0; i < 99; ++i) {
    metrics_.RpcEnded("Gemm", absl::StatusCode::kOk, absl::Microseconds(15));
  }
  metrics_.RpcEnded("Gemm", absl::StatusCode::kOk, absl::Microseconds(70));
  clock_.Advance(absl::Seconds(2));
  const std::string page = Look();
  EXPECT_THAT(page, HasSubstr("<td>Gemm p50</td><td>≤ 20 µs</td>"));
  EXPECT_THAT(page, HasSubstr("<td>Gemm p99</td><td>≤ 20 µs</td>"));
}

TEST_F(StatusPageTest, ShowsRefusalsOnceThereAreAny) {
  EXPECT_THAT(Look(), HasSubstr("nothing since the start"));
  metrics_.RequestDropped(DropReason::kQueueFull, DropStage::kAdmission);
  metrics_.ConnectionRefused("peer");
  metrics_.CallTimedOut("upload_idle");
  const std::string page = Look();
  for (const char* row : {"<td>Request: queue_full</td><td>1</td>",
                          "<td>Connection: peer</td><td>1</td>",
                          "<td>Timed out: upload_idle</td><td>1</td>"}) {
    EXPECT_THAT(page, HasSubstr(row));
  }
  EXPECT_THAT(page, Not(HasSubstr("quota")));
}

TEST_F(StatusPageTest, ShowsTheBusiestLayersFirst) {
  for (int layer = 0; layer < 2 * StatusPage::kMaxRows; ++layer) {
    for (int request = 0; request <= layer; ++request) {
      metrics_.LayerTraffic("layer" + std::to_string(layer))
          ->RequestComputed(1);
    }
  }
  const std::string page = Look();
  EXPECT_LT(page.find("<td>layer63</td>"), page.find("<td>layer62</td>"));
  EXPECT_THAT(page, HasSubstr("<td>layer32</td>"));
  EXPECT_THAT(page, Not(HasSubstr("<td>layer31</td>")));
}

}  // namespace
}  // namespace qgemm
