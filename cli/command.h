// SPDX-License-Identifier: Apache-2.0
//
// A command of qgemm: its options, its arguments and the work it does; the
// options that all commands share; and weights and programs as a user names
// them.

#ifndef QGEMM_CLI_COMMAND_H_
#define QGEMM_CLI_COMMAND_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/flags/connection_flags.h"
#include "flags/command_line.h"
#include "qgemm/client.h"

namespace qgemm::cli {

// Options that every command has.
struct CommonOptions {
  ConnectionFlags connection;
  bool json = false;
  absl::Duration timeout = absl::Seconds(60);
  absl::Duration connect_timeout = absl::Seconds(5);
  int64_t max_message_bytes = int64_t{64} << 20;

  // This must outlive the parsing.
  void AddTo(CLI::App* app);

  // INVALID_ARGUMENT if options do not go together.
  absl::Status Check() const { return connection.Check(); }

  absl::Time Deadline() const;
  absl::StatusOr<std::unique_ptr<Client>> Connect() const;
};

// One command. Used once.
class Command {
 public:
  virtual ~Command() = default;

  // Adds the subcommand with its options and arguments, which write to this.
  virtual CLI::App* AddTo(CLI::App* app) = 0;

  // Checks options against each other before anything happens: a failure is
  // the user's, exit code 2.
  virtual absl::Status CheckUsage() { return absl::OkStatus(); }

  // Does the work. Results go to stdout, all else to stderr.
  virtual absl::Status Run(const CommonOptions& common) = 0;
};

std::unique_ptr<Command> NewLoadCommand();
std::unique_ptr<Command> NewListCommand();
std::unique_ptr<Command> NewDescribeCommand();
std::unique_ptr<Command> NewGemmCommand();
std::unique_ptr<Command> NewUnloadCommand();
std::unique_ptr<Command> NewInfoCommand();
std::unique_ptr<Command> NewPinCommand();
std::unique_ptr<Command> NewTouchCommand();
std::unique_ptr<Command> NewWaitReadyCommand();

// Whole models, which the Python package qgemm loads.
std::unique_ptr<Command> NewLoadModelCommand();
std::unique_ptr<Command> NewPlanCommand();
// True of the names of these two.
bool IsPythonCommand(absl::string_view name);
// Runs one of them, `arguments` from its name to a null pointer, in the place
// of this process. Returns only if Python does not start, having said why on
// stderr.
void BecomePythonCommand(const char* const* arguments);

// Adds `program`, whose commands follow, one of which is required.
CLI::App* AddProgramGroup(CLI::App* root);
std::unique_ptr<Command> NewProgramLoadCommand();
std::unique_ptr<Command> NewProgramListCommand();
std::unique_ptr<Command> NewProgramDescribeCommand();
std::unique_ptr<Command> NewProgramRunCommand();
std::unique_ptr<Command> NewProgramUnloadCommand();

// Adds `store`, whose commands follow, one of which is required.
CLI::App* AddStoreGroup(CLI::App* root);
std::unique_ptr<Command> NewStoreListCommand();
std::unique_ptr<Command> NewStoreVerifyCommand();
std::unique_ptr<Command> NewStoreCleanCommand();

// Adds the required argument WEIGHTS.
void AddWeightsArgument(CLI::App* command, std::string* weights);
// Adds the required argument PROGRAM.
void AddProgramArgument(CLI::App* command, std::string* program);

// Adds --priority and --client_id of a request.
void AddOrderOptions(CLI::App* command, RequestPriority* priority,
                     std::string* client_id);

// True if `text` may be the beginning of an id, as `qgemm list` prints it: 4 to
// 63 hexadecimal digits.
bool MayBeginId(absl::string_view text);

// The name or whole id that `text` stands for among `layers`: a name as it is,
// else the one id that it begins. `text` itself if it fits none.
// Errors: INVALID_ARGUMENT with the candidates if it begins several.
absl::StatusOr<std::string> ResolveWeights(
    const std::string& text, absl::Span<const WeightsInfo> layers);

// The same among the server's layers, which are asked for only if MayBeginId.
absl::StatusOr<std::string> ResolveWeights(const std::string& text,
                                           absl::Time deadline, Client* client);

// The same of a program.
absl::StatusOr<std::string> ResolveProgram(const std::string& text,
                                           absl::Time deadline, Client* client);

}  // namespace qgemm::cli

#endif  // QGEMM_CLI_COMMAND_H_
