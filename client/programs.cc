// SPDX-License-Identifier: Apache-2.0
//
// The methods of Client that are about programs.

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "client/client_impl.h"
#include "client/device_operands.h"
#include "client/program_wire.h"
#include "client/run_wire.h"
#include "kernels/programs/checked_program.h"
#include "qgemm/client.h"

namespace qgemm {
namespace {

// The shape of weights as far as a description tells it. Modes depend on more:
// they are left to the server.
ProgramWeights ShapeOf(const WeightsInfo& info) {
  ProgramWeights weights;
  weights.id = info.id;
  weights.shape.n = info.n;
  weights.shape.k = info.k;
  weights.shape.supports_a8 = true;
  weights.shape.integer_codes = true;
  return weights;
}

// Checks the program against weights that `client` describes. Weights that the
// server lacks are an error of the op that names them.
absl::Status CheckWithServer(const Program& program, absl::Time deadline,
                             Client* client) {
  // Whatever is wrong before the first op that names weights needs no call.
  ProgramWeightsMap weights;
  const absl::Status alone = CheckProgram(program, weights).status();
  if (!absl::IsNotFound(alone)) return alone;
  for (const ProgramOp& op : program.ops) {
    if (op.kind != OpKind::kGemm || weights.count(op.weights) > 0) continue;
    const auto info = client->GetWeights(op.weights, deadline);
    if (info.ok()) {
      weights.emplace(op.weights, ShapeOf(*info));
    } else if (!absl::IsNotFound(info.status())) {
      return info.status();
    }
  }
  return CheckProgram(program, weights).status();
}

v1::LoadProgramRequest RequestOf(v1::Program program,
                                 const RegisterOptions& options) {
  v1::LoadProgramRequest request;
  *request.mutable_program() = std::move(program);
  request.set_name(options.name);
  request.set_create_only(options.create_only);
  request.set_if_match(options.if_match);
  return request;
}

}  // namespace

absl::StatusOr<UnaryCall> Client::Impl::RunCall(
    const RunRequest& request) const {
  RETURN_IF_ERROR(
      CheckOnHost(device_operands(), request, CheckInputs(request)));
  // Made first, so that borrowed inputs are released whatever becomes of them.
  const std::vector<grpc::Slice> inputs = InputsToWire(request);
  RETURN_IF_ERROR(CheckInputs(request));
  RETURN_IF_ERROR(CheckOperandFits("the inputs have", InputBytes(request), ""));
  UnaryCall call;
  call.method = "/qgemm.v1.Qgemm/Run";
  call.request = ToWire(request, inputs);
  call.where.rows = request.m;
  call.deadline = request.deadline;
  return call;
}

absl::StatusOr<RegisterResult> Client::Impl::LoadProgram(
    v1::Program program, const RegisterOptions& options) {
  ASSIGN_OR_RETURN(
      const auto responses,
      CallEveryServer<v1::LoadProgramResponse>(
          "/qgemm.v1.Qgemm/LoadProgram", RequestOf(std::move(program), options),
          options.deadline));
  RegisterResult result;
  ASSIGN_OR_RETURN(result.program, FromWire(responses.front().program()));
  result.deduplicated =
      std::all_of(responses.begin(), responses.end(),
                  [](const auto& response) { return response.deduplicated(); });
  return result;
}

absl::StatusOr<RegisterResult> Client::RegisterProgram(
    const Program& program, const RegisterOptions& options) {
  if (options.check) {
    RETURN_IF_ERROR(CheckWithServer(program, options.deadline, this));
  }
  return impl_->LoadProgram(ToWire(program), options);
}

absl::StatusOr<RegisterResult> Client::RegisterProgram(
    const ProgramText& program, const RegisterOptions& options) {
  ASSIGN_OR_RETURN(v1::Program message, ToWire(program));
  return impl_->LoadProgram(std::move(message), options);
}

absl::StatusOr<RunResult> Client::Run(const RunRequest& request) {
  const std::shared_ptr<Impl> impl = impl_;
  auto end = impl->lane_calls().Run(request);
  if (end.has_value()) return *std::move(end);
  return impl->CallWithOperand<RunResult>(impl->RunCall(request),
                                          ExpectedOutputs(request));
}

CallHandle Client::RunAsync(const RunRequest& request, RunCallback callback) {
  return impl_->lane_calls().Start(
      request, std::move(callback),
      [impl = impl_.get()](const RunRequest& request, LaneRemainder remainder,
                           RunCallback callback) {
        return impl->StartWithOperand<RunResult>(
            impl->RunCall(request), remainder, ExpectedOutputs(request),
            std::move(callback));
      });
}

std::future<absl::StatusOr<RunResult>> Client::RunFuture(
    const RunRequest& request) {
  return FutureOf<RunResult>(
      [&](RunCallback callback) { RunAsync(request, std::move(callback)); });
}

absl::StatusOr<bool> Client::UnloadProgram(absl::string_view name_or_id,
                                           absl::Time deadline,
                                           absl::string_view if_match) {
  v1::UnloadProgramRequest request;
  request.set_program(std::string(name_or_id));
  request.set_if_match(std::string(if_match));
  ASSIGN_OR_RETURN(const auto responses,
                   impl_->CallEveryServer<v1::UnloadProgramResponse>(
                       "/qgemm.v1.Qgemm/UnloadProgram", request, deadline,
                       Impl::Lack::kIsFine));
  return std::all_of(responses.begin(), responses.end(),
                     [](const auto& response) { return response.freed(); });
}

absl::StatusOr<std::vector<ProgramInfo>> Client::ListPrograms(
    absl::Time deadline) {
  std::vector<ProgramInfo> programs;
  const auto take =
      [&programs](const v1::ListProgramsResponse& response) -> absl::Status {
    for (const v1::ProgramInfo& info : response.programs()) {
      ASSIGN_OR_RETURN(ProgramInfo program, FromWire(info));
      programs.push_back(std::move(program));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(impl_->CallForPages<v1::ListProgramsResponse>(
      "/qgemm.v1.Qgemm/ListPrograms", v1::ListProgramsRequest(), deadline,
      take));
  return programs;
}

absl::StatusOr<ProgramInfo> Client::GetProgram(absl::string_view name_or_id,
                                               absl::Time deadline) {
  v1::GetProgramRequest request;
  request.set_program(std::string(name_or_id));
  ASSIGN_OR_RETURN(const v1::GetProgramResponse response,
                   impl_->Call<v1::GetProgramResponse>(
                       "/qgemm.v1.Qgemm/GetProgram", request, deadline));
  return FromWire(response.program());
}

}  // namespace qgemm
