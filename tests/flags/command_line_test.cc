// SPDX-License-Identifier: Apache-2.0

#include "flags/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

namespace qgemm::flags {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Kernel { kAuto, kDecode };

struct Options {
  std::string name = "none";
  int64_t rows = 8;
  int64_t bytes = int64_t{64} << 20;
  double rate = 0.5;
  absl::Duration timeout = absl::Seconds(30);
  Kernel kernel = Kernel::kAuto;
  bool verify = false;
  std::vector<std::string> listen = {"a", "b"};
  std::optional<int64_t> seed;
};

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() : app_(MakeApp("multiplies.", "program")) {
    AddOption(app_.get(), "name", &options_.name, "Name");
    AddOption(app_.get(), "rows", &options_.rows, "Rows");
    AddBytes(app_.get(), "max_bytes", &options_.bytes, "Bytes");
    AddOption(app_.get(), "rate", &options_.rate, "Rate");
    AddDuration(app_.get(), "timeout", &options_.timeout, "Timeout");
    AddChoice(app_.get(), "kernel", &options_.kernel,
              {{"auto", Kernel::kAuto}, {"decode", Kernel::kDecode}}, "Kernel");
    AddSwitch(app_.get(), "verify", &options_.verify, "Verify");
    AddOption(app_.get(), "listen", &options_.listen, "Addresses");
    AddOption(app_.get(), "seed", &options_.seed, "Seed");
  }

  absl::Status Parse(const std::vector<std::string>& arguments) {
    return ParseArguments(app_.get(), arguments);
  }
  std::string ErrorOf(const std::string& argument) {
    const absl::Status status = Parse({argument});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << argument;
    return std::string(status.message());
  }

  Options options_;
  const std::unique_ptr<CLI::App> app_;
};

TEST_F(CommandLineTest, KeepsDefaultsWithoutArguments) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(options_.rows, 8);
  EXPECT_THAT(options_.listen, ElementsAre("a", "b"));
  EXPECT_FALSE(options_.seed.has_value());
}

TEST_F(CommandLineTest, ReadsEveryKindOfValue) {
  const absl::Status status =
      Parse({"--name=x", "--rows=-3", "--max_bytes=16GB", "--rate=2.5",
             "--timeout=250ms", "--kernel=decode", "--verify", "--listen=c,d",
             "--listen=e", "--seed=7"});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(options_.name, "x");
  EXPECT_EQ(options_.rows, -3);
  EXPECT_EQ(options_.bytes, 16'000'000'000);
  EXPECT_EQ(options_.rate, 2.5);
  EXPECT_EQ(options_.timeout, absl::Milliseconds(250));
  EXPECT_EQ(options_.kernel, Kernel::kDecode);
  EXPECT_TRUE(options_.verify);
  EXPECT_THAT(options_.listen, ElementsAre("c", "d", "e"));
  EXPECT_EQ(options_.seed, 7);
}

TEST_F(CommandLineTest, TakesTheLastOfSeveral) {
  ASSERT_TRUE(
      Parse({"--rows=1", "--verify", "--rows", "2", "--verify=false"}).ok());
  EXPECT_EQ(options_.rows, 2);
  EXPECT_FALSE(options_.verify);
}

TEST_F(CommandLineTest, TakesAnEmptyValue) {
  ASSERT_TRUE(Parse({"--name=", "--rows=4", "--listen="}).ok());
  EXPECT_EQ(options_.name, "");
  EXPECT_EQ(options_.rows, 4);
  EXPECT_THAT(options_.listen, IsEmpty());
}

TEST_F(CommandLineTest, RefusesWithTheNameTheValueAndWhatIsAllowed) {
  EXPECT_THAT(ErrorOf("--rows=many"),
              HasSubstr("--rows = many is not a whole number from"));
  EXPECT_THAT(ErrorOf("--rows=99999999999999999999"),
              HasSubstr("is not a whole number from"));
  EXPECT_THAT(ErrorOf("--rate=nan"), HasSubstr("is not a finite number"));
  EXPECT_THAT(ErrorOf("--max_bytes=16G"), HasSubstr("write 4096, 64MiB"));
  EXPECT_THAT(ErrorOf("--max_bytes=-1"), HasSubstr("write 4096, 64MiB"));
  EXPECT_THAT(ErrorOf("--max_bytes=9223372036854775807KB"),
              HasSubstr("is more than 2^63 - 1 bytes"));
  EXPECT_THAT(ErrorOf("--timeout=5"), HasSubstr("is not a duration"));
  EXPECT_THAT(ErrorOf("--timeout=-5s"), HasSubstr("is negative"));
  EXPECT_EQ(ErrorOf("--kernel=decod"),
            "--kernel = decod is not one of auto|decode; did you mean decode?");
  EXPECT_EQ(ErrorOf("--row=3"), "--row is not an option; did you mean --rows?");
  EXPECT_EQ(ErrorOf("--zzzzzzzz=3"), "--zzzzzzzz is not an option");
  EXPECT_THAT(ErrorOf("stray"), HasSubstr("\"stray\" is not expected"));
}

TEST_F(CommandLineTest, ShowsOptionsWithTheirDefaults) {
  const absl::Status help = Parse({"--help"});
  EXPECT_EQ(help.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(help.message()), HasSubstr("64MiB"));
  EXPECT_THAT(std::string(help.message()), HasSubstr("auto|decode"));
  const absl::Status version = Parse({"--version"});
  EXPECT_THAT(std::string(version.message()), HasSubstr("program 0."));
}

TEST_F(CommandLineTest, ReadsTheConfigFileAndPrefersTheCommandLine) {
  const std::string path = ::testing::TempDir() + "/options.toml";
  std::ofstream(path) << "rows = 5\nmax_bytes = \"1KiB\"\nverify = true\n"
                      << "listen = [\"x\", \"y\"]\n";
  const absl::Status status = Parse({"--config=" + path, "--rows=6"});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(options_.rows, 6);
  EXPECT_EQ(options_.bytes, 1024);
  EXPECT_TRUE(options_.verify);
  EXPECT_THAT(options_.listen, ElementsAre("x", "y"));
}

TEST_F(CommandLineTest, RefusesAnUnknownNameInTheConfigFile) {
  const std::string path = ::testing::TempDir() + "/unknown.toml";
  std::ofstream(path) << "rowz = 5\n";
  EXPECT_THAT(ErrorOf("--config=" + path), HasSubstr("rowz"));
}

TEST_F(CommandLineTest, ReadsTheEnvironmentUnlessTheOptionIsGiven) {
  setenv("QGEMM_ROWS", "5", 1);
  setenv("QGEMM_NAME", "from environment", 1);
  const absl::Status status = Parse({"--rows=6"});
  unsetenv("QGEMM_ROWS");
  unsetenv("QGEMM_NAME");
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(options_.rows, 6);
  EXPECT_EQ(options_.name, "from environment");
}

TEST_F(CommandLineTest, CompletesOptionsAndChoicesInBash) {
  const absl::Status script = Parse({"--completion=bash"});
  EXPECT_EQ(script.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(script.message()), HasSubstr("--max_bytes"));
  EXPECT_THAT(std::string(script.message()),
              HasSubstr("--kernel) words=\"auto decode\""));
}

TEST(CommandLine, SuggestsCommands) {
  const std::unique_ptr<CLI::App> app = MakeApp("works.", "program");
  int64_t m = 1;
  CLI::App* const gemm = app->add_subcommand("gemm", "Multiplies");
  AddOption(gemm, "m", &m, "Rows");
  app->add_subcommand("list", "Lists");
  app->require_subcommand(1);
  EXPECT_TRUE(ParseArguments(app.get(), {"gemm", "--m=3"}).ok());
  EXPECT_EQ(m, 3);
  EXPECT_THAT(std::string(ParseArguments(app.get(), {"gem"}).message()),
              HasSubstr("did you mean gemm?; there are gemm, list"));
  EXPECT_THAT(
      std::string(ParseArguments(app.get(), {"gemm", "--n=3"}).message()),
      HasSubstr("--n is not an option"));
}

// program group (inner | other), program list.
class NestedCommandsTest : public ::testing::Test {
 protected:
  NestedCommandsTest() : app_(MakeApp("works.", "program")) {
    AddOption(app_.get(), "server", &server_, "Address");
    CLI::App* const group = app_->add_subcommand("group", "Has commands");
    group->fallthrough()->require_subcommand(1);
    inner_ = group->add_subcommand("inner", "Works");
    inner_->fallthrough();
    AddOption(inner_, "rows", &rows_, "Rows");
    group->add_subcommand("other", "Works too")->fallthrough();
    app_->add_subcommand("list", "Lists")->fallthrough();
    app_->require_subcommand(1);
  }

  std::string ErrorOf(const std::vector<std::string>& arguments) {
    const absl::Status status = ParseArguments(app_.get(), arguments);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  const std::unique_ptr<CLI::App> app_;
  CLI::App* inner_ = nullptr;
  std::string server_;
  int64_t rows_ = 1;
};

TEST_F(NestedCommandsTest, TakeTheProgramsOptionsToo) {
  const absl::Status status = ParseArguments(
      app_.get(), {"group", "inner", "--rows=3", "--server=here"});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(inner_->parsed());
  EXPECT_EQ(rows_, 3);
  EXPECT_EQ(server_, "here");
}

TEST_F(NestedCommandsTest, AreSuggested) {
  EXPECT_EQ(ErrorOf({"group", "iner"}),
            "\"iner\" is not a command; did you mean inner?; there are inner, "
            "other");
  EXPECT_THAT(ErrorOf({"group", "inner", "--servr=x"}),
              HasSubstr("did you mean --server?"));
  EXPECT_THAT(ErrorOf({"group", "inner", "--row=1"}),
              HasSubstr("did you mean --rows?"));
  EXPECT_NE(ErrorOf({"group"}), "");
}

TEST_F(NestedCommandsTest, AreCompletedInBash) {
  const absl::Status script = ParseArguments(app_.get(), {"--completion=bash"});
  const std::string text(script.message());
  EXPECT_THAT(text, HasSubstr("    group) words=\"inner other --help"));
  EXPECT_THAT(text, HasSubstr("    group:inner) words=\"--help --rows"));
  EXPECT_THAT(text, HasSubstr("    list) words=\"--help"));
  EXPECT_THAT(text, HasSubstr("    group) if [ \"$COMP_CWORD\" -gt 2 ]"));
}

TEST(CommandLine, FormatsBytesAsItReadsThem) {
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, int64_t{4096}, int64_t{16'000'000'000},
        int64_t{64} << 20, int64_t{12345}}) {
    EXPECT_EQ(*ParseBytes(FormatBytes(bytes)), bytes) << FormatBytes(bytes);
  }
  EXPECT_EQ(*ParseBytes("1.5GB"), 1'500'000'000);
}

TEST_F(CommandLineTest, TellsTheOptionsThatWereChanged) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(ChangedOptions(*app_), "");
  ASSERT_TRUE(Parse({"--rows=9", "--name=none", "--timeout=30s", "--verify",
                     "--listen=c,d", "--listen=e", "--rows=10"})
                  .ok());
  EXPECT_EQ(ChangedOptions(*app_), "--rows=10 --verify=true --listen=c,d,e");
}

}  // namespace
}  // namespace qgemm::flags
