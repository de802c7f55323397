// SPDX-License-Identifier: Apache-2.0
//
// qgemm info: what the server is and what it takes.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/output.h"

namespace qgemm {
namespace {

OrderedJson InfoJson(const ServerInfo& server) {
  return {{"version", server.version},
          {"backend", server.backend},
          {"device", server.device},
          {"device_detail", server.device_detail},
          {"parallelism", server.parallelism},
          {"max_message_bytes", server.max_message_bytes},
          {"max_stream_operand_bytes", server.max_stream_operand_bytes},
          {"max_n", server.max_n},
          {"max_k", server.max_k},
          {"max_m", server.max_m},
          {"weights_bytes", server.weights_bytes},
          {"weights_budget_bytes", server.weights_budget_bytes},
          {"formats", server.formats},
          {"uptime_seconds", absl::ToInt64Seconds(server.uptime)},
          {"process_cpu_seconds", absl::ToDoubleSeconds(server.process_cpu)}};
}

std::string InfoText(const ServerInfo& server) {
  const std::string budget = server.weights_budget_bytes == 0
                                 ? std::string("no budget")
                                 : FormatBytes(server.weights_budget_bytes);
  return FormatFields(
      {{"version", server.version},
       {"backend", server.backend},
       {"device", absl::StrCat(server.device, " (", server.device_detail, ")")},
       {"parallelism", absl::StrCat(server.parallelism)},
       {"formats", absl::StrJoin(server.formats, ", ")},
       {"weights",
        absl::StrCat(FormatBytes(server.weights_bytes), " of ", budget)},
       {"largest message", FormatBytes(server.max_message_bytes)},
       {"largest operand of a stream",
        FormatBytes(server.max_stream_operand_bytes)},
       {"largest m, n, k",
        absl::StrCat(server.max_m, ", ", server.max_n, ", ", server.max_k)},
       {"uptime", absl::FormatDuration(server.uptime)},
       {"processor time", absl::FormatDuration(server.process_cpu)}});
}

class InfoCommand final : public Command {
 public:
  absl::string_view synopsis() const override { return "info"; }
  absl::string_view summary() const override {
    return "Shows the server's backend, device, limits, memory and processor "
           "time.";
  }
  void AddFlags(FlagSet*) override {}
  absl::Status CheckUsage(const std::vector<std::string>& arguments) override {
    return CheckArgumentCount(arguments, 0);
  }
  absl::Status Run(const CommonFlags& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    ASSIGN_OR_RETURN(const ServerInfo server,
                     client->GetServerInfo(common.Deadline()));
    if (common.json) {
      Print(FormatJson(InfoJson(server)));
    } else {
      Print(InfoText(server));
    }
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Command> NewInfoCommand() {
  return std::make_unique<InfoCommand>();
}

}  // namespace qgemm
