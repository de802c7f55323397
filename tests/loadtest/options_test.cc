// SPDX-License-Identifier: Apache-2.0
//
// Command lines of qgemm_loadtest: values, automatic values, refusals.

#include "loadtest/options.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "flags/command_line.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm::loadtest {
namespace {

using testing::ElementsAre;

// A file of that name with this text, in the folder of temporary files.
std::string FileWith(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

const std::string& TraceFlag() {
  static const auto* const flag = new std::string(
      "--arrivals=trace:" + FileWith("trace.txt", "1\n2\n3\n4\n"));
  return *flag;
}

absl::StatusOr<LoadtestOptions> Parse(
    const std::vector<std::string>& arguments) {
  LoadtestOptions options;
  const auto app = MakeLoadtestApp(&options);
  absl::Status status = flags::ParseArguments(app.get(), arguments);
  if (status.ok()) status = CompleteOptions(16, &options);
  if (!status.ok()) return status;
  return options;
}

// The options of a command line with synthetic weights.
LoadtestOptions Options(std::vector<std::string> arguments = {}) {
  arguments.push_back("--synthetic=64x32");
  const absl::StatusOr<LoadtestOptions> options = Parse(arguments);
  EXPECT_TRUE(options.ok()) << options.status();
  return options.value_or(LoadtestOptions());
}

TEST(OptionsTest, DefaultsAreAClosedLoopOfOneThatDisturbsNothing) {
  const LoadtestOptions options = Options();
  EXPECT_FALSE(options.arrivals.is_open());
  EXPECT_EQ(options.arrivals.concurrency, 1);
  EXPECT_EQ(options.senders, 1);
  EXPECT_EQ(options.channels, 1);
  EXPECT_EQ(options.request.deadline, absl::InfiniteDuration());
  EXPECT_EQ(options.request.disturbances.cancel_share, 0);
  EXPECT_EQ(options.request.result_type(), FloatType::kFloat16);
  EXPECT_EQ(options.verify, VerifyMode::kNone);
  EXPECT_FALSE(options.churn.shape.has_value());
}

TEST(OptionsTest, ValuesReachTheirMembers) {
  const LoadtestOptions options = Options(
      {"--m=1:0.9,16:0.1", "--dtype=bf16", "--out_dtype=fp32", "--mode=A8",
       "--priority=high", "--deadline=50ms", "--timeout=2s", "--verify=all",
       "--cancel_rate=0.1", "--server=unix:/a", "--disconnect_rate=5",
       "--churn=8x16", "--allow_errors=RESOURCE_EXHAUSTED,UNAVAILABLE",
       "--baseline", "--teardown=false", "--seed=7", "--slo=p99=5ms",
       "--json=a b.json"});
  EXPECT_EQ(options.request.m.classes().size(), 2);
  EXPECT_EQ(options.request.a_type, FloatType::kBFloat16);
  EXPECT_EQ(options.request.result_type(), FloatType::kFloat32);
  EXPECT_EQ(options.request.mode, ComputeMode::kA8);
  EXPECT_EQ(options.request.priority, RequestPriority::kHigh);
  EXPECT_EQ(options.request.deadline, absl::Milliseconds(50));
  EXPECT_EQ(options.request.timeout, absl::Seconds(2));
  EXPECT_EQ(options.verify, VerifyMode::kAll);
  EXPECT_EQ(options.request.disturbances.disconnects_per_second, 5);
  EXPECT_EQ(options.churn.shape->n, 16);
  EXPECT_THAT(options.request.allowed_errors,
              ElementsAre(absl::StatusCode::kResourceExhausted,
                          absl::StatusCode::kUnavailable));
  EXPECT_TRUE(options.baseline);
  EXPECT_FALSE(options.layers.teardown);
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.slo.size(), 1);
  EXPECT_EQ(options.output.json, "a b.json");
}

TEST(OptionsTest, LayersComeOfShapesNamesOrAModel) {
  const LoadtestOptions shapes =
      *Parse({"--synthetic=64x32,32x64", "--format=kbit4,int4,fp16"});
  EXPECT_EQ(shapes.layers.shapes.size(), 6);  // a layer in every format
  EXPECT_EQ(shapes.layers.shapes[3].k, 32);
  EXPECT_EQ(shapes.layers.text(), "64x32,32x64");
  const LoadtestOptions named = *Parse({"--weights=up,down"});
  EXPECT_THAT(named.layers.names, ElementsAre("up", "down"));
  EXPECT_FALSE(named.layers.is_synthetic());
  EXPECT_EQ(
      Parse({"--walk=llama3-8b", "--walk_blocks=2"})->layers.shapes.size(), 14);
  const std::string model = FileWith(
      "model.json",
      R"({"blocks": 2, "layers": [{"name": "up", "k": 64, "n": 32}]})");
  EXPECT_EQ(Parse({"--walk=" + model})->layers.shapes.size(), 2);
}

TEST(OptionsTest, AWalkByProgramsHasTheLayersOfAModelAndItsHead) {
  const LoadtestOptions known =
      *Parse({"--program_walk=llama3-8b", "--walk_blocks=2"});
  EXPECT_TRUE(known.layers.has_programs());
  EXPECT_EQ(known.layers.model.blocks, 2);
  ASSERT_EQ(known.layers.shapes.size(), 2 * 7 + 1);
  EXPECT_EQ(known.layers.shapes.back().n, 128256);
  EXPECT_EQ(known.layers.text(), "llama3-8b");
  const std::string model =
      FileWith("small.json", R"({"blocks": 3, "hidden": 64, "feed_forward": 96,
                        "key_value": 32, "vocabulary": 128})");
  EXPECT_EQ(Parse({"--program_walk=" + model})->layers.shapes.size(), 22);
}

TEST(OptionsTest, PartsHaveConnectionsOfTheirOwn) {
  const LoadtestOptions one = Options({"--m=64", "--parts=4"});
  EXPECT_EQ(one.request.parts, 4);
  EXPECT_EQ(one.channels, 4);
  EXPECT_EQ(Options({"--m=64", "--parts=4", "--channels=2"}).channels, 2);
  EXPECT_EQ(Options({"--m=64", "--parts=4", "--concurrency=2"}).channels, 8);
}

TEST(OptionsTest, TransportsAreCallsStreamsLanesOrNone) {
  EXPECT_EQ(Options().transport, TransportKind::kCall);
  EXPECT_EQ(Options({"--transport=stream"}).transport, TransportKind::kStream);
  EXPECT_EQ(
      Options({"--transport=lane", "--server=unix:/run/qgemm.sock"}).transport,
      TransportKind::kLane);
  EXPECT_EQ(Options({"--transport=null"}).transport, TransportKind::kNull);
}

TEST(OptionsTest, ARateOrATraceMakesArrivalsOpen) {
  const ArrivalOptions open = Options({"--rate=500:10s,1000"}).arrivals;
  EXPECT_TRUE(open.is_open());
  EXPECT_EQ(open.concurrency, kOpenInFlight);
  EXPECT_EQ(open.rate->RateAt(absl::Seconds(11)), 1000);
  EXPECT_EQ(Options({"--rate=5", "--concurrency=9"}).arrivals.concurrency, 9);
  EXPECT_FALSE(Options({"--rate=5", "--rate="}).arrivals.is_open());
  const ArrivalOptions trace = Options({TraceFlag()}).arrivals;
  EXPECT_EQ(trace.trace->offsets.size(), 4);
  EXPECT_EQ(trace.trace_scale, 1);
  EXPECT_EQ(Options({TraceFlag(), "--rate=10"}).arrivals.trace_scale, 0.1);
}

TEST(OptionsTest, SendersAndChannelsFitEachOtherAndTheLoad) {
  struct Case {
    std::vector<std::string> arguments;
    int senders;
    int channels;
  };
  // A sender a quarter of the 16 processors.
  for (const Case& each :
       {Case{{"--concurrency=64"}, 4, 4},
        Case{{"--concurrency=64", "--channels=6"}, 4, 8},
        Case{{"--concurrency=64", "--threads=3", "--channels=16"}, 3, 18},
        Case{{"--concurrency=2", "--threads=8"}, 2, 2},
        Case{{"--rate=5", "--concurrency=3"}, 3, 3},
        Case{{"--prefill_clients=5"}, 1, 1}, Case{{"--sweep=rate=1,2"}, 4, 4},
        Case{{"--find_peak", "--slo=p99=1ms", "--concurrency=2"}, 2, 2},
        Case{{"--sweep=concurrency=1,3"}, 3, 3}}) {
    const LoadtestOptions options = Options(each.arguments);
    EXPECT_EQ(options.senders, each.senders) << each.arguments[0];
    EXPECT_EQ(options.channels, each.channels) << each.arguments[0];
  }
}

TEST(OptionsTest, PointsOfASweepHaveTheirValue) {
  const LoadtestOptions rates = Options({"--sweep=rate=100,200"});
  EXPECT_EQ(SweepPoint(rates, 1)->arrivals.rate->RateAt(absl::ZeroDuration()),
            200);
  EXPECT_EQ(SweepPoint(rates, 1)->arrivals.concurrency, kOpenInFlight);
  const LoadtestOptions loops = Options({"--sweep=concurrency=1,8"});
  EXPECT_EQ(SweepPoint(loops, 0)->senders, 1);
  EXPECT_EQ(SweepPoint(loops, 1)->arrivals.concurrency, 8);
  const LoadtestOptions rows = Options({"--sweep=m=1,16"});
  EXPECT_EQ(SweepPoint(rows, 1)->request.m.classes()[0].rows, 16);
}

struct Refusal {
  std::vector<std::string> arguments;  // beside --synthetic
  const char* names;                   // held by the message
};

class RefusedOptions : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedOptions, AreRefusedByName) {
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.push_back("--synthetic=64x32");
  const absl::Status status = Parse(arguments).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), GetParam().names)) << status;
}

INSTANTIATE_TEST_SUITE_P(
    Options, RefusedOptions,
    testing::Values(
        Refusal{{"--sever=a:1"}, "--server"},
        Refusal{{"--server="}, "--server"},
        Refusal{{"--transport=stream", "--disconnect_rate=1"}, "unix:PATH"},
        Refusal{{"--server=a:1", "--disconnect_rate=1"}, "unix:PATH"},
        Refusal{{"--transport=null", "--verify=all"}, "--transport=null"},
        Refusal{{"--device_operands"}, "--transport=lane"},
        Refusal{{"--weights=a"}, "give one of"},
        Refusal{{"--walk=llama3-8b"}, "give one of"},
        Refusal{{"--program_walk=llama3-8b"}, "give one of"},
        Refusal{{"--parts=0"}, "--parts"},
        Refusal{{"--m=8,3", "--parts=4"}, "a request of 3 rows"},
        Refusal{{"--m=8", "--parts=4", "--prefill_clients=1", "--prefill_m=2"},
                "a request of 2 rows"},
        Refusal{{"--m=8", "--parts=4", "--sweep=m=2,8"}, "--sweep=m=2"},
        Refusal{{"--m=8", "--parts=4", "--baseline"}, "--baseline"},
        Refusal{{"--m=8", "--parts=4", "--transport=stream"}, "--parts"},
        Refusal{{"--synthetic=64"}, "--synthetic=64"},
        Refusal{{"--synthetic=0x64"}, "KxN"},
        Refusal{{"--layers=0"}, "--layers"}, Refusal{{"--zipf=6"}, "--zipf"},
        Refusal{{"--m=0"}, "--m"}, Refusal{{"--inputs=5000"}, "--inputs"},
        Refusal{{"--dtype=fp8"}, "--dtype"}, Refusal{{"--mode=A4"}, "--mode"},
        Refusal{{"--priority=urgent"}, "--priority"},
        Refusal{{"--allow_errors=GONE"}, "GONE"},
        Refusal{{"--cancel_rate=1.1"}, "--cancel_rate"},
        Refusal{{"--timeout=0"}, "--timeout"},
        Refusal{{"--duration=-1s"}, "--duration"},
        Refusal{{"--duration=9000h"}, "a year"},
        Refusal{{"--churn=8"}, "--churn"},
        Refusal{{"--churn_rate=0"}, "--churn_rate"},
        Refusal{{"--threads=65"}, "--threads"},
        Refusal{{"--arrivals=uniform"}, "--arrivals"},
        Refusal{{"--rate=x"}, "--rate=x"},
        Refusal{{"--rate=5", "--think=1s"}, "--think"},
        Refusal{{TraceFlag(), "--rate=5:1s"}, "beside a trace"},
        Refusal{{"--sweep=rows=1"}, "--sweep"},
        Refusal{{"--sweep=rate=0"}, "--sweep=rate=0"},
        Refusal{{"--sweep=concurrency=0"}, "concurrency"},
        Refusal{{"--sweep=rate=1", "--think=1s"}, "--think"},
        Refusal{{"--sweep=rate=1", TraceFlag()}, "a trace"},
        Refusal{{"--find_peak"}, "--slo"},
        Refusal{{"--find_peak", "--slo=p99=1s", "--sweep=m=1"}, "give one"},
        Refusal{{"--slo=p99"}, "p99"}, Refusal{{"extra"}, "extra"},
        Refusal{{"--verify=some"}, "--verify"}));

TEST(OptionsTest, AWalkThatIsNoModelAndNoFileIsToldTheModels) {
  const absl::Status status = Parse({"--walk=llama9"}).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "llama3-70b")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "cannot read llama9"))
      << status;
}

TEST(OptionsTest, AWalkByProgramsRefusesWhatIsOfGemms) {
  for (const char* flag :
       {"--dtype=fp32", "--out_dtype=bf16", "--mode=A8", "--zipf=1"}) {
    const absl::Status status =
        Parse({"--program_walk=llama3-8b", flag}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << flag;
  }
  for (const char* flag :
       {"--dtype=bf16", "--transport=stream", "--transport=lane"}) {
    EXPECT_TRUE(
        Parse({"--program_walk=llama3-8b", "--server=unix:/a", flag}).ok())
        << flag;
  }
  const absl::Status unknown = Parse({"--program_walk=llama9"}).status();
  EXPECT_TRUE(absl::StrContains(unknown.message(), "llama3-70b")) << unknown;
  EXPECT_TRUE(absl::StrContains(unknown.message(), "cannot read llama9"))
      << unknown;
}

TEST(DescribeFlagsTest, TellsEveryFlagAndThoseThatDifferFromTheirDefaults) {
  LoadtestOptions options;
  const auto app = MakeLoadtestApp(&options);
  ASSERT_TRUE(flags::ParseArguments(
                  app.get(), {"--rate=2000", "--m=1", "--synthetic=8x8,8x16",
                              "--setup=false", "--duration=10s"})
                  .ok());
  LoadtestReport report;
  DescribeFlags(*app, &report);
  EXPECT_THAT(report.changed_options,
              ElementsAre("rate", "setup", "synthetic"));
  EXPECT_TRUE(std::is_sorted(report.options.begin(), report.options.end()));
  EXPECT_EQ(report.option("rate"), "2000");
  EXPECT_EQ(report.option("synthetic"), "8x8,8x16");
  EXPECT_EQ(report.option("setup"), "false");
  EXPECT_EQ(report.option("warmup"), "1s");
  EXPECT_EQ(report.option("find_peak"), "false");
}

}  // namespace
}  // namespace qgemm::loadtest
