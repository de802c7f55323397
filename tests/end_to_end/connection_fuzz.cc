// SPDX-License-Identifier: Apache-2.0
//
// A libFuzzer target: no bytes of an HTTP/2 connection crash or hang a server,
// change another client's product, or leave a descriptor, memory of weights or
// a count of bytes behind. tools/fuzz.sh runs it.

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/file_descriptor.h"
#include "rpc/library_log.h"
#include "server/net/socket_calls.h"
#include "server/net/transit.h"
#include "server/server.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/http2_attack.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/test_server.h"
#include "tests/server/net/test_sockets.h"
#include "tests/support/fuzz_input.h"
#include "tests/support/seeds.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

constexpr int kInputsBetweenLooks = 64;
// Descriptors that gRPC may open, or not have closed yet.
constexpr int64_t kSpareDescriptors = 32;
// More than the bystander sends for a call.
constexpr int64_t kCallBytes = 4096;
// Above those of the server's connections: recvmsg counts by number.
constexpr int kBystanderDescriptor = 1000;

// Waits until the server closes the connection.
void ReadToEnd(const FileDescriptor& connection) {
  char bytes[4096];
  while (TEMP_FAILURE_RETRY(recv(connection.get(), bytes, sizeof(bytes), 0)) >
         0) {
  }
}

std::unique_ptr<Server> MustServe(const std::string& address) {
  // As server/main.cc does.
  setenv("GRPC_POLL_STRATEGY", "poll", 0);
  TakeTurnsInReading(true);
  LogLibraries();
  ServerOptions options;
  options.listen = {address};
  options.backend.kind = BackendKind::kReference;
  options.weights_budget_bytes = 1 << 20;
  options.enable_echo = true;
  auto server = Server::Create(options);
  CHECK_OK(server.status());
  return *std::move(server);
}

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  const FileDescriptor fd = MustConnect(AddressOf(address));
  const int high = fcntl(fd.get(), F_DUPFD_CLOEXEC, kBystanderDescriptor);
  CHECK_GE(high, kBystanderDescriptor);
  CHECK_EQ(fcntl(high, F_SETFL, O_NONBLOCK), 0);
  return grpc::CreateInsecureChannelFromFd("bystander", high);
}

WeightsSpec LayerSpec() {
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = 64;
  spec.k = kAttackedLayerK;
  return spec;
}

int64_t OpenDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

// A server that lives as long as the process, and a client that multiplies
// while the inputs attack.
class Scene {
 public:
  Scene() {
    StartAnew();
    CHECK(Multiply());
    descriptors_ = OpenDescriptors();
  }

  void Play(FuzzInput* input) {
    const FileDescriptor connection = MustConnect(AddressOf(address_));
    int64_t sent_bytes = 0;
    // Bytes for a connection that the server has closed are lost.
    const auto send_bytes = [&](const std::string& bytes) {
      send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      sent_bytes += bytes.size();
    };
    Http2Attack attack(input);
    const bool ends_early = input->OneIn(4);
    send_bytes(attack.Start());
    while (!input->empty()) {
      send_bytes(attack.Next());
      if (input->OneIn(8)) Multiply();
    }
    if (ends_early) shutdown(connection.get(), SHUT_WR);
    Multiply();
    shutdown(connection.get(), SHUT_WR);
    ReadToEnd(connection);
    most_sent_bytes_ = std::max(most_sent_bytes_, sent_bytes);
    if (++inputs_ % kInputsBetweenLooks == 0) {
      LookAround();
      StartAnew();
      CHECK(Multiply()) << "its weights are not there";
    }
  }

 private:
  // False if the weights are gone: any client may unload them, as an input may
  // find out.
  bool Multiply() {
    const auto answer = client_->Gemm(gemm_);
    bystander_bytes_ += kCallBytes;
    if (answer.status.error_code() == grpc::StatusCode::NOT_FOUND) return false;
    CHECK(answer.ok()) << answer.status.error_message();
    if (product_.empty()) product_ = answer.response.c();
    CHECK(answer.response.c() == product_) << "other bits";
    return true;
  }

  // No attack goes on: nobody counts meanwhile.
  void LookAround() {
    // The server may be late to close the connections of inputs before.
    const absl::Time patience = absl::Now() + absl::Seconds(30);
    while (OpenDescriptors() > descriptors_ + kSpareDescriptors) {
      CHECK(absl::Now() < patience) << OpenDescriptors() << " are open, and "
                                    << descriptors_ << " were at first";
      std::this_thread::yield();
    }
    most_sent_bytes_ = std::max(most_sent_bytes_, bystander_bytes_);
    for (int fd = 0; fd < descriptors_ + kSpareDescriptors; ++fd) {
      CHECK_LE(TransitOf(fd)->bytes(), most_sent_bytes_)
          << "are of several connections";
    }
  }

  // Makes the bystander's connection a new one, and its weights the only ones.
  // They have a name that no input knows, and one that all do.
  void StartAnew() {
    client_.emplace(NewChannel(address_));
    bystander_bytes_ = kCallBytes;
    // Uploads hold memory and places for a while after their connection's end.
    do {
      bystander_bytes_ += 2 * kCallBytes;
      for (const v1::WeightsInfo& weights : client_->List()) {
        client_->Unload(weights.id());
        bystander_bytes_ += kCallBytes;
      }
    } while (client_->Info().weights_bytes() > 0);
    for (const char* const name : {"bystander", kAttackedLayer}) {
      do {
        bystander_bytes_ += kCallBytes;
      } while (!client_->Load(ToMessages(layer_, name)).ok());
    }
  }

  const TemporaryFolder folder_;
  const std::string address_ = "unix:" + folder_.File("socket");
  const std::unique_ptr<Server> server_ = MustServe(address_);
  std::optional<Client> client_;
  RandomGenerator random_{1};
  const RandomUpload layer_ = MakeRandomUpload(LayerSpec(), &random_);
  const v1::GemmRequest gemm_ = MakeGemm(absl::BytesToHexString(IdOf(layer_)),
                                         2, kAttackedLayerK, &random_);
  std::string product_;
  int64_t descriptors_ = 0;  // open when no input has come yet
  int64_t inputs_ = 0;
  int64_t bystander_bytes_ = 0;  // at most so many on its connection
  int64_t most_sent_bytes_ = 0;  // of any connection
};

}  // namespace
}  // namespace qgemm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static qgemm::Scene scene;
  qgemm::FuzzInput input(data, size);
  scene.Play(&input);
  return 0;
}
