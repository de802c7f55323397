// SPDX-License-Identifier: Apache-2.0

#include "client/flags/connection_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "flags/command_line.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

class ConnectionFlagsTest : public testing::Test {
 protected:
  ConnectionFlagsTest() : app_(flags::MakeApp("calls.", "program")) {
    flags_.AddTo(app_.get());
  }

  void Parse(const std::vector<std::string>& arguments) {
    const absl::Status status = flags::ParseArguments(app_.get(), arguments);
    ASSERT_TRUE(status.ok()) << status;
  }

  ConnectionFlags flags_;
  const std::unique_ptr<CLI::App> app_;
};

TEST_F(ConnectionFlagsTest, DefaultsArePlaintextToThisHost) {
  Parse({});
  EXPECT_TRUE(flags_.Check().ok());
  EXPECT_EQ(flags_.server, "127.0.0.1:50051");
  ClientOptions options;
  flags_.ApplyTo(&options);
  EXPECT_FALSE(options.tls.has_value());
  EXPECT_EQ(options.token_file, "");
}

TEST_F(ConnectionFlagsTest, EachFlagIsAnOption) {
  Parse({"--server=a:1,b:1", "--tls_ca=ca", "--tls_client_cert=cert",
         "--tls_client_key=key", "--tls_server_name=name",
         "--token_file=token"});
  EXPECT_TRUE(flags_.Check().ok());
  EXPECT_EQ(flags_.server, "a:1,b:1");
  ClientOptions options;
  flags_.ApplyTo(&options);
  ASSERT_TRUE(options.tls.has_value());
  EXPECT_EQ(options.tls->ca_file, "ca");
  EXPECT_EQ(options.tls->certificate_file, "cert");
  EXPECT_EQ(options.tls->key_file, "key");
  EXPECT_EQ(options.tls->server_name, "name");
  EXPECT_EQ(options.token_file, "token");
}

TEST_F(ConnectionFlagsTest, ServersOfTheEnvironmentAreOneText) {
  ASSERT_EQ(setenv("QGEMM_SERVER", "a:1,b:1", 1), 0);
  Parse({});
  ASSERT_EQ(unsetenv("QGEMM_SERVER"), 0);
  EXPECT_EQ(flags_.server, "a:1,b:1");
}

TEST_F(ConnectionFlagsTest, RefusesFlagsThatDoNotGoTogether) {
  const struct {
    std::vector<std::string> arguments;
    const char* problem;
  } cases[] = {
      {{"--server="}, "--server"},
      {{"--tls_server_name=name"}, "need --tls_ca"},
      {{"--tls_client_cert=cert", "--tls_client_key=key"}, "need --tls_ca"},
      {{"--tls_ca=ca", "--tls_client_cert=cert"}, "go together"},
      {{"--tls_ca=ca", "--tls_client_key=key"}, "go together"},
  };
  for (const auto& c : cases) {
    ConnectionFlags flags;
    const auto app = flags::MakeApp("calls.", "program");
    flags.AddTo(app.get());
    ASSERT_TRUE(flags::ParseArguments(app.get(), c.arguments).ok());
    EXPECT_THAT(std::string(flags.Check().message()), HasSubstr(c.problem));
  }
}

}  // namespace
}  // namespace qgemm
