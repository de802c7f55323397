// SPDX-License-Identifier: Apache-2.0
//
// The commands that ask a server or drop weights: list, describe, info and
// unload.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/output.h"

namespace qgemm::cli {
namespace {

class ListCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command =
        app->add_subcommand("list", "Lists the layers that the server holds");
    flags::AddOption(command, "prefix", &prefix_,
                     "Those alone of which a name begins so");
    return command;
  }
  absl::Status Run(const CommonOptions& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    ASSIGN_OR_RETURN(const auto layers,
                     client->ListWeightsWithPrefix(prefix_, common.Deadline()));
    if (common.json) {
      OrderedJson weights = OrderedJson::array();
      for (const auto& layer : layers) weights.push_back(ToJson(layer));
      Print(FormatJson({{"weights", weights}}));
    } else if (layers.empty()) {
      Print(prefix_.empty() ? "the server holds no weights\n"
                            : "the server holds no such weights\n");
    } else {
      Print(FormatTable(Rows(layers)));
    }
    return absl::OkStatus();
  }

 private:
  static std::vector<std::vector<std::string>> Rows(
      const std::vector<WeightsInfo>& layers) {
    std::vector<std::vector<std::string>> rows = {
        {"NAMES", "FORMAT", "N", "K", "RESIDENT", "ID"}};
    for (const WeightsInfo& layer : layers) {
      rows.push_back(
          {layer.names.empty() ? "-"
                               : FormatNames(layer.names, layer.name_count),
           layer.format, absl::StrCat(layer.n), absl::StrCat(layer.k),
           FormatBytes(layer.resident_bytes), ShortId(layer.id)});
    }
    return rows;
  }

  std::string prefix_;
};

class DescribeCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command =
        app->add_subcommand("describe", "Describes one layer");
    AddWeightsArgument(command, &weights_);
    return command;
  }
  absl::Status Run(const CommonOptions& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    const absl::Time deadline = common.Deadline();
    ASSIGN_OR_RETURN(const std::string weights,
                     ResolveWeights(weights_, deadline, client.get()));
    ASSIGN_OR_RETURN(const WeightsInfo layer,
                     client->GetWeights(weights, deadline));
    if (common.json) {
      Print(FormatJson(ToJson(layer)));
    } else {
      Print(absl::StrCat(FormatFields(FieldsOf(layer)), "\n",
                         PrintableLines(layer.spec), "\n"));
    }
    return absl::OkStatus();
  }

 private:
  std::string weights_;
};

class UnloadCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command = app->add_subcommand(
        "unload",
        "Drops a name, and the weights with their last; by id: with all");
    command->add_option("WEIGHTS", weights_,
                        "Name, id, or the first digits of one");
    flags::AddOption(command, "prefix", &prefix_,
                     "Drops all names of the client that begin so; in place "
                     "of WEIGHTS");
    flags::AddOption(command, "if_match", &if_match_,
                     "Fails unless WEIGHTS have this id, whole or its first "
                     "digits");
    flags::AddSwitch(command, "keep_on_disk", &keep_on_disk_,
                     "Drops their memory alone: they stay on the server's "
                     "disk, under their names");
    return command;
  }
  absl::Status CheckUsage() override {
    if (weights_.empty() == prefix_.empty()) {
      return absl::InvalidArgumentError(
          "give WEIGHTS or --prefix, one of them");
    }
    if (!prefix_.empty() && !if_match_.empty()) {
      return absl::InvalidArgumentError(
          "--if_match is about one layer; give it without --prefix");
    }
    if (!prefix_.empty() && keep_on_disk_) {
      return absl::InvalidArgumentError(
          "--keep_on_disk is about one layer; give it without --prefix");
    }
    return absl::OkStatus();
  }
  absl::Status Run(const CommonOptions& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    const absl::Time deadline = common.Deadline();
    if (!prefix_.empty()) {
      ASSIGN_OR_RETURN(const int64_t names,
                       client->UnloadWeightsWithPrefix(prefix_, deadline));
      Print(common.json ? FormatJson({{"prefix", prefix_}, {"names", names}})
                        : absl::StrCat("dropped ", names, " names\n"));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::string weights,
                     ResolveWeights(weights_, deadline, client.get()));
    ASSIGN_OR_RETURN(const std::string if_match,
                     ResolveWeights(if_match_, deadline, client.get()));
    if (keep_on_disk_) {
      RETURN_IF_ERROR(client->UnloadWeightsToDisk(weights, deadline, if_match));
      Print(common.json
                ? FormatJson({{"weights", weights}, {"kept_on_disk", true}})
                : absl::StrCat("kept ", PrintableText(weights),
                               " on the disk alone\n"));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const bool freed,
                     client->UnloadWeights(weights, deadline, if_match));
    if (common.json) {
      Print(FormatJson({{"weights", weights}, {"freed", freed}}));
    } else {
      const std::string named = PrintableText(weights);
      Print(freed ? absl::StrCat("unloaded ", named, "\n")
                  : absl::StrCat("dropped the name ", named,
                                 "; the weights have others\n"));
    }
    return absl::OkStatus();
  }

 private:
  std::string weights_;
  std::string prefix_;
  std::string if_match_;
  bool keep_on_disk_ = false;
};

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
          {"program_revision", server.program_revision},
          {"programs", server.programs},
          {"uptime_seconds", absl::ToInt64Seconds(server.uptime)},
          {"process_cpu_seconds", absl::ToDoubleSeconds(server.process_cpu)}};
}

std::string InfoText(const ServerInfo& server) {
  const std::string budget = server.weights_budget_bytes == 0
                                 ? std::string("no budget")
                                 : FormatBytes(server.weights_budget_bytes);
  const auto to_milliseconds = [](absl::Duration duration) {
    return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
  };
  return FormatFields(
      {{"version", server.version},
       {"backend", server.backend},
       {"device", absl::StrCat(server.device, " (", server.device_detail, ")")},
       {"parallelism", absl::StrCat(server.parallelism)},
       {"formats", absl::StrJoin(server.formats, ", ")},
       {"weights",
        absl::StrCat(FormatBytes(server.weights_bytes), " of ", budget)},
       {"programs", server.program_revision == 0
                        ? "the backend runs none"
                        : absl::StrCat(server.programs, ", revision ",
                                       server.program_revision)},
       {"largest message", FormatBytes(server.max_message_bytes)},
       {"largest operand of a stream",
        FormatBytes(server.max_stream_operand_bytes)},
       {"largest m, n, k",
        absl::StrCat(server.max_m, ", ", server.max_n, ", ", server.max_k)},
       {"uptime", to_milliseconds(server.uptime)},
       {"processor time", to_milliseconds(server.process_cpu)}});
}

class InfoCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    return app->add_subcommand("info",
                               "Shows the server's backend, device, limits, "
                               "memory and processor time");
  }
  absl::Status Run(const CommonOptions& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    ASSIGN_OR_RETURN(const ServerInfo server,
                     client->GetServerInfo(common.Deadline()));
    Print(common.json ? FormatJson(InfoJson(server)) : InfoText(server));
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Command> NewListCommand() {
  return std::make_unique<ListCommand>();
}

std::unique_ptr<Command> NewDescribeCommand() {
  return std::make_unique<DescribeCommand>();
}

std::unique_ptr<Command> NewUnloadCommand() {
  return std::make_unique<UnloadCommand>();
}

std::unique_ptr<Command> NewInfoCommand() {
  return std::make_unique<InfoCommand>();
}

}  // namespace qgemm::cli
