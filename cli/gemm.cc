// SPDX-License-Identifier: Apache-2.0
//
// qgemm gemm: multiplies random or given activations with a layer.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/layer_source.h"
#include "cli/matrices.h"
#include "cli/output.h"

namespace qgemm::cli {
namespace {

absl::StatusOr<GemmResult> MultiplyOverStream(Client* client,
                                              const GemmRequest& request) {
  GemmStreamOptions stream_options;
  stream_options.deadline = request.deadline;
  ASSIGN_OR_RETURN(const auto stream, client->GemmStream(stream_options));
  absl::StatusOr<GemmResult> result = absl::InternalError("no answer");
  RETURN_IF_ERROR(stream
                      ->Submit(request,
                               [&result](absl::StatusOr<GemmResult> ended) {
                                 result = std::move(ended);
                               })
                      .status());
  const absl::Status finished = stream->Finish();
  RETURN_IF_ERROR(result.status());
  RETURN_IF_ERROR(finished);
  return result;
}

class GemmCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override;
  absl::Status CheckUsage() override;
  absl::Status Run(const CommonOptions& common) override;

 private:
  MatmulSignature signature() const;
  absl::StatusOr<RowMatrix> MakeActivations(int64_t k) const;
  GemmRequest RequestFor(const WeightsInfo& weights, const RowMatrix& a) const;
  absl::StatusOr<OracleReport> Verify(const WeightsInfo& weights,
                                      const RowMatrix& a,
                                      const GemmResult& result);

  std::string weights_;
  int64_t m_ = 1;
  std::string a_path_;
  FloatType a_type_ = FloatType::kFloat16;
  std::optional<FloatType> c_type_;
  ComputeMode mode_ = ComputeMode::kA16;
  FloatType rounding_ = FloatType::kBFloat16;
  RequestPriority priority_ = RequestPriority::kNormal;
  std::string client_id_;
  std::string out_path_;
  bool stream_ = false;
  bool verify_ = false;
  LayerOptions layer_;
};

CLI::App* GemmCommand::AddTo(CLI::App* app) {
  const std::vector<std::pair<std::string, FloatType>> types = {
      {"fp32", FloatType::kFloat32},
      {"fp16", FloatType::kFloat16},
      {"bf16", FloatType::kBFloat16}};
  CLI::App* const command = app->add_subcommand(
      "gemm", "Multiplies random or given activations with a layer");
  AddWeightsArgument(command, &weights_);
  flags::AddOption(command, "m", &m_, "Rows of random activations");
  flags::AddOption(command, "a", &a_path_,
                   "A .npy file with activations [m, k], converted to --dtype");
  flags::AddChoice(command, "dtype", &a_type_, types, "Type of activations");
  flags::AddChoice<std::optional<FloatType>>(
      command, "out_dtype", &c_type_, {types.begin(), types.end()},
      "Type of the result; --dtype if not given");
  flags::AddChoice(command, "mode", &mode_,
                   {{"A16", ComputeMode::kA16},
                    {"A8", ComputeMode::kA8},
                    {"A32", ComputeMode::kA32}},
                   "A16: every format; A8: q4_0; A32: ternary and others with "
                   "integer codes");
  flags::AddChoice(
      command, "rounding", &rounding_,
      {{"fp16", FloatType::kFloat16}, {"bf16", FloatType::kBFloat16}},
      "Mode A16 with fp32: type that activations are rounded to");
  AddOrderOptions(command, &priority_, &client_id_);
  flags::AddOption(command, "out", &out_path_,
                   "Writes the result to this .npy file");
  flags::AddSwitch(command, "stream", &stream_,
                   "Sends the request over a stream, in fragments if need be");
  flags::AddSwitch(command, "verify", &verify_,
                   "Compares with fp64 over the same weights, made again from "
                   "--from or --random and the options that `load` was given");
  flags::AddOption(command, "from", &layer_.file,
                   "--verify: the weights' file");
  layer_.AddTo(command);
  return command;
}

absl::Status GemmCommand::CheckUsage() {
  if (m_ < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--m is ", m_, "; it must be 1 or more"));
  }
  if (verify_) return layer_.Check();
  if (!layer_.file.empty() || layer_.random.has_value()) {
    return absl::InvalidArgumentError(
        "--from and --random say which weights --verify compares with; add "
        "--verify");
  }
  return absl::OkStatus();
}

MatmulSignature GemmCommand::signature() const {
  MatmulSignature signature;
  signature.a_type = a_type_;
  signature.c_type = c_type_.value_or(a_type_);
  signature.mode = mode_;
  if (a_type_ == FloatType::kFloat32 && mode_ == ComputeMode::kA16) {
    signature.rounding = rounding_;
  }
  return signature;
}

absl::StatusOr<RowMatrix> GemmCommand::MakeActivations(int64_t k) const {
  return a_path_.empty() ? MakeMatrix(m_, k, a_type_, layer_.seed)
                         : ReadMatrix(a_path_, k, a_type_);
}

GemmRequest GemmCommand::RequestFor(const WeightsInfo& weights,
                                    const RowMatrix& a) const {
  const MatmulSignature signature = this->signature();
  GemmRequest request;
  request.weights = weights.id;  // --verify compares with these
  request.m = a.m;
  request.a = a.bytes;
  request.a_type = signature.a_type;
  request.c_type = signature.c_type;
  request.mode = signature.mode;
  request.rounding = signature.rounding;
  request.priority = priority_;
  request.client_id = client_id_;
  return request;
}

absl::StatusOr<OracleReport> GemmCommand::Verify(const WeightsInfo& weights,
                                                 const RowMatrix& a,
                                                 const GemmResult& result) {
  if (layer_.format.empty()) layer_.format = weights.format;
  ASSIGN_OR_RETURN(const auto source, LayerSource::Open(layer_));
  return VerifyAnswer(source->stream(), weights.id,
                      {signature(), a.m, a.bytes, result.bytes()});
}

absl::Status GemmCommand::Run(const CommonOptions& common) {
  ASSIGN_OR_RETURN(const auto client, common.Connect());
  const absl::Time deadline = common.Deadline();
  ASSIGN_OR_RETURN(const std::string name_or_id,
                   ResolveWeights(weights_, deadline, client.get()));
  ASSIGN_OR_RETURN(const WeightsInfo weights,
                   client->GetWeights(name_or_id, deadline));
  ASSIGN_OR_RETURN(const RowMatrix a, MakeActivations(weights.k));
  GemmRequest request = RequestFor(weights, a);
  request.deadline = deadline;
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const GemmResult result,
                   stream_ ? MultiplyOverStream(client.get(), request)
                           : client->Gemm(request));
  const absl::Duration elapsed = absl::Now() - start;
  if (!out_path_.empty()) {
    RETURN_IF_ERROR(
        WriteMatrix(out_path_, result.c_type, result.m, result.bytes()));
  }
  std::optional<OracleReport> verified;
  if (verify_) {
    ASSIGN_OR_RETURN(verified, Verify(weights, a, result));
  }
  Print(FormatGemmReport(
      {weights, signature(), result, elapsed, verified, out_path_},
      common.json ? GemmReportStyle::kJson : GemmReportStyle::kText));
  return verified ? verified->ToStatus() : absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewGemmCommand() {
  return std::make_unique<GemmCommand>();
}

}  // namespace qgemm::cli
