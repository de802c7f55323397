// SPDX-License-Identifier: Apache-2.0
//
// qgemm unload: drops a name, or weights with all their names.

#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/output.h"

namespace qgemm {
namespace {

class UnloadCommand final : public Command {
 public:
  absl::string_view synopsis() const override { return "unload WEIGHTS"; }
  absl::string_view summary() const override {
    return "Drops a name, and the weights with their last; by id: with all.";
  }
  void AddFlags(FlagSet*) override {}
  absl::Status CheckUsage(const std::vector<std::string>& arguments) override {
    RETURN_IF_ERROR(CheckArgumentCount(arguments, 1));
    weights_ = arguments[0];
    return absl::OkStatus();
  }
  absl::Status Run(const CommonFlags& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    ASSIGN_OR_RETURN(const bool freed,
                     client->UnloadWeights(weights_, common.Deadline()));
    if (common.json) {
      Print(FormatJson({{"weights", weights_}, {"freed", freed}}));
    } else {
      Print(freed ? "unloaded " + weights_ + "\n"
                  : "dropped the name " + weights_ +
                        "; the weights have others\n");
    }
    return absl::OkStatus();
  }

 private:
  std::string weights_;
};

}  // namespace

std::unique_ptr<Command> NewUnloadCommand() {
  return std::make_unique<UnloadCommand>();
}

}  // namespace qgemm
