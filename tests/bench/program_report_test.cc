// SPDX-License-Identifier: Apache-2.0
//
// Figures of programs are derived and written as bench/README.md says.

#include "bench/program_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace qgemm {
namespace {

using testing::HasSubstr;

LaunchTimes Times(int us, int kernel_us) {
  return {absl::Microseconds(us), absl::Microseconds(us - 1),
          absl::Microseconds(us + 5), absl::Microseconds(kernel_us)};
}

MeasuredProgram Measured() {
  MeasuredProgram measured{"a-layer", "kbit4", 100'000'000, 4, {}};
  ProgramTimes times;
  times.m = 16;
  times.launches = 10;
  times.program = Times(200, 100);
  times.all_products = Times(400, 200);
  BenchCase layer;
  layer.format = "q4_0";
  layer.shape = {4096, 14336};
  times.products = {{0, layer, Times(150, 80)}, {3, layer, Times(250, 120)}};
  measured.times.push_back(times);
  return measured;
}

const BackendDescription kBackend = {"cpu", "a processor", "avx2", 2};

TEST(ProgramReportTest, RatiosAreOfTheSumOfTheProducts) {
  const ProgramTimes times = Measured().times[0];
  EXPECT_EQ(ProductsRatio(times), 2);
  EXPECT_EQ(KernelRatio(times), 2);
  EXPECT_EQ(KernelRatio(ProgramTimes()), 0);  // no kernel time
}

TEST(ProgramReportTest, JsonHasEveryFigure) {
  const auto json =
      nlohmann::json::parse(ProgramsToJson(kBackend, {Measured(), Measured()}));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["tool"], "kernel_bench");
  EXPECT_EQ(json["threads"], 2);
  ASSERT_EQ(json["programs"].size(), 2u);
  const auto& program = json["programs"][0];
  EXPECT_EQ(program["program"], "a-layer");
  EXPECT_EQ(program["format"], "kbit4");
  EXPECT_EQ(program["m"], 16);
  EXPECT_EQ(program["us"], 200);
  EXPECT_EQ(program["us_min"], 199);
  EXPECT_EQ(program["us_max"], 205);
  EXPECT_EQ(program["kernel_us"], 100);
  EXPECT_EQ(program["products_us"], 400);
  EXPECT_EQ(program["products_kernel_us"], 200);
  EXPECT_EQ(program["ratio"], 2);
  EXPECT_EQ(program["kernel_ratio"], 2);
  EXPECT_EQ(program["weights_bytes"], 100'000'000);
  EXPECT_EQ(program["weights_gbps"], 1000);
  EXPECT_EQ(program["copies"], 4);
  EXPECT_EQ(program["launches"], 10);
  ASSERT_EQ(program["products"].size(), 2u);
  EXPECT_EQ(program["products"][1]["op"], 3);
  EXPECT_EQ(program["products"][1]["format"], "q4_0");
  EXPECT_EQ(program["products"][1]["n"], 14336);
  EXPECT_EQ(program["products"][1]["kernel_us"], 120);
}

TEST(ProgramReportTest, JsonWithoutProgramsIsWhole) {
  const auto json = nlohmann::json::parse(ProgramsToJson(kBackend, {}));
  EXPECT_TRUE(json["programs"].empty());
}

TEST(ProgramReportTest, ColumnsOfALineAreThoseOfTheHead) {
  const std::string head = ProgramHead(kBackend, Measured());
  EXPECT_THAT(head, HasSubstr("a-layer in kbit4, 100.0 MB"));
  const std::string line = ProgramLine(Measured(), Measured().times[0]);
  EXPECT_EQ(line.size(), head.size() - head.find('\n') - 1);
  EXPECT_THAT(line, HasSubstr("199.0..205.0"));
}

}  // namespace
}  // namespace qgemm
