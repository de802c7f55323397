// SPDX-License-Identifier: Apache-2.0

#include "cli/command.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace qgemm {

absl::Time CommonFlags::Deadline() const { return absl::Now() + timeout; }

absl::StatusOr<std::unique_ptr<Client>> CommonFlags::Connect() const {
  ClientOptions options;
  options.connect_timeout = connect_timeout;
  options.max_message_bytes = max_message_bytes;
  return Client::Connect(server, options);
}

absl::Status CheckArgumentCount(const std::vector<std::string>& arguments,
                                size_t count) {
  if (arguments.size() == count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", count, count == 1 ? " argument" : " arguments",
                   ", got ", arguments.size()));
}

}  // namespace qgemm
