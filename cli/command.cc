// SPDX-License-Identifier: Apache-2.0
//
// Shared options and the resolution of ids.

#include "cli/command.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace qgemm::cli {
namespace {

void AddArgument(CLI::App* command, const std::string& argument,
                 std::string* value) {
  command
      ->add_option(argument, *value, "A name, an id, or the beginning of an id")
      ->required();
}

// ResolveWeights of whatever has an id and names.
template <typename Info>
absl::StatusOr<std::string> Resolve(const std::string& text,
                                    absl::Span<const Info> infos) {
  if (!MayBeginId(text)) return text;
  std::vector<std::string> candidates;
  for (const Info& info : infos) {
    if (std::find(info.names.begin(), info.names.end(), text) !=
        info.names.end()) {
      return text;
    }
    if (absl::StartsWithIgnoreCase(info.id, text)) {
      candidates.push_back(info.id);
    }
  }
  if (candidates.empty()) return text;
  if (candidates.size() == 1) return candidates.front();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' begins ", candidates.size(),
      " ids; give more digits: ", absl::StrJoin(candidates, ", ")));
}

}  // namespace

void CommonOptions::AddTo(CLI::App* app) {
  connection.AddTo(app);
  flags::AddSwitch(app, "json", &json, "Prints the result as JSON");
  flags::AddDuration(app, "timeout", &timeout,
                     "Time that the command's calls have together");
  flags::AddDuration(app, "connect_timeout", &connect_timeout,
                     "Time to wait for the server to accept");
  flags::AddBytes(app, "max_message_bytes", &max_message_bytes,
                  "Largest request or answer; the server has its own limit");
}

absl::Time CommonOptions::Deadline() const { return absl::Now() + timeout; }

absl::StatusOr<std::unique_ptr<Client>> CommonOptions::Connect() const {
  ClientOptions options;
  options.lane = LaneUse::kOff;  // to look for one would be a call more
  connection.ApplyTo(&options);
  options.connect_timeout = connect_timeout;
  options.max_message_bytes = max_message_bytes;
  return Client::Connect(connection.server, options);
}

void AddWeightsArgument(CLI::App* command, std::string* weights) {
  AddArgument(command, "WEIGHTS", weights);
}

void AddProgramArgument(CLI::App* command, std::string* program) {
  AddArgument(command, "PROGRAM", program);
}

void AddOrderOptions(CLI::App* command, RequestPriority* priority,
                     std::string* client_id) {
  flags::AddChoice(command, "priority", priority,
                   {{"low", RequestPriority::kLow},
                    {"normal", RequestPriority::kNormal},
                    {"high", RequestPriority::kHigh}},
                   "Order among requests that wait at the server");
  flags::AddOption(command, "client_id", client_id,
                   "Client that fairness and quotas at the server count the "
                   "request for");
}

bool MayBeginId(absl::string_view text) {
  constexpr size_t kMinDigits = 4;
  constexpr size_t kIdDigits = 64;
  return text.size() >= kMinDigits && text.size() < kIdDigits &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isxdigit(c); });
}

absl::StatusOr<std::string> ResolveWeights(
    const std::string& text, absl::Span<const WeightsInfo> layers) {
  return Resolve(text, layers);
}

absl::StatusOr<std::string> ResolveWeights(const std::string& text,
                                           absl::Time deadline,
                                           Client* client) {
  if (!MayBeginId(text)) return text;
  ASSIGN_OR_RETURN(const std::vector<WeightsInfo> layers,
                   client->ListWeights(deadline));
  return ResolveWeights(text, layers);
}

absl::StatusOr<std::string> ResolveProgram(const std::string& text,
                                           absl::Time deadline,
                                           Client* client) {
  if (!MayBeginId(text)) return text;
  ASSIGN_OR_RETURN(const std::vector<ProgramInfo> programs,
                   client->ListPrograms(deadline));
  return Resolve(text, absl::MakeConstSpan(programs));
}

}  // namespace qgemm::cli
