// SPDX-License-Identifier: Apache-2.0
//
// qgemm program run: runs a program on random or given inputs.

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/matrices.h"
#include "cli/output.h"
#include "cli/program_check.h"
#include "kernels/programs/canonical_text.h"
#include "kernels/programs/op_fields.h"

namespace qgemm::cli {
namespace {

// "1, -0.5, 3, 2" of the first elements.
std::string FirstValues(NumberType type, absl::Span<const uint8_t> bytes) {
  constexpr size_t kShown = 4;
  const size_t count = std::min(kShown, bytes.size() / SizeOf(type));
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const element = bytes.data() + i * SizeOf(type);
    absl::StrAppend(&text, i > 0 ? ", " : "");
    if (IsFloat(type)) {
      absl::StrAppendFormat(&text, "%.6g",
                            LoadFloat(FloatTypeOf(type), element));
    } else {
      int32_t id = 0;
      std::memcpy(&id, element, sizeof(id));
      absl::StrAppend(&text, id);
    }
  }
  return text;
}

struct RunReport {
  const ProgramInfo& program;
  const RunResult& result;
  absl::Duration round_trip;
  const std::vector<std::string>& paths;  // of outputs; empty: not written
  bool time_ops = false;
  std::optional<ProgramCheck> check;
};

OrderedJson ReportJson(const RunReport& report) {
  const Timings& times = report.result.timings;
  OrderedJson object = {
      {"program", report.program.id},
      {"m", report.result.m},
      {"row_bytes", report.result.row_bytes},
      {"outputs", report.paths},
      {"round_trip_us", absl::ToDoubleMicroseconds(report.round_trip)},
      {"server_us", ToJson(times)},
      {"launch_rows", times.launch_rows},
      {"launch_requests", times.launch_requests}};
  if (report.time_ops) {
    OrderedJson ops = OrderedJson::array();
    for (const absl::Duration time : times.ops) {
      ops.push_back(absl::ToDoubleMicroseconds(time));
    }
    object["op_us"] = std::move(ops);
  }
  if (report.check.has_value()) object["verify"] = ToJson(*report.check);
  return object;
}

// A line an op: number, kind, type, time, and its share of all ops' times.
std::string OpTable(const RunReport& report) {
  const std::vector<absl::Duration>& times = report.result.timings.ops;
  if (times.empty()) return "the server cannot tell the time of each op\n";
  // A later version's text is not read: its ops stay without names.
  const auto reading = ReadCanonicalText(report.program.text);
  absl::Duration sum;
  for (const absl::Duration time : times) sum += time;
  std::vector<std::vector<std::string>> rows = {
      {"OP", "KIND", "TYPE", "US", "SHARE"}};
  for (size_t i = 0; i < times.size(); ++i) {
    const bool known = reading.ok() && i < reading->program.ops.size();
    const ProgramOp op = known ? reading->program.ops[i] : ProgramOp();
    const double share =
        sum > absl::ZeroDuration() ? absl::FDivDuration(times[i], sum) : 0;
    rows.push_back(
        {absl::StrCat(i), known ? LabelOf(op) : "?",
         known ? std::string(Name(op.type)) : "?",
         absl::StrFormat("%.1f", absl::ToDoubleMicroseconds(times[i])),
         absl::StrFormat("%.1f %%", 100 * share)});
  }
  return FormatTable(rows);
}

absl::StatusOr<std::string> ReportText(const RunReport& report) {
  std::vector<std::pair<std::string, std::string>> fields = {
      {"program", report.program.id},
      {"round trip", absl::StrFormat("%.0f us", absl::ToDoubleMicroseconds(
                                                    report.round_trip))},
      {"server", FormatTimings(report.result.timings)}};
  for (size_t i = 0; i < report.program.outputs.size(); ++i) {
    const ProgramPort& port = report.program.outputs[i];
    ASSIGN_OR_RETURN(const auto bytes, report.result.Output(report.program, i));
    fields.emplace_back(
        absl::StrCat("output ", i),
        absl::StrCat(Name(port.type), " [", report.result.m, ", ", port.width,
                     "]", port.name.empty() ? "" : " ", port.name,
                     ", starts with ", FirstValues(port.type, bytes)));
  }
  if (!report.paths.empty()) {
    fields.emplace_back("written to", absl::StrJoin(report.paths, ", "));
  }
  if (report.check.has_value()) {
    fields.emplace_back("fp64 check", FormatCheck(*report.check));
  }
  std::string text = FormatFields(fields);
  if (report.time_ops) absl::StrAppend(&text, "\n", OpTable(report));
  return text;
}

absl::Status PrintReport(const RunReport& report, bool json) {
  if (json) {
    Print(FormatJson(ReportJson(report)));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string text, ReportText(report));
  Print(text);
  return absl::OkStatus();
}

absl::Status CheckCount(absl::string_view option, size_t given, size_t needed) {
  if (given == 0 || given == needed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " has ", given, " files; the program has ", needed,
                   ": give a file for each, or none"));
}

class RunProgramCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override;
  absl::Status CheckUsage() override;
  absl::Status Run(const CommonOptions& common) override;

 private:
  absl::StatusOr<std::vector<RowMatrix>> MakeInputs(
      const ProgramInfo& program) const;
  absl::Status WriteOutputs(const ProgramInfo& program,
                            const RunResult& result) const;

  std::string program_;
  int64_t m_ = 1;
  int64_t seed_ = 1;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
  RequestPriority priority_ = RequestPriority::kNormal;
  std::string client_id_;
  bool time_ops_ = false;
  bool verify_ = false;
  ProgramSources sources_;
};

CLI::App* RunProgramCommand::AddTo(CLI::App* app) {
  CLI::App* const command =
      app->add_subcommand("run", "Runs a program on random or given inputs");
  AddProgramArgument(command, &program_);
  flags::AddOption(command, "m", &m_, "Rows of random inputs");
  flags::AddOption(command, "seed", &seed_, "Seed of random inputs");
  flags::AddOption(command, "inputs", &inputs_,
                   ".npy files [m, width], one an input in the program's "
                   "order, converted to the inputs' types");
  flags::AddOption(command, "outputs", &outputs_,
                   "Writes the outputs to these .npy files, in their order");
  AddOrderOptions(command, &priority_, &client_id_);
  flags::AddSwitch(command, "time_ops", &time_ops_,
                   "Prints the time of each op, which may then run by itself");
  flags::AddSwitch(command, "verify", &verify_,
                   "Compares every op with fp64 on the server's own values; "
                   "needs --weights and --constants as they were loaded");
  flags::AddOption(command, "weights", &sources_.weights,
                   "--verify: FILE, FILE#TENSOR or random:KxN:SEED of each "
                   "weights, in the order of the program's text");
  flags::AddOption(command, "constants", &sources_.constants,
                   "--verify: .npy file of each constant, in their order");
  sources_.layer.AddFormatTo(command);
  return command;
}

absl::Status RunProgramCommand::CheckUsage() {
  if (m_ < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--m is ", m_, "; it must be 1 or more"));
  }
  if (!verify_ && !(sources_.weights.empty() && sources_.constants.empty())) {
    return absl::InvalidArgumentError(
        "--weights and --constants are what --verify compares with; add "
        "--verify");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RowMatrix>> RunProgramCommand::MakeInputs(
    const ProgramInfo& program) const {
  RETURN_IF_ERROR(
      CheckCount("--inputs", inputs_.size(), program.inputs.size()));
  std::vector<RowMatrix> inputs;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramPort& port = program.inputs[i];
    if (!IsFloat(port.type)) {
      return absl::UnimplementedError(
          absl::StrCat("input ", i, " is ", Name(port.type)));
    }
    const FloatType type = FloatTypeOf(port.type);
    ASSIGN_OR_RETURN(
        RowMatrix input,
        inputs_.empty()
            ? MakeMatrix(m_, port.width, type, seed_ + static_cast<int64_t>(i))
            : ReadMatrix(inputs_[i], port.width, type));
    if (!inputs.empty() && input.m != inputs.front().m) {
      return absl::InvalidArgumentError(
          absl::StrCat(inputs_[i], " has ", input.m, " rows; ", inputs_[0],
                       " has ", inputs.front().m));
    }
    inputs.push_back(std::move(input));
  }
  if (!inputs.empty()) return inputs;
  return absl::InternalError("the server's program has no inputs");
}

absl::Status RunProgramCommand::WriteOutputs(const ProgramInfo& program,
                                             const RunResult& result) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const NumberType type = program.outputs[i].type;
    ASSIGN_OR_RETURN(const auto bytes, result.Output(program, i));
    RETURN_IF_ERROR(IsFloat(type) ? WriteMatrix(outputs_[i], FloatTypeOf(type),
                                                result.m, bytes)
                                  : WriteIds(outputs_[i], result.m, bytes));
  }
  return absl::OkStatus();
}

absl::Status RunProgramCommand::Run(const CommonOptions& common) {
  ASSIGN_OR_RETURN(const auto client, common.Connect());
  RunRequest request;
  request.deadline = common.Deadline();
  ASSIGN_OR_RETURN(const std::string name_or_id,
                   ResolveProgram(program_, request.deadline, client.get()));
  ASSIGN_OR_RETURN(const ProgramInfo program,
                   client->GetProgram(name_or_id, request.deadline));
  RETURN_IF_ERROR(
      CheckCount("--outputs", outputs_.size(), program.outputs.size()));
  ASSIGN_OR_RETURN(const std::vector<RowMatrix> inputs, MakeInputs(program));
  request.program = program.id;  // the one that was described
  request.m = inputs.front().m;
  request.priority = priority_;
  request.client_id = client_id_;
  request.time_ops = time_ops_;
  for (const RowMatrix& input : inputs) request.inputs.push_back(input.bytes);
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const RunResult result, client->Run(request));
  RunReport report = {program,  result,    absl::Now() - start,
                      outputs_, time_ops_, std::nullopt};
  RETURN_IF_ERROR(WriteOutputs(program, result));
  if (verify_) {
    ASSIGN_OR_RETURN(report.check, CheckRun({program, request, result},
                                            sources_, client.get()));
  }
  RETURN_IF_ERROR(PrintReport(report, common.json));
  return report.check ? report.check->ToStatus() : absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewProgramRunCommand() {
  return std::make_unique<RunProgramCommand>();
}

}  // namespace qgemm::cli
