// SPDX-License-Identifier: Apache-2.0
//
// Figures are derived and written as bench/README.md says.

#include "bench/bench_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace qgemm {
namespace {

using testing::HasSubstr;
using testing::Not;

MeasuredCase OneCase() {
  MeasuredCase measured;
  measured.bench_case.format = "kbit4";
  measured.bench_case.shape = {4096, 14336};
  measured.bench_case.m = 16;
  measured.result.median = absl::Microseconds(20);
  measured.result.fastest = absl::Microseconds(19);
  measured.result.slowest = absl::Microseconds(25);
  measured.result.bytes_moved = 40'000'000;  // 2000 GB/s
  measured.result.copies = 21;
  return measured;
}

BenchReport HostReport() {
  BenchReport report;
  report.machine.backend = {"cpu", "a processor", "avx2", 2};
  report.machine.driver = "Linux";
  report.machine.build = "compiler";
  report.roof = {2500, 2400};
  report.measured.push_back(OneCase());
  return report;
}

BenchReport GpuReport() {
  BenchReport report = HostReport();
  report.machine.backend = {"cuda", "a GPU", "compute capability 9.0", 132};
  report.machine.clocks = GpuClocks{1980, 2619};
  CaseResult& result = report.measured[0].result;
  result.kernel = "cublas";
  result.kernel_reason = "an estimate";
  result.cublas = absl::Microseconds(50);
  result.dequantize_cublas = absl::Microseconds(90);
  return report;
}

TEST(BenchReportTest, NearerBoundIsTold) {
  BenchReport report = HostReport();
  MeasuredCase& measured = report.measured[0];  // 94 TFLOP/s
  report.peaks = MultiplyPeaks{100'000, 400'000, 0};
  EXPECT_STREQ(BoundOf(report, measured).name, "fp32");
  EXPECT_NEAR(BoundOf(report, measured).fraction, 0.94, 0.001);
  measured.bench_case.mode = ComputeMode::kA8;
  EXPECT_STREQ(BoundOf(report, measured).name, "read");
  EXPECT_DOUBLE_EQ(BoundOf(report, measured).fraction, 0.8);
  report.peaks->int8_gops = 100'000;
  EXPECT_STREQ(BoundOf(report, measured).name, "int8");
  EXPECT_THAT(TableLine(report, measured), HasSubstr("94% int8"));
}

TEST(BenchReportTest, TilesTakeThreeProductsOfFloat16) {
  BenchReport report = HostReport();
  MeasuredCase& measured = report.measured[0];
  measured.bench_case.mode = ComputeMode::kA16;
  report.peaks = MultiplyPeaks{1'000, 400'000, 300'000, true};
  measured.bench_case.dtype = FloatType::kFloat16;
  EXPECT_STREQ(BoundOf(report, measured).name, "bf16");
  EXPECT_NEAR(BoundOf(report, measured).fraction, 0.94, 0.001);
  measured.bench_case.dtype = FloatType::kBFloat16;
  EXPECT_STREQ(BoundOf(report, measured).name, "read");
  report.peaks = MultiplyPeaks{1'000, 400'000, 300'000, false};
  measured.bench_case.dtype = FloatType::kFloat16;
  EXPECT_STREQ(BoundOf(report, measured).name, "fp32");
}

TEST(BenchReportTest, JsonHasPeaksWhereTheyAreMeasured) {
  BenchReport report = HostReport();
  EXPECT_FALSE(nlohmann::json::parse(ToJson(report)).contains("peaks"));
  report.peaks = MultiplyPeaks{100'000, 400'000, 0};
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json["peaks"]["fp32_gflops"], 100'000);
  EXPECT_EQ(json["results"][0]["bound"], "fp32");
}

TEST(BenchReportTest, JsonDerivesRates) {
  const auto json = nlohmann::json::parse(ToJson(HostReport()));
  ASSERT_EQ(json["results"].size(), 1u);
  const auto& result = json["results"][0];
  EXPECT_EQ(result["us"], 20);
  EXPECT_EQ(result["us_min"], 19);
  EXPECT_EQ(result["us_max"], 25);
  EXPECT_EQ(result["roof_fraction"], 0.8);
  // 2 m n k / 20 us.
  EXPECT_EQ(result["gflops"], 93952.4);
}

TEST(BenchReportTest, HostJsonHasItsFieldsAndNoOthers) {
  const auto json = nlohmann::json::parse(ToJson(HostReport()));
  for (const char* field :
       {"version", "tool", "time", "backend", "device", "isa", "threads",
        "driver", "build", "roof_gbps", "roof_median_gbps", "results"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_FALSE(json.contains("clocks"));
  const auto& result = json["results"][0];
  for (const char* field :
       {"format", "mode", "dtype", "m", "n", "k", "us", "us_min", "us_max",
        "bytes", "copies", "roof_fraction", "gflops"}) {
    EXPECT_TRUE(result.contains(field)) << field;
  }
  EXPECT_EQ(result.size(), 13u);
}

TEST(BenchReportTest, GpuJsonComparesWithCublas) {
  const auto json = nlohmann::json::parse(ToJson(GpuReport()));
  EXPECT_EQ(json["clocks"]["sm_mhz"], 1980);
  EXPECT_EQ(json["clocks"]["memory_mhz"], 2619);
  const auto& result = json["results"][0];
  EXPECT_EQ(result["kernel"], "cublas");
  EXPECT_EQ(result["kernel_reason"], "an estimate");
  EXPECT_EQ(result["cublas_us"], 50);
  EXPECT_EQ(result["speedup_vs_cublas"], 2.5);
  EXPECT_EQ(result["dequant_cublas_us"], 90);
}

TEST(BenchReportTest, FiguresThatWereNotMeasuredAreLeftOut) {
  BenchReport report = GpuReport();
  report.measured[0].result.cublas.reset();
  report.measured[0].result.dequantize_cublas.reset();
  const auto json = nlohmann::json::parse(ToJson(report));
  const auto& result = json["results"][0];
  EXPECT_FALSE(result.contains("cublas_us"));
  EXPECT_FALSE(result.contains("speedup_vs_cublas"));
  EXPECT_FALSE(result.contains("dequant_cublas_us"));
  EXPECT_FALSE(result.contains("cublas_fp32_us"));
}

TEST(BenchReportTest, CublasInFp32StandsBesideThatOfTheCase) {
  BenchReport report = GpuReport();
  report.measured[0].result.cublas_fp32 = absl::Microseconds(70);
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json["results"][0]["cublas_fp32_us"], 70);
  EXPECT_EQ(json["results"][0]["cublas_us"], 50);
}

TEST(BenchReportTest, JsonWithoutResultsIsWhole) {
  BenchReport report = HostReport();
  report.measured.clear();
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_TRUE(json["results"].empty());
}

TEST(BenchReportTest, OnlyAGpusTableHasCublasColumns) {
  const BenchReport host = HostReport();
  EXPECT_THAT(TableHead(host), Not(HasSubstr("cuBLAS")));
  EXPECT_THAT(TableLine(host, host.measured[0]), Not(HasSubstr("2.50")));
  const BenchReport gpu = GpuReport();
  EXPECT_THAT(TableHead(gpu), HasSubstr("cuBLAS"));
  EXPECT_THAT(TableLine(gpu, gpu.measured[0]), HasSubstr("2.50"));
  EXPECT_THAT(TableLine(gpu, gpu.measured[0]), HasSubstr("90.0"));
}

TEST(BenchReportTest, ColumnsOfALineAreThoseOfTheHead) {
  const BenchReport gpu = GpuReport();
  const std::string head = TableHead(gpu);
  const std::string columns = head.substr(head.find('\n') + 1);
  // The last column is as long as the reason that it holds.
  EXPECT_EQ(TableLine(gpu, gpu.measured[0]).find("an estimate"),
            columns.find("why"));
}

}  // namespace
}  // namespace qgemm
