// SPDX-License-Identifier: Apache-2.0
//
// qgemm gemm: multiplies random or given activations with a layer.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/gemm_report.h"
#include "cli/layer_source.h"
#include "cli/output.h"
#include "cli/random_values.h"
#include "cli/tensor_files/npy.h"
#include "cli/verify.h"

namespace qgemm {
namespace {

struct GemmFlags {
  std::string weights;
  int64_t m = 1;
  std::string a;
  std::string dtype = "fp16";
  std::string out_dtype;
  std::string mode = "A16";
  std::string rounding = "bf16";
  std::string priority = "normal";
  std::string client_id;
  std::string out;
  bool stream = false;
  bool verify = false;
};

absl::StatusOr<FloatType> ParseType(absl::string_view flag,
                                    const std::string& text) {
  for (const FloatType type :
       {FloatType::kFloat32, FloatType::kFloat16, FloatType::kBFloat16}) {
    if (text == std::string(Name(type))) return type;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, " is '", text, "'; it must be fp32, fp16 or bf16"));
}

absl::StatusOr<ComputeMode> ParseMode(const std::string& text) {
  for (const ComputeMode mode :
       {ComputeMode::kA16, ComputeMode::kA8, ComputeMode::kA32}) {
    if (absl::AsciiStrToUpper(text) == std::string(Name(mode))) return mode;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--mode is '", text, "'; it must be A16, A8 or A32"));
}

absl::StatusOr<MatmulSignature> ParseSignature(const GemmFlags& flags) {
  MatmulSignature signature;
  ASSIGN_OR_RETURN(signature.a_type, ParseType("dtype", flags.dtype));
  signature.c_type = signature.a_type;
  if (!flags.out_dtype.empty()) {
    ASSIGN_OR_RETURN(signature.c_type, ParseType("out_dtype", flags.out_dtype));
  }
  ASSIGN_OR_RETURN(signature.mode, ParseMode(flags.mode));
  if (signature.a_type == FloatType::kFloat32 &&
      signature.mode == ComputeMode::kA16) {
    ASSIGN_OR_RETURN(signature.rounding, ParseType("rounding", flags.rounding));
  }
  return signature;
}

// Activations [m, k] as they are sent.
struct Activations {
  int64_t m = 0;
  std::vector<uint8_t> bytes;
};

Activations Pack(int64_t m, const std::vector<float>& values, FloatType type) {
  Activations a;
  a.m = m;
  a.bytes.resize(values.size() * SizeOf(type));
  for (size_t i = 0; i < values.size(); ++i) {
    StoreFloat(type, values[i], a.bytes.data() + i * SizeOf(type));
  }
  return a;
}

absl::StatusOr<Activations> ReadActivations(const std::string& path, int64_t k,
                                            FloatType type) {
  ASSIGN_OR_RETURN(const auto file, TensorFile::Open(path));
  ASSIGN_OR_RETURN(const TensorMatrix matrix, file->Matrix(""));
  if (matrix.type == TensorType::kQ4_0 || matrix.k != k) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the matrix is ", Name(matrix.type), " [", matrix.n, ", ",
        matrix.k, "]; floats [m, ", k, "] are needed"));
  }
  return Pack(matrix.n, ToFloats(matrix), type);
}

// .npy knows no bfloat16: that is written as fp32, which is exact.
absl::Status WriteResult(const std::string& path, const GemmResult& result) {
  if (result.c_type != FloatType::kBFloat16) {
    const TensorType type = result.c_type == FloatType::kFloat32
                                ? TensorType::kFloat32
                                : TensorType::kFloat16;
    return WriteNpy(
        path, NpyHeader(type, result.m, result.n),
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(result.c.data()),
                            result.c.size()));
  }
  const std::vector<float> values = result.ToFloats();
  return WriteNpy(
      path, NpyHeader(TensorType::kFloat32, result.m, result.n),
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                          values.size() * sizeof(float)));
}

absl::StatusOr<GemmResult> MultiplyOverStream(Client* client,
                                              const GemmRequest& options) {
  GemmStreamOptions stream_options;
  stream_options.deadline = options.deadline;
  ASSIGN_OR_RETURN(const auto stream, client->GemmStream(stream_options));
  absl::StatusOr<GemmResult> result = absl::InternalError("no answer");
  RETURN_IF_ERROR(stream
                      ->Submit(options,
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
  absl::string_view synopsis() const override { return "gemm WEIGHTS"; }
  absl::string_view summary() const override {
    return "Multiplies random or given activations with a layer.";
  }
  void AddFlags(FlagSet* flags) override {
    flags->Add("m", &flags_.m, "Rows of random activations.");
    flags->Add("a", &flags_.a,
               "A .npy file with activations [m, k], converted to --dtype.");
    flags->Add("dtype", &flags_.dtype, "Of activations: fp32, fp16 or bf16.");
    flags->Add("out_dtype", &flags_.out_dtype,
               "Of the result. Default: --dtype.");
    flags->Add("mode", &flags_.mode,
               "A16 (every format), A8 (q4_0) or A32 (ternary and more).");
    flags->Add("rounding", &flags_.rounding,
               "Mode A16 with fp32: what activations are rounded to.");
    flags->Add("priority", &flags_.priority,
               "Who goes first at the server: low, normal or high.");
    flags->Add("client_id", &flags_.client_id,
               "Whose request it is, for fairness and quotas at the server.");
    flags->Add("out", &flags_.out, "Writes the result to this .npy file.");
    flags->Add("stream", &flags_.stream,
               "Sends the request over a stream, in fragments if need be.");
    flags->Add("verify", &flags_.verify,
               "Compares with fp64 over the same weights, made again from "
               "--from or --random and the flags that `load` was given.");
    flags->Add("from", &layer_.file, "--verify: the weights' file.");
    layer_.AddTo(flags);
  }
  absl::Status CheckUsage(const std::vector<std::string>& arguments) override {
    RETURN_IF_ERROR(CheckArgumentCount(arguments, 1));
    flags_.weights = arguments[0];
    ASSIGN_OR_RETURN(signature_, ParseSignature(flags_));
    const auto priority = ParsePriority(flags_.priority);
    if (!priority.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--priority is '", flags_.priority,
                       "'; it must be low, normal or high"));
    }
    priority_ = *priority;
    if (flags_.m < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--m is ", flags_.m, "; it must be 1 or more"));
    }
    if (flags_.verify) return layer_.Check();
    if (!layer_.file.empty() || !layer_.random.empty()) {
      return absl::InvalidArgumentError("--from and --random are for --verify");
    }
    return absl::OkStatus();
  }
  absl::Status Run(const CommonFlags& common) override;

 private:
  absl::StatusOr<Activations> MakeActivations(int64_t k) const {
    if (!flags_.a.empty()) {
      return ReadActivations(flags_.a, k, signature_.a_type);
    }
    if (flags_.m > (int64_t{1} << 32) / k) {
      return absl::InvalidArgumentError(
          absl::StrCat("--m is ", flags_.m, "; with k = ", k, " at most ",
                       (int64_t{1} << 32) / k, " rows are made"));
    }
    // Another stream than that of random weights of the same seed.
    const uint64_t seed = ~static_cast<uint64_t>(layer_.seed);
    return Pack(flags_.m, RandomValues(flags_.m * k, 1.0f, seed),
                signature_.a_type);
  }

  absl::StatusOr<OracleReport> Verify(const WeightsInfo& weights,
                                      const Activations& a,
                                      const GemmResult& result) {
    if (layer_.format.empty()) layer_.format = weights.format;
    ASSIGN_OR_RETURN(const auto source, LayerSource::Open(layer_));
    AnswerToCheck answer;
    answer.signature = signature_;
    answer.m = a.m;
    answer.a = a.bytes;
    answer.c = absl::MakeConstSpan(
        reinterpret_cast<const uint8_t*>(result.c.data()), result.c.size());
    return VerifyAnswer(source->stream(), weights.id, answer);
  }

  GemmFlags flags_;
  LayerFlags layer_;
  MatmulSignature signature_;
  RequestPriority priority_ = RequestPriority::kNormal;
};

absl::Status GemmCommand::Run(const CommonFlags& common) {
  ASSIGN_OR_RETURN(const auto client, common.Connect());
  const absl::Time deadline = common.Deadline();
  ASSIGN_OR_RETURN(const WeightsInfo weights,
                   client->GetWeights(flags_.weights, deadline));
  ASSIGN_OR_RETURN(const Activations a, MakeActivations(weights.k));
  GemmRequest options;
  options.weights = weights.id;  // what --verify compares with
  options.m = a.m;
  options.a = a.bytes;
  options.a_type = signature_.a_type;
  options.c_type = signature_.c_type;
  options.mode = signature_.mode;
  options.rounding = signature_.rounding;
  options.priority = priority_;
  options.client_id = flags_.client_id;
  options.deadline = deadline;
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const GemmResult result,
                   flags_.stream ? MultiplyOverStream(client.get(), options)
                                 : client->Gemm(options));
  const absl::Duration elapsed = absl::Now() - start;
  if (!flags_.out.empty()) RETURN_IF_ERROR(WriteResult(flags_.out, result));
  std::optional<OracleReport> verified;
  if (flags_.verify) {
    ASSIGN_OR_RETURN(verified, Verify(weights, a, result));
  }
  Print(FormatGemmReport(
      {weights, signature_, result, elapsed, verified, flags_.out},
      common.json ? GemmReportStyle::kJson : GemmReportStyle::kText));
  return verified ? verified->ToStatus() : absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewGemmCommand() {
  return std::make_unique<GemmCommand>();
}

}  // namespace qgemm
