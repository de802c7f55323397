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

void CommonOptions::AddTo(CLI::App* app) {
  flags::AddOption(app, "server", &server,
                   "Address of the server: host:port or unix:path");
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
  options.connect_timeout = connect_timeout;
  options.max_message_bytes = max_message_bytes;
  return Client::Connect(server, options);
}

void AddWeightsArgument(CLI::App* command, std::string* weights) {
  command
      ->add_option("WEIGHTS", *weights,
                   "A name, an id, or the beginning of an id")
      ->required();
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
  if (!MayBeginId(text)) return text;
  std::vector<std::string> candidates;
  for (const WeightsInfo& layer : layers) {
    if (std::find(layer.names.begin(), layer.names.end(), text) !=
        layer.names.end()) {
      return text;
    }
    if (absl::StartsWithIgnoreCase(layer.id, text)) {
      candidates.push_back(layer.id);
    }
  }
  if (candidates.empty()) return text;
  if (candidates.size() == 1) return candidates.front();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' begins ", candidates.size(),
      " ids; give more digits: ", absl::StrJoin(candidates, ", ")));
}

absl::StatusOr<std::string> ResolveWeights(const std::string& text,
                                           absl::Time deadline,
                                           Client* client) {
  if (!MayBeginId(text)) return text;
  ASSIGN_OR_RETURN(const std::vector<WeightsInfo> layers,
                   client->ListWeights(deadline));
  return ResolveWeights(text, layers);
}

}  // namespace qgemm::cli
