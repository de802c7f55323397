// SPDX-License-Identifier: Apache-2.0
//
// docs/metrics.md and the server name the same metrics.

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <fstream>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "server/metrics/host_families.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {
namespace {

// The first column of the page's table.
std::set<std::string> DocumentedNames() {
  constexpr absl::string_view kRow = "| `";
  std::ifstream page("docs/metrics.md");
  std::set<std::string> names;
  for (std::string line; std::getline(page, line);) {
    if (!absl::StartsWith(line, kRow)) continue;
    names.insert(
        line.substr(kRow.size(), line.find('`', kRow.size()) - kRow.size()));
  }
  return names;
}

// Once everything that shows itself when it first happens has happened.
std::set<std::string> ExportedNames() {
  ServerMetrics metrics;
  metrics.RpcEnded("Gemm", absl::StatusCode::kOk, absl::Seconds(1));
  metrics.LaunchFailed(absl::StatusCode::kInternal);
  metrics.SetBuildInfo({});
  metrics.SetTlsExpiry("server", absl::UnixEpoch());
  metrics.SampleMemory([] { return MemoryFigures(); });
  metrics.SampleState([] { return StateFigures(); });
  MetricFamilies families = metrics.registry()->Collect();
  CollectProcess(&families);
  GpuSampler gpus("./tests/server/metrics/libfake_nvml.so");
  // The sampler may need longer than one call's patience to load the library.
  const size_t without_gpus = families.size();
  for (int calls = 0; calls < 50 && families.size() == without_gpus; ++calls) {
    gpus.Collect(&families);
  }
  std::set<std::string> names;
  for (const auto& family : families) names.insert(family.name);
  return names;
}

TEST(MetricsDocTest, NamesWhatTheServerExports) {
  const std::set<std::string> documented = DocumentedNames();
  ASSERT_FALSE(documented.empty());
  EXPECT_EQ(documented, ExportedNames());
}

}  // namespace
}  // namespace qgemm
