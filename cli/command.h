// SPDX-License-Identifier: Apache-2.0
//
// What every command of qgemm is made of: its flags, its arguments and what
// it does with them.

#ifndef QGEMM_CLI_COMMAND_H_
#define QGEMM_CLI_COMMAND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/flag_set.h"
#include "qgemm/client.h"

namespace qgemm {

// Flags that every command has.
struct CommonFlags {
  std::string server = "127.0.0.1:50051";
  bool json = false;
  absl::Duration timeout = absl::Seconds(60);
  absl::Duration connect_timeout = absl::Seconds(5);
  int64_t max_message_bytes = int64_t{64} << 20;

  absl::Time Deadline() const;
  absl::StatusOr<std::unique_ptr<Client>> Connect() const;
};

// One command. Used once.
class Command {
 public:
  virtual ~Command() = default;

  // "load FILE --name=NAME" and one sentence.
  virtual absl::string_view synopsis() const = 0;
  virtual absl::string_view summary() const = 0;
  virtual void AddFlags(FlagSet* flags) = 0;

  // Checks arguments and flags before anything happens: a failure is the
  // user's, exit code 2.
  virtual absl::Status CheckUsage(
      const std::vector<std::string>& arguments) = 0;

  // Does it. Results go to stdout, all else to stderr.
  virtual absl::Status Run(const CommonFlags& common) = 0;
};

std::unique_ptr<Command> NewLoadCommand();
std::unique_ptr<Command> NewListCommand();
std::unique_ptr<Command> NewDescribeCommand();
std::unique_ptr<Command> NewGemmCommand();
std::unique_ptr<Command> NewUnloadCommand();
std::unique_ptr<Command> NewInfoCommand();

// OK if there are `count` arguments, else INVALID_ARGUMENT.
absl::Status CheckArgumentCount(const std::vector<std::string>& arguments,
                                size_t count);

}  // namespace qgemm

#endif  // QGEMM_CLI_COMMAND_H_
