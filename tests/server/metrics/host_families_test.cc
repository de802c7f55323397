// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/host_families.h"

#include <fcntl.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kFakeNvml[] = "./tests/server/metrics/libfake_nvml.so";

// The value of a family of one gauge.
double Gauge(const char* name) {
  MetricFamilies families;
  CollectProcess(&families);
  for (const auto& family : families) {
    if (family.name == name) return family.metric.front().gauge.value;
  }
  ADD_FAILURE() << "there is no " << name;
  return 0;
}

TEST(CollectProcessTest, CountsOpenFiles) {
  const double before = Gauge("process_open_fds");
  const int file = open("/dev/null", O_RDONLY);
  EXPECT_EQ(Gauge("process_open_fds"), before + 1);
  close(file);
  EXPECT_EQ(Gauge("process_open_fds"), before);
}

TEST(CollectProcessTest, CountsThreads) {
  const double before = Gauge("process_threads");
  std::thread thread([&] { EXPECT_EQ(Gauge("process_threads"), before + 1); });
  thread.join();
}

TEST(CollectProcessTest, ShowsTheLimitOfFiles) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(Gauge("process_max_fds"), static_cast<double>(limit.rlim_cur));
}

TEST(CollectProcessTest, MemoryIsThatOfThisProcess) {
  const double before = Gauge("process_resident_memory_bytes");
  EXPECT_GT(before, 1 << 20);
  EXPECT_GT(Gauge("process_virtual_memory_bytes"), before);
  const std::string block(64 << 20, 'x');
  EXPECT_GT(Gauge("process_resident_memory_bytes"),
            before + static_cast<double>(block.size()) / 2);
}

TEST(CollectProcessTest, StartedBeforeNowAndSinceTheMachineDid) {
  const double start = Gauge("process_start_time_seconds");
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  // The kernel counts the machine's start in whole seconds.
  EXPECT_LE(start, now + 1);
  EXPECT_GE(start, now - 24 * 3600);
}

std::string GpuText(const std::string& library) {
  GpuSampler sampler(library);
  MetricFamilies families;
  // The thread may need longer than one call's patience to load the library.
  for (int calls = 0; calls < 50 && families.empty(); ++calls) {
    sampler.Collect(&families);
  }
  return prometheus::TextSerializer().Serialize(families);
}

TEST(GpuSamplerTest, ShowsWhatTheDriverTells) {
  const std::string text = GpuText(kFakeNvml);
  for (const char* line :
       {"qgemm_gpu_info{gpu=\"1\",name=\"NVIDIA Fake\",uuid=\"GPU-b\"} 1\n",
        "qgemm_gpu_memory_bytes{gpu=\"0\"} 1000\n",
        "qgemm_gpu_memory_used_bytes{gpu=\"0\"} 400\n",
        "qgemm_gpu_utilization_ratio{gpu=\"0\"} 0.75\n",
        "qgemm_gpu_power_watts{gpu=\"0\"} 350.5\n",
        "qgemm_gpu_power_limit_watts{gpu=\"0\"} 700\n",
        "qgemm_gpu_temperature_celsius{gpu=\"1\"} 61\n",
        "qgemm_gpu_ecc_errors_total{gpu=\"0\",kind=\"corrected\"} 5\n",
        "qgemm_gpu_ecc_errors_total{gpu=\"0\",kind=\"uncorrected\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("qgemm_gpu_ecc_errors_total{gpu=\"1\"")));
}

TEST(GpuSamplerTest, ThereIsNothingWithoutTheLibrary) {
  GpuSampler sampler("libno-such-driver.so");
  MetricFamilies families;
  sampler.Collect(&families);
  EXPECT_THAT(families, IsEmpty());
}

TEST(GpuSamplerTest, ThereIsNothingWithAnotherLibrary) {
  GpuSampler sampler("libm.so.6");
  MetricFamilies families;
  sampler.Collect(&families);
  EXPECT_THAT(families, IsEmpty());
}

}  // namespace
}  // namespace qgemm
