// SPDX-License-Identifier: Apache-2.0
//
// Flags into options, their bounds, and the table of docs/operations.md.

#include "server/server_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "flags/command_line.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Parses into `options`, which keeps its defaults for other flags.
absl::Status Parse(const std::vector<std::string>& arguments,
                   ServerOptions* options) {
  return flags::ParseArguments(MakeServerApp(options).get(), arguments);
}

TEST(ServerFlagsTest, DefaultsAreTheOptions) {
  ServerOptions options;
  ASSERT_TRUE(Parse({}, &options).ok());
  EXPECT_THAT(options.listen, ElementsAre("127.0.0.1:50051"));
  EXPECT_TRUE(Validate(options).ok());
}

TEST(ServerFlagsTest, ListenMayBeRepeatedAndHoldCommas) {
  ServerOptions options;
  const absl::Status status = Parse(
      {"--listen=127.0.0.1:0,localhost:0", "--listen", "unix:a=b"}, &options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(options.listen,
              ElementsAre("127.0.0.1:0", "localhost:0", "unix:a=b"));
}

TEST(ServerFlagsTest, SetsSchedulingAndDebugging) {
  ServerOptions options;
  const absl::Status status =
      Parse({"--enable_freeze", "--batching=off", "--batch_policy=chase",
             "--batch_age_cap=3ms", "--max_client_queued_rows=5",
             "--max_client_queued_bytes=6KiB", "--weights_budget_bytes=16GB"},
            &options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_FALSE(options.batching);
  EXPECT_EQ(options.scheduler.policy.order, BatchOrder::kChase);
  EXPECT_EQ(options.scheduler.policy.age_cap, absl::Milliseconds(3));
  EXPECT_EQ(options.scheduler.max_client_queued_rows, 5);
  EXPECT_EQ(options.scheduler.max_client_queued_bytes, 6144);
  EXPECT_EQ(options.weights_budget_bytes, 16'000'000'000);
  EXPECT_FALSE(options.enable_echo);
  EXPECT_TRUE(options.enable_freeze);
}

TEST(ServerFlagsTest, HandsTheChoiceOfKernelsToTheBackend) {
  ServerOptions options;
  const absl::Status status =
      Parse({"--backend=cpu", "--kernel=cublas", "--tuning_file=/some/file"},
            &options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(options.backend.cuda.kernel, cuda::KernelPath::kCublas);
  EXPECT_EQ(options.backend.cuda.tuning_file, "/some/file");
  EXPECT_EQ(CreateBackend(options.backend).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ServerFlagsTest, RefusesUnknownChoices) {
  ServerOptions options;
  EXPECT_THAT(Parse({"--batching=sometimes"}, &options).message(),
              HasSubstr("--batching = sometimes"));
  EXPECT_THAT(Parse({"--batch_policy=random"}, &options).message(),
              HasSubstr("--batch_policy = random"));
  EXPECT_THAT(Parse({"--kernel=medium"}, &options).message(),
              HasSubstr("--kernel = medium"));
}

TEST(ValidateTest, NamesTheFlagItsValueAndItsBounds) {
  ServerOptions options;
  options.max_uploads = 65;
  absl::Status status = Validate(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "--max_uploads = 65 is not between 1 and 64");
  options = ServerOptions();
  options.scheduler.policy.age_cap = absl::Hours(1);
  status = Validate(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("--batch_age_cap = 1h"));
  options = ServerOptions();
  options.idle_timeout = absl::Milliseconds(99);
  EXPECT_THAT(Validate(options).message(),
              HasSubstr("--idle_timeout = 99ms is not between 100ms and 24h"));
  options = ServerOptions();
  options.max_streams = 0;
  EXPECT_THAT(Validate(options).message(), HasSubstr("--max_streams = 0"));
  options = ServerOptions();
  options.listen.clear();
  EXPECT_THAT(Validate(options).message(), HasSubstr("--listen"));
  options = ServerOptions();
  options.launch_timeout = absl::Milliseconds(999);
  EXPECT_THAT(Validate(options).message(),
              HasSubstr("--launch_timeout = 999ms is below 1s"));
  options.launch_timeout = absl::ZeroDuration();
  EXPECT_TRUE(Validate(options).ok());
}

// Defaults by flag, from the first two columns of the page's table. A row may
// name several flags and their defaults.
std::map<std::string, std::string> DocumentedDefaults() {
  std::ifstream page("docs/operations.md");
  std::map<std::string, std::string> defaults;
  bool in_table = false;
  for (std::string line; std::getline(page, line);) {
    in_table = absl::StartsWith(line, "|") &&
               (in_table || absl::StartsWith(line, "| flag | default |"));
    if (!in_table || !absl::StartsWith(line, "| `--")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    const std::vector<std::string> names = absl::StrSplit(cells[1], ',');
    const std::vector<std::string> values = absl::StrSplit(cells[2], ',');
    for (size_t i = 0; i < names.size(); ++i) {
      const auto strip = [](absl::string_view cell) {
        cell = absl::StripAsciiWhitespace(cell);
        absl::ConsumePrefix(&cell, "`");
        absl::ConsumeSuffix(&cell, "`");
        return std::string(cell);
      };
      defaults[strip(names[i])] =
          strip(values.size() == 1 ? values[0] : values[i]);
    }
  }
  return defaults;
}

TEST(ValidateTest, AsksForAllThatATlsAddressNeeds) {
  const std::vector<std::string> needed = {
      "--tls_cert=a", "--tls_key=b", "--tls_client_ca=c", "--access_table=d"};
  for (size_t missing = 0; missing < needed.size(); ++missing) {
    ServerOptions options;
    std::vector<std::string> arguments = needed;
    arguments.erase(arguments.begin() + static_cast<int>(missing));
    arguments.push_back("--listen=127.0.0.1:1,tls:0.0.0.0:2");
    ASSERT_TRUE(Parse(arguments, &options).ok());
    const absl::Status status = Validate(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    const std::string flag =
        needed[missing].substr(0, needed[missing].find('='));
    EXPECT_THAT(status.message(), HasSubstr("\"tls:0.0.0.0:2\" needs " + flag));
  }
  ServerOptions options;
  std::vector<std::string> arguments = needed;
  arguments.push_back("--listen=tls:0.0.0.0:2");
  ASSERT_TRUE(Parse(arguments, &options).ok());
  EXPECT_TRUE(Validate(options).ok());
}

TEST(OperationsDocTest, TablesFlagsAndDefaultsAreTheServers) {
  const std::map<std::string, std::string> documented = DocumentedDefaults();
  ASSERT_FALSE(documented.empty());
  ServerOptions options;
  std::map<std::string, std::string> actual;
  const std::unique_ptr<CLI::App> app = MakeServerApp(&options);
  for (const CLI::Option* const option : app->get_options()) {
    const std::string name = absl::StrCat("--", option->get_lnames().front());
    if (name == "--help" || name == "--version" || name == "--config" ||
        name == "--completion") {
      continue;
    }
    const bool is_switch = option->get_expected_max() == 0;
    const std::string value = option->get_default_str();
    actual[name] = is_switch       ? (value == "true" ? "on" : "off")
                   : value.empty() ? "none"
                                   : value;
  }
  EXPECT_EQ(documented, actual);
}

}  // namespace
}  // namespace qgemm
