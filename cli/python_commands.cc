// SPDX-License-Identifier: Apache-2.0
//
// qgemm load-model and plan, which the Python package qgemm carries out: it has
// the readers of whole checkpoints. Here are their place in the help, and the
// start of Python in this process's place.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"

namespace qgemm::cli {
namespace {

constexpr char kPython[] = "python3";
constexpr char kRunner[] = R"(import sys
try:
    from qgemm.__main__ import main
except ImportError as error:
    sys.exit(f"qgemm: load-model and plan need the Python package qgemm, which "
             f"this python3 cannot import ({error}): pip install its wheel, or "
             f"put the python3 of its environment first on PATH")
sys.exit(main())
)";

struct PythonCommandText {
  absl::string_view name;
  absl::string_view description;
};
constexpr std::array<PythonCommandText, 2> kCommands = {{
    {"load-model", "Loads a whole model, by the Python package qgemm"},
    {"plan", "Prints what load-model would do"},
}};

// Stands in the help. Reached by the parser only if options come before the
// name: else main has started Python.
class PythonCommand final : public Command {
 public:
  explicit PythonCommand(const PythonCommandText& text) : text_(text) {}

  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command = app->add_subcommand(
        std::string(text_.name), std::string(text_.description));
    command->add_option("PATH", path_, "A file or a directory");
    return command;
  }
  absl::Status CheckUsage() override {
    return absl::InvalidArgumentError(
        "options stand behind the command's name");
  }
  absl::Status Run(const CommonOptions&) override { return CheckUsage(); }

 private:
  const PythonCommandText text_;
  std::string path_;
};

}  // namespace

std::unique_ptr<Command> NewLoadModelCommand() {
  return std::make_unique<PythonCommand>(kCommands[0]);
}

std::unique_ptr<Command> NewPlanCommand() {
  return std::make_unique<PythonCommand>(kCommands[1]);
}

bool IsPythonCommand(absl::string_view name) {
  return std::any_of(
      kCommands.begin(), kCommands.end(),
      [name](const PythonCommandText& text) { return text.name == name; });
}

void BecomePythonCommand(const char* const* arguments) {
  std::vector<char*> all = {const_cast<char*>(kPython), const_cast<char*>("-c"),
                            const_cast<char*>(kRunner)};
  for (; *arguments != nullptr; ++arguments) {
    all.push_back(const_cast<char*>(*arguments));
  }
  all.push_back(nullptr);
  execvp(kPython, all.data());
  std::fprintf(stderr, "qgemm: load-model and plan run in %s: %s\n", kPython,
               std::strerror(errno));
}

}  // namespace qgemm::cli
