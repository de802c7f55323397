// SPDX-License-Identifier: Apache-2.0
//
// qgemm describe: all that the server says of one layer.

#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/output.h"

namespace qgemm {
namespace {

class DescribeCommand final : public Command {
 public:
  absl::string_view synopsis() const override { return "describe WEIGHTS"; }
  absl::string_view summary() const override {
    return "Describes one layer, by name or id.";
  }
  void AddFlags(FlagSet*) override {}
  absl::Status CheckUsage(const std::vector<std::string>& arguments) override {
    RETURN_IF_ERROR(CheckArgumentCount(arguments, 1));
    weights_ = arguments[0];
    return absl::OkStatus();
  }
  absl::Status Run(const CommonFlags& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    ASSIGN_OR_RETURN(const WeightsInfo layer,
                     client->GetWeights(weights_, common.Deadline()));
    if (common.json) {
      Print(FormatJson(ToJson(layer)));
    } else {
      Print(FormatFields(FieldsOf(layer)) + "\n" + layer.spec + "\n");
    }
    return absl::OkStatus();
  }

 private:
  std::string weights_;
};

}  // namespace

std::unique_ptr<Command> NewDescribeCommand() {
  return std::make_unique<DescribeCommand>();
}

}  // namespace qgemm
