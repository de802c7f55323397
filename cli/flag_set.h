// SPDX-License-Identifier: Apache-2.0
//
// The flags of one command: --name=value, --name value, and --name for
// switches, anywhere after the command.

#ifndef QGEMM_CLIENT_CLI_FLAG_SET_H_
#define QGEMM_CLIENT_CLI_FLAG_SET_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace qgemm {

// Flags write to variables of the caller's, which outlive the set and hold
// the defaults. Not thread-safe.
class FlagSet {
 public:
  void Add(absl::string_view name, std::string* value, absl::string_view help);
  void Add(absl::string_view name, int64_t* value, absl::string_view help);
  void Add(absl::string_view name, absl::Duration* value,
           absl::string_view help);
  // A switch: present or not, or --name=true, --name=false.
  void Add(absl::string_view name, bool* value, absl::string_view help);

  // Sets the variables; returns what is no flag, in order. Everything after
  // "--" is no flag. Errors: INVALID_ARGUMENT that names the flag.
  absl::StatusOr<std::vector<std::string>> Parse(
      const std::vector<std::string>& arguments);

  // A line or two a flag, with its default.
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string help;
    std::string default_text;
    bool is_switch = false;
    std::function<bool(const std::string&)> set;
    std::string expected;  // "a whole number"
  };

  absl::Status Set(const Flag& flag, const std::string& text);
  const Flag* Find(absl::string_view name) const;

  std::vector<Flag> flags_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CLI_FLAG_SET_H_
