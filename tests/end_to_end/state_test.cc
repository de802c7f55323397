// SPDX-License-Identifier: Apache-2.0
//
// Layers and names that outlive the server: what a restart finds, requests for
// layers that are still on the disk, and folders that cannot be used.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/server.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kK = 64;

class StateTest : public ::testing::Test {
 protected:
  std::unique_ptr<TestServer> Start(std::vector<std::string> pinned = {}) {
    ServerOptions options;
    options.state_dir = folder_.File("state");
    options.pin_names = std::move(pinned);
    return std::make_unique<TestServer>(options);
  }

  RandomUpload NewUpload(int64_t n = 48) {
    WeightsSpec spec;
    spec.format = WireFormat::kQ4_0;
    spec.n = n;
    spec.k = kK;
    return MakeRandomUpload(spec, &random_);
  }
  void MustLoad(const Client& client, const RandomUpload& upload,
                const std::string& name) {
    const auto answer = client.Load(ToMessages(upload, name));
    ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  }
  std::string MustMultiply(const Client& client,
                           const v1::GemmRequest& request) {
    const auto answer = client.Gemm(request);
    EXPECT_TRUE(answer.ok()) << answer.status.error_message();
    return answer.response.c();
  }
  std::string FileOf(const RandomUpload& upload) const {
    return absl::StrCat(folder_.File("state/layers/"),
                        absl::BytesToHexString(IdOf(upload)), ".qgw");
  }

  const TemporaryFolder folder_;
  RandomGenerator random_{FreshSeed()};
};

TEST_F(StateTest, ARestartKeepsNamesAndAnswers) {
  std::vector<v1::GemmRequest> requests;
  std::vector<std::string> answers;
  std::vector<v1::WeightsInfo> listed;
  {
    const auto server = Start();
    const Client client = server->NewClient();
    for (const NamedSpec& named : AllWireFormats(128, 128)) {
      MustLoad(client, MakeRandomUpload(named.spec, &random_), named.name);
      requests.push_back(MakeGemm(named.name, 3, 128, &random_));
      answers.push_back(MustMultiply(client, requests.back()));
    }
    listed = client.List();
  }
  const auto server = Start();
  const Client client = server->NewClient();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(MustMultiply(client, requests[i]), answers[i])
        << requests[i].weights();
  }
  const std::vector<v1::WeightsInfo> again = client.List();
  ASSERT_THAT(again, SizeIs(listed.size()));
  for (size_t i = 0; i < listed.size(); ++i) {
    EXPECT_EQ(again[i].SerializeAsString(), listed[i].SerializeAsString());
  }
}

TEST_F(StateTest, ARestartKeepsRebindingsUnloadsAndLayersWithoutAName) {
  const RandomUpload first = NewUpload();
  const RandomUpload second = NewUpload();
  const RandomUpload unnamed = NewUpload();
  {
    const auto server = Start();
    const Client client = server->NewClient();
    MustLoad(client, first, "a");
    MustLoad(client, second, "a");
    MustLoad(client, first, "gone");
    MustLoad(client, second, "b");
    MustLoad(client, unnamed, "");
    ASSERT_TRUE(client.Unload("gone").ok());
  }
  EXPECT_FALSE(std::filesystem::exists(FileOf(first)));
  const auto server = Start();
  const Client client = server->NewClient();
  EXPECT_EQ(client.List().size(), 2);
  const auto held = client.Get("a");
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(held.response.weights().id(), absl::BytesToHexString(IdOf(second)));
  EXPECT_THAT(held.response.weights().names(), ElementsAre("a", "b"));
  EXPECT_EQ(client.Get("gone").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  const std::string id = absl::BytesToHexString(IdOf(unnamed));
  ASSERT_TRUE(client.Get(id).ok());
  ASSERT_TRUE(client.Unload(id).ok());
  EXPECT_FALSE(std::filesystem::exists(FileOf(unnamed)));
}

TEST_F(StateTest, AnUploadOfAHeldLayerSendsNothingAfterARestart) {
  const RandomUpload upload = NewUpload();
  MustLoad(Start()->NewClient(), upload, "a");
  const auto server = Start();
  const Client client = server->NewClient();
  v1::LoadWeightsRequest header = ToMessages(upload, "b")[0];
  header.mutable_header()->set_sha256(IdOf(upload));
  const auto answer = client.Load({header});
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  EXPECT_TRUE(answer.response.deduplicated());
  MustMultiply(client, MakeGemm("b", 1, kK, &random_));
}

TEST_F(StateTest, RequestsOfAllKindsWaitForTheirLayer) {
  constexpr int kLayers = 24;
  const auto name = [](int i) { return absl::StrCat("layer", i); };
  std::vector<RandomUpload> uploads;
  std::vector<v1::GemmRequest> requests;
  std::vector<std::string> answers;
  {
    const auto server = Start();
    const Client client = server->NewClient();
    for (int i = 0; i < kLayers; ++i) {
      uploads.push_back(NewUpload(2048 + i));
      MustLoad(client, uploads.back(), name(i));
      requests.push_back(MakeGemm(name(i), 2, kK, &random_));
      answers.push_back(MustMultiply(client, requests.back()));
    }
  }
  const auto server = Start();
  const Client client = server->NewClient();
  // From the last, which is read last.
  for (int i = kLayers - 1; i >= 0; --i) {
    EXPECT_EQ(MustMultiply(client, requests[i]), answers[i]) << name(i);
  }
}

TEST_F(StateTest, LayersLeaveMemoryForOthersAndComeBack) {
  constexpr int kLayers = 12;
  constexpr int64_t kBudget = 600 << 10;  // some three of the layers
  const auto name = [](int i) { return absl::StrCat("layer", i); };
  ServerOptions options;
  options.state_dir = folder_.File("state");
  options.eviction.min_residency = absl::ZeroDuration();
  options.pin_names = {name(0)};
  options.backend.kind = BackendKind::kCpu;
  options.weights_budget_bytes = kBudget;
  std::vector<v1::GemmRequest> requests;
  std::vector<std::string> answers;
  for (int round = 0; round < 2; ++round) {
    TestServer server(options);
    const Client client = server.NewClient();
    for (int i = 0; i < kLayers && round == 0; ++i) {
      MustLoad(client, NewUpload(2048), name(i));
      requests.push_back(MakeGemm(name(i), 2, kK, &random_));
      answers.push_back(MustMultiply(client, requests.back()));
    }
    for (int step = 0; step < 60; ++step) {
      const int64_t i = RandomInt(0, kLayers - 1, &random_);
      EXPECT_EQ(MustMultiply(client, requests[i]), answers[i]) << name(i);
      EXPECT_LE(client.Info().weights_bytes(), kBudget);
      if (round == 0 || step > 0) {
        EXPECT_GT(client.Get(name(0)).response.weights().resident_bytes(), 0);
      }
    }
    int on_disk = 0;
    for (const v1::WeightsInfo& info : client.List()) {
      on_disk += info.resident_bytes() == 0 ? 1 : 0;
    }
    EXPECT_GT(on_disk, 0);
    EXPECT_LT(on_disk, kLayers);
  }
}

// One that is read leaves room for one of those that all the clients use.
TEST_F(StateTest, ClientsThatWalkThroughMoreThanFitsWaitTheirTurn) {
  constexpr int kLayers = 12;
  constexpr int kClients = 6;
  constexpr int kSteps = 40;
  constexpr int kRows = 256;
  constexpr int64_t kBudget = 440 << 10;
  const auto name = [](int i) { return absl::StrCat("layer", i); };
  ServerOptions options;
  options.state_dir = folder_.File("state");
  options.eviction.min_residency = absl::ZeroDuration();
  options.backend.kind = BackendKind::kCpu;
  options.weights_budget_bytes = kBudget;
  TestServer server(options);
  std::vector<v1::GemmRequest> requests;
  std::vector<std::string> answers;
  for (int i = 0; i < kLayers; ++i) {
    const Client client = server.NewClient();
    MustLoad(client, NewUpload(2048), name(i));
    requests.push_back(MakeGemm(name(i), kRows, kK, &random_));
    answers.push_back(MustMultiply(client, requests.back()));
  }
  const auto walk = [&](int first) {
    const Client client = server.NewClient();
    for (int step = 0; step < kSteps; ++step) {
      const int i = (first + step) % kLayers;
      EXPECT_EQ(MustMultiply(client, requests[i]), answers[i]) << name(i);
    }
  };
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) clients.emplace_back(walk, 2 * i);
  for (std::thread& client : clients) client.join();
  EXPECT_LE(server.NewClient().Info().weights_bytes(), kBudget);
}

TEST_F(StateTest, WhatPinnedLayersLeaveNoRoomForIsRefused) {
  constexpr int kLayers = 8;
  const auto name = [](int i) { return absl::StrCat("layer", i); };
  ServerOptions options;
  options.state_dir = folder_.File("state");
  options.eviction.min_residency = absl::ZeroDuration();
  options.backend.kind = BackendKind::kCpu;
  options.weights_budget_bytes = 600 << 10;
  TestServer server(options);
  const Client client = server.NewClient();
  for (int i = 0; i < kLayers; ++i) {
    MustLoad(client, NewUpload(2048), name(i));
  }
  // Those in memory, until the next one finds no room.
  grpc::Status refused;
  for (int i = kLayers - 1; i >= 0 && refused.ok(); --i) {
    refused = client.Gemm(MakeGemm(name(i), 1, kK, &random_)).status;
    grpc::ClientContext context;
    v1::PinWeightsRequest request;
    request.add_weights(name(i));
    v1::PinWeightsResponse response;
    ASSERT_TRUE(client.stub()->PinWeights(&context, request, &response).ok());
  }
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("pinned"));
}

TEST_F(StateTest, LayersJustUsedDoNotLeaveMemory) {
  ServerOptions options;
  options.state_dir = folder_.File("state");
  options.eviction.min_residency = absl::Hours(1);
  options.backend.kind = BackendKind::kCpu;
  options.weights_budget_bytes = 600 << 10;
  TestServer server(options);
  const Client client = server.NewClient();
  grpc::Status refused;
  for (int i = 0; i < 12 && refused.ok(); ++i) {
    const std::string name = absl::StrCat("layer", i);
    const auto answer = client.Load(ToMessages(NewUpload(2048), name));
    refused = answer.status;
    if (refused.ok()) MustMultiply(client, MakeGemm(name, 1, kK, &random_));
  }
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

// Both keep their layer in memory while all others come and go.
TEST_F(StateTest, PinsAndLeasesKeepLayersInMemory) {
  constexpr int kLayers = 10;
  const auto name = [](int i) { return absl::StrCat("layer", i); };
  ServerOptions options;
  options.state_dir = folder_.File("state");
  options.eviction.min_residency = absl::ZeroDuration();
  options.backend.kind = BackendKind::kCpu;
  options.weights_budget_bytes = 600 << 10;  // some three of the layers
  TestServer server(options);
  const Client client = server.NewClient();
  std::vector<v1::GemmRequest> requests;
  for (int i = 0; i < kLayers; ++i) {
    MustLoad(client, NewUpload(2048), name(i));
    requests.push_back(MakeGemm(name(i), 2, kK, &random_));
  }
  const auto is_resident = [&](int i) {
    return client.Get(name(i)).response.weights().resident_bytes() > 0;
  };
  const auto use_others = [&] {
    for (int i = 2; i < kLayers; ++i) MustMultiply(client, requests[i]);
  };
  const auto pin = [&](bool unpin) {
    grpc::ClientContext context;
    v1::PinWeightsRequest request;
    request.add_weights(name(0));
    request.set_unpin(unpin);
    v1::PinWeightsResponse response;
    return client.stub()->PinWeights(&context, request, &response);
  };
  const auto lease = [&](absl::Duration lease) {
    grpc::ClientContext context;
    v1::TouchWeightsRequest request;
    request.add_weights(name(1));
    request.set_lease_ns(absl::ToInt64Nanoseconds(lease));
    v1::TouchWeightsResponse response;
    return client.stub()->TouchWeights(&context, request, &response);
  };
  use_others();
  EXPECT_FALSE(is_resident(0));
  EXPECT_FALSE(is_resident(1));
  // They come without a request of the layer's.
  ASSERT_TRUE(pin(false).ok());
  ASSERT_TRUE(lease(absl::Hours(1)).ok());
  while (!is_resident(0) || !is_resident(1)) std::this_thread::yield();
  use_others();
  EXPECT_TRUE(is_resident(0));
  EXPECT_TRUE(is_resident(1));
  ASSERT_TRUE(pin(true).ok());
  use_others();
  EXPECT_FALSE(is_resident(0));
  EXPECT_TRUE(is_resident(1));
  EXPECT_EQ(lease(absl::Hours(2)).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(StateTest, APrefixUnloadsItsNamesForGood) {
  {
    const auto server = Start();
    const Client client = server->NewClient();
    const RandomUpload shared = NewUpload();
    MustLoad(client, shared, "a/1");
    MustLoad(client, NewUpload(), "a/2");
    MustLoad(client, shared, "b");
    grpc::ClientContext context;
    v1::UnloadWeightsRequest request;
    request.set_prefix("a/");
    v1::UnloadWeightsResponse response;
    ASSERT_TRUE(
        client.stub()->UnloadWeights(&context, request, &response).ok());
    EXPECT_EQ(response.names(), 2);
    EXPECT_FALSE(response.has_more());
  }
  const auto server = Start();
  const std::vector<v1::WeightsInfo> left = server->NewClient().List();
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_THAT(left[0].names(), ElementsAre("b"));
}

TEST_F(StateTest, ADamagedLayerIsLostAndTheRestServes) {
  const RandomUpload damaged = NewUpload();
  const RandomUpload sound = NewUpload();
  {
    const auto server = Start();
    MustLoad(server->NewClient(), damaged, "damaged");
    MustLoad(server->NewClient(), sound, "sound");
  }
  {
    std::fstream file(FileOf(damaged),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 100);
    file.put('\xff');
    file.put('\x00');
    file.put('\x77');
  }
  const auto server = Start();
  const Client client = server->NewClient();
  MustMultiply(client, MakeGemm("sound", 1, kK, &random_));
  const auto answer = client.Gemm(MakeGemm("damaged", 1, kK, &random_));
  EXPECT_THAT(answer.status.error_code(),
              AnyOf(grpc::StatusCode::DATA_LOSS, grpc::StatusCode::NOT_FOUND))
      << answer.status.error_message();
  MustLoad(client, damaged, "damaged");
  MustMultiply(client, MakeGemm("damaged", 1, kK, &random_));
}

TEST_F(StateTest, ABoundOfItsBytesRefusesUploads) {
  const RandomUpload upload = NewUpload();
  ServerOptions options;
  options.state_dir = folder_.File("state");
  options.state_bytes = 4096;
  TestServer server(options);
  const auto answer = server.NewClient().Load(ToMessages(upload, "a"));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("--state_bytes"));
  EXPECT_THAT(server.NewClient().List(), IsEmpty());
}

TEST_F(StateTest, OneServerHasTheFolder) {
  const auto server = Start();
  ChildServer second({"--listen=127.0.0.1:0", "--backend=cpu",
                      "--state_dir=" + folder_.File("state")});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.output(),
              AllOf(HasSubstr("--state_dir"), HasSubstr("another process")));
}

TEST_F(StateTest, FoldersThatCannotBeUsedAreToldOf) {
  const auto expect = [](const std::string& folder, const std::string& reason) {
    ChildServer server(
        {"--listen=127.0.0.1:0", "--backend=cpu", "--state_dir=" + folder});
    EXPECT_EQ(server.Wait(), 1);
    EXPECT_THAT(server.output(), AllOf(HasSubstr("--state_dir = \"" + folder),
                                       HasSubstr(reason)));
  };
  std::ofstream(folder_.File("file")) << "content";
  expect(folder_.File("file"), "Not a directory");
  expect(folder_.File("none/deeper"), "No such file or directory");
  expect("/proc", "lock");  // on which nobody writes
  Start();
  std::ofstream(folder_.File("state/version"))
      << "qgemm state directory, version 7\n";
  expect(folder_.File("state"), "it has version 7; this server reads 1");
}

}  // namespace
}  // namespace qgemm
