// SPDX-License-Identifier: Apache-2.0
//
// FakeService: a qgemm server in the test's process whose answers the test
// decides. Works, on a real socket, but holds and multiplies nothing.

#ifndef QGEMM_TESTS_CLIENT_FAKE_SERVICE_H_
#define QGEMM_TESTS_CLIENT_FAKE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "qgemm/v1/qgemm.grpc.pb.h"

namespace qgemm {

// Thread-safe. Handlers run on gRPC's threads.
class FakeService final : public v1::Qgemm::Service {
 public:
  using GemmHandler =
      std::function<grpc::Status(const v1::GemmRequest&, v1::GemmResponse*)>;
  using RunHandler =
      std::function<grpc::Status(const v1::RunRequest&, v1::RunResponse*)>;
  using StreamHandler = std::function<grpc::Status(
      grpc::ServerReaderWriter<v1::GemmStreamResponse,
                               v1::GemmStreamRequest>*)>;

  // The TCP listener's credentials, and its port, 0 for a free one.
  struct Listener {
    std::shared_ptr<grpc::ServerCredentials> credentials =
        grpc::InsecureServerCredentials();
    int port = 0;
  };

  FakeService() : FakeService(Listener()) {}
  explicit FakeService(const Listener& listener);
  ~FakeService() override;

  // Ends all calls and connections; nobody listens then.
  void Stop();

  // "127.0.0.1:port".
  const std::string& address() const { return address_; }
  int port() const { return port_; }
  // "unix:path".
  const std::string& unix_address() const { return unix_address_; }

  void set_gemm(GemmHandler handler);
  // Without a handler a Run answers its inputs.
  void set_run(RunHandler handler);
  // The weights that GetWeights knows by name, with n and k; all names, if it
  // was never called.
  void set_weights(std::map<std::string, std::pair<int64_t, int64_t>> shapes);
  // The program that a load, a list and a description answer.
  void set_program(v1::ProgramInfo program);
  // Serves each GemmStream from its start to its end.
  void set_stream(StreamHandler handler);
  // The next `count` calls of any kind end with this status.
  void FailNext(int count, grpc::Status status);
  // Loads whose header carries a hash are answered before their chunks.
  void set_deduplicates(bool deduplicates);

  // The path that GetServerInfo tells of a lane's socket; empty at first.
  void set_lane_path(std::string path);

  // Every page of a list is said to be followed by the first.
  void set_repeats_pages(bool repeats_pages);

  // Gemm and Run calls, loads after their header and unloads of weights wait
  // here until OpenGate; the gate is open at first.
  void CloseGate();
  void OpenGate();
  // Returns when `count` of them wait at the gate.
  void AwaitAtGate(int count);

  int calls() const;
  // The metadata `authorization` of the last call; empty if it had none.
  std::string authorization() const;
  // The last Gemm request.
  v1::GemmRequest gemm_request() const;
  // The header and chunks of the last load.
  v1::WeightsHeader header() const;
  std::vector<v1::WeightsChunk> chunks() const;
  std::vector<std::string> unloaded() const;
  // Prefix of each page that was asked for.
  std::vector<std::string> listed_prefixes() const;
  // The last UnloadWeights request.
  v1::UnloadWeightsRequest unload_request() const;
  // The last requests of their kinds.
  v1::RunRequest run_request() const;
  v1::LoadProgramRequest load_program_request() const;
  v1::UnloadProgramRequest unload_program_request() const;

 private:
  grpc::Status Gemm(grpc::ServerContext* context,
                    const v1::GemmRequest* request,
                    v1::GemmResponse* response) override;
  grpc::Status GemmStream(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::GemmStreamResponse, v1::GemmStreamRequest>*
          stream) override;
  grpc::Status LoadWeights(grpc::ServerContext* context,
                           grpc::ServerReader<v1::LoadWeightsRequest>* reader,
                           v1::LoadWeightsResponse* response) override;
  grpc::Status UnloadWeights(grpc::ServerContext* context,
                             const v1::UnloadWeightsRequest* request,
                             v1::UnloadWeightsResponse* response) override;
  grpc::Status ListWeights(grpc::ServerContext* context,
                           const v1::ListWeightsRequest* request,
                           v1::ListWeightsResponse* response) override;
  grpc::Status GetWeights(grpc::ServerContext* context,
                          const v1::GetWeightsRequest* request,
                          v1::GetWeightsResponse* response) override;
  grpc::Status LoadProgram(grpc::ServerContext* context,
                           const v1::LoadProgramRequest* request,
                           v1::LoadProgramResponse* response) override;
  grpc::Status UnloadProgram(grpc::ServerContext* context,
                             const v1::UnloadProgramRequest* request,
                             v1::UnloadProgramResponse* response) override;
  grpc::Status ListPrograms(grpc::ServerContext* context,
                            const v1::ListProgramsRequest* request,
                            v1::ListProgramsResponse* response) override;
  grpc::Status GetProgram(grpc::ServerContext* context,
                          const v1::GetProgramRequest* request,
                          v1::GetProgramResponse* response) override;
  grpc::Status Run(grpc::ServerContext* context, const v1::RunRequest* request,
                   v1::RunResponse* response) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context,
                             const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override;

  // Counts a call; OK unless it is one that is to fail.
  grpc::Status Admit(const grpc::ServerContext& context);
  void WaitAtGate(grpc::ServerContext* context);

  mutable Mutex mutex_;
  CondVar changed_;
  GemmHandler gemm_ ABSL_GUARDED_BY(mutex_);
  StreamHandler stream_ ABSL_GUARDED_BY(mutex_);
  int failures_left_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool deduplicates_ ABSL_GUARDED_BY(mutex_) = false;
  bool gate_open_ ABSL_GUARDED_BY(mutex_) = true;
  int at_gate_ ABSL_GUARDED_BY(mutex_) = 0;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string authorization_ ABSL_GUARDED_BY(mutex_);
  v1::GemmRequest gemm_request_ ABSL_GUARDED_BY(mutex_);
  v1::WeightsHeader header_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::WeightsChunk> chunks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> unloaded_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> listed_prefixes_ ABSL_GUARDED_BY(mutex_);
  v1::UnloadWeightsRequest unload_request_ ABSL_GUARDED_BY(mutex_);
  RunHandler run_ ABSL_GUARDED_BY(mutex_);
  v1::RunRequest run_request_ ABSL_GUARDED_BY(mutex_);
  v1::ProgramInfo program_ ABSL_GUARDED_BY(mutex_);
  v1::LoadProgramRequest load_program_request_ ABSL_GUARDED_BY(mutex_);
  v1::UnloadProgramRequest unload_program_request_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::map<std::string, std::pair<int64_t, int64_t>>> weights_
      ABSL_GUARDED_BY(mutex_);
  std::string lane_path_ ABSL_GUARDED_BY(mutex_);
  bool repeats_pages_ ABSL_GUARDED_BY(mutex_) = false;

  std::string address_;
  int port_ = 0;
  std::string socket_folder_;
  std::string unix_address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_CLIENT_FAKE_SERVICE_H_
