// SPDX-License-Identifier: Apache-2.0
//
// ParseLoadtestOptions: what each flag becomes; what is refused, and
// over what connections requests go, is in options_refusals_test.cc and
// options_lanes_test.cc.

#include "loadtest/options.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/loadtest/loadtest_flags_fixture.h"

namespace qgemm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ParseLoadtestOptionsTest, DefaultsAreAClosedLoopOfOne) {
  const LoadtestOptions options = Parse(ValidFlags());
  EXPECT_FALSE(options.arrivals.is_open());
  EXPECT_EQ(options.arrivals.concurrency, 1);
  EXPECT_EQ(options.arrivals.think, absl::ZeroDuration());
  EXPECT_EQ(options.arrivals.duration, absl::Seconds(10));
  EXPECT_EQ(options.arrivals.warmup, absl::Seconds(1));
  EXPECT_EQ(options.lanes, 1);
  EXPECT_EQ(options.channels, 1);
  EXPECT_EQ(options.seed, 1);
  EXPECT_EQ(options.verify, VerifyMode::kNone);
  EXPECT_FALSE(options.yardstick);
  EXPECT_FALSE(options.find_peak);
  EXPECT_THAT(options.sweep.values, IsEmpty());
  EXPECT_THAT(options.slo, IsEmpty());
  EXPECT_FALSE(options.churn.shape.has_value());
}

TEST(ParseLoadtestOptionsTest, DefaultsDisturbNothing) {
  const RequestOptions request = Parse(ValidFlags()).request;
  EXPECT_EQ(request.disturbances.cancel_share, 0);
  EXPECT_EQ(request.disturbances.disconnects_per_second, 0);
  EXPECT_EQ(request.deadline, absl::InfiniteDuration());
  EXPECT_EQ(request.timeout, absl::Seconds(30));
  EXPECT_THAT(request.allowed_errors, IsEmpty());
  EXPECT_EQ(request.prefill_clients, 0);
}

TEST(ParseLoadtestOptionsTest, DefaultsWriteNoFileAndShowNoLine) {
  const OutputOptions output = Parse(ValidFlags()).output;
  EXPECT_EQ(output.json + output.hgrm, "");
  EXPECT_FALSE(output.live);
}

TEST(ParseLoadtestOptionsTest, ReadsTheSyntheticShapeAsKxN) {
  const LayerOptions layers = Parse(ValidFlags()).layers;
  EXPECT_TRUE(layers.is_synthetic());
  ASSERT_EQ(layers.shapes.size(), 1);
  EXPECT_EQ(layers.shapes[0].k, 4096);
  EXPECT_EQ(layers.shapes[0].n, 14336);
  EXPECT_EQ(layers.text, "4096x14336");
  EXPECT_THAT(layers.formats, ElementsAre("kbit4"));
  EXPECT_FALSE(layers.walk);
}

TEST(ParseLoadtestOptionsTest, LayersAreOfEachShape) {
  const LoadtestOptions options = ParseWith([](LoadtestFlags* flags) {
    flags->synthetic = "64x32,128x256";
    flags->layers = 3;
  });
  ASSERT_EQ(options.layers.shapes.size(), 6);
  EXPECT_EQ(options.layers.shapes[2].k, 64);
  EXPECT_EQ(options.layers.shapes[3].k, 128);
}

TEST(ParseLoadtestOptionsTest, EveryFormatHasALayer) {
  const LoadtestOptions options = ParseWith(
      [](LoadtestFlags* flags) { flags->format = "kbit2,q4_0,fp16"; });
  EXPECT_THAT(options.layers.formats, ElementsAre("kbit2", "q4_0", "fp16"));
  EXPECT_EQ(options.layers.shapes.size(), 3);
}

TEST(ParseLoadtestOptionsTest, NamesAreSeparatedByCommas) {
  const LoadtestOptions options = ParseWith([](LoadtestFlags* flags) {
    flags->synthetic.clear();
    flags->weights = "up,down";
  });
  EXPECT_FALSE(options.layers.is_synthetic());
  EXPECT_THAT(options.layers.names, ElementsAre("up", "down"));
}

TEST(ParseLoadtestOptionsTest, AWalkTakesAModelByName) {
  const LoadtestOptions options = ParseWith([](LoadtestFlags* flags) {
    flags->synthetic.clear();
    flags->walk = "llama3-8b";
    flags->walk_blocks = 2;
  });
  EXPECT_TRUE(options.layers.walk);
  EXPECT_EQ(options.layers.shapes.size(), 14);
  EXPECT_EQ(options.layers.text, "llama3-8b");
}

TEST(ParseLoadtestOptionsTest, AWalkTakesAModelFromAFile) {
  const LoadtestOptions options = ParseWith([](LoadtestFlags* flags) {
    flags->synthetic.clear();
    flags->walk = "/model";
    flags->walk_blocks = 2;
  });
  ASSERT_EQ(options.layers.shapes.size(), 2);
  EXPECT_EQ(options.layers.shapes[1].n, 128);
}

TEST(ParseLoadtestOptionsTest, SetupAndTeardownDecideWhatIsKept) {
  const auto keep = [](bool setup, bool teardown) {
    return ParseWith([=](LoadtestFlags* flags) {
             flags->setup = setup;
             flags->teardown = teardown;
           })
        .layers.keep;
  };
  EXPECT_EQ(keep(true, true), Keep::kUploadAndRemove);
  EXPECT_EQ(keep(true, false), Keep::kUpload);
  EXPECT_EQ(keep(false, true), Keep::kRemove);
  EXPECT_EQ(keep(false, false), Keep::kNeither);
}

TEST(ParseLoadtestOptionsTest, TheTransportFollowsTheServer) {
  const auto kind = [](const std::string& server, const std::string& asked) {
    return ParseWith([&](LoadtestFlags* flags) {
             flags->server = server;
             flags->transport = asked;
           })
        .transport;
  };
  EXPECT_EQ(kind("unix:/a", "auto"), TransportKind::kUnix);
  EXPECT_EQ(kind("unix:/a", "unix"), TransportKind::kUnix);
  EXPECT_EQ(kind("unix:/a", "null"), TransportKind::kNull);
  EXPECT_EQ(kind("unix:/a", "stream"), TransportKind::kStream);
  EXPECT_EQ(kind("host:1", "auto"), TransportKind::kTcp);
  EXPECT_EQ(kind("host:1", "tcp"), TransportKind::kTcp);
  EXPECT_EQ(kind("host:1", "null"), TransportKind::kNull);
}

TEST(ParseLoadtestOptionsTest, AStreamsConnectionsAreNotCut) {
  LoadtestFlags flags = ValidFlags();
  flags.transport = "stream";
  EXPECT_EQ(Parse(flags).transport, TransportKind::kStream);
  flags.disconnect_rate = 1;
  const absl::Status status = ParseLoadtestOptions(flags, Host()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("--disconnect_rate"));
}

TEST(ParseLoadtestOptionsTest, ResultTypeFollowsTheActivations) {
  const RequestOptions request =
      ParseWith([](LoadtestFlags* flags) { flags->dtype = "bf16"; }).request;
  EXPECT_EQ(request.a_type, FloatType::kBFloat16);
  EXPECT_EQ(request.c_type, FloatType::kBFloat16);
}

TEST(ParseLoadtestOptionsTest, ResultTypeCanBeItsOwn) {
  const RequestOptions request = ParseWith([](LoadtestFlags* flags) {
                                   flags->out_dtype = "fp32";
                                 }).request;
  EXPECT_EQ(request.a_type, FloatType::kFloat16);
  EXPECT_EQ(request.c_type, FloatType::kFloat32);
}

TEST(ParseLoadtestOptionsTest, ModeIgnoresCase) {
  EXPECT_EQ(
      ParseWith([](LoadtestFlags* flags) { flags->mode = "a8"; }).request.mode,
      ComputeMode::kA8);
}

TEST(ParseLoadtestOptionsTest, ADeadlineStandsBesideTheTimeout) {
  const RequestOptions request = ParseWith([](LoadtestFlags* flags) {
                                   flags->deadline = absl::Milliseconds(5);
                                 }).request;
  EXPECT_EQ(request.deadline, absl::Milliseconds(5));
  EXPECT_EQ(request.timeout, absl::Seconds(30));
}

TEST(ParseLoadtestOptionsTest,
     TheNullTransportGoesWithNothingThatNeedsAServer) {
  LoadtestFlags flags = ValidFlags();
  flags.transport = "null";
  EXPECT_EQ(Parse(flags).transport, TransportKind::kNull);
  for (const auto& change : std::vector<void (*)(LoadtestFlags*)>{
           [](LoadtestFlags* f) { f->verify = "all"; },
           [](LoadtestFlags* f) { f->yardstick = true; },
           [](LoadtestFlags* f) { f->churn = "64x64"; },
           [](LoadtestFlags* f) {
             f->synthetic.clear();
             f->weights = "name";
           }}) {
    LoadtestFlags wrong = flags;
    change(&wrong);
    const absl::Status status = ParseLoadtestOptions(wrong, Host()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("--transport=null"));
  }
}

TEST(ParseLoadtestOptionsTest, DisturbancesAreTakenAsGiven) {
  const RequestOptions request = ParseWith([](LoadtestFlags* flags) {
                                   flags->cancel_rate = 0.25;
                                   flags->cancel_within = absl::Milliseconds(7);
                                   flags->disconnect_rate = 3;
                                   flags->allow_errors =
                                       "UNAVAILABLE,RESOURCE_EXHAUSTED";
                                 }).request;
  EXPECT_EQ(request.disturbances.cancel_share, 0.25);
  EXPECT_EQ(request.disturbances.cancel_within, absl::Milliseconds(7));
  EXPECT_EQ(request.disturbances.disconnects_per_second, 3);
  EXPECT_THAT(request.allowed_errors,
              ElementsAre(absl::StatusCode::kResourceExhausted,
                          absl::StatusCode::kUnavailable));
}

TEST(ParseLoadtestOptionsTest, EveryStatusCodeMayBeAllowed) {
  for (int i = 1; i <= 16; ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    const LoadtestOptions options = ParseWith([&](LoadtestFlags* flags) {
      flags->allow_errors = absl::StatusCodeToString(code);
    });
    EXPECT_THAT(options.request.allowed_errors, ElementsAre(code));
  }
}

TEST(ParseLoadtestOptionsTest, ARateMakesArrivalsOpen) {
  const LoadtestOptions options =
      ParseWith([](LoadtestFlags* flags) { flags->rate = "500:10s,1000"; });
  ASSERT_TRUE(options.arrivals.is_open());
  ASSERT_TRUE(options.arrivals.rate.has_value());
  EXPECT_EQ(options.arrivals.rate->RateAt(absl::Seconds(11)), 1000);
  EXPECT_EQ(options.arrivals.process.kind, ArrivalKind::kPoisson);
  EXPECT_EQ(options.arrivals.concurrency, kOpenInFlight);
}

TEST(ParseLoadtestOptionsTest, ConcurrencyBoundsOpenArrivals) {
  const LoadtestOptions options = ParseWith([](LoadtestFlags* flags) {
    flags->rate = "500";
    flags->arrivals = "gamma:2";
    flags->concurrency = 7;
  });
  EXPECT_EQ(options.arrivals.concurrency, 7);
  EXPECT_EQ(options.arrivals.process.variation, 2);
}

TEST(ParseLoadtestOptionsTest, ATraceIsReadAsItIs) {
  const LoadtestOptions options =
      ParseWith([](LoadtestFlags* flags) { flags->arrivals = "trace:/trace"; });
  ASSERT_NE(options.arrivals.trace, nullptr);
  EXPECT_TRUE(options.arrivals.is_open());
  EXPECT_EQ(options.arrivals.trace->offsets.size(), 5);
  EXPECT_EQ(options.arrivals.trace_scale, 1);
  EXPECT_EQ(options.arrivals.concurrency, kOpenInFlight);
}

TEST(ParseLoadtestOptionsTest, ARateScalesATrace) {
  const LoadtestOptions options = ParseWith([](LoadtestFlags* flags) {
    flags->arrivals = "trace:/trace";
    flags->rate = "20";
  });
  EXPECT_EQ(options.arrivals.trace_scale, 0.1);  // from 5 / 2.5 s
  EXPECT_FALSE(options.arrivals.rate.has_value());
}

TEST(ParseLoadtestOptionsTest, ATraceThatIsNotThereIsTheReadersError) {
  LoadtestFlags flags = ValidFlags();
  flags.arrivals = "trace:/none";
  const absl::Status status = ParseLoadtestOptions(flags, Host()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/none"));
}

TEST(ParseLoadtestOptionsTest, ChurnHasAShapeAndARate) {
  const LoadtestOptions options = ParseWith([](LoadtestFlags* flags) {
    flags->churn = "64x32";
    flags->churn_rate = 2.5;
  });
  ASSERT_TRUE(options.churn.shape.has_value());
  EXPECT_EQ(options.churn.shape->k, 64);
  EXPECT_EQ(options.churn.shape->n, 32);
  EXPECT_EQ(options.churn.per_second, 2.5);
}

TEST(ParseLoadtestOptionsTest, TheLiveLineIsForTerminals) {
  const auto live = [](const std::string& text, bool terminal) {
    LoadtestFlags flags = ValidFlags();
    flags.live = text;
    LoadtestHost host = Host();
    host.terminal = terminal;
    return Parse(flags, host).output.live;
  };
  EXPECT_TRUE(live("auto", true));
  EXPECT_FALSE(live("auto", false));
  EXPECT_TRUE(live("on", false));
  EXPECT_FALSE(live("off", true));
}

TEST(ParseLoadtestOptionsTest, OutputsAreTakenAsGiven) {
  const OutputOptions output = ParseWith([](LoadtestFlags* flags) {
                                 flags->json = "1";
                                 flags->hgrm = "2";
                                 flags->title = "3";
                               }).output;
  EXPECT_EQ(output.json + output.hgrm + output.title, "123");
}

TEST(ParseLoadtestOptionsTest, ThePeakOfAnSloMayBeSearched) {
  const LoadtestOptions options = ParseWith([](LoadtestFlags* flags) {
    flags->find_peak = true;
    flags->slo = "p99=1ms";
    flags->rate = "100";
  });
  EXPECT_TRUE(options.find_peak);
  EXPECT_EQ(options.slo.size(), 1);
}

TEST(NameTest, NamesAreThoseOfTheFlags) {
  EXPECT_EQ(Name(VerifyMode::kNone), "none");
  EXPECT_EQ(Name(VerifyMode::kSample), "sample");
  EXPECT_EQ(Name(VerifyMode::kAll), "all");
  EXPECT_EQ(Name(TransportKind::kTcp), "tcp");
  EXPECT_EQ(Name(TransportKind::kUnix), "unix");
  EXPECT_EQ(Name(TransportKind::kStream), "stream");
  EXPECT_EQ(Name(TransportKind::kNull), "null");
}

}  // namespace
}  // namespace qgemm
