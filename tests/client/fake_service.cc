// SPDX-License-Identifier: Apache-2.0

#include "tests/client/fake_service.h"

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace qgemm {
namespace {

// Interval at which a call at the gate checks that its caller is still there.
constexpr absl::Duration kCancellationPoll = absl::Milliseconds(5);

}  // namespace

FakeService::FakeService(const Listener& listener) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", listener.port),
                           listener.credentials, &port_);
  // Sandboxed tests that run at a time have the same process number.
  char folder[] = "/tmp/qgemm_fake_XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  socket_folder_ = folder;
  unix_address_ = absl::StrCat("unix:", socket_folder_, "/socket");
  builder.AddListeningPort(unix_address_, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr);
  address_ = absl::StrCat("127.0.0.1:", port_);
}

FakeService::~FakeService() {
  OpenGate();
  server_->Shutdown();
  server_->Wait();
  unlink(absl::StrCat(socket_folder_, "/socket").c_str());
  rmdir(socket_folder_.c_str());
}

void FakeService::Stop() {
  server_->Shutdown(std::chrono::system_clock::now());
}

void FakeService::set_stream(StreamHandler handler) {
  MutexLock lock(&mutex_);
  stream_ = std::move(handler);
}

void FakeService::set_gemm(GemmHandler handler) {
  MutexLock lock(&mutex_);
  gemm_ = std::move(handler);
}

void FakeService::set_run(RunHandler handler) {
  MutexLock lock(&mutex_);
  run_ = std::move(handler);
}

void FakeService::set_weights(
    std::map<std::string, std::pair<int64_t, int64_t>> shapes) {
  MutexLock lock(&mutex_);
  weights_ = std::move(shapes);
}

void FakeService::set_program(v1::ProgramInfo program) {
  MutexLock lock(&mutex_);
  program_ = std::move(program);
}

void FakeService::FailNext(int count, grpc::Status status) {
  MutexLock lock(&mutex_);
  failures_left_ = count;
  failure_ = std::move(status);
}

void FakeService::set_deduplicates(bool deduplicates) {
  MutexLock lock(&mutex_);
  deduplicates_ = deduplicates;
}

void FakeService::set_repeats_pages(bool repeats_pages) {
  MutexLock lock(&mutex_);
  repeats_pages_ = repeats_pages;
}

void FakeService::set_lane_path(std::string path) {
  MutexLock lock(&mutex_);
  lane_path_ = std::move(path);
}

void FakeService::CloseGate() {
  MutexLock lock(&mutex_);
  gate_open_ = false;
}

void FakeService::OpenGate() {
  MutexLock lock(&mutex_);
  gate_open_ = true;
  changed_.SignalAll();
}

void FakeService::AwaitAtGate(int count) {
  MutexLock lock(&mutex_);
  while (at_gate_ < count) changed_.Wait(&mutex_);
}

int FakeService::calls() const {
  MutexLock lock(&mutex_);
  return calls_;
}

v1::GemmRequest FakeService::gemm_request() const {
  MutexLock lock(&mutex_);
  return gemm_request_;
}

v1::WeightsHeader FakeService::header() const {
  MutexLock lock(&mutex_);
  return header_;
}

std::vector<v1::WeightsChunk> FakeService::chunks() const {
  MutexLock lock(&mutex_);
  return chunks_;
}

std::vector<std::string> FakeService::unloaded() const {
  MutexLock lock(&mutex_);
  return unloaded_;
}

std::vector<std::string> FakeService::listed_prefixes() const {
  MutexLock lock(&mutex_);
  return listed_prefixes_;
}

v1::UnloadWeightsRequest FakeService::unload_request() const {
  MutexLock lock(&mutex_);
  return unload_request_;
}

v1::RunRequest FakeService::run_request() const {
  MutexLock lock(&mutex_);
  return run_request_;
}

v1::LoadProgramRequest FakeService::load_program_request() const {
  MutexLock lock(&mutex_);
  return load_program_request_;
}

v1::UnloadProgramRequest FakeService::unload_program_request() const {
  MutexLock lock(&mutex_);
  return unload_program_request_;
}

std::string FakeService::authorization() const {
  MutexLock lock(&mutex_);
  return authorization_;
}

grpc::Status FakeService::Admit(const grpc::ServerContext& context) {
  MutexLock lock(&mutex_);
  ++calls_;
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  authorization_ =
      found == metadata.end()
          ? ""
          : std::string(found->second.data(), found->second.length());
  if (failures_left_ == 0) return grpc::Status::OK;
  --failures_left_;
  return failure_;
}

void FakeService::WaitAtGate(grpc::ServerContext* context) {
  MutexLock lock(&mutex_);
  ++at_gate_;
  changed_.SignalAll();
  while (!gate_open_ && !context->IsCancelled()) {
    changed_.WaitFor(&mutex_, kCancellationPoll);
  }
  --at_gate_;
}

grpc::Status FakeService::Gemm(grpc::ServerContext* context,
                               const v1::GemmRequest* request,
                               v1::GemmResponse* response) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  WaitAtGate(context);
  GemmHandler handler;
  {
    MutexLock lock(&mutex_);
    handler = gemm_;
    gemm_request_ = *request;
  }
  if (handler == nullptr) {
    response->set_c(request->a());
    return grpc::Status::OK;
  }
  return handler(*request, response);
}

grpc::Status FakeService::GemmStream(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::GemmStreamResponse, v1::GemmStreamRequest>*
        stream) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  StreamHandler handler;
  {
    MutexLock lock(&mutex_);
    handler = stream_;
  }
  return handler(stream);
}

grpc::Status FakeService::LoadWeights(
    grpc::ServerContext* context,
    grpc::ServerReader<v1::LoadWeightsRequest>* reader,
    v1::LoadWeightsResponse* response) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  v1::LoadWeightsRequest request;
  if (!reader->Read(&request) || !request.has_header()) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no header");
  }
  response->mutable_weights()->add_names(request.header().name());
  bool deduplicate;
  {
    MutexLock lock(&mutex_);
    header_ = request.header();
    chunks_.clear();
    deduplicate = deduplicates_ && !header_.sha256().empty();
  }
  if (deduplicate) {
    response->set_deduplicated(true);
    return grpc::Status::OK;
  }
  WaitAtGate(context);
  while (reader->Read(&request)) {
    MutexLock lock(&mutex_);
    chunks_.push_back(request.chunk());
  }
  return grpc::Status::OK;
}

grpc::Status FakeService::UnloadWeights(grpc::ServerContext* context,
                                        const v1::UnloadWeightsRequest* request,
                                        v1::UnloadWeightsResponse* response) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  WaitAtGate(context);
  MutexLock lock(&mutex_);
  unloaded_.push_back(request->weights());
  unload_request_ = *request;
  response->set_freed(true);
  return grpc::Status::OK;
}

grpc::Status FakeService::ListWeights(grpc::ServerContext* context,
                                      const v1::ListWeightsRequest* request,
                                      v1::ListWeightsResponse* response) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  MutexLock lock(&mutex_);
  // Two pages.
  listed_prefixes_.push_back(request->prefix());
  const bool is_first = request->page_token().empty();
  response->add_weights()->set_id(is_first ? "first" : "second");
  if (is_first || repeats_pages_) response->set_next_page_token("page");
  return grpc::Status::OK;
}

grpc::Status FakeService::GetWeights(grpc::ServerContext* context,
                                     const v1::GetWeightsRequest* request,
                                     v1::GetWeightsResponse* response) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  v1::WeightsInfo* const info = response->mutable_weights();
  info->add_names(request->weights());
  info->set_id("id");
  info->set_n(7);
  info->set_k(32);
  MutexLock lock(&mutex_);
  if (weights_.has_value()) {
    const auto found = weights_->find(request->weights());
    if (found == weights_->end()) {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such weights");
    }
    info->set_n(found->second.first);
    info->set_k(found->second.second);
  }
  info->set_format("kbit3");
  info->set_resident_bytes(11);
  info->set_uploaded_bytes(13);
  info->set_has_bias(true);
  info->set_spec("spec");
  return grpc::Status::OK;
}

grpc::Status FakeService::LoadProgram(grpc::ServerContext* context,
                                      const v1::LoadProgramRequest* request,
                                      v1::LoadProgramResponse* response) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  MutexLock lock(&mutex_);
  load_program_request_ = *request;
  *response->mutable_program() = program_;
  response->set_deduplicated(deduplicates_);
  return grpc::Status::OK;
}

grpc::Status FakeService::UnloadProgram(grpc::ServerContext* context,
                                        const v1::UnloadProgramRequest* request,
                                        v1::UnloadProgramResponse* response) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  MutexLock lock(&mutex_);
  unload_program_request_ = *request;
  response->set_freed(true);
  return grpc::Status::OK;
}

grpc::Status FakeService::ListPrograms(grpc::ServerContext* context,
                                       const v1::ListProgramsRequest* request,
                                       v1::ListProgramsResponse* response) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  MutexLock lock(&mutex_);
  // Two pages.
  if (!request->page_token().empty()) {
    response->add_programs()->set_id("second");
    return grpc::Status::OK;
  }
  *response->add_programs() = program_;
  response->set_next_page_token("page");
  return grpc::Status::OK;
}

grpc::Status FakeService::GetProgram(grpc::ServerContext* context,
                                     const v1::GetProgramRequest*,
                                     v1::GetProgramResponse* response) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  MutexLock lock(&mutex_);
  *response->mutable_program() = program_;
  return grpc::Status::OK;
}

grpc::Status FakeService::Run(grpc::ServerContext* context,
                              const v1::RunRequest* request,
                              v1::RunResponse* response) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  WaitAtGate(context);
  RunHandler handler;
  {
    MutexLock lock(&mutex_);
    handler = run_;
    run_request_ = *request;
  }
  if (handler == nullptr) {
    response->set_outputs(request->inputs());
    return grpc::Status::OK;
  }
  return handler(*request, response);
}

grpc::Status FakeService::GetServerInfo(grpc::ServerContext* context,
                                        const v1::GetServerInfoRequest*,
                                        v1::GetServerInfoResponse* response) {
  const grpc::Status admitted = Admit(*context);
  if (!admitted.ok()) return admitted;
  response->set_backend("fake");
  response->set_max_message_bytes(1 << 20);
  response->set_max_stream_operand_bytes(1 << 20);
  response->set_max_n(17);
  response->set_uptime_ns(19);
  response->set_process_cpu_ns(23);
  response->add_formats("kbit4");
  response->set_program_revision(29);
  response->set_programs(31);
  MutexLock lock(&mutex_);
  response->set_lane_path(lane_path_);
  return grpc::Status::OK;
}

}  // namespace qgemm
