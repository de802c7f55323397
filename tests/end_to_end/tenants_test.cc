// SPDX-License-Identifier: Apache-2.0
//
// A tenant cannot read, rebind, unload or count what is another's, and what it
// asks about that is answered as if it were not there.

#include "tests/end_to_end/tenants.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kN = 64;
constexpr int64_t kK = 32;

std::vector<Tenant> Tenants() {
  return {{"alice", {"a/"}, {"shared/"}},
          {"bob", {"b/"}, {"shared/"}},
          {"publisher", {"shared/"}, {}},
          {"admin", {}, {}, {"compute", "load", "admin"}}};
}

// A status as text, with what was asked for replaced, so that answers about
// different names can be compared.
std::string Text(const grpc::Status& status, const std::string& asked) {
  return absl::StrCat(
      status.error_code(), " ",
      absl::StrReplaceAll(status.error_message(), {{asked, "NAME"}}));
}

std::string HexIdOf(const RandomUpload& upload) {
  return absl::BytesToHexString(IdOf(upload));
}

class TenantsTest : public testing::Test {
 protected:
  TenantsTest() { layer_ = Load(alice_, "a/x"); }

  static ServerOptions Options() {
    ServerOptions options;
    options.backend.kind = BackendKind::kReference;
    return options;
  }

  Client As(const std::string& id) const {
    return ConnectAs(id, server_.address());
  }

  RandomUpload NewUpload() {
    WeightsSpec spec;
    spec.format = WireFormat::kQ4_0;
    spec.n = kN;
    spec.k = kK;
    return MakeRandomUpload(spec, &random_);
  }

  RandomUpload Load(const Client& client, const std::string& name) {
    RandomUpload upload = NewUpload();
    const auto answer = client.Load(ToMessages(upload, name));
    EXPECT_TRUE(answer.ok()) << answer.status.error_message();
    return upload;
  }

  Answer<v1::GemmResponse> Gemm(const Client& client,
                                const std::string& weights) {
    return client.Gemm(MakeGemm(weights, 2, kK, &random_));
  }

  StreamedAnswer AnswerOfStream(const Client& client,
                                const std::string& weights) {
    StreamClient stream(client);
    stream.Write(ToMessage(1, MakeGemm(weights, 2, kK, &random_)));
    const StreamedAnswer answer = stream.ReadOne();
    stream.WritesDone();
    EXPECT_TRUE(stream.Finish().ok());
    return answer;
  }

  grpc::Status GemmOfStream(const Client& client, const std::string& weights) {
    const StreamedAnswer answer = AnswerOfStream(client, weights);
    return grpc::Status(answer.code(), answer.error.message());
  }

  static grpc::Status UnloadIf(const Client& client, const std::string& weights,
                               const std::string& if_match) {
    grpc::ClientContext context;
    v1::UnloadWeightsRequest request;
    request.set_weights(weights);
    request.set_if_match(if_match);
    v1::UnloadWeightsResponse response;
    return client.stub()->UnloadWeights(&context, request, &response);
  }

  static Answer<v1::LoadProgramResponse> LoadProgram(
      const Client& client, const std::string& name,
      const std::string& weights) {
    grpc::ClientContext context;
    v1::LoadProgramRequest request;
    request.set_name(name);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"pb(
          revision: 1
          value_type: NUMBER_TYPE_FP32
          inputs { name: "private" width: 32 }
          ops {
            name: "out"
            gemm { x: 0 }
          }
          outputs: 1
        )pb",
        request.mutable_program()));
    request.mutable_program()->mutable_ops(0)->mutable_gemm()->set_weights(
        weights);
    Answer<v1::LoadProgramResponse> answer;
    answer.status =
        client.stub()->LoadProgram(&context, request, &answer.response);
    return answer;
  }

  static grpc::Status GetProgram(const Client& client,
                                 const std::string& program) {
    grpc::ClientContext context;
    v1::GetProgramRequest request;
    request.set_program(program);
    v1::GetProgramResponse response;
    return client.stub()->GetProgram(&context, request, &response);
  }

  static grpc::Status UnloadProgram(const Client& client,
                                    const std::string& program) {
    grpc::ClientContext context;
    v1::UnloadProgramRequest request;
    request.set_program(program);
    v1::UnloadProgramResponse response;
    return client.stub()->UnloadProgram(&context, request, &response);
  }

  static Answer<v1::RunResponse> Run(const Client& client,
                                     const std::string& program) {
    grpc::ClientContext context;
    v1::RunRequest request;
    request.set_program(program);
    request.set_m(2);
    request.set_inputs(std::string(2 * kK * sizeof(float), '\0'));
    Answer<v1::RunResponse> answer;
    answer.status = client.stub()->Run(&context, request, &answer.response);
    return answer;
  }

  // Status texts of all calls about weights.
  std::vector<std::string> AskWeights(const Client& client,
                                      const std::string& asked) {
    return {Text(Gemm(client, asked).status, asked),
            Text(GemmOfStream(client, asked), asked),
            Text(client.Get(asked).status, asked),
            Text(client.Unload(asked).status, asked),
            Text(UnloadIf(client, asked, HexIdOf(layer_)), asked),
            Text(UnloadIf(client, asked, std::string(64, '7')), asked),
            Text(LoadProgram(client, "", asked).status, asked)};
  }

  const TenantTable table_{Tenants()};
  RandomGenerator random_{FreshSeed()};
  TestServer server_{table_.In(Options())};
  const Client alice_ = As("alice");
  const Client bob_ = As("bob");
  const Client admin_ = As("admin");
  RandomUpload layer_;  // alice's, "a/x"
};

TEST_F(TenantsTest, AnothersWeightsAreAsIfTheyWereNot) {
  EXPECT_EQ(AskWeights(bob_, "a/x"), AskWeights(bob_, "a/none"));
  EXPECT_EQ(AskWeights(bob_, HexIdOf(layer_)),
            AskWeights(bob_, std::string(64, '9')));
  EXPECT_TRUE(Gemm(alice_, "a/x").ok());
  EXPECT_TRUE(Gemm(alice_, HexIdOf(layer_)).ok());
}

TEST_F(TenantsTest, AnothersNameCannotBeRebound) {
  for (const bool create_only : {false, true}) {
    for (const std::string& if_match : {std::string(), HexIdOf(layer_)}) {
      if (create_only && !if_match.empty()) continue;
      std::vector<std::string> texts;
      for (const std::string& name :
           {std::string("a/x"), std::string("a/none")}) {
        auto messages = ToMessages(NewUpload(), name);
        messages[0].mutable_header()->set_create_only(create_only);
        messages[0].mutable_header()->set_if_match(if_match);
        const auto answer = bob_.Load(messages);
        EXPECT_EQ(answer.status.error_code(),
                  grpc::StatusCode::PERMISSION_DENIED);
        EXPECT_THAT(answer.status.error_message(),
                    Not(HasSubstr(HexIdOf(layer_))));
        texts.push_back(Text(answer.status, name));
      }
      EXPECT_EQ(texts[0], texts[1]);
    }
  }
  EXPECT_EQ(alice_.Get("a/x").response.weights().id(), HexIdOf(layer_));
}

TEST_F(TenantsTest, AnUploadOfAnothersBytesGoesThroughInFull) {
  auto messages = ToMessages(layer_, "b/x");
  messages[0].mutable_header()->set_sha256(IdOf(layer_));
  RandomUpload unknown = NewUpload();
  auto others = ToMessages(unknown, "b/x");
  others[0].mutable_header()->set_sha256(IdOf(unknown));
  // Without its chunks it is an upload that lacks them.
  EXPECT_EQ(Text(bob_.Load({messages[0]}).status, HexIdOf(layer_)),
            Text(bob_.Load({others[0]}).status, HexIdOf(unknown)));

  const auto shared = bob_.Load(messages);

  ASSERT_TRUE(shared.ok()) << shared.status.error_message();
  EXPECT_FALSE(shared.response.deduplicated());
  EXPECT_THAT(shared.response.weights().names(), ElementsAre("b/x"));
  EXPECT_EQ(shared.response.weights().name_count(), 1u);
  EXPECT_THAT(admin_.Get(HexIdOf(layer_)).response.weights().names(),
              ElementsAre("a/x", "b/x"));
  // His own it knows.
  const auto again = bob_.Load({messages[0]});
  ASSERT_TRUE(again.ok()) << again.status.error_message();
  EXPECT_TRUE(again.response.deduplicated());
  // Each drops his own.
  EXPECT_TRUE(bob_.Unload(HexIdOf(layer_)).response.freed());
  EXPECT_FALSE(Gemm(bob_, HexIdOf(layer_)).ok());
  EXPECT_TRUE(Gemm(alice_, "a/x").ok());
}

TEST_F(TenantsTest, ListsAndCountsAreOfWhatATenantMayRead) {
  Load(alice_, "");
  Load(bob_, "b/x");
  Load(As("publisher"), "shared/x");
  ASSERT_TRUE(LoadProgram(alice_, "a/p", "a/x").ok());
  std::vector<std::string> names;
  v1::ListWeightsRequest request;
  request.set_page_size(1);
  do {
    grpc::ClientContext context;
    v1::ListWeightsResponse page;
    ASSERT_TRUE(bob_.stub()->ListWeights(&context, request, &page).ok());
    for (const v1::WeightsInfo& info : page.weights()) {
      names.push_back(absl::StrCat(info.name_count(), " ", info.names(0)));
    }
    EXPECT_THAT(page.next_page_token(), Not(HasSubstr("a/")));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(names, ElementsAre("1 b/x", "1 shared/x"));
  EXPECT_EQ(bob_.Info().programs(), 0u);
  EXPECT_EQ(alice_.Info().programs(), 1u);
  // Two layers and a program, and one layer.
  EXPECT_GT(alice_.Info().weights_bytes(), 2 * bob_.Info().weights_bytes());
  EXPECT_GT(admin_.Info().weights_bytes(),
            alice_.Info().weights_bytes() + bob_.Info().weights_bytes());
  EXPECT_EQ(admin_.List().size(), 4u);
}

TEST_F(TenantsTest, AGuessedPageTokenTellsNothing) {
  Load(bob_, "b/x");
  for (const char* const token : {"0a/x", "0a/", "0", "1"}) {
    grpc::ClientContext context;
    v1::ListWeightsRequest request;
    request.set_page_token(token);
    v1::ListWeightsResponse page;
    ASSERT_TRUE(bob_.stub()->ListWeights(&context, request, &page).ok());
    for (const v1::WeightsInfo& info : page.weights()) {
      EXPECT_THAT(info.names(), ElementsAre("b/x"));
    }
  }
}

TEST_F(TenantsTest, AProgramIsMadeOverWhatItsCallerMayRead) {
  const auto own = LoadProgram(alice_, "a/p", "a/x");
  ASSERT_TRUE(own.ok()) << own.status.error_message();
  const std::string id = own.response.program().id();
  EXPECT_TRUE(Run(alice_, "a/p").ok());
  for (const std::string& held : {std::string("a/p"), id}) {
    const std::string none =
        held == id ? std::string(64, '9') : std::string("a/none");
    EXPECT_EQ(Text(Run(bob_, held).status, held),
              Text(Run(bob_, none).status, none));
    EXPECT_EQ(Text(GetProgram(bob_, held), held),
              Text(GetProgram(bob_, none), none));
    EXPECT_EQ(Text(UnloadProgram(bob_, held), held),
              Text(UnloadProgram(bob_, none), none));
  }
  EXPECT_EQ(LoadProgram(bob_, "a/p", "a/x").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(Run(alice_, "a/p").ok());
}

TEST_F(TenantsTest, OneProgramOfTwoTenantsTellsNeitherOfTheOther) {
  ASSERT_TRUE(LoadProgram(alice_, "a/p", "a/x").ok());
  ASSERT_TRUE(bob_.Load(ToMessages(layer_, "b/x")).ok());

  const auto shared = LoadProgram(bob_, "b/p", "b/x");

  ASSERT_TRUE(shared.ok()) << shared.status.error_message();
  EXPECT_FALSE(shared.response.deduplicated());
  EXPECT_THAT(shared.response.program().names(), ElementsAre("b/p"));
  EXPECT_EQ(shared.response.program().inputs(0).name(), "");
  EXPECT_TRUE(LoadProgram(bob_, "b/q", "b/x").response.deduplicated());
  EXPECT_EQ(admin_.Info().programs(), 1u);
  EXPECT_TRUE(UnloadProgram(alice_, "a/p").ok());
  EXPECT_TRUE(Run(bob_, "b/p").ok());
}

// Others' requests may share a launch.
TEST_F(TenantsTest, TimingsTellAnAdminAloneWhatSharedALaunch) {
  ASSERT_TRUE(LoadProgram(alice_, "a/p", "a/x").ok());
  for (const Client* const client : {&alice_, &admin_}) {
    const bool is_told = client == &admin_;
    for (const v1::Timings& timings :
         {Gemm(*client, "a/x").response.timings(),
          AnswerOfStream(*client, "a/x").timings,
          Run(*client, "a/p").response.timings()}) {
      EXPECT_EQ(timings.launch_rows(), is_told ? 2u : 0u);
      EXPECT_EQ(timings.launch_requests(), is_told ? 1u : 0u);
      EXPECT_GT(timings.total_ns(), 0u);
    }
  }
}

TEST_F(TenantsTest, AReaderUsesWhatItMayNotChange) {
  const Client publisher = As("publisher");
  const RandomUpload shared = Load(publisher, "shared/x");
  EXPECT_TRUE(Gemm(bob_, "shared/x").ok());
  EXPECT_TRUE(LoadProgram(bob_, "b/p", "shared/x").ok());
  for (const std::string& held : {std::string("shared/x"), HexIdOf(shared)}) {
    EXPECT_EQ(bob_.Unload(held).status.error_code(),
              grpc::StatusCode::PERMISSION_DENIED);
  }
  EXPECT_EQ(bob_.Load(ToMessages(NewUpload(), "shared/x")).status.error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(Gemm(alice_, "shared/x").ok());
}

TEST_F(TenantsTest, AnAdminSeesAndUnloadsEverything) {
  EXPECT_TRUE(Gemm(admin_, "a/x").ok());
  EXPECT_TRUE(admin_.Load(ToMessages(NewUpload(), "a/x")).ok());
  EXPECT_NE(alice_.Get("a/x").response.weights().id(), HexIdOf(layer_));
  EXPECT_TRUE(admin_.Unload("a/x").response.freed());
  EXPECT_THAT(alice_.List(), IsEmpty());
}

// "b" may read what "a" has, and neither pin nor drop it.
TEST(PinTenantsTest, OnlyHoldersPinAndDropByPrefix) {
  RandomGenerator random(FreshSeed());
  const TenantTable table({{"a", {"a/"}, {}},
                           {"b", {"b/"}, {"a/"}},
                           {"c", {}, {"a/"}, {"compute"}}});
  TestServer server(table.In(ServerOptions()));
  const Client a = ConnectAs("a", server.address());
  const Client b = ConnectAs("b", server.address());
  const Client c = ConnectAs("c", server.address());
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = 32;
  spec.k = 64;
  ASSERT_TRUE(a.Load(ToMessages(MakeRandomUpload(spec, &random), "a/x")).ok());
  const auto pin = [](const Client& client, const std::string& weights) {
    grpc::ClientContext context;
    v1::PinWeightsRequest request;
    request.add_weights(weights);
    v1::PinWeightsResponse response;
    return client.stub()->PinWeights(&context, request, &response).error_code();
  };
  const auto touch = [](const Client& client, absl::Duration lease) {
    grpc::ClientContext context;
    v1::TouchWeightsRequest request;
    request.add_weights("a/x");
    request.set_lease_ns(absl::ToInt64Nanoseconds(lease));
    v1::TouchWeightsResponse response;
    return client.stub()
        ->TouchWeights(&context, request, &response)
        .error_code();
  };
  const auto drop = [](const Client& client, v1::UnloadWeightsResponse* end) {
    grpc::ClientContext context;
    v1::UnloadWeightsRequest request;
    request.set_prefix("a/");
    return client.stub()->UnloadWeights(&context, request, end).error_code();
  };
  EXPECT_EQ(pin(a, "a/x"), grpc::StatusCode::OK);
  EXPECT_EQ(pin(b, "a/x"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(pin(b, "b/x"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(touch(b, absl::Seconds(1)), grpc::StatusCode::OK);
  EXPECT_EQ(touch(c, absl::ZeroDuration()), grpc::StatusCode::OK);
  EXPECT_EQ(touch(c, absl::Seconds(1)), grpc::StatusCode::PERMISSION_DENIED);
  v1::UnloadWeightsResponse end;
  EXPECT_EQ(drop(b, &end), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(drop(a, &end), grpc::StatusCode::OK);
  EXPECT_EQ(end.names(), 1);
  EXPECT_EQ(a.Get("a/x").status.error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace qgemm
