// SPDX-License-Identifier: Apache-2.0
//
// Layers that stay in memory while no server runs, held by a qgemm_holder: a
// server that is killed or stopped, and the one after it.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kN = 256;
constexpr int64_t kK = 256;

class KeptMemoryTest : public ::testing::Test {
 protected:
  void StartHolder(const std::string& hold = "1m") {
    holder_ = std::make_unique<ChildProcess>(
        "server/keep/qgemm_holder",
        std::vector<std::string>{"--listen=" + socket_, "--hold=" + hold});
    ASSERT_EQ(holder_->WaitForOutput("holding at "), socket_);
  }

  // Waits until it serves; its line about what it has inherited.
  std::string StartServer(std::vector<std::string> more = {}) {
    std::vector<std::string> flags = {"--listen=127.0.0.1:0", "--backend=cpu",
                                      "--state_dir=" + folder_.File("state"),
                                      "--keep_memory=" + socket_};
    flags.insert(flags.end(), more.begin(), more.end());
    server_ = std::make_unique<ChildServer>(flags);
    const std::string address = server_->WaitForAddress();
    EXPECT_FALSE(address.empty()) << server_->output();
    client_ = std::make_unique<Client>(address);
    const std::string output = server_->output();
    const size_t line = output.find("layers_inherited");
    if (line == std::string::npos) return "";
    return output.substr(line, output.find('\n', line) - line);
  }

  void End(int signal) {
    client_.reset();
    server_->Signal(signal);
    server_->Wait();
  }

  // Loads a layer of every wire format, and multiplies by it.
  void LoadAll() {
    for (const NamedSpec& named : AllWireFormats(kN, kK)) {
      const auto upload = MakeRandomUpload(named.spec, &random_);
      const auto loaded = client_->Load(ToMessages(upload, named.name));
      ASSERT_TRUE(loaded.ok()) << loaded.status.error_message();
      requests_.push_back(MakeGemm(named.name, 3, kK, &random_));
      const auto answer = client_->Gemm(requests_.back());
      ASSERT_TRUE(answer.ok()) << answer.status.error_message();
      answers_.push_back(answer.response.c());
    }
  }

  void ExpectTheSameAnswers() {
    for (size_t i = 0; i < requests_.size(); ++i) {
      const auto answer = client_->Gemm(requests_[i]);
      ASSERT_TRUE(answer.ok()) << answer.status.error_message();
      EXPECT_EQ(answer.response.c(), answers_[i]) << requests_[i].weights();
    }
  }

  std::string Inherited(size_t layers) const {
    return absl::StrCat("layers=", layers, " ");
  }

  const TemporaryFolder folder_;
  const std::string socket_ = folder_.File("holder");
  RandomGenerator random_{FreshSeed()};
  std::unique_ptr<ChildProcess> holder_;
  std::unique_ptr<ChildServer> server_;
  std::unique_ptr<Client> client_;
  std::vector<v1::GemmRequest> requests_;
  std::vector<std::string> answers_;
};

TEST_F(KeptMemoryTest, AKilledServersLayersAreTheNextOnes) {
  StartHolder();
  EXPECT_THAT(StartServer(), HasSubstr(Inherited(0)));
  LoadAll();
  for (const int signal : {SIGKILL, SIGTERM, SIGKILL}) {
    End(signal);
    const std::string line = StartServer();
    EXPECT_THAT(line, HasSubstr(Inherited(requests_.size())));
    EXPECT_THAT(line, HasSubstr("dropped=0 "));
    ExpectTheSameAnswers();
  }
}

TEST_F(KeptMemoryTest, UnloadedLayersAreNotThere) {
  StartHolder();
  StartServer();
  LoadAll();
  ASSERT_TRUE(client_->Unload(requests_.back().weights()).ok());
  requests_.pop_back();
  End(SIGKILL);
  EXPECT_THAT(StartServer(), HasSubstr(Inherited(requests_.size())));
  ExpectTheSameAnswers();
}

TEST_F(KeptMemoryTest, AfterItsTimeTheHolderHasNothing) {
  StartHolder("50ms");
  StartServer();
  LoadAll();
  End(SIGKILL);
  EXPECT_THAT(holder_->WaitForOutput("holder_dropped"),
              HasSubstr("descriptors="));
  EXPECT_THAT(StartServer(), HasSubstr(Inherited(0)));
  ExpectTheSameAnswers();
}

TEST_F(KeptMemoryTest, AnotherHolderGetsAll) {
  StartHolder();
  StartServer();
  LoadAll();
  holder_->Signal(SIGKILL);
  holder_->Wait();
  StartHolder();
  server_->WaitForOutput("holder_found");
  ExpectTheSameAnswers();
  End(SIGKILL);
  EXPECT_THAT(StartServer(), HasSubstr(Inherited(requests_.size())));
  ExpectTheSameAnswers();
}

TEST_F(KeptMemoryTest, ALayerWhoseFileIsGoneIsDropped) {
  StartHolder();
  StartServer();
  LoadAll();
  End(SIGKILL);
  // Another state directory knows none of the names.
  const std::string line =
      StartServer({"--state_dir=" + folder_.File("other")});
  EXPECT_THAT(line, HasSubstr(Inherited(0)));
  EXPECT_THAT(line, HasSubstr(absl::StrCat("dropped=", requests_.size())));
}

TEST_F(KeptMemoryTest, WithoutAHolderTheServerDoesNotStart) {
  ChildServer server({"--listen=127.0.0.1:0", "--backend=cpu",
                      "--state_dir=" + folder_.File("state"),
                      "--keep_memory=" + socket_});
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.output(), HasSubstr("connect to the holder"));
}

TEST_F(KeptMemoryTest, ABackendWithoutSuchMemoryIsRefused) {
  StartHolder();
  StartServer();
  LoadAll();
  End(SIGKILL);
  ChildServer server({"--listen=127.0.0.1:0", "--backend=reference",
                      "--state_dir=" + folder_.File("state"),
                      "--keep_memory=" + socket_});
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.output(), HasSubstr("no memory that outlives"));
  ChildServer other({"--listen=127.0.0.1:0", "--backend=reference",
                     "--state_dir=" + folder_.File("state"),
                     "--state_image_bytes=1GB"});
  EXPECT_EQ(other.Wait(), 1);
  EXPECT_THAT(other.output(), HasSubstr("no images of layers"));
}

}  // namespace
}  // namespace qgemm
