// SPDX-License-Identifier: Apache-2.0
//
// qgemm program: load, list, describe and unload. program_run.cc has run.

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/tensor_files/tensor_file.h"

namespace qgemm::cli {
namespace {

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // Streaming nothing, or a folder, would be an error of `text`.
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.is_open() && !file.bad() && text) return text.str();
  return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
}

// The one row of a file.
absl::StatusOr<std::vector<float>> ReadRow(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, TensorFile::Open(path));
  ASSIGN_OR_RETURN(const TensorMatrix matrix, file->Matrix(""));
  if (matrix.type == TensorType::kQ4_0 || matrix.n != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the matrix is ", Name(matrix.type), " [", matrix.n, ", ",
        matrix.k, "]; a constant is one row of floats"));
  }
  return file->ReadFloats(matrix);
}

class LoadProgramCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override;
  absl::Status CheckUsage() override;
  absl::Status Run(const CommonOptions& common) override;

 private:
  absl::StatusOr<ProgramText> ReadProgram() const;

  std::string file_;
  std::vector<std::string> constants_;  // NAME=FILE each
  RegisterOptions options_;
};

CLI::App* LoadProgramCommand::AddTo(CLI::App* app) {
  CLI::App* const command = app->add_subcommand(
      "load", "Registers a program of the server's weights");
  command
      ->add_option("FILE", file_,
                   "A qgemm.v1.Program in Protobuf's text format")
      ->required();
  flags::AddOption(command, "name", &options_.name,
                   "Name to bind to the program; without one the id names it");
  flags::AddOption(command, "constant", &constants_,
                   "NAME=FILE: values of the constant of that name, a .npy "
                   "file of one row");
  flags::AddSwitch(command, "create_only", &options_.create_only,
                   "Fails if the name is bound to another program");
  flags::AddOption(command, "if_match", &options_.if_match,
                   "Fails unless the name is bound to the program of this id, "
                   "whole or its first digits, or to the loaded one");
  return command;
}

absl::Status LoadProgramCommand::CheckUsage() {
  for (const std::string& constant : constants_) {
    const size_t end_of_name = constant.find('=');
    if (end_of_name == std::string::npos || end_of_name == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--constant is ", constant, "; it must be NAME=FILE"));
    }
  }
  if ((options_.create_only || !options_.if_match.empty()) &&
      options_.name.empty()) {
    return absl::InvalidArgumentError(
        "--create_only and --if_match are conditions on the name; give --name "
        "too");
  }
  if (options_.create_only && !options_.if_match.empty()) {
    return absl::InvalidArgumentError(
        "--create_only and --if_match contradict each other; give one");
  }
  return absl::OkStatus();
}

absl::StatusOr<ProgramText> LoadProgramCommand::ReadProgram() const {
  ProgramText program;
  ASSIGN_OR_RETURN(program.text, ReadText(file_));
  for (const std::string& constant : constants_) {
    const std::pair<std::string, std::string> name_and_path =
        absl::StrSplit(constant, absl::MaxSplits('=', 1));
    ASSIGN_OR_RETURN(program.constants[name_and_path.first],
                     ReadRow(name_and_path.second));
  }
  return program;
}

absl::Status LoadProgramCommand::Run(const CommonOptions& common) {
  ASSIGN_OR_RETURN(const ProgramText program, ReadProgram());
  ASSIGN_OR_RETURN(const auto client, common.Connect());
  options_.deadline = common.Deadline();
  ASSIGN_OR_RETURN(
      options_.if_match,
      ResolveProgram(options_.if_match, options_.deadline, client.get()));
  ASSIGN_OR_RETURN(const RegisterResult result,
                   client->RegisterProgram(program, options_));
  if (common.json) {
    OrderedJson object = ToJson(result.program);
    object["deduplicated"] = result.deduplicated;
    Print(FormatJson(object));
    return absl::OkStatus();
  }
  auto fields = FieldsOf(result.program);
  if (result.deduplicated) {
    fields.emplace_back("compiled", "not again: the server had it already");
  }
  Print(FormatFields(fields));
  return absl::OkStatus();
}

class ListProgramsCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    return app->add_subcommand("list",
                               "Lists the programs that the server holds");
  }
  absl::Status Run(const CommonOptions& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    ASSIGN_OR_RETURN(const auto programs,
                     client->ListPrograms(common.Deadline()));
    if (common.json) {
      OrderedJson array = OrderedJson::array();
      for (const auto& program : programs) array.push_back(ToJson(program));
      Print(FormatJson({{"programs", array}}));
    } else if (programs.empty()) {
      Print("the server holds no programs\n");
    } else {
      Print(FormatTable(Rows(programs)));
    }
    return absl::OkStatus();
  }

 private:
  static std::vector<std::vector<std::string>> Rows(
      const std::vector<ProgramInfo>& programs) {
    std::vector<std::vector<std::string>> rows = {
        {"NAMES", "OPS", "WEIGHTS", "IN/ROW", "OUT/ROW", "RESIDENT", "ID"}};
    for (const ProgramInfo& program : programs) {
      rows.push_back(
          {program.names.empty()
               ? "-"
               : FormatNames(program.names, program.name_count),
           absl::StrCat(program.ops), absl::StrCat(program.weights.size()),
           FormatBytes(program.input_row_bytes),
           FormatBytes(program.output_row_bytes),
           FormatBytes(program.resident_bytes), ShortId(program.id)});
    }
    return rows;
  }
};

class DescribeProgramCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command =
        app->add_subcommand("describe", "Describes one program");
    AddProgramArgument(command, &program_);
    return command;
  }
  absl::Status Run(const CommonOptions& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    const absl::Time deadline = common.Deadline();
    ASSIGN_OR_RETURN(const std::string name_or_id,
                     ResolveProgram(program_, deadline, client.get()));
    ASSIGN_OR_RETURN(const ProgramInfo program,
                     client->GetProgram(name_or_id, deadline));
    if (common.json) {
      Print(FormatJson(ToJson(program)));
    } else {
      Print(absl::StrCat(FormatFields(FieldsOf(program)), "\n",
                         PrintableLines(program.text)));
    }
    return absl::OkStatus();
  }

 private:
  std::string program_;
};

class UnloadProgramCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command = app->add_subcommand(
        "unload",
        "Drops a name, and the program with its last; by id: with all");
    AddProgramArgument(command, &program_);
    flags::AddOption(command, "if_match", &if_match_,
                     "Fails unless PROGRAM has this id, whole or its first "
                     "digits");
    return command;
  }
  absl::Status Run(const CommonOptions& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    const absl::Time deadline = common.Deadline();
    ASSIGN_OR_RETURN(const std::string program,
                     ResolveProgram(program_, deadline, client.get()));
    ASSIGN_OR_RETURN(const std::string if_match,
                     ResolveProgram(if_match_, deadline, client.get()));
    ASSIGN_OR_RETURN(const bool freed,
                     client->UnloadProgram(program, deadline, if_match));
    if (common.json) {
      Print(FormatJson({{"program", program}, {"freed", freed}}));
    } else {
      const std::string named = PrintableText(program);
      Print(freed ? absl::StrCat("unloaded ", named, "\n")
                  : absl::StrCat("dropped the name ", named,
                                 "; the program has others\n"));
    }
    return absl::OkStatus();
  }

 private:
  std::string program_;
  std::string if_match_;
};

}  // namespace

CLI::App* AddProgramGroup(CLI::App* root) {
  return root
      ->add_subcommand("program",
                       "Loads, lists, describes, runs and unloads programs")
      ->require_subcommand(1);
}

std::unique_ptr<Command> NewProgramLoadCommand() {
  return std::make_unique<LoadProgramCommand>();
}

std::unique_ptr<Command> NewProgramListCommand() {
  return std::make_unique<ListProgramsCommand>();
}

std::unique_ptr<Command> NewProgramDescribeCommand() {
  return std::make_unique<DescribeProgramCommand>();
}

std::unique_ptr<Command> NewProgramUnloadCommand() {
  return std::make_unique<UnloadProgramCommand>();
}

}  // namespace qgemm::cli
