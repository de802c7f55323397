// SPDX-License-Identifier: Apache-2.0
//
// First the program with its weights, as the server must have it; then the
// results of its ops; then the verdicts.

#include "cli/program_check.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/checked_math.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "cli/answer.h"
#include "cli/matrices.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/programs/canonical_text.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/op_fields.h"
#include "kernels/reference/op_judge.h"
#include "kernels/reference/program_interpreter.h"

namespace qgemm::cli {
namespace {

using reference::ProgramValues;

constexpr absl::Duration kUnloadTimeout = absl::Seconds(10);

// The program and its weights, by weights_ids().
struct Replica {
  CheckedProgram program;
  std::vector<CanonicalWeights> weights;

  std::vector<const CanonicalWeights*> pointers() const {
    std::vector<const CanonicalWeights*> pointers;
    for (const CanonicalWeights& layer : weights) pointers.push_back(&layer);
    return pointers;
  }
};

absl::Status CheckCount(absl::string_view option, size_t given, size_t needed) {
  if (given == needed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " has ", given, " sources; the program has ", needed,
                   ", in the order of `qgemm program describe`"));
}

// The ids of the weights, each once, in the order of their first use.
std::vector<std::string> WeightsIdsOf(const Program& program) {
  std::vector<std::string> ids;
  for (const ProgramOp& op : program.ops) {
    if (op.kind == OpKind::kGemm &&
        std::find(ids.begin(), ids.end(), op.weights) == ids.end()) {
      ids.push_back(op.weights);
    }
  }
  return ids;
}

// Fills in the bytes of the program's constants.
absl::Status ReadConstants(const std::vector<std::string>& paths,
                           ProgramReading* reading) {
  RETURN_IF_ERROR(
      CheckCount("--constants", paths.size(), reading->constants.size()));
  for (size_t i = 0; i < paths.size(); ++i) {
    ProgramConstant& constant = reading->program.constants[i];
    const ConstantDigest& digest = reading->constants[i];
    ASSIGN_OR_RETURN(RowMatrix row, ReadMatrix(paths[i], digest.width,
                                               FloatTypeOf(constant.type)));
    Sha256 hash;
    hash.Update(
        {reinterpret_cast<const char*>(row.bytes.data()), row.bytes.size()});
    if (ToHex(hash.Finish()) != digest.sha256) {
      return absl::FailedPreconditionError(
          absl::StrCat(paths[i], ": the program's constant ", i,
                       " has other values than these"));
    }
    constant.bytes = std::move(row.bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<CanonicalWeights> ReadWeights(const std::string& text,
                                             const std::string& id,
                                             const LayerOptions& shared,
                                             absl::Time deadline,
                                             Client* client) {
  ASSIGN_OR_RETURN(LayerOptions layer, ReadLayer(text, shared));
  if (layer.format.empty()) {
    ASSIGN_OR_RETURN(const WeightsInfo info, client->GetWeights(id, deadline));
    layer.format = info.format;
  }
  ASSIGN_OR_RETURN(const auto source, LayerSource::Open(layer));
  return DecodeWeights(source->stream(), id);
}

// The program that the server describes, from its text and the sources.
absl::StatusOr<Replica> MakeReplica(const RunToCheck& run,
                                    const ProgramSources& sources,
                                    Client* client) {
  ASSIGN_OR_RETURN(ProgramReading reading, ReadCanonicalText(run.program.text));
  RETURN_IF_ERROR(ReadConstants(sources.constants, &reading));
  const std::vector<std::string> ids = WeightsIdsOf(reading.program);
  RETURN_IF_ERROR(CheckCount("--weights", sources.weights.size(), ids.size()));
  std::vector<CanonicalWeights> weights;
  ProgramWeightsMap shapes;
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSIGN_OR_RETURN(CanonicalWeights layer,
                     ReadWeights(sources.weights[i], ids[i], sources.layer,
                                 run.request.deadline, client));
    shapes[ids[i]] = {ids[i], layer.header()};
    weights.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(CheckedProgram program,
                   CheckProgram(std::move(reading.program), shapes));
  if (ProgramId(program) != run.program.id) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server describes program ", run.program.id,
                     " by a text of another id"));
  }
  return Replica{std::move(program), std::move(weights)};
}

// The same program with every result an output, in the order of values.
Program WithAllOutputs(const CheckedProgram& program) {
  Program all = program.program();
  all.outputs.clear();
  const auto values = static_cast<ValueNumber>(program.values().size());
  for (ValueNumber number = program.result_of(0); number < values; ++number) {
    all.outputs.push_back(number);
  }
  return all;
}

// Runs a program under a name of its own, which is dropped again.
absl::StatusOr<RunResult> RunForOnce(const Program& program, RunRequest request,
                                     Client* client) {
  std::random_device random;
  RegisterOptions options;
  options.name = absl::StrFormat("qgemm-verify/%08x%08x", random(), random());
  options.create_only = true;
  options.deadline = request.deadline;
  options.check = false;
  RETURN_IF_ERROR(client->RegisterProgram(program, options).status());
  request.program = options.name;
  absl::StatusOr<RunResult> result = client->Run(request);
  // Also where the run has used up its time.
  const absl::Status unloaded =
      client->UnloadProgram(options.name, absl::Now() + kUnloadTimeout)
          .status();
  if (result.ok() && !unloaded.ok()) return unloaded;
  return result;
}

// The results of all ops, one behind the other.
absl::StatusOr<std::string> RunAllOps(const RunToCheck& run,
                                      const CheckedProgram& program,
                                      Client* client) {
  const Program all = WithAllOutputs(program);
  if (all.outputs == program.program().outputs) return run.result.outputs;
  RunRequest request = run.request;
  request.outputs.clear();
  request.time_ops = false;
  ASSIGN_OR_RETURN(RunResult result,
                   RunForOnce(all, std::move(request), client));
  return std::move(result.outputs);
}

// The bytes of each result in `outputs`, [m, width] each.
absl::StatusOr<std::vector<absl::Span<const uint8_t>>> ResultsIn(
    const CheckedProgram& program, int64_t m, const std::string& outputs) {
  absl::Span<const uint8_t> left(
      reinterpret_cast<const uint8_t*>(outputs.data()), outputs.size());
  std::vector<absl::Span<const uint8_t>> results;
  for (const ProgramValue& value : program.values()) {
    if (value.origin != ProgramValue::Origin::kResult) continue;
    const auto bytes = static_cast<size_t>(m * value.row_bytes());
    if (bytes > left.size()) break;
    results.push_back(left.first(bytes));
    left.remove_prefix(bytes);
  }
  const size_t needed = program.values().size() - program.result_of(0);
  if (results.size() == needed && left.empty()) return results;
  return absl::InternalError(absl::StrCat(
      "the server answered ", outputs.size(), " bytes for all results of ", m,
      " rows, which are not theirs"));
}

// The outputs of the run must be those results.
absl::Status CompareBits(
    const RunToCheck& run, const CheckedProgram& program,
    const std::vector<absl::Span<const uint8_t>>& results) {
  const std::vector<ValueNumber>& outputs = program.program().outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    ASSIGN_OR_RETURN(const auto output, run.result.Output(run.program, i));
    if (output == results[outputs[i] - program.result_of(0)]) continue;
    return absl::DataLossError(
        absl::StrCat("output ", i, " of two runs has other bits in each"));
  }
  return absl::OkStatus();
}

// fp64 multiplications of a row.
int64_t RowProducts(const Replica& replica) {
  int64_t products = 1;
  for (size_t op = 0; op < replica.program.ops().size(); ++op) {
    if (replica.program.ops()[op].kind != OpKind::kGemm) continue;
    const WeightsHeader& header =
        replica.weights[replica.program.weights_of(op)].header();
    products += header.n * header.k;
  }
  return products;
}

// Every `stride`th row of [m, row_bytes].
void AppendRows(absl::Span<const uint8_t> matrix, int64_t m, int64_t stride,
                std::vector<uint8_t>* rows) {
  const auto row_bytes = static_cast<int64_t>(matrix.size()) / m;
  for (int64_t row = 0; row < m; row += stride) {
    const uint8_t* const begin = matrix.data() + row * row_bytes;
    rows->insert(rows->end(), begin, begin + row_bytes);
  }
}

// ||actual - expected|| / ||expected|| over the outputs' finite floats.
double RelativeNorm(const CheckedProgram& program, const ProgramValues& actual,
                    const ProgramValues& expected) {
  double error_squares = 0;
  double squares = 0;
  for (const ValueNumber number : program.program().outputs) {
    if (!IsFloat(program.values()[number].type)) continue;
    const FloatType type = FloatTypeOf(program.values()[number].type);
    for (size_t at = 0; at < actual[number].size(); at += SizeOf(type)) {
      const double right = LoadFloat(type, &expected[number][at]);
      const double error = LoadFloat(type, &actual[number][at]) - right;
      if (!std::isfinite(right) || !std::isfinite(error)) continue;
      error_squares += error * error;
      squares += right * right;
    }
  }
  return squares > 0 ? std::sqrt(error_squares / squares) : 0;
}

ProgramCheck JudgeOps(const Replica& replica, int64_t rows,
                      const std::vector<uint8_t>& inputs,
                      const ProgramValues& values) {
  const std::vector<const CanonicalWeights*> weights = replica.pointers();
  ProgramCheck check;
  check.rows = rows;
  const auto ops = static_cast<int64_t>(replica.program.ops().size());
  for (int64_t op = 0; op < ops; ++op) {
    check.ops.push_back(
        {LabelOf(replica.program.ops()[op]),
         reference::CompareOp(replica.program, weights, values, rows, op)});
  }
  check.relative_norm = RelativeNorm(
      replica.program, values,
      reference::InterpretProgram(replica.program, weights, inputs, rows)
          .values);
  return check;
}

}  // namespace

int64_t ProgramCheck::worst() const {
  return std::max_element(ops.begin(), ops.end(),
                          [](const Op& one, const Op& other) {
                            return one.report.worst_ratio <
                                   other.report.worst_ratio;
                          }) -
         ops.begin();
}

absl::Status ProgramCheck::ToStatus() const {
  const absl::Status status = ops[worst()].report.ToStatus();
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("op ", worst(), " (", ops[worst()].label,
                                   "): ", status.message()));
}

absl::StatusOr<ProgramCheck> CheckRun(const RunToCheck& run,
                                      const ProgramSources& sources,
                                      Client* client) {
  ASSIGN_OR_RETURN(const Replica replica, MakeReplica(run, sources, client));
  const CheckedProgram& program = replica.program;
  const int64_t m = run.request.m;
  ASSIGN_OR_RETURN(const std::string outputs, RunAllOps(run, program, client));
  ASSIGN_OR_RETURN(const auto results, ResultsIn(program, m, outputs));
  RETURN_IF_ERROR(CompareBits(run, program, results));
  const int64_t stride =
      CeilDiv(m, std::max<int64_t>(1, kMaxProducts / RowProducts(replica)));
  const int64_t rows = CeilDiv(m, stride);
  std::vector<uint8_t> inputs;
  for (const auto& input : run.request.inputs) {
    AppendRows(input, m, stride, &inputs);
  }
  ProgramValues values = reference::ValuesBeforeOps(program, inputs, rows);
  for (size_t i = 0; i < results.size(); ++i) {
    AppendRows(results[i], m, stride, &values[program.result_of(0) + i]);
  }
  return JudgeOps(replica, rows, inputs, values);
}

OrderedJson ToJson(const ProgramCheck& check) {
  OrderedJson ops = OrderedJson::array();
  for (const ProgramCheck::Op& op : check.ops) {
    ops.push_back({{"op", op.label},
                   {"compared", op.report.compared},
                   {"worst_ratio", op.report.worst_ratio}});
  }
  return {{"passed", check.passed()},
          {"rows", check.rows},
          {"worst_ratio", check.ops[check.worst()].report.worst_ratio},
          {"worst_op", check.worst()},
          {"relative_norm", check.relative_norm},
          {"ops", std::move(ops)}};
}

std::string FormatCheck(const ProgramCheck& check) {
  return absl::StrFormat(
      "%s: %d ops of %d rows, worst error %.3f of the tolerance in op %d (%s), "
      "relative norm of all %.2e",
      check.passed() ? "passed" : "FAILED", check.ops.size(), check.rows,
      check.ops[check.worst()].report.worst_ratio, check.worst(),
      check.ops[check.worst()].label, check.relative_norm);
}

}  // namespace qgemm::cli
