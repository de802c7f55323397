// SPDX-License-Identifier: Apache-2.0
//
// qgemm: loads, lists, multiplies with and unloads weights on a server, and
// programs over them.
// Exit codes: 0 done, 1 failed, 2 wrong usage.

#include <cstdio>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "cli/command.h"
#include "flags/command_line.h"

namespace qgemm::cli {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

struct AddedCommand {
  std::unique_ptr<Command> command;
  CLI::App* app;  // the root's, or a group's
};

// The root's options, for the help of a subcommand, which takes them too.
std::string CommonHelp(const CLI::App& root) {
  CLI::Formatter formatter;
  formatter.column_width(root.get_formatter()->get_column_width());
  std::string text = "Options of all commands:\n";
  for (const CLI::Option* option : root.get_options()) {
    absl::StrAppend(&text, formatter.make_option(option, false));
  }
  return text;
}

using NewCommand = std::unique_ptr<Command> (*)();

void AddCommands(std::initializer_list<NewCommand> makers,
                 const std::string& footer, CLI::App* parent,
                 std::vector<AddedCommand>* commands) {
  for (const NewCommand make : makers) {
    std::unique_ptr<Command> command = make();
    CLI::App* const app = command->AddTo(parent);
    app->fallthrough()->footer(footer);
    commands->push_back({std::move(command), app});
  }
}

std::vector<AddedCommand> AddAllCommands(CLI::App* root) {
  const std::string footer = CommonHelp(*root);
  std::vector<AddedCommand> commands;
  AddCommands(
      {NewLoadCommand, NewListCommand, NewDescribeCommand, NewGemmCommand,
       NewUnloadCommand, NewPinCommand, NewTouchCommand, NewWaitReadyCommand,
       NewInfoCommand, NewLoadModelCommand, NewPlanCommand},
      footer, root, &commands);
  CLI::App* const program = AddProgramGroup(root);
  program->fallthrough()->footer(footer);
  AddCommands(
      {NewProgramLoadCommand, NewProgramListCommand, NewProgramDescribeCommand,
       NewProgramRunCommand, NewProgramUnloadCommand},
      footer, program, &commands);
  CLI::App* const store = AddStoreGroup(root);
  store->fallthrough()->footer(footer);
  AddCommands(
      {NewStoreListCommand, NewStoreVerifyCommand, NewStoreCleanCommand},
      footer, store, &commands);
  return commands;
}

// "load", "program load".
std::string NameOf(const CLI::App& command) {
  const CLI::App& parent = *command.get_parent();
  return parent.get_parent() == nullptr
             ? command.get_name()
             : absl::StrCat(NameOf(parent), " ", command.get_name());
}

int Run(const CommonOptions& common, const AddedCommand& added) {
  const std::string name = NameOf(*added.app);
  absl::Status usage = common.Check();
  usage.Update(added.command->CheckUsage());
  if (!usage.ok()) {
    std::fprintf(stderr, "qgemm %s: %s; see qgemm %s --help\n", name.c_str(),
                 std::string(usage.message()).c_str(), name.c_str());
    return kExitUsage;
  }
  const absl::Status status = added.command->Run(common);
  if (!status.ok()) {
    std::fprintf(stderr, "qgemm %s: %s\n", name.c_str(),
                 PrintableText(status.ToString()).c_str());
    return kExitFailure;
  }
  return std::fflush(stdout) == 0 ? 0 : kExitFailure;
}

int Main(int argc, const char* const* argv) {
  if (argc > 1 && IsPythonCommand(argv[1])) {
    BecomePythonCommand(argv + 1);
    return kExitFailure;
  }
  const std::unique_ptr<CLI::App> root = flags::MakeApp(
      "Loads, lists, multiplies with and unloads weights on a qgemm server, "
      "and programs over them.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage.",
      "qgemm");
  CommonOptions common;
  common.AddTo(root.get());
  const std::vector<AddedCommand> commands = AddAllCommands(root.get());
  root->require_subcommand(1);
  const std::optional<int> exit_code = flags::Parse(root.get(), argc, argv);
  if (exit_code.has_value()) return *exit_code;
  for (const AddedCommand& added : commands) {
    if (added.app->parsed()) return Run(common, added);
  }
  return kExitUsage;
}

}  // namespace
}  // namespace qgemm::cli

int main(int argc, char** argv) { return qgemm::cli::Main(argc, argv); }
