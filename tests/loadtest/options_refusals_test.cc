// SPDX-License-Identifier: Apache-2.0
//
// ParseLoadtestOptions: what is refused, and that the flag is named.

#include <functional>
#include <limits>
#include <ostream>
#include <string>

#include "loadtest/options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/loadtest/loadtest_flags_fixture.h"

namespace qgemm {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct BadFlagCase {
  std::string named;  // what the message must name
  std::function<void(LoadtestFlags*)> spoil;
};

void PrintTo(const BadFlagCase& bad, std::ostream* out) { *out << bad.named; }

class BadFlags : public testing::TestWithParam<BadFlagCase> {};

TEST_P(BadFlags, AreRefusedByName) {
  LoadtestFlags flags = ValidFlags();
  GetParam().spoil(&flags);
  const auto options = ParseLoadtestOptions(flags, Host());
  ASSERT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument)
      << GetParam().named << ": " << options.status();
  EXPECT_THAT(std::string(options.status().message()),
              HasSubstr(GetParam().named));
}

void Walk(LoadtestFlags* flags, const std::string& model) {
  flags->synthetic.clear();
  flags->walk = model;
}

INSTANTIATE_TEST_SUITE_P(
    OfTheServer, BadFlags,
    testing::Values(
        BadFlagCase{"--server=", [](auto* f) { f->server.clear(); }},
        BadFlagCase{"--transport=udp", [](auto* f) { f->transport = "udp"; }},
        BadFlagCase{"--transport=", [](auto* f) { f->transport.clear(); }},
        BadFlagCase{"--transport=tcp", [](auto* f) { f->transport = "tcp"; }},
        BadFlagCase{"--transport=unix",
                    [](auto* f) {
                      f->server = "host:1";
                      f->transport = "unix";
                    }},
        BadFlagCase{"--channels=-1", [](auto* f) { f->channels = -1; }},
        BadFlagCase{"--channels=257", [](auto* f) { f->channels = 257; }},
        BadFlagCase{"--threads=-1", [](auto* f) { f->threads = -1; }},
        BadFlagCase{"--threads=65", [](auto* f) { f->threads = 65; }}));

INSTANTIATE_TEST_SUITE_P(
    OfLayers, BadFlags,
    testing::Values(
        BadFlagCase{"--weights", [](auto* f) { f->weights = "layer"; }},
        BadFlagCase{"--walk", [](auto* f) { f->walk = "llama3-8b"; }},
        BadFlagCase{"--synthetic", [](auto* f) { f->synthetic.clear(); }},
        BadFlagCase{"--weights=,",
                    [](auto* f) {
                      f->synthetic.clear();
                      f->weights = ",";
                    }},
        BadFlagCase{"--synthetic=64", [](auto* f) { f->synthetic = "64"; }},
        BadFlagCase{"--synthetic=0x5", [](auto* f) { f->synthetic = "0x5"; }},
        BadFlagCase{"--synthetic=5x0", [](auto* f) { f->synthetic = "5x0"; }},
        BadFlagCase{"--synthetic=-5x5", [](auto* f) { f->synthetic = "-5x5"; }},
        BadFlagCase{"--synthetic=1x2x3",
                    [](auto* f) { f->synthetic = "1x2x3"; }},
        BadFlagCase{"--synthetic=", [](auto* f) { f->synthetic = "64x64,"; }},
        BadFlagCase{"--synthetic=1048577x1",
                    [](auto* f) { f->synthetic = "1048577x1"; }},
        BadFlagCase{"--layers=0", [](auto* f) { f->layers = 0; }},
        BadFlagCase{"--layers=10001", [](auto* f) { f->layers = 10001; }},
        BadFlagCase{"--walk=gpt", [](auto* f) { Walk(f, "gpt"); }},
        BadFlagCase{"line 1", [](auto* f) { Walk(f, "/bad"); }},
        BadFlagCase{"--walk_blocks=-1",
                    [](auto* f) {
                      Walk(f, "/model");
                      f->walk_blocks = -1;
                    }},
        BadFlagCase{"--zipf and --walk",
                    [](auto* f) {
                      Walk(f, "/model");
                      f->zipf = 1;
                    }},
        BadFlagCase{"--zipf=-1", [](auto* f) { f->zipf = -1; }},
        BadFlagCase{"--zipf=5.5", [](auto* f) { f->zipf = 5.5; }},
        BadFlagCase{"--zipf=nan", [](auto* f) { f->zipf = kNan; }}));

INSTANTIATE_TEST_SUITE_P(
    OfRequests, BadFlags,
    testing::Values(
        BadFlagCase{"--m=0", [](auto* f) { f->m = "0"; }},
        BadFlagCase{"--m=", [](auto* f) { f->m = ""; }},
        BadFlagCase{"--prefill_m=0", [](auto* f) { f->prefill_m = 0; }},
        BadFlagCase{"--prefill_m=1048577",
                    [](auto* f) { f->prefill_m = 1048577; }},
        BadFlagCase{"--prefill_clients=-1",
                    [](auto* f) { f->prefill_clients = -1; }},
        BadFlagCase{"--prefill_clients=65537",
                    [](auto* f) { f->prefill_clients = 65537; }},
        BadFlagCase{"--dtype=int8", [](auto* f) { f->dtype = "int8"; }},
        BadFlagCase{"--dtype=", [](auto* f) { f->dtype = ""; }},
        BadFlagCase{"--out_dtype=q", [](auto* f) { f->out_dtype = "q"; }},
        BadFlagCase{"--priority=urgent",
                    [](auto* f) { f->priority = "urgent"; }},
        BadFlagCase{"--mode=A4", [](auto* f) { f->mode = "A4"; }},
        BadFlagCase{"--inputs=0", [](auto* f) { f->inputs = 0; }},
        BadFlagCase{"--inputs=4097", [](auto* f) { f->inputs = 4097; }},
        BadFlagCase{"--timeout=0",
                    [](auto* f) { f->timeout = absl::ZeroDuration(); }},
        BadFlagCase{"--timeout=inf",
                    [](auto* f) { f->timeout = absl::InfiniteDuration(); }},
        BadFlagCase{"--deadline=-1s",
                    [](auto* f) { f->deadline = -absl::Seconds(1); }},
        BadFlagCase{"--cancel_rate=-0.1",
                    [](auto* f) { f->cancel_rate = -0.1; }},
        BadFlagCase{"--cancel_rate=1.1", [](auto* f) { f->cancel_rate = 1.1; }},
        BadFlagCase{"--cancel_rate=nan",
                    [](auto* f) { f->cancel_rate = kNan; }},
        BadFlagCase{"--cancel_within=-1s",
                    [](auto* f) { f->cancel_within = -absl::Seconds(1); }},
        BadFlagCase{"--disconnect_rate=-1",
                    [](auto* f) { f->disconnect_rate = -1; }},
        BadFlagCase{"--disconnect_rate=1001",
                    [](auto* f) { f->disconnect_rate = 1001; }},
        BadFlagCase{"--allow_errors=OK",
                    [](auto* f) { f->allow_errors = "OK"; }},
        BadFlagCase{"--allow_errors=unavailable",
                    [](auto* f) { f->allow_errors = "ABORTED,unavailable"; }}));

INSTANTIATE_TEST_SUITE_P(
    OfArrivals, BadFlags,
    testing::Values(
        BadFlagCase{"--concurrency=-1", [](auto* f) { f->concurrency = -1; }},
        BadFlagCase{"--concurrency=65537",
                    [](auto* f) { f->concurrency = 65537; }},
        BadFlagCase{"--think=-1s",
                    [](auto* f) { f->think = -absl::Seconds(1); }},
        BadFlagCase{"--think and --rate",
                    [](auto* f) {
                      f->think = absl::Seconds(1);
                      f->rate = "100";
                    }},
        BadFlagCase{"--rate=fast", [](auto* f) { f->rate = "fast"; }},
        BadFlagCase{"--rate=0", [](auto* f) { f->rate = "0"; }},
        BadFlagCase{"--arrivals=often", [](auto* f) { f->arrivals = "often"; }},
        BadFlagCase{"line 1", [](auto* f) { f->arrivals = "trace:/bad"; }},
        BadFlagCase{"--rate=1..2:3s",
                    [](auto* f) {
                      f->arrivals = "trace:/trace";
                      f->rate = "1..2:3s";
                    }},
        BadFlagCase{"trace",
                    [](auto* f) {
                      f->arrivals = "trace:/still";
                      f->rate = "10";
                    }},
        BadFlagCase{"--max_lag=0",
                    [](auto* f) { f->max_lag = absl::ZeroDuration(); }},
        BadFlagCase{"--duration=-1s",
                    [](auto* f) { f->duration = -absl::Seconds(1); }},
        BadFlagCase{"--duration=inf",
                    [](auto* f) { f->duration = absl::InfiniteDuration(); }},
        BadFlagCase{"--warmup=-1s",
                    [](auto* f) { f->warmup = -absl::Seconds(1); }}));

INSTANTIATE_TEST_SUITE_P(
    OfSearchesAndOutput, BadFlags,
    testing::Values(
        BadFlagCase{"--churn=64", [](auto* f) { f->churn = "64"; }},
        BadFlagCase{"--churn_rate=0",
                    [](auto* f) {
                      f->churn = "64x64";
                      f->churn_rate = 0;
                    }},
        BadFlagCase{"--churn_rate=1001",
                    [](auto* f) {
                      f->churn = "64x64";
                      f->churn_rate = 1001;
                    }},
        BadFlagCase{"--sweep=rows", [](auto* f) { f->sweep = "rows=1"; }},
        BadFlagCase{"--sweep=rate=no", [](auto* f) { f->sweep = "rate=1,no"; }},
        BadFlagCase{"--sweep=m=0", [](auto* f) { f->sweep = "m=1,0"; }},
        BadFlagCase{"--sweep=concurrency=0",
                    [](auto* f) { f->sweep = "concurrency=1,0"; }},
        BadFlagCase{"--sweep=concurrency=x",
                    [](auto* f) { f->sweep = "concurrency=x"; }},
        BadFlagCase{"--sweep=concurrency=65537",
                    [](auto* f) { f->sweep = "concurrency=65537"; }},
        BadFlagCase{"--sweep=rate and --think",
                    [](auto* f) {
                      f->sweep = "rate=1,2";
                      f->think = absl::Seconds(1);
                    }},
        BadFlagCase{"--find_peak and --think",
                    [](auto* f) {
                      f->find_peak = true;
                      f->slo = "p99=1ms";
                      f->think = absl::Seconds(1);
                    }},
        BadFlagCase{"--slo", [](auto* f) { f->slo = "p99"; }},
        BadFlagCase{"--find_peak", [](auto* f) { f->find_peak = true; }},
        BadFlagCase{"--find_peak and --sweep",
                    [](auto* f) {
                      f->find_peak = true;
                      f->slo = "p99=1ms";
                      f->sweep = "m=1,2";
                    }},
        BadFlagCase{"--find_peak and a trace",
                    [](auto* f) {
                      f->find_peak = true;
                      f->slo = "p99=1ms";
                      f->arrivals = "trace:/trace";
                    }},
        BadFlagCase{"--sweep=rate and a trace",
                    [](auto* f) {
                      f->sweep = "rate=1,2";
                      f->arrivals = "trace:/trace";
                    }},
        BadFlagCase{"--verify=some", [](auto* f) { f->verify = "some"; }},
        BadFlagCase{"--live=maybe", [](auto* f) { f->live = "maybe"; }}));

}  // namespace
}  // namespace qgemm
