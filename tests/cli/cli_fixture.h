// SPDX-License-Identifier: Apache-2.0
//
// The command line against a server, process by process.

#ifndef QGEMM_TESTS_CLI_CLI_FIXTURE_H_
#define QGEMM_TESTS_CLI_CLI_FIXTURE_H_

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/processes.h"

namespace qgemm {

// Exit codes.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUsage = 2;

// One server for all tests of a suite.
class CliTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ServerProcess(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  static CommandResult Qgemm(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "cli/qgemm");
    arguments.push_back("--server=" + server_->target());
    arguments.push_back("--connect_timeout=60s");
    return RunProgram(arguments);
  }

  // Runs a command that succeeds with --json.
  static nlohmann::json Json(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const CommandResult result = Qgemm(arguments);
    EXPECT_EQ(result.exit_code, kDone) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  static std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = testing::TempDir() + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  static std::string Read(const std::string& path) {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return bytes.str();
  }

  static inline ServerProcess* server_ = nullptr;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_CLI_CLI_FIXTURE_H_
