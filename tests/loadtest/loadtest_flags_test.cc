// SPDX-License-Identifier: Apache-2.0
//
// The command line: how arguments are read, and that every flag reaches its
// member.

#include "loadtest/loadtest_flags.h"

#include <sys/wait.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using testing::HasSubstr;

// Leaves the flags as they were.
absl::StatusOr<LoadtestFlags> Read(std::vector<std::string> arguments) {
  const absl::FlagSaver saver;
  arguments.insert(arguments.begin(), "qgemm_loadtest");
  std::vector<char*> argv;
  for (std::string& each : arguments) argv.push_back(each.data());
  return ReadLoadtestFlags(static_cast<int>(argv.size()), argv.data());
}

LoadtestFlags ReadGood(const std::vector<std::string>& arguments) {
  const absl::StatusOr<LoadtestFlags> flags = Read(arguments);
  EXPECT_TRUE(flags.ok()) << flags.status();
  return flags.ok() ? *flags : LoadtestFlags();
}

// All members. Does not compile if one is added or taken away.
auto MembersOf(const LoadtestFlags& flags) {
  const auto& [server, transport, connect_timeout, channels, threads, weights,
               synthetic, walk, walk_blocks, layers, format, zipf, setup,
               teardown, m, prefill_m, prefill_clients, dtype, out_dtype, mode,
               priority, client_id, inputs, concurrency, think, rate, arrivals,
               max_lag, duration, warmup, timeout, deadline, cancel_rate,
               cancel_within, disconnect_rate, churn, churn_rate, allow_errors,
               yardstick, sweep, find_peak, slo, verify, seed, json, hgrm,
               title, live] = flags;
  return std::make_tuple(
      server, transport, connect_timeout, channels, threads, weights, synthetic,
      walk, walk_blocks, layers, format, zipf, setup, teardown, m, prefill_m,
      prefill_clients, dtype, out_dtype, mode, priority, client_id, inputs,
      concurrency, think, rate, arrivals, max_lag, duration, warmup, timeout,
      deadline, cancel_rate, cancel_within, disconnect_rate, churn, churn_rate,
      allow_errors, yardstick, sweep, find_peak, slo, verify, seed, json, hgrm,
      title, live);
}

using Members = decltype(MembersOf(LoadtestFlags()));
constexpr size_t kMembers = std::tuple_size_v<Members>;

template <size_t... kIndices>
std::set<size_t> Differences(const Members& a, const Members& b,
                             std::index_sequence<kIndices...>) {
  std::set<size_t> different;
  ((std::get<kIndices>(a) != std::get<kIndices>(b)
        ? void(different.insert(kIndices))
        : void()),
   ...);
  return different;
}

std::set<size_t> Differences(const LoadtestFlags& a, const LoadtestFlags& b) {
  return Differences(MembersOf(a), MembersOf(b),
                     std::make_index_sequence<kMembers>());
}

// A value other than `value` that a flag of its type takes.
std::string OtherThan(const std::string& value) {
  if (value == "true") return "false";
  if (value == "false") return "true";
  return value == "7s" ? "8s" : "7s";
}

// The flag takes "7s", or is a number.
LoadtestFlags ReadWithOther(const std::string& name, const std::string& value) {
  absl::StatusOr<LoadtestFlags> flags =
      Read({absl::StrCat("--", name, "=", OtherThan(value))});
  if (!flags.ok()) flags = Read({absl::StrCat("--", name, "=77")});
  EXPECT_TRUE(flags.ok()) << name << ": " << flags.status();
  return flags.ok() ? *flags : LoadtestFlags();
}

TEST(LoadtestFlagsTest, DefaultsAreThoseOfTheStruct) {
  EXPECT_EQ(MembersOf(ReadGood({})), MembersOf(LoadtestFlags()));
}

TEST(LoadtestFlagsTest, EveryFlagReachesAMemberOfItsOwn) {
  std::set<size_t> reached;
  for (const auto& [name, value] : FlagValues()) {
    const std::set<size_t> different =
        Differences(ReadWithOther(name, value), LoadtestFlags());
    ASSERT_EQ(different.size(), 1) << name;
    EXPECT_TRUE(reached.insert(*different.begin()).second) << name;
  }
  EXPECT_EQ(reached.size(), kMembers);
}

TEST(LoadtestFlagsTest, FlagsReachTheMembersOfTheirNames) {
  const LoadtestFlags flags = ReadGood(
      {"--server=h:1", "--m=2", "--rate=3", "--concurrency=4", "--seed=5",
       "--prefill_m=6", "--zipf=0.5", "--think=7ms", "--setup=false"});
  EXPECT_EQ(flags.server, "h:1");
  EXPECT_EQ(flags.m, "2");
  EXPECT_EQ(flags.rate, "3");
  EXPECT_EQ(flags.concurrency, 4);
  EXPECT_EQ(flags.seed, 5);
  EXPECT_EQ(flags.prefill_m, 6);
  EXPECT_EQ(flags.zipf, 0.5);
  EXPECT_EQ(flags.think, absl::Milliseconds(7));
  EXPECT_FALSE(flags.setup);
}

TEST(LoadtestFlagsTest, AValueMayBeTheNextArgument) {
  const LoadtestFlags flags = ReadGood({"--server", "h:1", "--m", "-3"});
  EXPECT_EQ(flags.server, "h:1");
  EXPECT_EQ(flags.m, "-3");
}

TEST(LoadtestFlagsTest, AValueMayHaveEqualsSignsOrBeEmpty) {
  const LoadtestFlags flags = ReadGood({"--slo=p99=1ms,p50=2ms", "--server="});
  EXPECT_EQ(flags.slo, "p99=1ms,p50=2ms");
  EXPECT_EQ(flags.server, "");
}

TEST(LoadtestFlagsTest, ABoolNeedsNoValue) {
  const LoadtestFlags flags =
      ReadGood({"--yardstick", "--nosetup", "--noteardown", "--find_peak"});
  EXPECT_TRUE(flags.yardstick);
  EXPECT_TRUE(flags.find_peak);
  EXPECT_FALSE(flags.setup);
  EXPECT_FALSE(flags.teardown);
}

TEST(LoadtestFlagsTest, ABoolDoesNotTakeTheNextArgument) {
  EXPECT_EQ(Read({"--yardstick", "false"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LoadtestFlagsTest, TheLastOfAFlagCounts) {
  EXPECT_EQ(ReadGood({"--m=1", "--m=2"}).m, "2");
}

// That reading `arguments` fails, and the message names `named`.
void ExpectRefused(const std::vector<std::string>& arguments,
                   const std::string& named) {
  const absl::Status status = Read(arguments).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << named;
  EXPECT_THAT(std::string(status.message()), HasSubstr(named));
}

TEST(LoadtestFlagsTest, UnknownFlagsAreRefused) {
  ExpectRefused({"--nonsense=1"}, "--nonsense=1");
  ExpectRefused({"--nonsense"}, "--nonsense");
  ExpectRefused({"--"}, "--");
  ExpectRefused({"--=1"}, "--=1");
  ExpectRefused({"--no"}, "--no");
}

TEST(LoadtestFlagsTest, OnlyBoolsHaveANegative) {
  ExpectRefused({"--noserver"}, "--noserver");
  ExpectRefused({"--nosetup=true"}, "--nosetup=true");
}

TEST(LoadtestFlagsTest, OtherArgumentsAreRefused) {
  ExpectRefused({"fast"}, "fast");
  ExpectRefused({"-m=1"}, "-m=1");
  ExpectRefused({""}, "unexpected argument");
}

TEST(LoadtestFlagsTest, AMissingValueIsRefused) {
  ExpectRefused({"--m=1", "--server"}, "--server needs a value");
}

TEST(LoadtestFlagsTest, ValuesOfTheWrongTypeAreRefused) {
  ExpectRefused({"--concurrency=many"}, "--concurrency=many");
  ExpectRefused({"--concurrency=99999999999"}, "--concurrency=99999999999");
  ExpectRefused({"--duration=10"}, "--duration=10");
  ExpectRefused({"--seed=-1"}, "--seed=-1");
  ExpectRefused({"--setup=maybe"}, "--setup=maybe");
  ExpectRefused({"--zipf="}, "--zipf=");
}

// Abseil has flags of its own, which its parser would take.
TEST(LoadtestFlagsTest, FlagsOfLibrariesAreUnknown) {
  ExpectRefused({"--flagfile=x"}, "--flagfile");
  ExpectRefused({"--undefok=x"}, "--undefok");
}

TEST(LoadtestFlagsDeathTest, HelpEndsTheProgramWhereverItStands) {
  const auto exits = [](int status) { return WIFEXITED(status); };
  EXPECT_EXIT(ReadGood({"--help"}), exits, "");
  EXPECT_EXIT(ReadGood({"--m=2", "--help"}), exits, "");
}

TEST(FlagValuesTest, AreInAlphabeticalOrderWithTheValuesInEffect) {
  const absl::FlagSaver saver;
  char program[] = "qgemm_loadtest";
  char argument[] = "--concurrency=17";
  char* argv[] = {program, argument};
  ASSERT_TRUE(ReadLoadtestFlags(2, argv).ok());
  const auto values = FlagValues();
  EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
  EXPECT_EQ(values.size(), kMembers);
  EXPECT_THAT(values, testing::Contains(std::pair<std::string, std::string>(
                          "concurrency", "17")));
}

}  // namespace
}  // namespace qgemm
