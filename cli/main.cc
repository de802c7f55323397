// SPDX-License-Identifier: Apache-2.0
//
// qgemm: loads, lists, multiplies with and unloads weights on a server.
// Exit codes: 0 done, 1 failed, 2 wrong usage.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/flag_set.h"

namespace qgemm {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

struct CommandEntry {
  const char* name;
  std::unique_ptr<Command> (*make)();
};
constexpr CommandEntry kCommands[] = {
    {"load", NewLoadCommand},         {"list", NewListCommand},
    {"describe", NewDescribeCommand}, {"gemm", NewGemmCommand},
    {"unload", NewUnloadCommand},     {"info", NewInfoCommand}};

std::string Usage() {
  std::string text =
      "Usage: qgemm COMMAND [ARGUMENTS] [FLAGS]    "
      "(qgemm COMMAND --help for its flags)\n\n";
  for (const CommandEntry& entry : kCommands) {
    const std::unique_ptr<Command> command = entry.make();
    absl::StrAppend(&text, "  ", entry.name,
                    std::string(10 - std::string(entry.name).size(), ' '),
                    command->summary(), "\n");
  }
  absl::StrAppend(&text,
                  "\nEvery command takes --server (host:port or unix:path) "
                  "and --json.\nExit codes: 0 done, 1 failed, 2 wrong "
                  "usage.\n");
  return text;
}

void AddCommonFlags(CommonFlags* common, FlagSet* flags) {
  flags->Add("server", &common->server, "host:port or unix:path.");
  flags->Add("json", &common->json, "Prints the result as JSON.");
  flags->Add("timeout", &common->timeout, "For the whole command.");
  flags->Add("connect_timeout", &common->connect_timeout,
             "How long to wait for the server to accept.");
  flags->Add("max_message_bytes", &common->max_message_bytes,
             "Largest request or answer; the server has its own limit.");
}

int FailUsage(const std::string& message) {
  std::fprintf(stderr, "qgemm: %s\n", message.c_str());
  return kExitUsage;
}

int RunCommand(const CommandEntry& entry,
               const std::vector<std::string>& arguments) {
  const std::unique_ptr<Command> command = entry.make();
  CommonFlags common;
  bool help = false;
  FlagSet flags;
  command->AddFlags(&flags);
  AddCommonFlags(&common, &flags);
  flags.Add("help", &help, "Shows this text.");
  const auto positional = flags.Parse(arguments);
  const std::string hint = absl::StrCat("; see qgemm ", entry.name, " --help");
  if (!positional.ok()) {
    return FailUsage(absl::StrCat(positional.status().message(), hint));
  }
  if (help) {
    const std::string text =
        absl::StrCat("Usage: qgemm ", command->synopsis(), "\n",
                     command->summary(), "\n\n", flags.Help());
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  const absl::Status usage = command->CheckUsage(*positional);
  if (!usage.ok()) return FailUsage(absl::StrCat(usage.message(), hint));
  const absl::Status status = command->Run(common);
  if (!status.ok()) {
    std::fprintf(stderr, "qgemm %s: %s\n", entry.name,
                 status.ToString().c_str());
    return kExitFailure;
  }
  return std::fflush(stdout) == 0 ? 0 : kExitFailure;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fputs(Usage().c_str(), stderr);
    return kExitUsage;
  }
  if (arguments[0] == "help" || arguments[0] == "--help") {
    std::fputs(Usage().c_str(), stdout);
    return 0;
  }
  for (const CommandEntry& entry : kCommands) {
    if (arguments[0] == entry.name) {
      return RunCommand(entry, {arguments.begin() + 1, arguments.end()});
    }
  }
  return FailUsage(
      absl::StrCat("no command '", arguments[0], "'; see qgemm --help"));
}

}  // namespace
}  // namespace qgemm

int main(int argc, char** argv) {
  return qgemm::Main(std::vector<std::string>(argv + 1, argv + argc));
}
