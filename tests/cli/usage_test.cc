// SPDX-License-Identifier: Apache-2.0
//
// The command line itself: where the server comes from, help, and what is said
// of wrong usage.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"
#include "tests/cli/processes.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

using UsageTest = CliTest;

TEST_F(UsageTest, TheServerMayComeFromTheEnvironmentOrBeforeTheCommand) {
  ASSERT_EQ(Qgemm({"info"}).exit_code, kDone);  // the server listens
  setenv("QGEMM_SERVER", server_->target().c_str(), 1);
  EXPECT_EQ(RunProgram({"cli/qgemm", "info"}).exit_code, kDone);
  EXPECT_EQ(RunProgram({"cli/qgemm", "info", "--server=unix:nobody",
                        "--connect_timeout=50ms"})
                .exit_code,
            kFailed);
  unsetenv("QGEMM_SERVER");
  EXPECT_EQ(RunProgram({"cli/qgemm", "--server=" + server_->target(), "info"})
                .exit_code,
            kDone);
}

TEST_F(UsageTest, AConfigFileGivesTheServer) {
  ASSERT_EQ(Qgemm({"info"}).exit_code, kDone);  // the server listens
  const std::string path =
      Write("qgemm.toml", "server = \"" + server_->target() + "\"\n");
  EXPECT_EQ(RunProgram({"cli/qgemm", "info", "--config=" + path}).exit_code,
            kDone);
}

TEST_F(UsageTest, MisspeltNamesAreAnsweredByTheNearest) {
  EXPECT_THAT(RunProgram({"cli/qgemm", "lst"}).err,
              HasSubstr("did you mean list?"));
  EXPECT_THAT(RunProgram({"cli/qgemm", "list", "--servr=x"}).err,
              HasSubstr("did you mean --server?"));
  EXPECT_THAT(RunProgram({"cli/qgemm", "load", "--fromat=q4_0"}).err,
              HasSubstr("did you mean --format?"));
}

TEST_F(UsageTest, VersionAndCompletionSucceed) {
  const CommandResult version = RunProgram({"cli/qgemm", "--version"});
  EXPECT_EQ(version.exit_code, kDone);
  EXPECT_THAT(version.out, HasSubstr("qgemm "));
  const CommandResult completion =
      RunProgram({"cli/qgemm", "--completion=bash"});
  EXPECT_EQ(completion.exit_code, kDone);
  EXPECT_THAT(completion.out, HasSubstr("describe) words=\"--help --version"));
}

TEST_F(UsageTest, WrongUsageExitsWithTwoAndSaysWhy) {
  const std::vector<std::vector<std::string>> cases = {
      {"frobnicate"},
      {"load"},
      {"load", "a", "b"},
      {"load", "--random=12"},
      {"load", "--random=0x5"},
      {"load", "--random=64x64", "--format=kbit9"},
      {"load", "--random=64x64", "--where=nowhere"},
      {"load", "--random=64x64", "--tensor=w"},
      {"load", "--random=64x64", "--create_only"},
      {"load", "--random=64x64", "--name=w", "--create_only", "--if_match=ab"},
      {"load", "--random"},
      {"list", "extra"},
      {"list", "--no_such_flag"},
      {"list", "--timeout=soon"},
      {"gemm"},
      {"gemm", "w", "--m=0"},
      {"gemm", "w", "--m=x"},
      {"gemm", "w", "--dtype=fp8"},
      {"gemm", "w", "--mode=A4"},
      {"gemm", "w", "--verify"},
      {"gemm", "w", "--from=file"},
      {"unload"}};
  for (std::vector<std::string> arguments : cases) {
    arguments.insert(arguments.begin(), "cli/qgemm");
    const CommandResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, kWrongUsage)
        << testing::PrintToString(arguments);
    EXPECT_THAT(result.err, HasSubstr("qgemm"));
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(RunProgram({"cli/qgemm"}).exit_code, kWrongUsage);
}

TEST_F(UsageTest, HelpOfEveryCommandSucceeds) {
  for (const char* command :
       {"load", "list", "describe", "gemm", "unload", "info", "program"}) {
    const CommandResult result = RunProgram({"cli/qgemm", command, "--help"});
    EXPECT_EQ(result.exit_code, kDone);
    EXPECT_THAT(result.out, HasSubstr("--server"));
  }
}

TEST_F(UsageTest, NoServerFails) {
  const CommandResult result = RunProgram(
      {"cli/qgemm", "list", "--server=unix:nobody", "--connect_timeout=50ms"});
  EXPECT_EQ(result.exit_code, kFailed);
  EXPECT_THAT(result.err, HasSubstr("UNAVAILABLE"));
}

// Python is another program here, which shows how it is called.
TEST_F(UsageTest, WholeModelsAreThePythonPackages) {
  const std::string python =
      Write("python3", "#!/bin/sh\nshift 2\necho \"python $@\"\nexit 3\n");
  ASSERT_EQ(chmod(python.c_str(), 0700), 0);
  const std::string folder = python.substr(0, python.rfind('/'));
  const std::string path = getenv("PATH");
  setenv("PATH", (folder + ":" + path).c_str(), 1);
  const CommandResult result =
      RunProgram({"cli/qgemm", "load-model", "a b", "--help"});
  setenv("PATH", "/nowhere", 1);
  const CommandResult absent = RunProgram({"cli/qgemm", "plan", "x"});
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(result.out, "python load-model a b --help\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(absent.exit_code, kFailed);
  EXPECT_THAT(absent.err, HasSubstr("run in python3: No such file"));
}

TEST_F(UsageTest, AMissingPythonPackageIsNamed) {
  const std::string package = Write("qgemm.py", "raise ImportError('none')");
  setenv("PYTHONPATH", package.substr(0, package.rfind('/')).c_str(), 1);
  const CommandResult result = RunProgram({"cli/qgemm", "plan", "x"});
  unsetenv("PYTHONPATH");
  EXPECT_EQ(result.exit_code, kFailed);
  EXPECT_THAT(result.err, HasSubstr("need the Python package qgemm"));
}

TEST_F(UsageTest, OptionsOfWholeModelsStandBehindTheCommand) {
  const CommandResult result =
      RunProgram({"cli/qgemm", "--json", "load-model", "x"});
  EXPECT_EQ(result.exit_code, kWrongUsage);
  EXPECT_THAT(result.err, HasSubstr("stand behind"));
  EXPECT_THAT(RunProgram({"cli/qgemm", "--help"}).out, HasSubstr("load-model"));
}

}  // namespace
}  // namespace qgemm
