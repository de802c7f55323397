// SPDX-License-Identifier: Apache-2.0
//
// qgemm list: a line for each layer that the server holds.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/output.h"

namespace qgemm {
namespace {

class ListCommand final : public Command {
 public:
  absl::string_view synopsis() const override { return "list"; }
  absl::string_view summary() const override {
    return "Lists the layers that the server holds.";
  }
  void AddFlags(FlagSet*) override {}
  absl::Status CheckUsage(const std::vector<std::string>& arguments) override {
    return CheckArgumentCount(arguments, 0);
  }
  absl::Status Run(const CommonFlags& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    ASSIGN_OR_RETURN(const auto layers, client->ListWeights(common.Deadline()));
    if (common.json) {
      OrderedJson weights = OrderedJson::array();
      for (const auto& layer : layers) weights.push_back(ToJson(layer));
      Print(FormatJson({{"weights", weights}}));
    } else if (layers.empty()) {
      Print("the server holds no weights\n");
    } else {
      Print(FormatTable(Rows(layers)));
    }
    return absl::OkStatus();
  }

 private:
  static std::vector<std::vector<std::string>> Rows(
      const std::vector<WeightsInfo>& layers) {
    constexpr size_t kShownDigits = 12;
    std::vector<std::vector<std::string>> rows = {
        {"NAMES", "FORMAT", "N", "K", "RESIDENT", "ID"}};
    for (const WeightsInfo& layer : layers) {
      rows.push_back(
          {layer.names.empty() ? "-" : absl::StrJoin(layer.names, ","),
           layer.format, absl::StrCat(layer.n), absl::StrCat(layer.k),
           FormatBytes(layer.resident_bytes),
           layer.id.substr(0, kShownDigits)});
    }
    return rows;
  }
};

}  // namespace

std::unique_ptr<Command> NewListCommand() {
  return std::make_unique<ListCommand>();
}

}  // namespace qgemm
